"""Every system on the same trace and GPUs, as a cloud of points: how late, and of which quality.

single            one setting all the time, chosen with knowledge of the trace, on our replicas
dynba             one model all the time, with its best replicas (CascadeServe section 6.2, DynBa)
switching         one model at a time, by the measured rate (Model Switching+; CascadeServe's "no cascade")
cascadeserve      a cascade for each range of rate, as printed: algorithm 1's fixed point, equal ranges
no switching      CascadeServe with one range

Each is tuned by a grid: its replicas, the number of ranges, the period over which a rate is counted. All points of the
grid stay, so that each system may be asked for its best at another's quality, or lateness.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.baselines import cascadeserve
from cascadia.planner.baselines.single_model import stand_alone
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.gears.candidates import Candidates, candidates, lightest
from cascadia.planner.gears.levels import Level
from cascadia.planner.gears.measured import measured
from cascadia.planner.over_time.by_rate import RateRule, settled
from cascadia.planner.over_time.settings import POINTS, OverTime, Stage
from cascadia.planner.refinement.refine import EFFORT
from cascadia.planner.search.context import Search
from cascadia_sim.iteration.timing import PS_PER_S

Ints = NDArray[np.int64]

RANGES = (4, 8, 16)
PERIODS_S = (0.1, 1.0, 5.0, 20.0)
SHARES = (0.2, 0.4, 0.6, 0.8)
"""Parts of the GPUs that the lighter of two models may get."""
LIGHTEST = 12
"""So many routings that are as good as ours are tried as single settings, the lightest first."""
PLACEMENTS = 4
"""So many of CascadeServe's deployments are tuned, beside ours."""
UNLIKE = 0.1
"""They are for cascades that differ by more than this part of the requests at some stage."""


def singles(stage: Stage, deployment: Deployment, ours: OverTime) -> list[OverTime]:
    """Each candidate of the deployment alone, with knowledge of the trace: those of gears, the gears themselves, and
    the lightest that are as good as ours."""
    known = candidates(stage.search, deployment, 0.0, 0.0).routings
    as_good = lightest(stage.search, deployment, ours.quality - POINTS, LIGHTEST)
    among = np.unique(np.concatenate([known, ours.setting, as_good]))
    nobody = np.zeros(len(stage.simulator.arrivals), np.int64)
    return [stage.outcome("single", deployment, [int(k)], nobody, f"routing {k}") for k in among]


def dynba(stage: Stage) -> list[OverTime]:
    """Each model alone on all GPUs."""
    found = []
    for s, model in enumerate(stage.search.problem.stages):
        best = stand_alone(stage.search, s, EFFORT, with_rate=False).best
        if best is not None:
            nobody = np.zeros(len(stage.simulator.arrivals), np.int64)
            own = best.deployment
            found.append(stage.outcome("dynba", own, [own.routing], nobody, model.name))
    return found


def switching(stage: Stage, quantile: float) -> list[OverTime]:
    """One model at a time, on replicas of two that share the GPUs in several proportions; an API is there always."""
    alone, stages = models_alone(stage.search), stage.search.problem.stages
    found = []
    for deployment in _shared(stage.search, alone):
        have = [k for s, k in alone.items() if deployment.mix(s) or stages[s].external is not None]
        found += by_rate("switching", stage, deployment, among=ordered(stage.search, have), quantile=quantile)
    return found


def printed(stage: Stage, ours: Deployment, quantile: float) -> list[OverTime]:
    """CascadeServe's gears on its own deployments, and on ours; with one range it never switches."""
    found = []
    for deployment in _theirs(stage.search, ours):
        among = candidates(stage.search, deployment, 0.0, 0.0)
        if len(among):
            found += by_rate("cascadeserve", stage, deployment, among=among, quantile=quantile)
            found += by_rate(
                "no switching",
                stage,
                deployment,
                among=among,
                quantile=quantile,
                ranges=(1,),
                periods_s=PERIODS_S[:1],
            )
    return found


