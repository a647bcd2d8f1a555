"""A cascade plan: which replicas, which thresholds, and what is to be expected of them."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any, Literal

from cascadia.domain.cluster import Cluster
from cascadia.domain.external import External
from cascadia.domain.gear import Gear
from cascadia.domain.names import LayerExit
from cascadia.domain.objective import Metric, Objective, UnderLoad
from cascadia.domain.policy import Policies
from cascadia_sim.iteration.engine_config import LLAMA_CPP, EngineConfig

FORMAT_VERSION = 3
"""2 added `skip_below`; 3 `stability`, `headroom`, `load`, `foresight`, `mixture`; older plans are read as
saying nothing of these."""

MOST_PLACES = 100_000
"""Requests that a replica may have, of those that a router's file tells."""
ASKS_NONE = 101.0
"""`skip_below` of a stage that is never asked, whatever the question: above all that can be foreseen."""


Balancing = Literal["least-outstanding", "earliest-finish", "matching"]
"""Rule by which a stage's replicas share its requests."""
LEARNS: frozenset[Balancing] = frozenset({"earliest-finish", "matching"})
"""Rules that learn how long answers take."""

Task = Literal["generate", "classify", "rerank"]
"""What a stage's model does: writes an answer, or gives one in one pass."""


@dataclass(frozen=True, slots=True)
class LatencyLine:
    """Latency of an answer on a replica, as simulated: see `cascadia.dispatch.latency_model`."""

    base_s: float
    read_s: float
    step_s: float
    load_s: float


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """`count` equal replicas, to which the router gives `share` (0-1) of the stage's work in hand, as a whole.

    `latency`: where the stage's balancing begins to learn from. `drafts`: of engines that speculate, how many
    tokens they draft for a sequence while so many decode: (from, to, tokens) without a gap; empty where none.
    """

    pool: str
    tp: int
    pp: int
    count: int
    share: float
    latency: LatencyLine | None = None
    drafts: tuple[tuple[int, int, int], ...] = ()

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.count

    @property
    def kind(self) -> str:
        """Replicas of one kind take as long, given as much in hand."""
        return f"{self.pool} TP={self.tp} PP={self.pp}"

    @property
    def learns(self) -> dict[str, Any]:
        """Entries of each replica in a router's file where the stage's balancing learns; else empty."""
        return {} if self.latency is None else {"kind": self.kind, "latency": asdict(self.latency)}


class Deployed:
    """Base of a stage and a judge: engines of one model, in groups of replicas.

    plan.json tells the fields of each in an order of its own, so each lists them.
    """

    __slots__ = ()

    model: str | None
    engine: str
    quantization: str | None
    max_model_len: int
    replicas: tuple[ReplicaGroup, ...]
    config: EngineConfig
    weights: str | None

    @property
    def gpus(self) -> int:
        return sum(group.gpus for group in self.replicas)

    @property
    def deployed(self) -> bool:
        return self.gpus > 0


def asking(foreseen: Sequence[float | None], *, budgets: bool) -> tuple[int, ...]:
    """Exits that ask the question alone: all where they are `budgets`, else those that want something `foreseen` of
    it.
    """
    return tuple(at for at, least in enumerate(foreseen) if budgets or least is not None)


@dataclass(frozen=True, slots=True)
class ExitPlan:
    """Exit that a stage uses: after so many tokens of thinking, an answer that scores `threshold` or more is given.
    `left` (0-1) is the share of all requests that leave there. `last`: nobody thinks on behind it; who does not leave
    goes to the next stage, by the stage's own threshold. `foreseen` (0-100): a trial is written only where the question
    alone promises so much, 100 less the points that thinking on adds.
    """

    thinking_tokens: int
    threshold: float
    left: float
    last: bool = False
    foreseen: float | None = None

    @property
    def document(self) -> dict[str, object]:
        """Entry of a stage's `exits` in a router's file."""
        more = ({"last": True} if self.last else {}) | (
            {} if self.foreseen is None else {"foreseen": self.foreseen}
        )
        return {"thinking_tokens": self.thinking_tokens, "threshold": self.threshold, **more}


