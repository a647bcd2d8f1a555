"""Every system on the same requests: minimum SLO scale, maximum throughput, $ per 1,000 requests, quality.

SLO scale 1 is the mean latency of a request that has the largest model, in its fastest shape, to itself (Cascadia
section 4.1: "the system's average single-request processing latency"); the same for every system, so that scales
compare as latencies do. The minimum SLO scale is the least multiple that 95 % of requests keep.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from math import inf
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.objective import Level
from cascadia.domain.plan import ErrorRange, LevelPrediction
from cascadia.domain.problem import Problem
from cascadia.planner.account.assemble import api_usd, verdict_usd
from cascadia.planner.account.error_range import error_range
from cascadia.planner.baselines import single_model as baselines
from cascadia.planner.baselines.cascadeserve import cascadeserve
from cascadia.planner.baselines.coin import coin
from cascadia.planner.baselines.payoff_table import Gate, gates
from cascadia.planner.baselines.prerouter import prerouter
from cascadia.planner.baselines.rivals import their_deployments
from cascadia.planner.baselines.single_model import Entry, entry, nothing
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.levels import level_predictions, reached_s
from cascadia.planner.deployment.measures import ATTAINMENT, Attainment, attainment, latencies_s
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.refinement.best import Ways, best_found
from cascadia.planner.refinement.mixed_search import least_quality, mixtures
from cascadia.planner.refinement.refine import Candidate, Effort
from cascadia.planner.search.context import Search, allowed, restricted
from cascadia.planner.search.solver import solver
from cascadia.planner.search.throughput import max_rate_rps
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.timing import PS_PER_S

Floats = NDArray[np.float64]

ALONE_REQUESTS = 200
ALONE_GAP_S = 3600.0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One row of the comparison. Figures are NaN where the system has no answer: `why`.

    `latency_s` is of the objective's quantile; `slo_scale` the least at 95 % attainment. `assumed`: what of it nobody
    has measured, in words. `error_range`: of ours, what the calibrations' errors make of that quantile. `ttft_s` and
    `tpot_s`, as clients see them, are of the same quantile; `levels` are the objective's bounds.
    """

    name: str
    latency_s: float
    slo_scale: float
    _: KW_ONLY
    max_rate_rps: float
    usd_per_hour: float
    usd_per_1k_requests: float
    quality_mean: float
    quality_lower: float
    gpus: int
    deployment: str
    curve: Attainment | None
    why: str
    assumed: str = ""
    error_range: ErrorRange | None = None
    ttft_s: float = float("nan")
    tpot_s: float = float("nan")
    levels: tuple[LevelPrediction, ...] = ()


