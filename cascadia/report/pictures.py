"""The report's charts of a plan itself. A stage has the same colour in all of them."""

from collections.abc import Callable, Sequence

import numpy as np

from cascadia.domain.plan import Plan
from cascadia.report import words
from cascadia.report.charts import (
    FunnelStage,
    Mark,
    Series,
    funnel,
    line_chart,
)
from cascadia.report.charts.svg import Colour
from cascadia.report.data import Floats, LatencySamples, LoadOverTime, QueueLength, Swing
from cascadia.report.names import model_label, printable
from cascadia.report.numbers import percent, seconds

CURVE_POINTS = 200


def colour_of(plan: Plan, stage: str) -> Colour:
    return next((i for i, s in enumerate(plan.stages) if s.name == stage), "grey")


def flow(plan: Plan) -> str:
    stages = []
    answered = 0.0
    for stage, predicted in words.deployed(plan):
        limits, least = words.limits(plan, stage.name), plan.foreseen_from(stage.name)
        came = 1.0 - answered
        # Of a mixture's routings some pass a stage by, as where the question alone says that it is of no use.
        passed_by = least is not None or (plan.mixture is not None and predicted.reached < came - 1e-9)
        gate = words.threshold_words([limit for limit in limits if limit > 0], at="score < {}")
        stages.append(
            FunnelStage(
                printable(stage.name),
                came if passed_by else predicted.reached,
                predicted.accepted,
                detail=model_label(stage.model),
                answer_detail=f"p95 {seconds(predicted.latency.p95_s)} in this stage",
                gate=gate.replace("never", "every request"),
                colour=colour_of(plan, stage.name),
                asked=predicted.reached if passed_by else None,
            )
        )
        answered += predicted.accepted
    return funnel(stages)


def latency_curves(plan: Plan, samples: LatencySamples) -> str:
    """Distribution functions, thinned to 200 quantiles each."""
    series = [
        _distribution(printable(name), values, colour_of(plan, name))
        for name, values in samples.stages_s.items()
        if len(values)
    ]
    series.append(_distribution("end to end", samples.e2e_s, "ink", bold=True))
    at = float(np.quantile(samples.e2e_s, plan.objective.quantile))
    name = words.quantile_name(plan)
    return line_chart(
        series,
        title="Latency by stage and end to end",
        x_label="seconds, log scale",
        y_label="share of requests done within",
        log_x=True,
        y_range=(0.0, 1.0),
        y_format=percent,
        h_lines=((plan.objective.quantile, f"{name}: {seconds(at)} end to end"),),
        points=(Mark(at, plan.objective.quantile, tip=f"end to end, {name}: {seconds(at)}"),),
    )


def _distribution(name: str, values: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]],
                  colour: Colour, *, bold: bool = False) -> Series:  # fmt: skip
    share = np.linspace(0, 1, min(CURVE_POINTS, max(2, len(values))))
    return Series(name, np.quantile(np.asarray(values, np.float64), share), share, colour, bold=bold)


def queues(plan: Plan, lengths: Sequence[QueueLength]) -> str:
    unit, x_label = _since_start(max((float(q.time_s[-1]) for q in lengths if len(q.time_s)), default=0.0))
    return line_chart(
        [Series(printable(q.name), q.time_s / unit, q.waiting, colour_of(plan, q.name)) for q in lengths],
        title="Queues over the trace",
        x_label=x_label,
        y_label=_smoothed(lengths),
    )


def _smoothed(lengths: Sequence[QueueLength]) -> str:
    steps = [float(q.time_s[1] - q.time_s[0]) for q in lengths if len(q.time_s) > 1]
    return f"requests waiting, means over {seconds(max(steps))}" if steps else "requests waiting"


def _since_start(longest_s: float) -> tuple[float, str]:
    """Seconds of the unit of time that suits, and an axis' label."""
    unit, name = (60.0, "minutes") if longest_s > 300 else (1.0, "seconds")
    return unit, f"{name} since the trace's start"


def swing(told: Swing) -> tuple[str, ...]:
    """The trace's rate, and what gears make of it, beside the plan's own setting where that was simulated."""
    unit, x_label = _since_start(float(told.time_s[-1]))
    at = told.time_s / unit

    def both(of: Callable[[LoadOverTime], Floats]) -> list[Series]:
        on_gears = Series("on gears", at, of(told.on_gears), 0, bold=True)
        if told.alone is None:
            return [on_gears]
        return [Series("single setting", at, of(told.alone), "grey", dashed=True), on_gears]

    return (
        line_chart(
            [Series("rate", at, told.rate_rps, "ink")],
            title="Rate over the trace",
            x_label=x_label,
            y_label="requests/s",
        ),
        line_chart(
            both(lambda load: load.in_flight),
            title="Requests in flight",
            x_label=x_label,
            y_label="requests under way",
        ),
        line_chart(
            [Series("gear", at, told.gear, 0)],
            title="Gear",
            x_label=x_label,
            y_label="mean gear of who comes, 0 the heaviest",
        ),
        line_chart(
            both(lambda load: load.late),
            title=f"Later than {seconds(told.bound_s)}",
            x_label=x_label,
            y_label="share of who comes",
            y_format=percent,
        ),
    )