@dataclass(frozen=True, slots=True)
class ExitPromise:
    """Promise of exits: with probability `confidence` no more than `risk` of the answers differ from the whole model's
    (of stages that think: are worse by the judge); a share `shadow` of the inputs runs to the end. All are 0-1.
    """

    risk: float
    confidence: float
    shadow: float


@dataclass(frozen=True, slots=True)
class StagePlan(Deployed):
    """A stage with no replicas is not deployed: requests skip it.

    `config` is how its engines were simulated and are to be started; where it names a quantisation or a
    length too, the stage's own `quantization` and `max_model_len` stand. `output_ratio` is the mean length of
    its answers over the mean of all stages, so that any trace can be replayed. `weights` is what they
    load where that is not `model`. `max_tokens` is of an answer whose request sets no limit; None: the engine's own.
    `external`: somebody else's API answers instead; None too where the plan does not ask it. `exits` are those in use;
    with a `budget_field`, by which its engines are told of one, they are chosen from the question alone.

    Of a `task` that is answered in one pass: all stages of a `group` are on the same replicas, each of which has all
    their models; `accuracy` (0-100) is what the plan counts an answer for, and `batch_s` the seconds of a batch of 1,
    2, ... inputs; `batch_drawn_s` are such times as were measured, each as likely as the others, from which they are
    simulated. `at`: passes of its model end there; it is then an exit of another stage, by whose name its own begins.
    """

    name: str
    model: str
    engine: str
    _: KW_ONLY
    quantization: str | None
    max_model_len: int
    replicas: tuple[ReplicaGroup, ...]
    config: EngineConfig = field(default_factory=EngineConfig)
    output_ratio: float = 1.0
    weights: str | None = None
    balancing: Balancing = "least-outstanding"
    max_tokens: int | None = None
    external: External | None = None
    exits: tuple[ExitPlan, ...] = ()
    budget_field: str | None = None
    task: Task = "generate"
    group: str | None = None
    accuracy: float | None = None
    batch_s: tuple[float, ...] = ()
    batch_drawn_s: tuple[tuple[float, ...], ...] = ()
    at: LayerExit | None = None

    @property
    def deployed(self) -> bool:
        return self.gpus > 0 or self.external is not None

    @property
    def looks(self) -> bool:
        """Tells whether its exits ask the question alone: for a budget, or whether a trial is worth it."""
        least = [each.foreseen for each in self.exits]
        return bool(asking(least, budgets=self.budget_field is not None))


