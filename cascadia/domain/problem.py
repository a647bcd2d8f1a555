"""All that a plan is made from, read and joined."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

from cascadia.domain.cluster import Cluster
from cascadia.domain.external import External
from cascadia.domain.objective import GearRule, Objective, UnderLoad
from cascadia.domain.plan import Balancing, ExitPromise, WorkloadRules
from cascadia.domain.points import Exit, Points
from cascadia.domain.quality import Ints, QualityTable
from cascadia.domain.workload import Workload
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.speculation import Speculation
from cascadia_sim.models.architecture import Architecture

UNKNOWN_CONTEXT = 1_000_000
"""Tokens that an API is taken to accept where its spec does not say."""

Engine = Literal["vllm", "sglang", "trtllm", "llama.cpp"]
EXTERNAL: Literal["external"] = "external"
"""In place of an engine, of a stage that is somebody else's API."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One model of the cascade. `model` is as the user wrote it; `quantization` as well (None: unquantised).

    `weights` is what the engine loads where that is not `model`: a hub's id, or an absolute path.
    `searches_batch_tokens`: the planner may choose another `max_num_batched_tokens` than `config`'s. `may_draft`: it
    may choose fewer drafts than these, or none (None: as `config` says). `max_tokens` is the router's, of an answer
    whose request sets no limit; lengths are the trace's and the table's all the same.
    `external` stages have no architecture, and are asked over the network.
    """

    name: str
    model: str
    architecture: Architecture | None
    _: KW_ONLY
    engine: Engine | Literal["external"]
    quantization: str | None
    config: EngineConfig
    weights: str | None = None
    searches_batch_tokens: bool = False
    may_draft: Speculation | None = None
    balancing: Balancing = "least-outstanding"
    max_tokens: int | None = None
    external: External | None = None
    exits: tuple[Exit, ...] = ()
    budget_field: str | None = None
    """Where its exits are budgets, chosen from the question: the field by which its engine is told of one."""

    @property
    def built(self) -> Architecture:
        """Architecture of a stage on GPUs of ours."""
        assert self.architecture is not None
        return self.architecture

    @property
    def max_model_len(self) -> int:
        """Longest context served, in tokens."""
        return self.config.max_model_len or (
            self.architecture.max_position if self.architecture else UNKNOWN_CONTEXT
        )


@dataclass(frozen=True, slots=True)
class Judge:
    """Judge that scores an answer at a gate.

    `llm` self-hosted takes GPUs (`architecture` and `config` are set); `llm` external has a latency
    distribution (lognormal through the two quantiles) and a price per million tokens; `embedding` and
    `certainty` run on the router's CPU, and `probe` beside the engine, in `latency_p50_s`. `prompt_tokens` is what
    the judge's instructions add to question and answer; `output_tokens` is the length of a verdict.
    `searches_batch_tokens`: as a stage's.
    """

    kind: Literal["llm", "embedding", "probe", "certainty"]
    placement: Literal["self-hosted", "external", "router"]
    model: str | None = None
    architecture: Architecture | None = None
    quantization: str | None = None
    config: EngineConfig | None = None
    engine: Engine = "vllm"
    prompt_tokens: int = 0
    output_tokens: int = 1
    latency_p50_s: float = 0.0
    latency_p95_s: float = 0.0
    usd_per_million_input_tokens: float = 0.0
    usd_per_million_output_tokens: float = 0.0
    weights: str | None = None
    searches_batch_tokens: bool = False
    exits: ExitPromise | None = None


@dataclass(frozen=True, slots=True)
class Foresight:
    """Forecast from the question alone of how good each stage's answer will be: heads in a file with the
    SHA-256 `digest`.

    It takes the router `latency_s` a request, once, where a plan skips any stage.
    """

    digest: str
    latency_s: float = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Uncertified:
    """State before exits are certified: nobody leaves. Answers as in `quality`, of `output_tokens` (S, n), under the
    `objective` as it was asked.
    """

    quality: QualityTable
    output_tokens: Ints
    objective: Objective


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The planner's input. `digest` (SHA-256) identifies it; equal digests and seeds give equal plans.

    `foresight` is None where the judge itself foresees, or nothing does.
    `gears` is how many settings for rising load the plan may have; 1: its own serves any load. `gear_rule` says of
    which requests enough are to be in time: of all, or of those that come at each level of load. `under_load`: None
    where the spec says nothing of it. `points`: the table with the rows of all exits; None where no stage has any.
    `exits`: the promise by which they are certified. `uncertified`: the state until then, in which a deployment must
    hold too; None where nothing is promised.
    `rules`: how a trace became the workload; None where no spec was read.
    `asked`: whose bounds are to be kept when the trace goes on, where the search is for another objective, e.g. what is
    nearly as fast as the fastest; None: the `objective`.
    `offered`: what there is to be rented, where the `cluster` is what a budget could rent of it; None: the same.
    `notes` are sentences for the user about what reading had to assume, e.g. inputs cut to a model's context.
    """

    stages: tuple[Stage, ...]
    cluster: Cluster
    judge: Judge
    _: KW_ONLY
    workload: Workload
    quality: QualityTable
    objective: Objective
    confidence: float
    seed: int
    digest: str
    notes: tuple[str, ...] = ()
    foresight: Foresight | None = None
    gears: int = 1
    gear_rule: GearRule = "whole-trace"
    under_load: UnderLoad | None = None
    points: Points | None = None
    exits: ExitPromise | None = None
    uncertified: Uncertified | None = None
    rules: WorkloadRules | None = None
    asked: Objective | None = None
    offered: Cluster | None = None

    @property
    def until_certified(self) -> "Problem | None":
        """The problem of the state before exits are certified."""
        first = self.uncertified
        if first is None:
            return None
        workload = replace(self.workload, output_tokens=first.output_tokens)
        return replace(
            self, workload=workload, quality=first.quality, objective=first.objective, uncertified=None
        )

    @property
    def quality_floor(self) -> float | None:
        """Least quality of a gear, where the spec says one."""
        return None if self.under_load is None else self.under_load.quality_floor

    @property
    def foresight_s(self) -> float:
        """Seconds for which the question is looked at beforehand: by heads of its own, else by the judge."""
        return self.judge.latency_p50_s if self.foresight is None else self.foresight.latency_s
