"""Placement of models on workers whose memory does not hold all of them (CascadeServe section 4.4).

Sets: models m, workers d, and levels of load, each asking so many requests a second of each model. Variables: the rate
that the replica of m on d serves, and the largest utilisation u. Minimise u, with each model's rate served (equation 2)
and each worker's time within u (equation 3); CascadeServe lowers u by steps until that fails, here it is a variable. At
that u all rates are just what is asked (equation 1).

All models begin on all workers; replicas are taken away one by one, always the one of the most utility (equation 4):
memory that it frees of what is too much, over the largest utilisation that the load has without it. (As printed, the
equation sums what stays too much, against the text before it, which is followed.) Since u is what is asked for each
second and not capped at 1, a placement is found wherever one replica of each model fits; one above 1 carries less than
the load.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pulp

from cascadia.domain.errors import Infeasible
from cascadia.planner.allocation.highs import solve

TIME_LIMIT_S = 10.0


class Resident(NamedTuple):
    """A model that may sit on a worker: the memory it takes there, and the worker's seconds that a request takes."""

    name: str
    memory_gib: float
    request_s: float


@dataclass(frozen=True, slots=True)
class Placement:
    """`sits` (d): models on each worker. `busy` (levels): the busiest worker's utilisation at each level of load, and
    `rates` (levels, d): what it serves of each model."""

    sits: tuple[frozenset[str], ...]
    busy: tuple[float, ...]
    rates: tuple[tuple[Mapping[str, float], ...], ...]


class Balanced(NamedTuple):
    """`rates` (d): requests a second of each model."""

    busy: float
    rates: tuple[Mapping[str, float], ...]


def balance(
    models: Sequence[Resident], sits: Sequence[frozenset[str]], asked_rps: Mapping[str, float]
) -> Balanced | None:
    """The least utilisation of the busiest worker (equations 1 to 3); None where a model sits nowhere."""
    program = pulp.LpProblem("balance", pulp.LpMinimize)
    busy = program.add_variable("u", 0)
    rate = {
        (d, m.name): program.add_variable(f"q_{d}_{at}", 0)
        for at, m in enumerate(models)
        for d, here in enumerate(sits)
        if m.name in here and asked_rps.get(m.name, 0) > 0
    }
    program += busy
    for m in models:
        if (asked := asked_rps.get(m.name, 0.0)) > 0:
            served = [rate[d, m.name] for d, here in enumerate(sits) if m.name in here]
            if not served:
                return None
            program += pulp.lpSum(served) == asked
    for d in range(len(sits)):
        program += pulp.lpSum(rate[d, m.name] * m.request_s for m in models if (d, m.name) in rate) <= busy
    solve(program, TIME_LIMIT_S)
    rates = tuple(
        {m.name: float(rate[d, m.name].value() or 0.0) for m in models if (d, m.name) in rate}
        for d in range(len(sits))
    )
    return Balanced(float(busy.value() or 0.0), rates)


def place(
    models: Sequence[Resident], memory_gib: Sequence[float], levels: Sequence[Mapping[str, float]]
) -> Placement:
    """Models on workers with `memory_gib` (d) each; `levels` are requests a second by model, at each level of load.

    Raises `Infeasible` where not even one replica of each model fits.
    """
    weigh = {m.name: m.memory_gib for m in models}
    sits = [frozenset(weigh) for _ in memory_gib]

    def over_gib(d: int) -> float:
        return max(sum(weigh[name] for name in sits[d]) - memory_gib[d], 0.0)

    while any(over_gib(d) > 0 for d in range(len(sits))):
        best: tuple[float, int, str] | None = None
        tried: dict[tuple[frozenset[str], float, str], float] = {}
        for d, here in enumerate(sits):
            for name in sorted(here) if over_gib(d) > 0 else ():
                # Equal workers with equal models are alike: one of them speaks for all.
                alike = (here, memory_gib[d], name)
                if alike not in tried:
                    without = [*sits[:d], here - {name}, *sits[d + 1 :]]
                    tried[alike] = _utility(models, without, levels, min(over_gib(d), weigh[name]))
                if tried[alike] > 0 and (best is None or tried[alike] > best[0]):
                    best = (tried[alike], d, name)
        if best is None:
            short = max(range(len(sits)), key=over_gib)
            raise Infeasible(
                f"memory of {memory_gib[short]:g} GiB a worker: the models do not fit, each at least once",
                f"worker {short} would need {memory_gib[short] + over_gib(short):g} GiB",
            )
        sits[best[1]] -= {best[2]}
    found = [balance(models, sits, asked) for asked in levels]
    known = [each for each in found if each is not None]
    return Placement(tuple(sits), tuple(each.busy for each in known), tuple(each.rates for each in known))


def _utility(
    models: Sequence[Resident],
    sits: Sequence[frozenset[str]],
    levels: Sequence[Mapping[str, float]],
    freed_gib: float,
) -> float:
    """Equation 4; 0 where a model would be nowhere."""
    if not all(any(m.name in here for here in sits) for m in models):
        return 0.0
    found = [balance(models, sits, asked) for asked in levels]
    return freed_gib / max(max((each.busy for each in found if each is not None), default=0.0), 1e-9)