@dataclass(frozen=True, slots=True)
class JudgePlan(Deployed):
    """`prompt_tokens` is what its instructions add to question and answer; latencies and prices are those of
    a judge without GPUs of ours. `scale` and `prompt_version` are the quality table's: what its judge's scores went up
    to, and with which prompt an llm judge was asked."""

    kind: str
    placement: str
    model: str | None
    _: KW_ONLY
    engine: str
    quantization: str | None
    max_model_len: int
    replicas: tuple[ReplicaGroup, ...]
    config: EngineConfig = field(default_factory=EngineConfig)
    prompt_tokens: int = 0
    output_tokens: int = 1
    latency_p50_s: float = 0.0
    latency_p95_s: float = 0.0
    usd_per_million_input_tokens: float = 0.0
    usd_per_million_output_tokens: float = 0.0
    weights: str | None = None
    scale: float = 100.0
    prompt_version: str | None = None
    exits: ExitPromise | None = None


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of a latency, in seconds."""

    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class StagePrediction:
    """`reached` and `accepted` are fractions of all requests; `latency` is queue plus service in this stage.

    `load` is the share of what the stage's replicas sustain that it is sent (1: as much as they ever could; None in
    plans older than version 3). `utilisation` is the busiest replica's share of time with work in hand, which is
    near 1 long before that. `tokens_per_s` counts both inputs and outputs. `tpot` is of its answers, held or not (None
    in older plans).
    """

    name: str
    reached: float
    accepted: float
    _: KW_ONLY
    rate_rps: float
    latency: Quantiles
    ttft: Quantiles
    utilisation: float
    tokens_per_s: float
    load: float | None = None
    tpot: Quantiles | None = None


@dataclass(frozen=True, slots=True)
class QualityPrediction:
    """`mean` over the table under these thresholds; `lower` holds with probability `confidence`. `score` is the judge's
    mean of these answers (None: older plans, models that answer in one pass).
    """

    mean: float
    lower: float
    confidence: float
    method: str
    questions: int
    score: float | None = None


@dataclass(frozen=True, slots=True)
class LevelPrediction:
    """A service level of the objective, what is reached at its quantile, and by which share (0-1) it is attained."""

    metric: Metric
    quantile: float
    max_s: float
    reached_s: float
    attained: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """`stage_bound_s` is the allocation's own objective (the largest stage quantile), `e2e` is simulated.

    `ttft` and `tpot` are as clients see them (`cascadia.domain.objective.Level`). `levels` are the objective's bounds.
    `usd_per_hour_elsewhere` is the part of `usd_per_hour` that stages and a judge elsewhere charge by the token.
    `score_mean` is the judge's mean score of the answers given (None in older plans).
    """

    e2e: Quantiles
    ttft: Quantiles
    objective_s: float
    stage_bound_s: float
    quality: QualityPrediction
    stages: tuple[StagePrediction, ...]
    judge: StagePrediction | None
    rate_rps: float
    usd_per_hour: float
    usd_per_1k_requests: float
    tpot: Quantiles | None = None
    levels: tuple[LevelPrediction, ...] = ()
    usd_per_hour_elsewhere: float = 0.0
    score_mean: float | None = None

    def rates_rps(self) -> dict[str, float]:
        """Requests a second that the traffic asks of each stage, and of the judge under `judge`."""
        rates = {stage.name: stage.rate_rps for stage in self.stages}
        return rates if self.judge is None else {**rates, "judge": self.judge.rate_rps}


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof of the allocation of the GPUs alone: for the plan's thresholds and latency tables, `bound_s` is the
    least quantile that the slowest stage can have. `incumbent` is a solution without proof.

    Of the plan's own goal nothing is proven: it is the best of so many deployments `tried`, each simulated end to end
    (0: not told, by an older version). `rate_bound_rps`: more requests a second no replicas carry for long that the
    pools and the budget hold, by the plan's thresholds (None: not told, or no GPU is needed).
    """

    status: Literal["optimal", "incumbent"]
    formulation: Literal["columns", "paper", "kairos"]
    objective_s: float
    bound_s: float
    gap: float
    tried: int = 0
    rate_bound_rps: float | None = None


@dataclass(frozen=True, slots=True)
class PoolCalibration:
    """Evidence for a stage's times on `pool`: constants of `engine` (in `version`, at `precision`) on `gpu`.

    `basis` is what they were fitted to: `own` (measured by the user), `served` (a whole engine), `kernels` alone,
    `generic` (the GPU's generation), `unmeasured` (data sheets). `match` says how near that is to what is planned. The
    errors are mean shares by which the time per output token and to the first token are off: of models that the fit
    had not seen where `held_out`, else of what stood in elsewhere (docs/benchmarks/fidelity.md). `beyond` tells what
    the plan does that was not measured.
    """

    pool: str
    calibration: str
    gpu: str
    engine: str
    version: str
    precision: str
    served: bool
    basis: Literal["own", "served", "kernels", "generic", "unmeasured"]
    match: str
    error_tpot: float
    error_ttft: float
    held_out: bool
    beyond: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StageCalibration(PoolCalibration):
    """Calibration on the pool that serves most of the stage's requests; its further pools are in `others`."""

    others: tuple[PoolCalibration, ...] = ()

    @property
    def pools(self) -> tuple[PoolCalibration, ...]:
        return (self, *self.others)


@dataclass(frozen=True, slots=True)
class ErrorRange:
    """The objective's quantile with all times as much shorter (`fast_s`), or longer, as their calibrations err.

    `slow_holds`: that slow the deployment still carries its traffic for as long as it goes on (`Stability`).
    """

    fast_s: float
    slow_s: float
    slow_holds: bool = True


@dataclass(frozen=True, slots=True)
class QuestionRange:
    """The objective's quantile where the same traffic asks other questions of the table's kind: at least `low_s`, and
    at most `high_s`, with probability `confidence` each. `high_holds`: there the deployment still carries its traffic.
    """

    low_s: float
    high_s: float
    confidence: float
    high_holds: bool = True


