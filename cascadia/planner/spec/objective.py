"""Objective of a spec: its goal, and what must hold beside it."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from cascadia.domain.objective import Goal, Level, Metric, bar_of_a_hundred
from cascadia.planner.spec.models import Section, share

Preset = Literal["chat", "code-completion", "batch", "agent"]

PRESETS: dict[Preset, tuple[Level, ...]] = {
    "chat": (Level("ttft", 0.95, 2.0), Level("tpot", 0.95, 0.1)),
    "code-completion": (Level("ttft", 0.95, 0.5), Level("e2e", 0.95, 2.0)),
    "agent": (Level("e2e", 0.95, 30.0),),
    "batch": (),
}
"""Service levels by kind of use. Somebody reads a chat along: MLPerf Inference's server scenario asks of Llama-2-70B a
TTFT of 2 s and 200 ms a token, and half of that reads well above anybody's pace. Code is completed while somebody waits
to type on. An agent reads whole answers only, and makes many calls in a row. A batch has nobody who waits."""


class LevelSpec(Section):
    """Service level: so large a share of the requests keeps a metric within a bound, as its client sees it."""

    metric: Metric = Field(
        description=(
            "`ttft`, the time to the first token; `tpot`, that per output token after it; `e2e`, that to the whole "
            "answer. A client whose answer waits for a verdict gets it all at once, when the verdict is there: its "
            "TTFT is then, and its TPOT 0."
        )
    )
    quantile: float | None = Field(
        None, gt=0, lt=1, description="Share of the requests that keep it, 0-1. Default: 0.95."
    )
    attainment: float | None = Field(
        None, gt=0, lt=1, description="Another word for `quantile`, also as a percentage (`95%`)."
    )
    max_s: float = Field(gt=0, le=1e6, description="Largest value, in seconds.")

    @field_validator("attainment", mode="before")
    @classmethod
    def _share(cls, value: object) -> object:
        return share(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_share(self) -> "LevelSpec":
        if self.quantile is not None and self.attainment is not None:
            raise ValueError("quantile and attainment say the same; keep one of them")
        return self

    @property
    def level(self) -> Level:
        return Level(self.metric, self.quantile or self.attainment or 0.95, self.max_s)


class ObjectiveSpec(Section):
    minimize: Literal["latency", "cost"] | None = Field(None, description="What to make small.")
    maximize: Literal["quality", "rate"] | None = Field(
        None,
        description="What to make large, at the least cost; `rate`: how fast the trace is played at most.",
    )
    quantile: float = Field(
        0.95, gt=0, lt=1, description="Quantile of the end-to-end latency, for both goal and limit."
    )
    quality_min: float | None = Field(
        None, ge=0, le=100, description="Least quality, of 100. Above 0 and up to 1 is refused: a fraction."
    )
    latency_max_s: float | None = Field(None, gt=0, le=1e6, description="Largest latency, in seconds.")
    levels: Annotated[tuple[LevelSpec, ...], Field(strict=False, max_length=16)] | None = Field(
        None, description="Service levels to keep, whatever the goal; they stand in for a preset's."
    )
    preset: Preset | None = Field(
        None,
        description=(
            "Levels by kind of use: `chat` (TTFT p95 2 s, TPOT p95 0.1 s), `code-completion` (TTFT p95 0.5 s, end to "
            "end p95 2 s), `agent` (end to end p95 30 s), `batch` (none). Without a goal, cost is minimised where "
            "`quality_min` is given, else quality maximised."
        ),
    )
    within: float | None = Field(
        None,
        ge=0,
        le=1,
        description=(
            "Share by which a plan may be slower than the fastest, to be cheaper: `3%` or `0.03`; 0: the fastest at "
            "any price. Default: 3%."
        ),
    )

    @field_validator("within", mode="before")
    @classmethod
    def _share(cls, value: object) -> object:
        return share(value) if isinstance(value, str) else value

    @field_validator("quality_min")
    @classmethod
    def _of_a_hundred(cls, bar: float | None) -> float | None:
        return bar_of_a_hundred(bar)

    @property
    def goal(self) -> Goal:
        if self.minimize is None and self.maximize is None:
            return "quality" if self.quality_min is None else "cost"
        return self.minimize or self.maximize or "quality"

    @property
    def kept(self) -> tuple[Level, ...]:
        """Levels to keep: those given, else the preset's."""
        if self.levels is not None:
            return tuple(each.level for each in self.levels)
        return PRESETS[self.preset] if self.preset else ()

    @property
    def has_deadline(self) -> bool:
        """Tells whether anything bounds the latency end to end."""
        return self.latency_max_s is not None or any(level.metric == "e2e" for level in self.kept)

    @model_validator(mode="after")
    def _one_goal(self) -> "ObjectiveSpec":
        if self.minimize and self.maximize:
            raise ValueError("minimize and maximize contradict each other; keep one of them")
        if not self.minimize and not self.maximize and self.preset is None:
            raise ValueError(
                "has no goal; add `minimize: latency`, `minimize: cost` or `maximize: quality`, or a preset such as"
                " `preset: chat`"
            )
        bounded = self.latency_max_s is not None or self.kept or self.preset == "batch"
        if self.goal == "quality" and not bounded:
            raise ValueError(
                "maximize quality needs a limit on latency; add `latency_max_s: <seconds>`, levels, or `preset: batch`,"
                " which has none"
            )
        if self.maximize == "quality" and self.quality_min is not None:
            raise ValueError("quality_min contradicts maximize quality; remove one of them")
        if self.goal in ("cost", "rate") and self.quality_min is None:
            goal = "minimize cost" if self.goal == "cost" else "maximize rate"
            raise ValueError(f"{goal} needs a bar on quality; add `quality_min: <0-100>`")
        if self.minimize != "latency" and self.within is not None:
            raise ValueError("within belongs to `minimize: latency`; remove it")
        if self.minimize == "latency" and self.latency_max_s is not None:
            raise ValueError(
                "latency_max_s contradicts minimize latency; remove it, or use `minimize: cost` under it"
            )
        metrics = [(level.metric, level.quantile) for level in self.kept]
        twice = next((each for each in metrics if metrics.count(each) > 1), None)
        if twice is not None:
            raise ValueError(f"two levels bound {twice[0]} at {twice[1]:g}; keep one of them")
        return self
