"""Line charts: each series named at its end, beside it, or, with no room for either, in a legend."""

from collections.abc import Sequence

import numpy as np

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
from cascadia.report.charts.ink import rule_ink
from cascadia.report.charts.labels import LINE_PX, spread
from cascadia.report.charts.marks import Mark, draw_marks
from cascadia.report.charts.room import Room
from cascadia.report.charts.scale import Format, Range, Scale, plain, rounded, span
from cascadia.report.charts.series import Drawn, Series, drawn
from cascadia.report.charts.svg import chart, text_width


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
    ticks_y = Scale(*limits_y, height, 0, log_y).ticks(5)
    left = tick_width(ticks_y, y_format) + 10

    def plot(heading: Heading, right: float, naming: str) -> str | None:
        """The picture with its names "at ends", "beside" or left to the legend; None where they don't fit."""
        box = Box(left, heading.height(width), width - right, height - 40)
        x = Scale(*limits_x, box.left, box.right, log_x)
        y = Scale(*limits_y, box.bottom, box.top, log_y)
        lines = [drawn(s, i, x, y) for i, s in enumerate(series)]
        names = _names_at_ends(lines, box) if naming == "at ends" else []
        if names is None:
            return None
        inks = [line.ink for line in lines]
        room = Room(box, np.concatenate([*inks, rule_ink(box, x, y, h_lines, v_lines)]))
        marks = draw_marks(points, x, y, room)
        rules = list(room.name_rules(x, y, h_lines, v_lines))
        names = _names_beside(lines, [len(ink) for ink in inks], room) if naming == "beside" else names
        if names is None:
            return None
        return chart(
            width,
            height,
            f"{title}. {y_label} by {x_label}" + (f": {', '.join(s.name for s in series)}" if series else ""),
            [
                *heading.draw(width),
                *y_axis(box, y, ticks_y, y_format),
                *x_axis(box, x, x.ticks(6), x_format, x_label),
                *across(box, x, y, h_lines, v_lines),
                *(
                    line.draw(markers=markers, x_label=x_label, x_format=x_format, y_format=y_format)
                    for line in lines
                ),
                *rules,
                *names,
                *marks,
            ],
        )

    bare = Heading(title, y_label)
    keys = tuple((s.name, i if s.colour is None else s.colour, s.dashed) for i, s in enumerate(series))
    keyed = Heading(title, y_label, keys)
    names_px = max((text_width(s.name, bold=True) for s in series), default=0.0) + 12
    tries = [(keyed, 12.0, "")]
    if legend is False or (legend is None and len(series) < 2):
        tries = [(bare, 12.0, "")]
    elif legend is None:
        tries = [(bare, names_px, "at ends")] * (names_px <= 0.3 * width) + [(bare, 12.0, "beside"), *tries]
    return next(picture for picture in (plot(*attempt) for attempt in tries) if picture is not None)


def _names_at_ends(lines: Sequence[Drawn], box: Box) -> list[str] | None:
    """Names at the lines' ends; None where these lie so close that names would drift from their lines."""
    ends = [line.end for line in lines]
    if any(end is None or end[0] < box.right - 30 for end in ends):
        return None
    wanted = [end[1] for end in ends if end is not None]
    placed = spread(wanted, LINE_PX, box.top, box.bottom)
    if max(abs(a - b) for a, b in zip(wanted, placed, strict=True)) > 1.2 * LINE_PX:
        return None
    return [line.name(box.right + 7, y + 4, "start") for line, y in zip(lines, placed, strict=True)]


def _names_beside(lines: Sequence[Drawn], lengths: Sequence[int], room: Room) -> list[str] | None:
    """`lengths` tell which rows of the room's ink belong to each line."""
    names, start = [], 0
    for line, length in zip(lines, lengths, strict=True):
        own = slice(start, start + length)
        spots = room.ink[own][:: max(1, length // 24)]
        at = room.place(line.series.name, spots[:, 0], spots[:, 1], own=own)
        if at is None:
            return None
        names.append(line.name(*at))
        start += length
    return names
