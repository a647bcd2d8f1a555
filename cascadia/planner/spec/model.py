"""`cascade.yaml` as the user writes it. Its JSON schema is `cascadia schema spec`."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from cascadia.domain.objective import GEARS, GearRule, bar_of_a_hundred
from cascadia.planner.spec.gpu import GpuChoice
from cascadia.planner.spec.models import (
    ExitPromiseSpec,
    JudgeSpec,
    Name,
    Positive,
    Section,
    StageSpec,
    Text,
    Usd,
)
from cascadia.planner.spec.objective import ObjectiveSpec
from cascadia_sim.evidence.unmeasured import is_measured
from cascadia_sim.hardware.catalogue import gpu, known_gpus

Many = Field(strict=False, min_length=1, max_length=64)  # YAML has lists; the model holds tuples


class SpotSpec(Section):
    """Price of GPUs that may be taken away."""

    usd_per_gpu_hour: Usd = Field(description="Spot price.")
    interruptions_per_day: float = Field(
        ge=0,
        le=1000,
        description="How often a node is taken away; each time it is missed for ten minutes.",
    )


class PoolSpec(Section):
    """Equal nodes with equal GPUs."""

    gpu: GpuChoice = Field(
        description=(
            "A GPU of the bundled catalogue, e.g. `h100-sxm`; or one of your own, as a mapping or as the path of a "
            "JSON or YAML file with the same keys."
        )
    )
    nodes: int = Field(ge=1, le=100_000, description="Number of nodes.")
    gpus_per_node: int = Field(8, ge=1, le=1_000, description="GPUs in each node.")
    usd_per_gpu_hour: Usd | None = Field(
        None, description="Price; the catalogue's where absent, needed for a GPU of your own."
    )
    name: Name | None = Field(None, description="Unique; the GPU's name where absent.")
    spot: SpotSpec | None = Field(
        None,
        description="Spot price, where a GPU costs less by it for the time that it is there and no plan worse.",
    )
    rent: Literal["node", "gpu"] = Field(
        "node",
        description="What a budget pays for: whole nodes, or single GPUs of nodes of any size up to `gpus_per_node`.",
    )

    @property
    def called(self) -> str:
        return self.name or (self.gpu if isinstance(self.gpu, str) else self.gpu.name)


ANY = "any"
MOST_NODES = 1000
"""Nodes of each GPU under `pools: any`, of which a budget buys a part."""


def _any_pools(value: object) -> object:
    """`any` written out: each GPU that was measured and has a list price, rented one by one."""
    if not isinstance(value, str):
        return value
    if value != ANY:
        raise ValueError(f"is {value!r}; write a list of pools, or any")
    names = [name for name in known_gpus() if is_measured(gpu(name)) and gpu(name).usd_per_hour > 0]
    size = {name: gpu(name).gpus_per_node for name in names}
    return tuple({"gpu": n, "nodes": MOST_NODES, "gpus_per_node": size[n], "rent": "gpu"} for n in names)


def _or_any(schema: dict[str, Any]) -> None:
    listed = {key: schema.pop(key) for key in ("items", "maxItems", "minItems", "type") if key in schema}
    schema["anyOf"] = [listed, {"const": ANY}]


class ClusterSpec(Section):
    pools: Annotated[tuple[PoolSpec, ...], BeforeValidator(_any_pools), Many] = Field(
        description=(
            "What there is to deploy on; `any`: each GPU that the bundled calibrations measured, at its list price, as "
            "many as the budget buys."
        ),
        json_schema_extra=_or_any,
    )
    budget_usd_per_hour: Usd | None = Field(
        None,
        description=(
            "Most that the nodes in use may cost together, each whole; the plan says how many of each pool to rent. "
            "Default: no limit but the pools' sizes; `pools: any` needs one."
        ),
    )


class WorkloadSpec(Section):
    trace: Text = Field(description="Path of the trace: Parquet, CSV or JSONL, public formats too.")
    format: Text | None = Field(None, description="The trace's format, where it is not recognised.")
    rate_rps: float | None = Field(
        None, gt=0, le=1e7, description="Rescale arrivals to this mean rate; the trace's own where absent."
    )
    lengths: Literal["trace", "table"] | None = Field(
        None,
        description=(
            "Source of token counts: the trace's, each stage's output scaled by the table's ratio of its mean to that "
            "over stages, or the quality table's. Default: `table` where prompt ids join, else `trace`."
        ),
    )
    max_requests: Annotated[int, Field(ge=2)] | None = Field(
        None, description="Use only the first so many requests."
    )
    max_input_tokens: Positive | None = Field(None, description="Cut longer inputs to this length.")
    overlong: Literal["truncate", "error"] = Field(
        "truncate",
        description=(
            "Requests longer than a stage's context: cut their input to fit and say how many (`truncate`), "
            "or stop (`error`)."
        ),
    )


class QualitySpec(Section):
    table: Text = Field(description="Path of the quality table: Parquet, CSV or JSONL.")
    scale: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description=(
            "What its scores go up to, e.g. 10; needed where they never exceed 10, unless `cascadia profile quality` "
            "wrote the file. A column `quality` may be of 100 all the same, or 0 and 1 for wrong and right."
        ),
    )
    foresight: Text | None = Field(
        None,
        description=(
            "File of `cascadia judge train --foresight`: what the question alone promises of each stage's answer. "
            "Plans may then pass a stage over, or choose one model beforehand."
        ),
    )
    confidence: float = Field(
        0.95, ge=0.5, lt=1, description="Probability with which `quality_min` holds for unseen prompts."
    )


class UnderLoadSpec(Section):
    """Rules for what may give way where more comes than the plan's own setting carries."""

    quality_floor: float | None = Field(
        None,
        ge=0,
        le=100,
        description=(
            "Least quality of any gear, of 100, with the table's confidence; `quality_min` still holds for all "
            "requests together. Default: `quality_min`, so that nothing goes below it."
        ),
    )
    then: Literal["queue", "refuse"] = Field(
        "queue",
        description="What does not fit even in the lightest gear waits (`queue`) or is refused (`refuse`).",
    )

    @field_validator("quality_floor")
    @classmethod
    def _of_a_hundred(cls, floor: float | None) -> float | None:
        return bar_of_a_hundred(floor)


