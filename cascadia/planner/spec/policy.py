"""The spec of models that answer in one pass, as `cascadia policy` reads it."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from cascadia.domain.objective import bar_of_a_hundred
from cascadia.planner.spec.model import Many
from cascadia.planner.spec.models import ExitPromiseSpec, Name, Section, StageName, Text, Usd, share

NO_CASCADE_OF_EMBEDDINGS = (
    "embeddings of two models cannot be compared, so they do not cascade; write task: classify or rerank, and serve an "
    "embedding model by a router.yaml of its own"
)


class LayerExitSpec(Section):
    layer: int = Field(ge=1, le=9999, description="Counted from 1; below the model's last.")


class OnePassStage(Section):
    name: StageName = Field(description="Unique; what the latency table and requests call it.")
    model: Text | None = Field(
        None,
        description="Folder that `cascadia engine make` wrote, of which `cascadia up` starts engines. Default: none, "
        "and then only `cascadia policy` reads the spec.",
    )
    task: Literal["classify", "rerank"] = Field("classify", description="What it answers in one pass.")
    engine: Literal["onnxruntime", "vllm", "sglang"] = Field(
        "onnxruntime", description="Serving engine; only `onnxruntime` has several models in one process."
    )
    group: StageName | None = Field(None, description="Models of one group run on the same workers.")
    accuracy: float | None = Field(
        None,
        ge=0,
        le=100,
        description="Share of right answers on a test set, in percent. Default: what `cascadia engine measure` found.",
    )
    memory_gib: float | None = Field(
        None, gt=0, le=1e6, description="Memory that the model takes on a worker, batches included."
    )

    exits: Annotated[tuple[LayerExitSpec, ...], Field(strict=False, max_length=64)] = Field(
        (),
        description="Layers behind which passes may end, by policies: each as it was measured by `cascadia engine "
        "measure --exits`, for all inputs or for the surest. The model needs ramps, of `cascadia exits train`.",
    )

    @model_validator(mode="after")
    def _with_measured_exits(self) -> "OnePassStage":
        if not self.exits:
            return self
        if self.task != "classify":
            raise ValueError("exits are of models that classify; leave them out of a reranker")
        if self.accuracy is not None:
            raise ValueError(
                "exits are planned by measured accuracies; leave accuracy out, and measure the model with "
                "`cascadia engine measure --exits --texts`"
            )
        layers = [each.layer for each in self.exits]
        if layers != sorted(set(layers)):
            raise ValueError("exits are not in order; list each layer once, by rising layer")
        return self

    @field_validator("task", mode="before")
    @classmethod
    def _answers_alone(cls, task: object) -> object:
        if isinstance(task, str) and task.startswith("embed"):
            raise ValueError(NO_CASCADE_OF_EMBEDDINGS)
        return task


class WorkerSpec(Section):
    kind: Name = Field("worker", description="What the latency table calls it.")
    gpu: Text = Field(
        "cpu", description="What a worker is: `cpu`, a core, or a GPU's name in the bundled catalogue."
    )
    most: int = Field(ge=1, le=1000, description="Workers of this kind that may be used.")
    usd_per_hour: Usd = Field(0.0, description="Price of one.")
    memory_gib: float | None = Field(None, gt=0, le=1e6, description="Memory that its models share.")


class OnePassWorkload(Section):
    trace: Text | None = Field(None, description="Path of a trace; its arrival times are used.")
    format: Text | None = Field(None, description="The trace's format, where it is not recognised.")
    rate_rps: float | None = Field(None, gt=0, le=1e7, description="Mean rate; the trace's own where absent.")
    gap_shape: float = Field(
        1.0,
        gt=0.01,
        le=100,
        description="Without a trace: gaps between arrivals are gamma of this shape. 1 is Poisson, below 1 bursty.",
    )
    documents: int | None = Field(
        None,
        ge=1,
        le=1023,
        description="Documents of a ranking, at most: of models that rerank, its time is that of a batch of these and "
        "the query. Needed there.",
    )
    requests: int = Field(
        100_000,
        ge=1000,
        le=10_000_000,
        description="Without a trace: how many arrivals are drawn, at least those of 10 s and of 40 times "
        "`latency_max_s`; policies are made on them, and judged by four times as many others.",
    )

    @model_validator(mode="after")
    def _says_the_rate(self) -> "OnePassWorkload":
        if self.trace is None and self.rate_rps is None:
            raise ValueError("says neither a trace nor a rate; add `trace: <path>` or `rate_rps: <number>`")
        return self


class OnePassObjective(Section):
    minimize: Literal["cost"] | None = Field(None, description="The cheapest, then the fewest, workers.")
    maximize: Literal["quality"] | None = Field(None, description="The most accuracy on all workers.")
    quality_min: float | None = Field(None, ge=0, le=100, description="Least mean accuracy, of 100.")
    latency_max_s: float = Field(gt=0, le=3600, description="Time for an answer, in seconds.")
    late_max: float = Field(0.01, ge=0, lt=1, description="Share that may be later, e.g. `1%`.")
    late: Literal["serve", "drop"] = Field(
        "serve", description="What no model can answer in time is served all the same, or refused."
    )

    @field_validator("quality_min")
    @classmethod
    def _of_a_hundred(cls, bar: float | None) -> float | None:
        return bar_of_a_hundred(bar)

    @field_validator("late_max", mode="before")
    @classmethod
    def _share(cls, value: object) -> object:
        return share(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_goal(self) -> "OnePassObjective":
        if (self.minimize is None) == (self.maximize is None):
            raise ValueError("needs one goal; write `minimize: cost` or `maximize: quality`")
        if self.minimize and self.quality_min is None:
            raise ValueError("minimize cost needs a bar on quality; add `quality_min: <0-100>`")
        if self.maximize and self.quality_min is not None:
            raise ValueError("quality_min contradicts maximize quality; remove one of them")
        return self


class PolicySpec(Section):
    """Spec of a group of models that answer in one pass: models, workers, traffic and objective."""

    stages: Annotated[tuple[OnePassStage, ...], Many] = Field(description="The models.")
    latency: Text = Field(
        description="Path of what `cascadia engine measure --out` wrote (.json), or of a table: Parquet, CSV or "
        "JSONL with stage, batch, latency_s and, where there are several kinds of workers, worker."
    )
    workers: Annotated[tuple[WorkerSpec, ...], Many] = Field(description="Kinds of workers to choose from.")
    workload: OnePassWorkload = Field(description="The requests.")
    objective: OnePassObjective = Field(description="What to optimise, and within which bounds.")
    batching: Literal["maximal", "variable"] = Field(
        "maximal",
        description="Batches of a solved policy: all that is queued, or with `variable` a part of it where that is "
        "better, which takes minutes to solve; for up to 4 workers, and where late requests are served.",
    )
    exits: ExitPromiseSpec | None = Field(
        None,
        description="Early exits, which engines are started with; plans count the whole models' times. Default: none.",
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of everything drawn at random.")

    @field_validator("stages")
    @classmethod
    def _distinct_names(cls, stages: tuple[OnePassStage, ...]) -> tuple[OnePassStage, ...]:
        names = [stage.name for stage in stages]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two stages are called {twice!r}; give each its own name")
        groups = {stage.group for stage in stages}
        if len(groups) > 1:
            told = ", ".join(sorted(str(name) for name in groups))
            raise ValueError(f"the stages are of several groups ({told}); plan one group at a time")
        return stages

    @model_validator(mode="after")
    def _one_task(self) -> "PolicySpec":
        tasks = [stage.task for stage in self.stages]
        if len(set(tasks)) > 1:
            raise ValueError("some stages classify and others rerank; plan each task by a spec of its own")
        documents = self.workload.documents
        if tasks[0] == "rerank" and documents is None:
            raise ValueError("does not say how long rankings are; add `documents: <number>` to workload")
        if tasks[0] == "classify" and documents is not None:
            raise ValueError("workload.documents says nothing to models that classify; leave it out")
        return self

    @field_validator("workers")
    @classmethod
    def _distinct_kinds(cls, workers: tuple[WorkerSpec, ...]) -> tuple[WorkerSpec, ...]:
        kinds = [worker.kind for worker in workers]
        twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
        if twice is not None:
            raise ValueError(f"two kinds of workers are called {twice!r}; give each its own name")
        return workers

    @property
    def group(self) -> str:
        return self.stages[0].group or "one-pass"
