"""Line charts: each series named at its end, beside it, or, with no room for either, in a legend."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cascadia.report.charts.frame import (
    HEIGHT,
    WIDTH,
    Box,
    Heading,
    Rules,
    across,
    tick_width,
    x_axis,
    y_axis,
)
from cascadia.report.charts.labels import LINE_PX, Room, along, spread
from cascadia.report.charts.marks import Mark, draw_marks
from cascadia.report.charts.scale import Format, Range, Scale, plain, rounded, span
from cascadia.report.charts.svg import (
    Colour,
    Floats,
    chart,
    colour_class,
    group,
    polyline,
    tag,
    text,
    text_width,
    tooltip,
)

MOST_TIPS = 40
"""Points of a series that answer to the mouse; more would only weigh."""


@dataclass(frozen=True, slots=True)
class Series:
    """A line through (x, y), both of length n. NaN makes a gap. `colour` None: by its place in the list."""

    name: str
    x: ArrayLike
    y: ArrayLike
    colour: Colour | None = None
    dashed: bool = False
    bold: bool = False
    steps: bool = False


@dataclass(frozen=True, slots=True)
class _Drawn:
    series: Series
    colour: Colour
    x: Floats
    y: Floats
    ink: Floats

    @property
    def end(self) -> tuple[float, float] | None:
        finite = np.flatnonzero(np.isfinite(self.x) & np.isfinite(self.y))
        return (float(self.x[finite[-1]]), float(self.y[finite[-1]])) if len(finite) else None


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    markers: bool = False,
    h_lines: Rules = (),
    v_lines: Rules = (),
    points: Sequence[Mark] = (),
    x_range: Range | None = None,
    y_range: Range | None = None,
    x_format: Format = plain,
    y_format: Format = plain,
    legend: bool | None = None,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> str:
    """An SVG picture. `legend` True forces one, False forbids it, None lets the room decide."""
    limits_x = x_range or span([s.x for s in series] + [[p.x for p in points]], log=log_x)
    values_y = [s.y for s in series] + [[p.y for p in points], [value for value, _ in h_lines]]
    limits_y = y_range or span(values_y, log=log_y, zero=not log_y, pad=0.03 if log_y else 0.0)
    if y_range is None and not log_y:
        limits_y = rounded(limits_y, 5)
    names_px = max((text_width(s.name) for s in series), default=0.0) + 10
    at_ends = legend is not True and len(series) > 1 and names_px <= 0.3 * width
    probe = Scale(limits_y[0], limits_y[1], height, 0, log_y)
    ticks_y = probe.ticks(5)
    left = tick_width(ticks_y, y_format) + 10

    def layout(heading: Heading, right: float) -> tuple[Box, Scale, Scale, list[_Drawn]]:
        box = Box(left, heading.height(width), width - right, height - 40)
        x = Scale(*limits_x, box.left, box.right, log_x)
        y = Scale(*limits_y, box.bottom, box.top, log_y)
        return box, x, y, [_drawn(s, i, x, y) for i, s in enumerate(series)]

    heading = Heading(title, y_label)
    names: list[str] | None = [] if len(series) < 2 and legend is not True else None
    box, x, y, drawn = layout(heading, 12)
    if at_ends:
        box, x, y, drawn = layout(heading, names_px)
        names = _names_at_ends(drawn, box)
    if names is None and legend is not True:
        box, x, y, drawn = layout(heading, 12)
        names = _names_beside(drawn, box)
    if names is None:
        entries = tuple((d.series.name, d.colour, d.series.dashed) for d in drawn)
        heading = Heading(title, y_label, entries)
        box, x, y, drawn = layout(heading, 12)
        names = []
    lines = [_line(d, markers, (x_label, y_label), (x_format, y_format)) for d in drawn]
    ink = np.concatenate([d.ink for d in drawn]) if drawn else np.empty((0, 2))
    room = Room(box, ink)
    rules = list(room.name_rules(x, y, h_lines, v_lines))
    return chart(
        width,
        height,
        f"{title}. {y_label} by {x_label}" + (f": {', '.join(s.name for s in series)}" if series else ""),
        [
            *heading.draw(width),
            *y_axis(box, y, ticks_y, y_format),
            *x_axis(box, x, x.ticks(6), x_format, x_label),
            *across(box, x, y, h_lines, v_lines),
            *lines,
            *rules,
            *names,
            *draw_marks(points, x, y, room),
        ],
    )


def _drawn(series: Series, index: int, x: Scale, y: Scale) -> _Drawn:
    data_x, data_y = np.asarray(series.x, np.float64), np.asarray(series.y, np.float64)
    if series.steps and len(data_x) > 1:
        data_x, data_y = np.repeat(data_x, 2)[1:], np.repeat(data_y, 2)[:-1]
    inside = (data_x >= min(x.low, x.high) - 1e-9) & (data_x <= max(x.low, x.high) + 1e-9)
    px, py = x(np.where(inside, data_x, np.nan)), y(np.clip(data_y, y.low, y.high))
    colour = index if series.colour is None else series.colour
    return _Drawn(series, colour, px, py, along(px, py))


def _line(drawn: _Drawn, markers: bool, labels: tuple[str, str], forms: tuple[Format, Format]) -> str:
    series = drawn.series
    cls = "line" + (" bold" if series.bold else "") + (" dash" if series.dashed else "")
    dots = []
    data_x, data_y = np.asarray(series.x, np.float64), np.asarray(series.y, np.float64)
    if not series.steps:
        shown = np.flatnonzero(np.isfinite(drawn.x) & np.isfinite(drawn.y))
        for i in shown[:: max(1, len(shown) // MOST_TIPS)].tolist():
            tip = f"{series.name}: {forms[1](float(data_y[i]))} at {forms[0](float(data_x[i]))} {labels[0]}"
            dots.append(
                tag(
                    "circle",
                    tooltip(tip),
                    cx=float(drawn.x[i]),
                    cy=float(drawn.y[i]),
                    r=3.5 if markers else 4.0,
                    cls="dot" if markers else "hit",
                )
            )
    return group(colour_class(drawn.colour), polyline(drawn.x, drawn.y, cls), *dots)


def _names_at_ends(drawn: Sequence[_Drawn], box: Box) -> list[str] | None:
    """None where the ends lie so close that names would drift from their lines."""
    ends = [d.end for d in drawn]
    if any(end is None or end[0] < box.right - 30 for end in ends):
        return None
    wanted = [end[1] for end in ends if end is not None]
    placed = spread(wanted, LINE_PX, box.top, box.bottom)
    if max(abs(a - b) for a, b in zip(wanted, placed, strict=True)) > 1.2 * LINE_PX:
        return None
    return [_name(d, box.right + 7, y + 4, "start") for d, y in zip(drawn, placed, strict=True)]


def _names_beside(drawn: Sequence[_Drawn], box: Box) -> list[str] | None:
    room = Room(box, np.concatenate([d.ink for d in drawn]))
    names = []
    for d in drawn:
        spots = d.ink[:: max(1, len(d.ink) // 40)]
        at = room.place(d.series.name, spots[:, 0], spots[:, 1], own=d.ink)
        if at is None:
            return None
        names.append(_name(d, *at))
    return names


def _name(drawn: _Drawn, x: float, y: float, anchor: str) -> str:
    return group(colour_class(drawn.colour), text(x, y, drawn.series.name, "label", anchor))
