"""Histogram of values."""

from typing import NamedTuple

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
from cascadia.report.charts.room import Room
from cascadia.report.charts.scale import MOST_DECADES, TINY, Format, Scale, plain, rounded
from cascadia.report.charts.svg import Colour, Floats, chart, colour_class, group, rect
from cascadia.report.numbers import percent


class Bins(NamedTuple):
    """`counts` (k) of values between `edges` (k + 1), for those who cannot hold all values at once."""

    counts: ArrayLike
    edges: ArrayLike


def histogram(
    values_or_bins: ArrayLike | Bins,
    *,
    title: str,
    x_label: str,
    y_label: str = "requests",
    bins: int = 40,
    log_x: bool = False,
    v_lines: Rules = (),
    colour: Colour = 0,
    x_format: Format = plain,
    y_format: Format = plain,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> str:
    """Bars of equal width in the picture: on a log scale, bins grow with their values."""
    binned = (
        values_or_bins if isinstance(values_or_bins, Bins) else bin_values(values_or_bins, bins, log=log_x)
    )
    counts, edges = np.asarray(binned.counts, np.float64), np.asarray(binned.edges, np.float64)
    total = float(counts.sum()) or 1.0
    limits_y = rounded((0.0, float(counts.max(initial=0)) or 1.0), 4)
    heading = Heading(title, y_label)
    probe = Scale(*limits_y, height, 0)
    ticks_y = probe.ticks(4)
    box = Box(tick_width(ticks_y, y_format) + 10, heading.height(width), width - 12, height - 40)
    y = Scale(*limits_y, box.bottom, box.top)
    if log_x and edges[0] <= 0:
        counts, edges = counts[edges[:-1] > 0], edges[edges > 0]
    x = Scale(float(edges[0]), float(edges[-1]), box.left, box.right, log_x)
    lefts, rights, tops = x(edges[:-1]), x(edges[1:]), y(counts)
    bars = [
        rect(
            left + 0.5,
            top,
            right - left - 1 if right - left > 3 else right - left - 0.5,
            box.bottom - top,
            "fill bar",
            f"{x_format(low)} to {x_format(high)} {x_label}: {y_format(count)} {y_label}, "
            + percent(count / total, 1),
        )
        for left, right, top, low, high, count in zip(
            *(a.tolist() for a in (lefts, rights, tops, edges[:-1], edges[1:], counts)), strict=True
        )
        if count > 0
    ]
    ink = np.column_stack(((lefts + rights) / 2, tops))
    return chart(
        width,
        height,
        f"{title}. {y_label} by {x_label}",
        [
            *heading.draw(width),
            *y_axis(box, y, ticks_y, y_format),
            group(colour_class(colour), *bars),
            *x_axis(box, x, x.ticks(6), x_format, x_label),
            *across(box, x, y, (), v_lines),
            *Room(box, ink).name_rules(x, y, (), v_lines),
        ],
    )


def bin_values(values: ArrayLike, bins: int, *, log: bool) -> Bins:
    """Finite (on a log scale: positive) values in equal bins; few distinct whole numbers get one each."""
    data: Floats = np.ravel(np.asarray(values, np.float64))
    data = data[np.isfinite(data) & ((data > TINY) if log else True)]
    if not len(data):
        return Bins(np.zeros(1), np.array([1.0, 10.0] if log else [0.0, 1.0]))
    if log:
        data = np.maximum(data, float(data.max()) / MOST_DECADES)
    low, high = float(data.min()), float(data.max())
    if log and high <= low * 1.0001:
        return Bins(np.array([len(data)]), np.array([low / 1.1, high * 1.1]))
    if not log and high - low <= 1e-6 * max(abs(low), abs(high), 1e-6):
        margin = max(0.5, 1e-3 * abs(high))
        return Bins(np.array([len(data)]), np.array([low - margin, high + margin]))
    if log:
        edges = np.geomspace(low, high, bins + 1)
    elif high - low < bins and bool((data == np.round(data)).all()):
        edges = np.arange(low - 0.5, high + 1)
    else:
        edges = np.linspace(low, high, bins + 1)
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    counts, _ = np.histogram(data, edges)
    return Bins(counts, edges)
