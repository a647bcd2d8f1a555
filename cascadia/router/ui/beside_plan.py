"""The plan's predictions beside what is measured, row by row, for the page."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Any, Literal, NamedTuple

from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import PlannedSettings, PlannedStage
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.ui.history import Window, quantile

HOUR_S, MILLION = 3600.0, 1e6
Unit = Literal["rps", "s", "share", "score", "usd"]


class Row(NamedTuple):
    """A figure as planned and as measured; None where nothing was measured. `off`: two standard errors of it."""

    what: str
    unit: Unit
    planned: float
    measured: float | None
    off: float | None = None


class Seen(NamedTuple):
    """Facts of a window: its counters, the replicas that there are by stage, and scores of shadow evaluations
    by the stages in order."""

    window: Window
    replicas: Mapping[str, int]
    scores: Sequence[Sequence[float]] = ()


def beside_plan(
    planned: PlannedSettings, stages: Sequence[Stage], cascade: str, metrics: Metrics, seen: Seen
) -> list[dict[str, Any]]:
    rows = [*_whole(planned, stages, cascade, metrics, seen), *_of_stages(planned, stages, metrics, seen)]
    return [row._asdict() for row in rows]


def _whole(
    planned: PlannedSettings, stages: Sequence[Stage], cascade: str, metrics: Metrics, seen: Seen
) -> Iterator[Row]:
    window = seen.window
    took, began = (window.spread(of, cascade) for of in (metrics.request_seconds, metrics.request_ttft))
    per_s = took.count / window.seconds if window.seconds > 0 else None
    yield Row("requests", "rps", planned.rate_rps, per_s)
    yield Row("p50", "s", planned.p50_s, quantile(took, 0.5))
    yield Row("p95", "s", planned.p95_s, quantile(took, 0.95))
    yield Row("first byte p95", "s", planned.ttft_p95_s, quantile(began, 0.95))
    if planned.score is not None:
        yield Row("judge's score of the answers given", "score", planned.score, *_score(stages, seen.scores))
    yield Row("dollars an hour", "usd", planned.usd_per_hour, _usd_per_hour(planned, stages, seen))


def _of_stages(
    planned: PlannedSettings, stages: Sequence[Stage], metrics: Metrics, seen: Seen
) -> Iterator[Row]:
    window = seen.window
    accepted = {stage.name: window.count("stage_accepted", stage.name) for stage in stages}
    answers = sum(accepted.values())
    for stage in stages:
        told = planned.stages.get(stage.name)
        if told is None:
            continue
        share = accepted[stage.name] / answers if answers else None
        took = window.spread(metrics.stage_seconds, stage.name)
        yield Row(f"{stage.name} answers", "share", told.answered, share)
        yield Row(f"{stage.name} p95", "s", told.p95_s, quantile(took, 0.95))


def _score(
    stages: Sequence[Stage], evaluations: Sequence[Sequence[float]]
) -> tuple[float | None, float | None]:
    """Mean score of what the stages' own thresholds would give, and two standard errors; None where too few tell."""
    *gates, _ = [stage.settings.threshold for stage in stages]
    given = [
        next((score for score, least in zip(scores, gates, strict=False) if score >= least), scores[-1])
        for scores in evaluations
    ]
    if len(given) < 2:
        return None, None
    mean = sum(given) / len(given)
    spread = sum((score - mean) ** 2 for score in given) / (len(given) - 1)
    return mean, 2 * sqrt(spread / len(given))


def _usd_per_hour(planned: PlannedSettings, stages: Sequence[Stage], seen: Seen) -> float | None:
    """Dollars of the replicas that there are, at the plan's price of one, and of what APIs were sent in the window."""
    own = dict(planned.stages) | ({"judge": planned.judge} if planned.judge is not None else {})
    total = sum(_of_gpus(one, seen.replicas.get(name, 0)) for name, one in own.items())
    for stage in stages:
        if (told := own.get(stage.name)) is None or told.replicas:
            continue
        if stage.settings.price is None or seen.window.seconds <= 0:
            return None
        tokens = [seen.window.count("stage_tokens", stage.name, way) for way in ("input", "output")]
        usd = sum(price * count for price, count in zip(stage.settings.price, tokens, strict=True)) / MILLION
        total += HOUR_S * usd / seen.window.seconds
    return total


def _of_gpus(told: PlannedStage, there: int) -> float:
    return told.usd_per_hour * there / told.replicas if told.replicas else 0.0