@dataclass(frozen=True, slots=True)
class Peak:
    """Largest rate of the plan's trace within windows of `span_s`, `times` that of the quarter of an hour around."""

    span_s: float
    times: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Replicas that keep the plan's bounds at `times` its rate: by stage, `judge` among them, as many of each of its
    groups."""

    times: float
    replicas: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Scaling:
    """Replicas by rate, as simulated; `scales` by rising rate."""

    peaks: tuple[Peak, ...]
    scales: tuple[Scale, ...]


@dataclass(frozen=True, slots=True)
class ForesightPlan:
    """Heads that tell of the question alone, in a file with the SHA-256 `digest`; they take `latency_s` a request."""

    digest: str
    latency_s: float


@dataclass(frozen=True, slots=True)
class Mixture:
    """A `share` (0-1) of the requests, in turn, goes by these thresholds and `skip_below` instead of the plan's own.
    In both, a stage that only the other routing uses has 101 for either: it is not asked."""

    share: float
    thresholds: tuple[float, ...]
    skip_below: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Stability:
    """Outcome of playing the trace `repeats` times end to end (docs/models/planner.md, "Stability").

    One round is the trace `rounds` times over, more than once where it is short beside its latencies. `objective` is
    the objective's own quantile. `backlog` is how many requests are in hand, over all stages, at the end of the first
    three and of the last three rounds.
    """

    repeats: int
    rounds: int
    p95_once_s: float
    _: KW_ONLY
    p95_repeated_s: float
    objective_once_s: float
    objective_repeated_s: float
    backlog_first: float
    backlog_last: float


@dataclass(frozen=True, slots=True)
class UntilCertified:
    """The plan before its exits are certified, when nobody leaves: latency (`objective_s`: the objective's quantile),
    mean quality, dollars an hour; it takes `requests`, at least, to certify the first setting. `why` it does not hold;
    empty where it does.
    """

    e2e: Quantiles
    objective_s: float
    quality: float
    usd_per_hour: float
    requests: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeLoss:
    """The rest of the promise when the pool's worst node, of `gpus` in use, is gone, until another takes its place.

    `rate_rps` is what the rest carries for as long as it goes on; `latency_s` (the objective's quantile) and `quality`
    (mean) are at that rate, or at the plan's where it is more. `without`: stages that have no replica left. `gear`:
    that which then serves (None: the plan has but one). `interruptions_per_day`: of all the pool's nodes in use; 0 on
    demand.
    """

    pool: str
    gpus: int
    interruptions_per_day: float = 0.0
    without: tuple[str, ...] = ()
    rate_rps: float = 0.0
    latency_s: float | None = None
    quality: float | None = None
    gear: int | None = None


@dataclass(frozen=True, slots=True)
class WorkloadRules:
    """Rules by which a trace became the plan's requests, as in the spec's `workload`.

    `trace_digest` (SHA-256) tells on which trace a replay takes `max_requests` and `rate_rps` too.
    """

    trace_digest: str = ""
    rate_rps: float | None = None
    lengths: Literal["trace", "table"] | None = None
    max_requests: int | None = None
    max_input_tokens: int | None = None
    overlong: Literal["truncate", "error"] = "truncate"


@dataclass(frozen=True, slots=True)
class Plan:
    """`thresholds[i]` belongs to stage i (all but the last): accept iff score >= threshold; > 100 accepts none.

    So does `skip_below[i]`: the stage is not asked where less quality is expected of it by the question alone; 0 skips
    none; empty: the router's own settings stand. `foresight` says by which heads; None: the judge's. `mixture` is
    another routing for a share of the requests. `gears` are settings for rising load, `under_load` what becomes of
    requests beyond them; None: the router's own settings stand. `headroom` is the largest factor of the rate that is
    carried under the test of `stability`. `calibrations` are by stage, and under `judge` of one with GPUs. `losses`
    have an entry a pool. `scaling` tells the replicas at other rates. `exits` is the promise by which exits are in
    force; None: those of stages that think are as they are. `until_certified` is the plan before. `policies` have an
    entry a group of stages that answer in one pass.
    """

    version: int
    objective: Objective
    cluster: Cluster
    _: KW_ONLY
    thresholds: tuple[float, ...]
    stages: tuple[StagePlan, ...]
    judge: JudgePlan
    predicted: Predicted
    gears: tuple[Gear, ...]
    proof: Proof
    seed: int
    digest: str
    wall_s: float
    skip_below: tuple[float, ...] = ()
    foresight: ForesightPlan | None = None
    calibrations: dict[str, StageCalibration] = field(default_factory=dict)
    error_range: ErrorRange | None = None
    question_range: QuestionRange | None = None
    scaling: Scaling | None = None
    stability: Stability | None = None
    headroom: float | None = None
    mixture: Mixture | None = None
    under_load: UnderLoad | None = None
    policies: tuple[Policies, ...] = ()
    losses: tuple[NodeLoss, ...] = ()
    exits: ExitPromise | None = None
    until_certified: UntilCertified | None = None
    workload: WorkloadRules | None = None

    @property
    def held_s(self) -> float:
        """The objective's quantile of the trace once, or of its repeats where that is larger: the least bound kept."""
        once_s = self.predicted.objective_s
        return once_s if self.stability is None else max(once_s, self.stability.objective_repeated_s)

    @property
    def groups(self) -> tuple[ReplicaGroup, ...]:
        """Replica groups of all stages, then the judge's; those that stages share are there once."""
        sharing: set[str | None] = set()
        found: list[ReplicaGroup] = []
        for stage in self.stages:
            if stage.group is None or stage.group not in sharing:
                found += stage.replicas
            if stage.deployed:
                sharing.add(stage.group)
        return (*found, *self.judge.replicas)

    def gpus_by_pool(self) -> dict[str, int]:
        """GPUs that the plan takes of each of the cluster's pools."""
        taken = {pool.name: 0 for pool in self.cluster.pools}
        for group in self.groups:
            taken[group.pool] += group.gpus
        return taken

    @property
    def gpus(self) -> int:
        return sum(group.gpus for group in self.groups)

    def usd_per_hour_of(self, groups: Iterable[ReplicaGroup]) -> float:
        """Price of some of its replicas: with their part of what idles on nodes that are rented whole."""
        return sum(group.gpus * self._usd_per_gpu_hour(group.pool) for group in groups)

    def _usd_per_gpu_hour(self, name: str) -> float:
        pool = self.cluster.pool(name)
        if not pool.rented:
            return pool.paid_usd_per_gpu_hour
        return pool.rented * pool.usd_per_unit_hour / self.gpus_by_pool()[name]

    @property
    def judges(self) -> bool:
        """Tells whether any answer waits for a verdict; where the question alone decides who answers, none
        does.
        """
        deployed = [stage.deployed for stage in self.stages]
        if not any(deployed):
            return False
        last = len(deployed) - 1 - deployed[::-1].index(True)
        if any(not each.last for stage in self.stages if stage.deployed for each in stage.exits):
            return True
        asked = [deployed[:last]] * len(self.routings)
        settings = list(self.routings)
        if len(self.gears) > 1 and self.mixture is None:
            settings = [(gear.thresholds, gear.skip_below) for gear in self.gears]
            asked = [[stage.name in gear.stages[:-1] for stage in self.stages] for gear in self.gears]
        return any(
            level > 0 and here and not (skips and skips[at] >= ASKS_NONE)
            for (thresholds, skips), by in zip(settings, asked, strict=True)
            for at, (level, here) in enumerate(zip(thresholds, by, strict=False))
        )

    @property
    def asks_judge(self) -> bool:
        """Tells whether the router asks the judge anything: for a verdict, or, where no heads tell it, what it foresees
        of the question.
        """
        return self.judges or (self.foresees and self.foresight is None)

    @property
    def foresees(self) -> bool:
        """Tells whether a stage is skipped for some questions by what is foreseen of them."""
        skips = [skips for _, skips in self.routings] + [gear.skip_below for gear in self.gears]
        return any(0 < least < ASKS_NONE for each in skips for least in each)

    @property
    def routings(self) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]:
        """Thresholds and `skip_below` of the plan's own routing, and of the one that it is mixed with."""
        own = self.thresholds, self.skip_below
        return (own,) if self.mixture is None else (own, (self.mixture.thresholds, self.mixture.skip_below))

    def places(self, name: str, config: EngineConfig) -> int:
        """Requests that a replica of a stage, or of the judge, has at most.

        Its engine's batch, of all its ranks, and as many in its queue, so that it never waits for the router; its batch
        alone where requests wait at the router for the replica that suits them. No more than a router's file takes.
        """
        batch = config.max_num_seqs * config.attention_dp
        matched = any(stage.name == name and stage.balancing == "matching" for stage in self.stages)
        return min(batch if matched else 2 * batch, MOST_PLACES)

    def stage_document(self, name: str) -> dict[str, Any]:
        """Entries of a stage in a router's file beside its addresses, its threshold and its price.

        How its replicas share its requests, where that is not by what they have in hand; the limit of an answer whose
        request sets none; where gears go by what is lost of it, the share of what its replicas sustain that they are
        sent; and its exits.
        """
        stage = next(stage for stage in self.stages if stage.name == name)
        load = next((stage.load for stage in self.predicted.stages if stage.name == name), None)
        shared = stage.balancing != "least-outstanding"
        told = {
            "balancing": stage.balancing if shared else None,
            "latency_max_s": self.objective.latency_max_s if shared else None,
            "max_tokens": stage.max_tokens,
            "load": round(load, 4) or None if load and len(self.gears) > 1 else None,
            "exits": [each.document for each in stage.exits] or None,
            "echoes": stage.engine == LLAMA_CPP or None if stage.exits else None,
            "budget_field": stage.budget_field if stage.exits else None,
        }
        return {key: value for key, value in told.items() if value is not None}

    def mixture_document(self) -> dict[str, object]:
        """The section `mixture` of a router's file; empty where none is mixed."""
        if (told := self.mixture_by_stage) is None:
            return {}
        return {"mixture": dict(zip(("share", "thresholds", "skip_below"), told, strict=True))}

    def gears_document(self) -> dict[str, object]:
        """The section `gears` of a router's file; empty where one setting serves any load."""
        if len(self.gears) < 2:
            return {}
        gates = [(i, stage.name) for i, stage in enumerate(self.stages[:-1]) if stage.deployed]
        return {
            "gears": [
                {
                    "max_in_flight": gear.max_in_flight,
                    "stages": list(gear.stages),
                    "thresholds": {name: gear.thresholds[i] for i, name in gates if name in gear.stages},
                    "skip_below": {name: gear.skip_below[i] for i, name in gates if name in gear.stages}
                    if gear.skip_below
                    else {},
                }
                for gear in self.gears
            ]
        }

    def under_load_document(self) -> dict[str, object]:
        """The section `under_load` of a router's file; empty where the plan says nothing of it."""
        return {} if self.under_load is None else {"under_load": {"then": self.under_load.then}}

    def exits_document(self) -> dict[str, object]:
        """The section `exits` of a router's file; empty where no stage has exits, or they are in force as they are."""
        if self.exits is None or not any(stage.exits for stage in self.stages if stage.deployed):
            return {}
        return {"exits": asdict(self.exits)}

    def routing_document(self) -> dict[str, object]:
        """Sections of a router's file that say by which settings requests go, beside the stages' own."""
        others = {**self.under_load_document(), **self.exits_document()}
        return {**self.mixture_document(), **self.gears_document(), **others}

    @property
    def mixture_by_stage(self) -> tuple[float, dict[str, float], dict[str, float]] | None:
        """Share, thresholds and `skip_below` of the mixture, of deployed stages that have a gate."""
        if self.mixture is None:
            return None
        gates = [(i, stage.name) for i, stage in enumerate(self.stages[:-1]) if stage.deployed]
        thresholds = {name: self.mixture.thresholds[i] for i, name in gates}
        return self.mixture.share, thresholds, {name: self.mixture.skip_below[i] for i, name in gates}

    def skips(self, stage: str) -> float | None:
        """Quality, by the question alone, below which the stage is not asked; None where it always is."""
        at = next(i for i, each in enumerate(self.stages) if each.name == stage)
        return (self.skip_below[at] or None) if at < len(self.skip_below) else None

    def foreseen_from(self, stage: str) -> float | None:
        """Level as in `skips`, of stages that the question decides about; None where the stage is asked always
        or never.
        """
        least = self.skips(stage)
        return None if least is None or least >= ASKS_NONE else least
