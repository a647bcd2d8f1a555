"""Clouds of points, with single ones pointed out."""

from collections.abc import Sequence

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
from cascadia.report.charts.ink import along, rule_ink
from cascadia.report.charts.marks import Mark, draw_marks
from cascadia.report.charts.room import Room
from cascadia.report.charts.scale import Format, Range, Scale, plain, rounded, span
from cascadia.report.charts.svg import Colour, Floats, chart, colour_class, group, number, polyline, tag

MOST_POINTS = 3000


def scatter(
    x: ArrayLike,
    y: ArrayLike,
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    h_lines: Rules = (),
    v_lines: Rules = (),
    points: Sequence[Mark] = (),
    frontier: bool = False,
    colour: Colour = 0,
    x_range: Range | None = None,
    y_range: Range | None = None,
    x_format: Format = plain,
    y_format: Format = plain,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> str:
    """x, y (n): above 3,000 points an even selection is drawn. `frontier` joins those
    that no other beats in both, where small x and large y are good."""
    data_x, data_y = _thinned(x), _thinned(y)
    limits_x = x_range or span([data_x, [p.x for p in points]], log=log_x, zero=not log_x, pad=0.08)
    limits_y = y_range or span([data_y, [p.y for p in points]], log=log_y, pad=0.1)
    if not log_x and x_range is None:
        limits_x = rounded(limits_x, 8)
    if not log_y and y_range is None:
        limits_y = rounded(limits_y, 8)
    heading = Heading(title, y_label)
    probe = Scale(*limits_y, height, 0, log_y)
    ticks_y = probe.ticks(5)
    box = Box(tick_width(ticks_y, y_format) + 10, heading.height(width), width - 12, height - 40)
    scale_x = Scale(*limits_x, box.left, box.right, log_x)
    scale_y = Scale(*limits_y, box.bottom, box.top, log_y)
    at = np.column_stack((scale_x(data_x), scale_y(data_y)))
    at = at[np.isfinite(at).all(axis=1)]
    best = _frontier(at) if frontier else at[:0]
    rules_ink = rule_ink(box, scale_x, scale_y, h_lines, v_lines)
    ink = np.concatenate([along(best[:, 0], best[:, 1]), at, rules_ink])
    room = Room(box, ink)
    rules = list(room.name_rules(scale_x, scale_y, h_lines, v_lines))
    return chart(
        width,
        height,
        f"{title}. {y_label} by {x_label}",
        [
            *heading.draw(width),
            *y_axis(box, scale_y, ticks_y, y_format),
            *x_axis(box, scale_x, scale_x.ticks(6), x_format, x_label),
            *across(box, scale_x, scale_y, h_lines, v_lines),
            group(
                colour_class(colour),
                polyline(best[:, 0], best[:, 1], "line thin"),
                _cloud(at, "cloud large" if frontier else "cloud"),
            ),
            *rules,
            *draw_marks(points, scale_x, scale_y, room),
        ],
    )


def _thinned(values: ArrayLike) -> Floats:
    data = np.asarray(values, np.float64)
    if len(data) <= MOST_POINTS:
        return data
    return data[np.linspace(0, len(data) - 1, MOST_POINTS).astype(np.intp)]


def _cloud(at: Floats, cls: str) -> str:
    """One path of dots: a tenth of the bytes that circles would take."""
    if not len(at):
        return ""
    return tag("path", d="".join(f"M{number(x)} {number(y)}h0" for x, y in at.tolist()), cls=cls)


def _frontier(at: Floats) -> Floats:
    """Pixels (k, 2) from left to right, each higher up (smaller y) than all before it."""
    ordered = at[np.lexsort((at[:, 1], at[:, 0]))]
    if not len(ordered):
        return ordered
    before = np.minimum.accumulate(np.concatenate(([np.inf], ordered[:-1, 1])))
    return ordered[ordered[:, 1] < before]
