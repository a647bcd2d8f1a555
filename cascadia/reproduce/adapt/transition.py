"""The paper's test of transitions (Cascadia, section 4.4, figure 11 and table 5): three traces of 8, 16 and 10 minutes.

On 32 simulated H100s. Planning takes 15 s and replicas start in 2 to 20 s by size, as its appendix G states them.
Cascadia is the controller, which has to notice each change; CascadeServe is told, and pays for planning and moving as
well; a stand-alone model keeps the best of its three plans.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import numpy as np

from cascadia.controller.decide.replan import PLAN
from cascadia.controller.memory.state import UnderWay
from cascadia.domain.plan import Proof, QualityPrediction
from cascadia.files.plan_file import read_plan, write_plan
from cascadia.planner.account.assemble import assemble, predict
from cascadia.planner.baselines.cascadeserve import cascadeserve
from cascadia.planner.baselines.compare import slo_base_s
from cascadia.planner.baselines.single_model import Entry, stand_alone
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import open_search
from cascadia.planner.refinement.refine import effort_for
from cascadia.planner.search.context import Search
from cascadia.report.markdown import markdown
from cascadia.reproduce.adapt.days import Day, transitions
from cascadia.reproduce.adapt.fleet import SimulatedFleet
from cascadia.reproduce.adapt.plans import plan_for, problem_for
from cascadia.reproduce.adapt.ways import World, controller_of, live
from cascadia_sim.engine.results import quantile
from cascadia_sim.iteration.timing import PS_PER_S

PLANNING_S = 15.0
TAIL_S = 900.0
LARGEST_BYTES = 4.1e11


def startup_s(weight_bytes: float) -> float:
    """Appendix G: 2 to 20 s."""
    return 2.0 + 18.0 * weight_bytes / LARGEST_BYTES


@dataclass(frozen=True, slots=True)
class Ran:
    """`slo_scale`: the least multiple of a lone request's mean latency that 95 % kept. `done_rps`: answered in time."""

    system: str
    load: float
    slo_scale: float
    _: KW_ONLY
    done_rps: float
    offered_rps: float
    quality: float
    moves: int
    confidence: float


def ran(system: str, load: float, day: Day, fleet: SimulatedFleet, base_s: float, moves: int) -> Ran:
    end_s = day.duration_s
    fleet.run_until(max(fleet.now_s, end_s) + TAIL_S)
    answers = fleet.cascade.answers()
    answered = answers.finish_ps >= 0
    latency_s = np.where(answered, answers.finish_ps / PS_PER_S - day.trace.arrival_s, np.inf)
    done = answered & (answers.finish_ps <= end_s * PS_PER_S)
    quality = float(day.table.quality[answers.by[answered], day.row[answered]].mean())
    scale = quantile(latency_s, 0.95) / base_s
    return Ran(
        system,
        load,
        scale,
        done_rps=float(done.sum() / end_s),
        offered_rps=len(day.trace) / end_s,
        quality=quality,
        moves=moves,
        confidence=day.confidence,
    )


def cascadia(world: World, load: float, base_s: float) -> Ran:
    """The controller with the defaults that ship."""
    fleet = world.fleet()
    controller = controller_of(world, f"cascadia-{load:g}", fleet, {}, scales=True)
    asyncio.run(live(world, fleet, controller))
    moves = sum(entry.kind == "moved" for entry in controller.state.entries())
    return ran("Cascadia", load, world.day, fleet, base_s, moves)


def told(world: World, name: str, load: float, base_s: float, plans: Sequence[tuple[float, Path]]) -> Ran:
    """Plans anew at each change and moves as the controller does, without having to notice."""
    fleet = SimulatedFleet(world.day, plans[0][1], world.gpus, world.startup_s)
    controller = controller_of(world, f"{name}-{load:g}", fleet, {})

    async def live() -> None:
        for at_s, plan in plans[1:]:
            fleet.run_until(at_s + PLANNING_S)
            need = {s.name: s.rate_rps for s in read_plan(plan).predicted.stages}
            await controller.carry_out(UnderWay(plan, controller.in_force(), need, need))

    asyncio.run(live())
    return ran(name, load, world.day, fleet, base_s, len(plans) - 1)


def written(search: Search, found: Entry, out: Path) -> Path | None:
    """A baseline's deployment as a plan; None where it has none."""
    if found.best is None or found.run is None:
        return None
    problem, routing = search.problem, found.best.deployment.routing
    quality = QualityPrediction(found.quality_mean, found.quality_lower, 0.95, "", len(problem.quality))
    latency_s = found.best.latency_s
    predicted = predict(
        problem,
        found.run,
        Simulator.of(problem).arrivals,
        usd_per_hour=found.best.usd_per_hour,
        stage_bound_s=latency_s,
        quality=quality,
        shares=search.capacities.shares(problem, found.best.deployment, search.decisions(routing)),
    )
    proof = Proof("incumbent", "columns", latency_s, 0.0, 1.0)
    thresholds = search.routings.thresholds[routing].tolist()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_plan(
        assemble(problem, found.best.deployment, thresholds, predicted=predicted, proof=proof, wall_s=0.0),
        out,
    )
    return out


def measure(load: float, confidence: float, folder: Path) -> list[Ran]:
    day = transitions(load, confidence)
    starts = [r.start_s for r in day.regimes]
    spans = list(zip(starts, [*starts[1:], day.duration_s], strict=True))
    first = plan_for(day, folder / "known", *spans[0])
    world = World(day, folder, first, PLANNING_S, startup_s, gpus=32)
    served: list[tuple[float, Path]] = []
    alone: list[Path] = []
    base_s = 0.0
    for at_s, end_s in spans:
        with open_search(problem_for(day, folder / "known", at_s, end_s)) as search:
            base_s = max(base_s, slo_base_s(search))
            out = folder / "baselines" / f"{at_s:.0f}"
            effort = effort_for(search.problem.cluster)
            if (path := written(search, cascadeserve(search), out / "cascadeserve" / PLAN)) is not None:
                served.append((at_s, path))
            if (path := written(search, stand_alone(search, 2, effort), out / "alone" / PLAN)) is not None:
                alone.append(path)
    found = [cascadia(world, load, base_s)]
    if len(served) == len(spans):
        found.append(told(world, "CascadeServe", load, base_s, served))
    single = [told(world, "the large model alone", load, base_s, [(0.0, path)]) for path in alone]
    return [*found, *sorted(single, key=lambda r: r.slo_scale)[:1]]


def _less(ours: Ran, other: Ran) -> str:
    """Percentage by which our SLO scale is the smaller one."""
    if other is ours or not np.isfinite(ours.slo_scale):
        return ""
    return f"{100 * (1 - ours.slo_scale / other.slo_scale):.0f} %"


def table(rows: Sequence[Ran]) -> str:
    ours = {(r.load, r.confidence): r for r in rows if r.system == "Cascadia"}
    told = [
        (
            r.system,
            f"{r.load:g}",
            f"{100 * r.confidence:g} %",
            f"{r.offered_rps:.1f}",
            f"{r.done_rps:.1f}",
            f"{r.slo_scale:.2f}",
            _less(ours[r.load, r.confidence], r),
            f"{r.quality:.1f}",
            str(r.moves),
        )
        for r in rows
    ]
    columns = (
        "system",
        "load",
        "bar held at",
        "req/s offered",
        "req/s answered",
        "SLO scale at 95 %",
        "ours is less by",
        "quality",
        "moves",
    )
    return markdown(columns, told)
