"""Surroundings of a plan, for its report: other bars, other rates, other systems. Quick looks, not full
searches.

Each bar gets the best of a few composed combinations, simulated end to end. Each model alone is what `compare` deploys:
the same function with the same effort; so is the coin. CascadeServe gets less of it, and its name says so: `compare`
searches it as long as a plan. Everything uses the tables that planning has made.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.baselines.compare import slo_base_s
from cascadia.planner.baselines.other_bars import Bar, other_bars
from cascadia.planner.baselines.rivals import Rival, rivals
from cascadia.planner.deployment.measures import latencies_s
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.plan import PlanResult
from cascadia.planner.stability.repeats import decided_repeated, repeated
from cascadia_sim.hardware.cores import usable_cores

Floats = NDArray[np.float64]

MULTIPLIERS = (0.5, 1.0, 1.5, 2.0)


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Quantiles (3, k) at multiples (k) of the planned rate; NaN beyond what the plan carries."""

    multiplier: Floats
    quantiles_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    slo_base_s: float
    bars: tuple[Bar, ...]
    rivals: tuple[Rival, ...]
    rates: Rates


def sensitivity_of(result: PlanResult) -> Sensitivity:
    search, aside = result.search, result.aside
    # Nobody is compared with whom there was no time to search for.
    if aside is not None:
        # Rates, which this process looks at, are the least of it.
        rates, bars = _rates(result), aside.bars
        theirs = () if search.deadline.left_out else aside.rivals
    else:
        cut = search.deadline.left_out
        # Each search has threads of the search's own to simulate on; between two simulations these keep them busy.
        with ThreadPoolExecutor(usable_cores()) as beside:
            asked = [] if cut else [beside.submit(rival) for rival in rivals(search)]
            bars = other_bars(search, result.loop, result.chosen)
            rates = _rates(result)
            theirs = tuple(found for each in asked if (found := each.result()) is not None)
    return Sensitivity(slo_base_s(search), bars, () if search.deadline.passed else theirs, rates)


def _rates(result: PlanResult) -> Rates:
    chosen, most = result.chosen.deployment, result.plan.headroom or 1.0
    decided = result.search.decisions(chosen.routing)
    rounds = result.plan.stability.rounds if result.plan.stability else 1

    def at(multiplier: float) -> tuple[float, ...]:
        if multiplier > most:
            return (np.nan,) * 3
        run = result.run
        if multiplier != 1.0:
            run = repeated(result.simulator, 1, multiplier).run(chosen, decided_repeated(decided, rounds))
        latency = latencies_s(run)
        return tuple(quantile_s(latency, q) for q in (0.5, 0.95, 0.99))

    columns = list(result.search.threads.map(at, MULTIPLIERS))
    return Rates(np.array(MULTIPLIERS), np.array(columns).T)
