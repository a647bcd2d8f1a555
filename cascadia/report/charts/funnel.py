"""Requests flowing through the stages: who is answered where, and who goes on.

Each stage's node is as high as the share of requests that reach it. What it accepts flows straight to the
right along the bottom, under what it escalates, so that no two flows cross.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cascadia.report.charts.labels import spread
from cascadia.report.charts.svg import (
    Colour,
    chart,
    colour_class,
    group,
    number,
    rect,
    shorten,
    tag,
    text,
    tooltip,
)
from cascadia.report.numbers import percent

NODE_PX = 12.0
FLOW_PX = 160.0
GAP_PX = 10.0


@dataclass(frozen=True, slots=True)
class FunnelStage:
    """`reached` and `accepted` are shares of all requests; `gate` tells who goes on, e.g. "score < 71".

    `asked`: of those that come to the stage, who is not skipped; None where all are asked.
    """

    name: str
    reached: float
    accepted: float
    detail: str = ""
    answer_detail: str = ""
    gate: str = ""
    colour: Colour | None = None
    asked: float | None = None


def funnel(stages: Sequence[FunnelStage], *, title: str = "", width: float = 900.0) -> str:
    """Shares are drawn to scale; those that would vanish keep a hairline."""
    total = stages[0].reached if stages and stages[0].reached > 0 else 1.0
    top, right = (70.0 if title else 48.0), width - 190
    column = (right - 2) / max(1, len(stages))
    scale = FLOW_PX / total
    height = top + FLOW_PX + GAP_PX * (len(stages) - 1) + 30
    spans = _answer_spans(stages, top, scale)
    words = spread([(a + b) / 2 for a, b in spans], 31.0, top + 8, height - 20)
    flows: list[str] = []
    nodes: list[str] = []
    for i, stage in enumerate(stages):
        colour = i if stage.colour is None else stage.colour
        x = column * i
        node_bottom = top + stage.reached * scale
        accepted_top = node_bottom - stage.accepted * scale
        low, high = spans[i]
        tip = f"{stage.name} answers {percent(stage.accepted, 1)} of all requests"
        ribbon = _ribbon(x + NODE_PX, right, (accepted_top, node_bottom), (low, high), column * 0.6)
        flows.append(group(colour_class(colour), tag("path", tooltip(tip), d=ribbon, cls="flow")))
        if i + 1 < len(stages):
            flows.append(_escalation(stage, stages[i + 1], x, column, (top, accepted_top), scale))
        nodes += _node(stage, colour, x, column, (top, node_bottom))
        nodes += _answer(stage, colour, right, (low, high), words[i])
    label = f"{title or 'Requests by stage'}. " + "; ".join(
        f"{s.name}: {percent(s.reached, 1)} reach it, {percent(s.accepted, 1)} are answered there"
        for s in stages
    )
    return chart(width, height, label, [text(0, 14, title, "head") if title else "", *flows, *nodes])


def _answer_spans(stages: Sequence[FunnelStage], top: float, scale: float) -> list[tuple[float, float]]:
    """Ends of the flows at the right: the last stage's on top, a gap between any two."""
    spans = []
    below = 0.0
    for stage in reversed(stages):
        high = below + stage.accepted * scale
        spans.append((top + below, top + max(high, below + 1.5)))
        below = high + GAP_PX
    return spans[::-1]


def _ribbon(x0: float, x1: float, a: tuple[float, float], b: tuple[float, float], bend: float) -> str:
    """Ribbon between the spans `a` at x0 and `b` at x1 (y, y): level at first, bending in the last `bend`
    pixels.
    """
    n = number
    start = max(x0, x1 - bend)
    middle = (start + x1) / 2
    low = max(a[1], a[0] + 1)
    return (
        f"M{n(x0)} {n(a[0])}L{n(start)} {n(a[0])}"
        f"C{n(middle)} {n(a[0])} {n(middle)} {n(b[0])} {n(x1)} {n(b[0])}L{n(x1)} {n(b[1])}"
        f"C{n(middle)} {n(b[1])} {n(middle)} {n(low)} {n(start)} {n(low)}L{n(x0)} {n(low)}Z"
    )


def _escalation(
    stage: FunnelStage, after: FunnelStage, x: float, column: float, ends: tuple[float, float], scale: float
) -> str:
    start, end = x + NODE_PX, x + column
    high = max(after.reached * scale, 1.0)
    tip = f"{stage.name} passes {percent(after.reached, 1)} of all requests on to {after.name}"
    band = rect(start, ends[0], end - start, high, "flow", tip)
    if high > 16:
        return group("k-grey", band) + text(
            (start + end) / 2, ends[0] + high / 2 + 4, stage.gate, anchor="middle"
        )
    # Below a thin band lies what is accepted, which is not what the words tell of.
    return group("k-grey", band) + text(end - 6, ends[0] - 8, stage.gate, anchor="end")


def _node(
    stage: FunnelStage, colour: Colour, x: float, column: float, ends: tuple[float, float]
) -> Sequence[str]:
    room = column - 14
    asked = "" if stage.asked is None else f", {percent(stage.asked, 1)} are asked"
    return (
        text(x, ends[0] - 38, shorten(stage.name, room), "strong"),
        text(x, ends[0] - 23, shorten(stage.detail, room)),
        text(x, ends[0] - 8, f"{percent(stage.reached, 1)} arrive{asked}"),
        group(colour_class(colour), rect(x, ends[0], NODE_PX, max(1.5, ends[1] - ends[0]), "fill")),
    )


def _answer(
    stage: FunnelStage, colour: Colour, x: float, ends: tuple[float, float], at: float
) -> Sequence[str]:
    name = shorten(f"{percent(stage.accepted, 1)} answered by {stage.name}", 175)
    return (
        group(
            colour_class(colour),
            rect(x, ends[0], 5, ends[1] - ends[0], "fill"),
            text(x + 12, at, name, "label"),
        ),
        text(x + 12, at + 14, shorten(stage.answer_detail, 175)),
    )
