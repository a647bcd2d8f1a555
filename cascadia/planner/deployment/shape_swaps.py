"""Other shapes on the GPUs that a stage has: the steps that lead to mixes of unequal replicas.

A table's whole levels never ask for such mixes: k equal replicas with 1/k each cover exactly. Simulated, they often
win where a stage's GPUs are not a multiple of its best shape (Cascadia table 3: TP=4 PP=3 beside TP=8).
"""

from collections.abc import Iterator, Mapping, Sequence

from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.options import Mix
from cascadia.planner.tables.shapes import Shape

REPLACED = (1, 2)
"""So many equal replicas give way at once."""


def shape_swaps(
    mix: Mix, shapes: Sequence[Shape], saturated: Sequence[float], spare: Mapping[str, int], need: float
) -> Iterator[Mix]:
    """`mix` with one or two of its replicas replaced by as many of another shape as their GPUs, and the spare, hold.

    First comes, where its replicas are unequal, `mix` itself with its requests shared anew. `saturated` is the least
    level at which each shape keeps up: requests are shared in proportion to 1 / it. Mixes that cannot carry `need` (a
    multiple of the table's work) are left out.
    """
    of = {id(shape): s for s, shape in enumerate(shapes)}
    if any(id(r.shape) not in of for r in mix):
        return
    counts = [0] * len(shapes)
    for r in mix:
        counts[of[id(r.shape)]] += r.count
    if sum(n > 0 for n in counts) > 1 and _carried(counts, saturated) >= need:
        yield _shared(counts, shapes, saturated)
    for old, new, fewer in ((a, b, n) for a in of.values() for b in of.values() for n in REPLACED):
        if old == new or counts[old] < fewer or shapes[old].pool != shapes[new].pool:
            continue
        freed = fewer * shapes[old].gpus
        for gpus in sorted({freed, freed + spare[shapes[old].pool]}):
            changed = list(counts)
            changed[old] -= fewer
            changed[new] += gpus // shapes[new].gpus
            if gpus >= shapes[new].gpus and _carried(changed, saturated) >= need:
                yield _shared(changed, shapes, saturated)


def _shared(counts: Sequence[int], shapes: Sequence[Shape], saturated: Sequence[float]) -> Mix:
    return tuple(Replicas(shapes[s], n, max(saturated[s], 1e-9)) for s, n in enumerate(counts) if n)


def _carried(counts: Sequence[int], saturated: Sequence[float]) -> float:
    return sum(n / max(least, 1e-9) for n, least in zip(counts, saturated, strict=True))
