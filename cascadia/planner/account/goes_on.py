"""Note on bounds that the trace keeps once and misses when it goes on.

A bound holds for one round of the trace. The first requests of a round meet no queue, those of later rounds do: a plan
just within its bound may be a little beyond it then, and hold by the certificate of stability all the same.
"""

from collections.abc import Iterator

from cascadia.domain.objective import Objective
from cascadia.planner.stability.certificate import Certificate


def goes_on_notes(found: Certificate, objective: Objective) -> Iterator[str]:
    """`found`: of the plan's own setting, or of its gears together."""
    own = () if objective.latency_max_s is None else (found.stability.objective_repeated_s,)
    reached_s = (*own, *found.levels_repeated_s)
    missed = [
        f"{level.name} is {s:.4g} s, beyond the {level.max_s:g} s asked for"
        for level, s in zip(objective.bounds, reached_s, strict=True)
        if s > level.max_s
    ]
    if missed:
        times = found.stability.repeats
        yield f"when such traffic goes on {times} times as long, {', '.join(missed)}; tighter bounds leave room"
