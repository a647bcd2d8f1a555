"""Other shares for the unequal replicas of a stage.

Shares begin in proportion to what each shape sustains. The router sends a request to the replica with the least in
hand for its share, so a share decides how many a replica has at once: a shape that sustains twice as much is not twice
as fast with twice as many, and where load is light or bursts are short, another ratio serves the slowest better.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cascadia.planner.deployment.options import Mix

RATIOS = (2.0, 1 / 2.0, 1.2, 1 / 1.2)
"""A step in a share relative to the others: taken one after another they reach any."""
FINE = (1.06, 1 / 1.06)
"""Steps where none of `RATIOS` helps: the best of shares lay between two of them, and was 2.6 % faster."""


def reshared(mix: Mix, ratios: Sequence[float] = RATIOS) -> Iterator[Mix]:
    """`mix` with the share of one of its shapes changed; nothing where all its replicas are equal."""
    if len({id(r.shape) for r in mix}) < 2:
        return
    # Of two shapes only their ratio counts.
    for at in range(len(mix) if len(mix) > 2 else 1):
        for ratio in ratios:
            yield tuple(replace(r, level=r.level / ratio) if i == at else r for i, r in enumerate(mix))