class _AsSeen(TypedDict):
    ttft_s: float
    tpot_s: float
    levels: tuple[LevelPrediction, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """`gates`: of stages that follow each other, whether a cascade of the two can beat a coin."""

    slo_base_s: float
    outcomes: tuple[Outcome, ...]
    gates: tuple[Gate, ...] = ()


BEYOND = frozenset({"coin", "pre-router", "no judge cost", "no guarantee"})
"""Systems whose deployments are of other routings than the search's own, or miss its bar, or leave out its judge."""

System = tuple[str, Callable[[], Entry]]


def systems(search: Search, effort: Effort) -> Sequence[System]:
    """Cascadia first, then everyone else, then its ablations."""
    return [("cascadia", partial(ours, search, effort)), *others(search, effort)]


def ours(search: Search, effort: Effort, starts: Sequence[Deployment] = ()) -> Entry:
    """Cascadia by all ways that planning goes, exits and gears aside; it looks at `starts` too."""
    ways = Ways(lambda part: solver(part, "columns"), effort, lambda _: None, their_deployments)
    found = best_found(search, ways, also=starts)
    rate = max_rate_rps(search, np.flatnonzero(allowed(search)))
    reached = 0.0 if found.best is None else found.best.quality_lower
    if (mixed := mixtures(search, least_quality(search.problem.objective, reached))) is not None:
        rate = max(rate, max_rate_rps(restricted(search, mixed), np.arange(len(mixed))))
    if found.best is None:
        return replace(
            nothing("cascadia", "the traffic is not sustained within the bounds"), max_rate_rps=rate
        )
    return entry("cascadia", found.search, found.best, rate)


def others(search: Search, effort: Effort) -> Sequence[System]:
    names = [stage.name for stage in search.problem.stages]
    stages = range(len(names))
    return [
        *((f"stand-alone {names[s]}", partial(baselines.stand_alone, search, s, effort)) for s in stages),
        ("coin", partial(coin, search, effort)),
        ("cascadeserve", partial(cascadeserve, search, effort)),
        ("pre-router", partial(prerouter, search, effort)),
        ("uniform parallelism", partial(baselines.uniform_parallelism, search, effort)),
        ("uniform allocation", partial(baselines.uniform_allocation, search, effort)),
        ("no refinement", partial(baselines.no_refinement, search)),
        ("no judge cost", partial(baselines.no_judge_cost, search, effort)),
        ("no guarantee", partial(baselines.no_guarantee, search, effort)),
    ]


def compare(
    search: Search, effort: Effort, *, progress: Callable[[float, str], None] = lambda _, __: None
) -> Comparison:
    """Compares systems. Cascadia's plan is searched last, from what others deploy among other starts: so it is
    at least level with each of them.
    """
    base = slo_base_s(search)
    rest = others(search, effort)
    found = []
    for at, (name, run) in enumerate(rest):
        progress(at / (len(rest) + 1), name)
        found.append(run())
    progress(len(rest) / (len(rest) + 1), "cascadia")
    theirs = [e.best.deployment for e in found if e.best is not None and e.name not in BEYOND]
    mine = ours(search, effort, theirs)
    first = outcome(search.problem, mine, base)
    if mine.best is not None:
        first = replace(first, error_range=_error_range(search.problem, mine.best))
    return Comparison(base, (first, *(outcome(search.problem, e, base) for e in found)), gates(search))


def _error_range(problem: Problem, best: Candidate) -> ErrorRange:
    certificate = best.certificate
    assert certificate is not None
    return error_range(problem, certificate.simulator, best.deployment, certificate.decided, best.latency_s)


def outcome(problem: Problem, found: Entry, base_s: float) -> Outcome:
    if found.best is None:
        none = float("nan")
        rate = found.max_rate_rps or none
        return Outcome(
            found.name,
            none,
            none,
            max_rate_rps=rate,
            usd_per_hour=none,
            usd_per_1k_requests=none,
            quality_mean=none,
            quality_lower=none,
            gpus=0,
            deployment="",
            curve=None,
            why=found.why,
            assumed=found.assumed,
        )
    chosen = found.best.deployment
    latency = latencies_s(found.run) if found.run is not None else None
    rate = problem.workload.rate_rps
    return Outcome(
        found.name,
        found.best.latency_s,
        (quantile_s(latency, ATTAINMENT) if latency is not None else found.best.latency_s) / base_s,
        max_rate_rps=found.max_rate_rps or float("nan"),
        usd_per_hour=found.best.usd_per_hour,
        usd_per_1k_requests=chosen.usd_per_hour / 3.6 / rate + _apis_usd_per_1k(problem, found),
        quality_mean=found.quality_mean,
        quality_lower=found.quality_lower,
        gpus=chosen.gpus,
        deployment=described(problem, found),
        curve=attainment(latency) if latency is not None else None,
        why=found.why,
        assumed=found.assumed,
        **_as_seen(problem, found),
    )


def _as_seen(problem: Problem, found: Entry) -> _AsSeen:
    """TTFT, TPOT and levels of a system that was run."""
    if found.run is None:
        return {"ttft_s": float("nan"), "tpot_s": float("nan"), "levels": ()}
    played, objective = _played(problem, found), problem.objective
    at = (Level(metric, objective.quantile, inf) for metric in ("ttft", "tpot"))
    ttft_s, tpot_s = reached_s(played, found.run, tuple(at))
    return {
        "ttft_s": ttft_s,
        "tpot_s": tpot_s,
        "levels": level_predictions(played, found.run, objective.bounds),
    }


def _played(problem: Problem, found: Entry) -> Problem:
    """Problem with the requests of a system's run."""
    certificate = None if found.best is None else found.best.certificate
    return problem if certificate is None else certificate.problem


def _apis_usd_per_1k(problem: Problem, found: Entry) -> float:
    """Dollars a thousand requests that stages and a judge elsewhere charge; a system without a run asks none."""
    if found.run is None:
        return 0.0
    played = _played(problem, found)
    return 1000 * (verdict_usd(played, found.run) + api_usd(played, found.run)) / max(len(played.workload), 1)


def described(problem: Problem, found: Entry) -> str:
    """Replicas of each stage in a line: "small 4xTP1, large 2xTP8"."""
    assert found.best is not None
    parts = []
    for stage, mix in found.best.deployment.mixes:
        name = problem.stages[stage].name if stage >= 0 else "judge"
        replicas = "+".join(
            f"{r.count}×TP{r.shape.tp}" + (f"PP{r.shape.pp}" if r.shape.pp > 1 else "") for r in mix
        )
        parts.append((stage < 0, stage, f"{name} {replicas}"))
    return ", ".join(text for *_, text in sorted(parts))


def slo_base_s(search: Search) -> float:
    """Mean latency of the last stage's requests one at a time, in its fastest shape."""
    last = len(search.problem.stages) - 1
    w = search.problem.workload
    pick = np.linspace(0, len(w) - 1, min(len(w), ALONE_REQUESTS)).astype(int)
    arrivals = (np.arange(len(pick)) * ALONE_GAP_S * PS_PER_S).astype(np.int64)
    if (api := Simulator.of(search.problem).apis[last]) is not None:
        return float(api.whole_ps[pick].mean()) / PS_PER_S
    times = []
    for shape in search.shapes[last]:
        run = simulate_replica(
            shape.timing,
            arrivals,
            w.input_tokens[last][pick],
            w.output_tokens[last][pick],
            np.zeros(len(pick), np.int64),
        )
        times.append(float((run.finish_ps - arrivals).mean()) / PS_PER_S)
    return min(times)