def by_rate(
    name: str,
    stage: Stage,
    deployment: Deployment,
    *,
    among: Candidates,
    quantile: float,
    ranges: Sequence[int] = RANGES,
    periods_s: Sequence[float] = PERIODS_S,
) -> list[OverTime]:
    found = []
    for period_s in periods_s:
        for count in ranges:
            rule = RateRule(_most_rps(stage, period_s), count, period_s)
            chosen = _assigned(stage, deployment, among, rule, quantile)
            routings = [int(among.routings[k]) for k in chosen]
            tuned = f"{count} ranges up to {rule.most_rps:.3g}/s, counted over {period_s:g} s"
            found.append(
                stage.outcome(name, deployment, routings, _in_force(stage, deployment, routings, rule), tuned)
            )
    return found


def _most_rps(stage: Stage, period_s: float) -> float:
    """The largest rate that is ever counted."""
    arrival_s = stage.simulator.arrivals / PS_PER_S
    return float(np.bincount((arrival_s / period_s).astype(np.int64)).max()) / period_s


def _assigned(
    stage: Stage, deployment: Deployment, among: Candidates, rule: RateRule, quantile: float
) -> list[int]:
    """Algorithm 1's fixed point on one placement: each range has the most accurate cascade that keeps the bound at the
    range's upper end; where none does, the one that carries most."""
    tops = [Level(float(rate), 0.0, 1.0) for rate in rule.tops_rps]
    lasts_s = max(stage.bound_s / 2, 1.0)
    late = measured(stage.search, deployment, among, tops, stage.bound_s, lasts_s).late
    accurate = np.argsort(-stage.search.routings.mean[among.routings], kind="stable")
    lightest = int(np.argmin(among.work))
    allowed = 1 - quantile
    return [next((int(k) for k in accurate if late[k, at] <= allowed), lightest) for at in range(len(tops))]


def _in_force(stage: Stage, deployment: Deployment, routings: Sequence[int], rule: RateRule) -> Ints:
    arrival_s = stage.simulator.arrivals / PS_PER_S

    def play(ranges: Ints) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        run, _ = stage.run(deployment, routings, ranges)
        first = run.stages[0]
        return first.arrival_ps / PS_PER_S, first.run.first_token_ps / PS_PER_S

    return settled(lambda waiting: rule.ranges_of(arrival_s, waiting), play)


def models_alone(search: Search) -> dict[int, int]:
    """The routing by which each stage alone answers all."""
    deployed = search.routings.deployed
    only = np.flatnonzero(deployed.sum(axis=1) == 1)
    # Backwards, since of several routings of one stage a dictionary keeps what is written last.
    return {int(deployed[k].argmax()): int(k) for k in only[::-1]}


def ordered(search: Search, routings: Sequence[int]) -> Candidates:
    """Heaviest, that is the largest model, first; `work` only orders them."""
    falling = sorted(routings, key=lambda k: -search.routings.mean[k])
    return Candidates(np.array(falling, np.int64), *np.zeros((3, len(falling))))


def _shared(search: Search, alone: Mapping[int, int]) -> Iterator[Deployment]:
    """Two models on all GPUs, in several proportions; where the other choice is an API, one on all."""
    stages = sorted(s for s in alone if s in search.shapes)
    if len(stages) < len(alone):
        for s in stages:
            yield from cascadeserve.placed(search, {s: 1.0}, alone[s])
    for i, light in enumerate(stages):
        for heavy in stages[i + 1 :]:
            for share in SHARES:
                yield from cascadeserve.placed(search, {light: share, heavy: 1 - share}, alone[heavy])


def _theirs(search: Search, ours: Deployment) -> list[Deployment]:
    """Deployments for cascades of much to little work, as many as fit; and ours."""
    found: dict[object, Deployment] = {ours.key: ours}
    whole = {demand.stage: demand for demand, _ in search.whole_demands()}
    apart: list[int] = []
    for k in np.argsort(-search.routings.mean, kind="stable").tolist():
        if len(found) > PLACEMENTS:
            break
        if search.routings.deployed[k].sum() < 2 or not search.routings.apart(k, apart, UNLIKE):
            continue
        parts = cascadeserve.parts_of(search, whole, k)
        if fit := cascadeserve.placed(search, parts, k)[:1]:
            apart.append(k)
            found.setdefault(fit[0].key, fit[0])
    return list(found.values())