class GearsSpec(Section):
    """Settings for rising load on the same replicas, between which the router goes at once."""

    count: int = Field(
        GEARS, ge=1, le=64, description="Largest number of them; 1: one setting serves any load."
    )
    rule: GearRule = Field(
        "whole-trace",
        description=(
            "Requests of which enough are to be in time: those of the whole trace (the better quality), or at each of "
            "its levels of load those that come then, as CascadeServe has it."
        ),
    )


class Spec(Section):
    """Spec of what to plan: models, GPUs, judge, workload, quality and objective."""

    stages: Annotated[tuple[StageSpec, ...], Field(strict=False, min_length=1, max_length=5)] = Field(
        description="The cascade's models, from small to large."
    )
    cluster: ClusterSpec = Field(description="The GPUs.")
    judge: JudgeSpec = Field(description="How answers are scored at the gates.")
    workload: WorkloadSpec = Field(description="The requests.")
    quality: QualitySpec = Field(description="How good each stage's answers are.")
    objective: ObjectiveSpec = Field(description="What to optimise, and within which bounds.")
    under_load: UnderLoadSpec | None = Field(
        None, description="What may give way where more comes than the plan's own setting carries."
    )
    gears: GearsSpec | None = Field(
        None,
        description=(
            "Settings for rising load. Default: at most 8 where the objective bounds latency, else one setting for any "
            "load."
        ),
    )
    exits: ExitPromiseSpec | None = Field(
        None,
        description=(
            "Promise by which stages' exits are in force; plans hold before they are certified, too. Default: none."
        ),
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of everything drawn at random.")

    @model_validator(mode="after")
    def _exits_that_are_promised(self) -> "Spec":
        if self.exits is None:
            return self
        if not any(stage.exits for stage in self.stages):
            raise ValueError(
                "exits promises something of exits, and no stage has any; remove it, or list a stage's"
            )
        if self.exits.shadow <= 0:
            raise ValueError("exits.shadow is 0, so that no exit is ever certified; write e.g. 10%")
        return self

    @model_validator(mode="after")
    def _gears_have_a_bound(self) -> "Spec":
        floor = self.under_load.quality_floor if self.under_load else None
        bar = self.objective.quality_min
        if floor is not None and bar is not None and floor > bar:
            raise ValueError(
                f"under_load.quality_floor {floor:g} is above objective.quality_min {bar:g}; write at most {bar:g}"
            )
        asked = self.gears is not None and self.gears.count > 1
        if asked and not self.objective.has_deadline and self.under_load is None:
            raise ValueError(
                "gears need to know what is too slow or what may give way; add objective.latency_max_s or under_load,"
                " or write gears: {count: 1}"
            )
        return self

    @property
    def gear_count(self) -> int:
        """Number of settings for rising load that the plan may have."""
        if self.gears is not None:
            return self.gears.count
        return GEARS if self.objective.has_deadline or self.under_load is not None else 1

    @property
    def gear_rule(self) -> GearRule:
        return "whole-trace" if self.gears is None else self.gears.rule

    @field_validator("stages")
    @classmethod
    def _distinct_names(cls, stages: tuple[StageSpec, ...]) -> tuple[StageSpec, ...]:
        names = [stage.name for stage in stages]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two stages are called {twice!r}; give each its own name")
        return stages

    @field_validator("cluster")
    @classmethod
    def _distinct_pools(cls, cluster: ClusterSpec) -> ClusterSpec:
        names = [pool.name for pool in cluster.pools if pool.name is not None]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two pools are called {twice!r}; give each its own name")
        return cluster
