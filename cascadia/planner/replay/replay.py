"""A written plan on any trace: the same simulation that predicted it, with other requests.

A plan knows each stage's share of accepted answers, not which prompts they were. So each request of the trace draws
its path (seeded) from those shares; with a quality table, its rows and the plan's thresholds decide, as they did when
planning. Where the plan has several gears and a table is given, its ladder is played as the router goes by it; drawn
paths are those of all gears together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.gear import Gear, Ladder, ladder_of
from cascadia.domain.plan import (
    ASKS_NONE,
    JudgePlan,
    Plan,
    Predicted,
    QualityPrediction,
    ReplicaGroup,
    StagePlan,
    WorkloadRules,
)
from cascadia.domain.problem import EXTERNAL, Engine, Foresight, Judge, Problem, Stage
from cascadia.domain.quality import Asked, Floats, QualityTable
from cascadia.planner.account.assemble import predict
from cascadia.planner.allocation.demand import JUDGE, Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.gears.played import play
from cascadia.planner.problem.join import Context, join
from cascadia.planner.problem.models import find_architecture
from cascadia.planner.replay.other_calibrations import other_calibrations
from cascadia.planner.routing.routings import ACCEPTS_ALL, SKIPS_NONE, Bools, Decisions, Ints, decided
from cascadia.planner.search.context import longest_request
from cascadia.planner.stability.capacity_shares import Capacities
from cascadia.planner.stability.certificate import Certificate, certify, settle
from cascadia.planner.tables.shapes import Shape, paid_by_node
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.iteration.build import DoesNotFit, InvalidShape, replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.architecture import Architecture
from cascadia_traces.trace import Trace

DRAWN_PROMPTS = 10_000
ACCEPTED, REFUSED = 100.0, 0.0


@dataclass(frozen=True, eq=False)
class Replay:
    """`predicted` is in the form of the plan's own predictions; quality is NaN without a table.

    `certificate` says whether these requests are carried for as long as they go on, each in the gear that it got.
    A trace that is short beside its latencies is played `rounds` times; `run` and `problem` are then of them all.
    `gear` (n) of each request, in order of arrival, 0 the heaviest; None where no ladder was played.
    """

    predicted: Predicted
    run: CascadeRun
    problem: Problem
    notes: tuple[str, ...]
    certificate: Certificate
    _: KW_ONLY
    gear: Ints | None = None
    rounds: int = 1

    @property
    def requests(self) -> int:
        """Requests of one round."""
        return len(self.run.arrival_ps) // self.rounds

    @property
    def switches(self) -> int:
        """Number of requests that got another gear than the one before."""
        return 0 if self.gear is None else int(np.count_nonzero(np.diff(self.gear)))


def replay(
    plan: Plan, trace: Trace, *, folder: Path, table: QualityTable | None = None, seed: int | None = None
) -> Replay:
    """Simulates `plan` on `trace`; a model that is a path starts at `folder`.

    Raises `BadInput` where a model is not found, or a request exceeds what a replica's memory holds.
    """
    seed = plan.seed if seed is None else seed
    stages = tuple(_stage(s, folder) for s in plan.stages)
    known = table if table is not None else drawn_table(plan, seed)
    contexts = tuple(Context(s.name, s.max_model_len) for s in plan.stages)
    asked = trace if table is not None else replace(trace, prompt_id=None)
    rules = plan.workload or WorkloadRules()
    workload, notes = join(
        asked,
        known,
        seed=seed,
        # A drawn table has no lengths of its own.
        lengths="trace" if table is None else rules.lengths,
        contexts=contexts,
        max_input_tokens=rules.max_input_tokens,
        overlong=rules.overlong,
    )
    problem = Problem(
        stages,
        plan.cluster,
        _judge(plan.judge, folder),
        workload=workload,
        quality=known,
        objective=plan.objective,
        confidence=0.95,
        seed=seed,
        digest=plan.digest,
        foresight=Foresight(plan.foresight.digest, plan.foresight.latency_s) if plan.foresight else None,
    )
    geared = table is not None and len(plan.gears) > 1
    own = gate_decisions(plan, known, workload.row, drawn=table is None)
    found = redeployed(plan, problem)
    # Of a trace that is over before anything has settled a plan's figures are of several rounds, and so are these.
    settled = settle(Simulator.of(problem), found, own)
    simulator, rounds = settled.once, settled.rounds
    if geared:
        ladder, settings = ladder_of(plan.gears), _gear_decisions(plan, known, simulator.problem.workload.row)
    else:
        ladder, settings = Ladder(()), [settled.decided]
    played = play(simulator, found, settings, ladder)
    run, decisions = played.run, played.decided
    notes = (*notes, *_notes(plan, table, rounds), *other_calibrations(plan, problem))
    quality = _quality(plan, table, decisions, simulator.problem)
    shares = Capacities().shares(
        simulator.problem if geared else problem, found, decisions if geared else own
    )
    predicted = predict(
        simulator.problem,
        run,
        run.arrival_ps,
        usd_per_hour=found.usd_per_hour,
        stage_bound_s=plan.proof.objective_s,
        quality=quality,
        shares=shares,
        rate_rps=problem.workload.rate_rps,
    )
    if table is None:
        # Drawn paths have no scores.
        predicted = replace(predicted, score_mean=None)

    def goes_on(every: Simulator) -> CascadeRun:
        again = _gear_decisions(plan, known, every.problem.workload.row)
        return play(every, found, again, ladder).run

    plays = goes_on if geared else None
    certificate = certify(simulator, found, decisions, shares, before=rounds, plays=plays)
    return Replay(
        predicted,
        run,
        simulator.problem,
        notes,
        certificate,
        gear=played.gear if geared else None,
        rounds=rounds,
    )


def _notes(plan: Plan, table: QualityTable | None, rounds: int) -> Iterator[str]:
    """Notes on what of the plan the replay had to leave out, and on rounds."""
    if rounds > 1:
        yield f"the trace is short beside its latencies: the figures are of {rounds} rounds of it, as a plan's are"
    if plan.workload is not None and plan.workload.lengths == "table" and table is None:
        yield "the plan's requests are as long as its quality table has them: --quality-table takes that"
    if table is None:
        if len(plan.gears) > 1:
            yield (
                "gears are not played: without a quality table it is not known what each would answer; paths are drawn"
                " as all gears together take them"
            )
    elif table.foreseen is None and plan.foresees:
        yield (
            "the table has no column foreseen, so no stage is skipped by the question alone; give --foresight, the file"
            " that the plan was made with"
        )


def drawn_table(plan: Plan, seed: int) -> QualityTable:
    """A table whose rows take each path as often as the plan predicts: accepted answers score 100, others 0."""
    accepted = np.array([s.accepted for s in plan.predicted.stages])
    last = np.flatnonzero([s.deployed for s in plan.stages])[-1]
    share = accepted / accepted.sum() if accepted.sum() > 0 else np.eye(len(accepted))[last]
    random = np.random.default_rng(seed)
    by = random.choice(len(share), size=DRAWN_PROMPTS, p=share)
    score = np.full((len(share), DRAWN_PROMPTS), REFUSED)
    score[by, np.arange(DRAWN_PROMPTS)] = ACCEPTED
    foreseen = np.where(_entered(plan, share, by, random), ACCEPTED, REFUSED)
    lengths = np.array([[s.output_ratio] for s in plan.stages]) * np.full(DRAWN_PROMPTS, 1000.0)
    exits = any(s.exits for s in plan.stages)
    ids = tuple(f"drawn-{i}" for i in range(DRAWN_PROMPTS))
    left = _left(plan, share, by, random) if exits else None
    return QualityTable(
        ids,
        tuple(s.name for s in plan.stages),
        score,
        quality=score,
        input_tokens=lengths,
        output_tokens=lengths,
        foreseen=foreseen,
        left=left,
        verdicts=None if left is None else _verdicts(plan, left, random),
        whole_tokens=np.full(lengths.shape, 1000.0) if exits else None,
        ahead=np.array([s.looks for s in plan.stages]) if exits else None,
    )


def _left(plan: Plan, share: Floats, by: Ints, random: np.random.Generator) -> Bools:
    """(S, n): did each leave the stage that answers it at an exit, as often as predicted?"""
    at_exits = np.array([sum(exit_.left for exit_ in s.exits) for s in plan.stages])
    # Shares are of all requests; here a request is known to be answered by its stage.
    of_answered = (at_exits / np.maximum(share, 1e-12))[by]
    own: Bools = np.arange(len(share))[:, None] == by
    return own & (random.random(len(by)) < of_answered)


def _verdicts(plan: Plan, left: Bools, random: np.random.Generator) -> Asked:
    """Verdicts on each one's answers at a stage, which read all that it wrote; who left there is taken to have had the
    mean of trials; who is drawn as evidence, or goes on, all, though the question may promise too little for some.
    """
    counts, trials = np.ones(left.shape, np.int64), np.zeros(left.shape, np.int64)
    left = left & (random.random(left.shape) >= (0.0 if plan.exits is None else plan.exits.shadow))
    for s, stage in enumerate(plan.stages):
        if stage.budget_field is not None:
            counts[s] = ~left[s]
            continue
        # A trial at the last exit is judged at a gate alone: everybody leaves there.
        shares = [exit_.left for exit_ in stage.exits]
        opened = sum(not exit_.last for exit_ in stage.exits)
        gated, free = _mean_place(shares), _mean_place(shares, at_most=opened)
        counts[s] = np.where(left[s], max(round(gated), 1), 1 + opened)
        trials[s] = np.where(left[s], max(round(free), min(opened, 1)), opened)
    every = np.ones(left.shape)
    return Asked(counts, every, trials, every)


def _mean_place(shares: Sequence[float], at_most: int | None = None) -> float:
    """Mean place, counted from 1, of the exits that so many leave at; a later one counts as the `at_most`-th."""
    places = [at if at_most is None else min(at, at_most) for at in range(1, len(shares) + 1)]
    return sum(at * share for at, share in zip(places, shares, strict=True)) / max(sum(shares), 1e-12)


def _entered(plan: Plan, share: Floats, by: Ints, random: np.random.Generator) -> Bools:
    """(S, n): was each stage asked, as often as predicted, by those whom it or a later one answers?"""
    # Who is answered later passes a stage either by way of it or past it.
    past = np.clip(1.0 - np.cumsum(share), 1e-12, 1.0)
    asked = [s.reached - accepted for s, accepted in zip(plan.predicted.stages, share, strict=True)]
    went_on = random.random((len(share), len(by))) < (np.array(asked) / past)[:, None]
    own: Bools = np.arange(len(share))[:, None] == by
    return own | went_on


def gate_decisions(plan: Plan, table: QualityTable, rows: Ints, *, drawn: bool = False) -> Decisions:
    """Decisions of each stage on requests of the table's `rows`, in order of arrival; `drawn` rows say it
    themselves.
    """
    deployed = np.array([s.deployed for s in plan.stages])
    if drawn:
        none = (SKIPS_NONE,) * (len(deployed) - 1)
        skips = np.max([least or none for _, least in plan.routings], axis=0)
        some = np.where(skips > SKIPS_NONE, ACCEPTED, SKIPS_NONE)
        highest = np.max([thresholds for thresholds, _ in plan.routings], axis=0)
        levels = np.where(highest > ACCEPTS_ALL, ACCEPTED, ACCEPTS_ALL)
        drawn_ = decided(table, deployed, levels, some).take(rows)
        # A mixture skips without a look at the question.
        looks = np.append(skips < ASKS_NONE, False)
        looked = drawn_.foresees & (looks if table.ahead is None else looks | table.ahead)[:, None]
        # Nor does a coin between two models wait for a verdict.
        return drawn_._replace(foresees=looked, judged=drawn_.judged & plan.judges)
    own, *others = (
        decided(table, deployed, levels, least or None).take(rows) for levels, least in plan.routings
    )
    return own if plan.mixture is None else own.mixed(others[0], plan.mixture.share)


def _gear_decisions(plan: Plan, table: QualityTable, rows: Ints) -> list[Decisions]:
    """Decisions of `gate_decisions` under each gear, the heaviest first."""
    return [_under(gear, plan, table).take(rows) for gear in plan.gears]


def _under(gear: Gear, plan: Plan, table: QualityTable) -> Decisions:
    asked = np.array([stage.name in gear.stages for stage in plan.stages])
    return decided(table, asked, gear.thresholds, gear.skip_below or None)


def redeployed(plan: Plan, problem: Problem) -> Deployment:
    """The plan's replicas with their timings."""
    mixes: dict[int, Mix] = {}
    lengths = problem.workload.input_tokens + problem.workload.output_tokens
    for s, stage in enumerate(problem.stages):
        if stage.architecture is None:
            continue
        longest = int(lengths[s].max())
        mixes[s] = _mix(plan, stage.name, stage.architecture, stage.config, plan.stages[s].replicas, longest)
    judge = problem.judge
    if plan.judge.replicas and judge.architecture is not None and judge.config is not None:
        longest = longest_request(problem, JUDGE)
        mixes[JUDGE] = _mix(plan, "judge", judge.architecture, judge.config, plan.judge.replicas, longest)
    return deployment(0, mixes)


