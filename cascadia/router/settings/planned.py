"""Section `planned` of router.yaml: what the plan predicts, for the page to set beside what is measured."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from cascadia.router.settings.model import PlannedSettings, PlannedStage

NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PlannedStageSection(_Section):
    reached: NotNegative = Field(description="Part of the requests that reach the stage.")
    answered: Share = Field(description="Part of the requests that it answers.")
    p95_s: NotNegative = Field(description="95th percentile of its own answers, queue included.")
    usd_per_hour: NotNegative = Field(0.0, description="Price of its GPUs.")
    replicas: int = Field(0, ge=0, description="Number as planned; 0 of somebody else's API.")


class PlannedSection(_Section):
    rate_rps: NotNegative = Field(description="Requests a second.")
    p50_s: NotNegative = Field(description="Median time of a whole request.")
    p95_s: NotNegative = Field(description="95th percentile of the same.")
    ttft_p95_s: NotNegative = Field(description="To the first byte.")
    quality: NotNegative = Field(description="Mean, as the plan's quality table measures it.")
    quality_lower: NotNegative = Field(description="Mean that holds with the plan's confidence.")
    score: NotNegative | None = Field(None, description="The judge's mean score of the answers given.")
    usd_per_hour: NotNegative = Field(description="Price of all GPUs, and of APIs elsewhere.")
    stages: dict[str, PlannedStageSection] = Field(default_factory=dict)
    judge: PlannedStageSection | None = None


def planned_of(document: dict[str, Any]) -> PlannedSettings:
    """Settings of a checked section."""
    stages = {name: PlannedStage(**stage) for name, stage in document.get("stages", {}).items()}
    judge = document.get("judge")
    own = {key: value for key, value in document.items() if key not in ("stages", "judge")}
    return PlannedSettings(**own, stages=stages, judge=PlannedStage(**judge) if judge else None)