def _mix(
    plan: Plan,
    name: str,
    architecture: Architecture,
    config: EngineConfig,
    groups: tuple[ReplicaGroup, ...],
    longest: int,
) -> Mix:
    found = []
    for group in groups:
        pool = plan.cluster.pool(group.pool)
        try:
            timing = replica_timing(
                architecture,
                pool.hardware,
                tp=group.tp,
                pp=group.pp,
                config=config,
                gpus_per_node=pool.gpus_per_node,
                min_kv_tokens=longest,
            )
        except (DoesNotFit, InvalidShape) as error:
            raise BadInput(
                f"stage {name}, TP={group.tp} PP={group.pp}",
                f"cannot serve a request of {longest:,} tokens ({error})",
                "cut the trace's long requests, or plan for this trace",
            ) from error
        usd_per_hour = group.tp * group.pp * pool.paid_usd_per_gpu_hour
        by_node = pool if paid_by_node(plan.cluster, pool) else None
        shape = Shape(group.pool, group.tp, group.pp, timing, usd_per_hour, there=pool.there, by_node=by_node)
        # A level is how many such replicas the stage's requests are spread over.
        found.append(Replicas(shape, group.count, group.count / max(group.share, 1e-9)))
    return tuple(found)


def _stage(stage: StagePlan, folder: Path) -> Stage:
    away = stage.external is not None or stage.engine == EXTERNAL
    found = None if away else find_architecture(stage.model, folder, f"plan: stage {stage.name}")
    engine: Engine = stage.engine  # type: ignore[assignment]
    return Stage(
        stage.name,
        stage.model,
        found,
        engine=engine,
        quantization=stage.quantization,
        config=stage.config,
        weights=stage.weights,
        external=stage.external,
        balancing=stage.balancing,
    )


def _judge(judge: JudgePlan, folder: Path) -> Judge:
    hosted = judge.placement == "self-hosted" and judge.model is not None
    return Judge(
        kind=judge.kind,  # type: ignore[arg-type]
        placement=judge.placement,  # type: ignore[arg-type]
        model=judge.model,
        architecture=find_architecture(judge.model, folder, "plan: judge")
        if hosted and judge.model
        else None,
        quantization=judge.quantization,
        config=judge.config if hosted else None,
        prompt_tokens=judge.prompt_tokens,
        output_tokens=judge.output_tokens,
        latency_p50_s=judge.latency_p50_s,
        latency_p95_s=judge.latency_p95_s,
        usd_per_million_input_tokens=judge.usd_per_million_input_tokens,
        usd_per_million_output_tokens=judge.usd_per_million_output_tokens,
    )


def _quality(
    plan: Plan, table: QualityTable | None, decisions: Decisions, problem: Problem
) -> QualityPrediction:
    """The plan's own where paths were drawn from it; the mean over the replayed rows with a table."""
    if table is None:
        return plan.predicted.quality
    mean = float(table.quality[decisions.answered_by, problem.workload.row].mean())
    return QualityPrediction(mean, mean, 0.0, "mean over the replayed requests", len(table))
