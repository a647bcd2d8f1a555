"""Bars side by side or on top of each other, upright or lying."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from cascadia.report.charts.frame import HEIGHT, WIDTH, Box, Heading, Rules, tick_width, y_axis
from cascadia.report.charts.scale import Format, Range, Scale, plain, rounded, span
from cascadia.report.charts.svg import (
    Colour,
    Floats,
    chart,
    colour_class,
    group,
    line,
    number,
    rect,
    shorten,
    tag,
    text,
    text_width,
)

ROW_PX = 24.0
APART_PX = 30.0
FAR, CUT_AT = 4.0, 1.5
"""A lying bar that is so many times the next is cut at so many times that."""


@dataclass(frozen=True, slots=True)
class Bars:
    """One value per category; NaN: no bar. `colours` gives each bar its own instead of the series' one."""

    name: str
    values: ArrayLike
    colour: Colour | None = None
    colours: tuple[Colour, ...] = ()


def bar_chart(
    categories: Sequence[str],
    series: Sequence[Bars],
    *,
    title: str,
    y_label: str,
    x_label: str = "",
    stacked: bool = False,
    horizontal: bool = False,
    v_format: Format = plain,
    rules: Rules = (),
    apart: tuple[int, str] = (0, ""),
    width: float = WIDTH,
    height: float | None = None,
) -> str:
    """`y_label` names the values, `x_label` the categories. Lying bars have room for long names. `apart`: so many of
    the last of them stand below the others, under these words; a bar that would flatten all others is cut.
    """
    values = np.array([np.asarray(s.values, np.float64) for s in series]).reshape(
        len(series), len(categories)
    )
    values = np.where(np.isfinite(values), values, 0.0)
    bases = np.cumsum(values, axis=0) - values if stacked else np.zeros_like(values)
    colours = [i if s.colour is None else s.colour for i, s in enumerate(series)]
    keys = tuple((s.name, c, False) for s, c in zip(series, colours, strict=True)) if len(series) > 1 else ()
    spots = []
    for s, bars in enumerate(series):
        for i, name in enumerate(categories):
            value = float(values[s, i])
            owner = f"{name}, {bars.name}" if len(series) > 1 else name
            lane, lanes = (0, 1) if stacked else (s, len(series))
            colour = bars.colours[i] if bars.colours else colours[s]
            tip = f"{owner}: {v_format(value)} {y_label}"
            spots.append(_Spot(i, lane, lanes, base=float(bases[s, i]), value=value, colour=colour, tip=tip))
    totals = [float(t) for t in values.sum(axis=0)] if stacked or len(series) == 1 else None
    limits = span([bases + values, [v for v, _ in rules]], log=False, zero=True)
    if horizontal and len(series) == 1:
        limits = limits[0], min(limits[1], _cut(values[0]))
    label = f"{title}. {y_label}" + (f" by {x_label}" if x_label else "")
    job = _Job(
        categories,
        spots,
        totals,
        heading=Heading(title, y_label, keys, boxes=True),
        limits=limits,
        form=v_format,
        rules=rules,
        width=width,
        label=label,
        apart=apart,
    )
    return _lying(job) if horizontal else _upright(job, height or HEIGHT, x_label)


def _cut(values: Floats) -> float:
    """Largest value that is drawn to scale: less than the largest where that is far from all others."""
    ordered = np.sort(np.append(values, [0.0, 0.0]))
    second, largest = float(ordered[-2]), float(ordered[-1])
    return second * CUT_AT if second > 0 and largest > FAR * second else largest


@dataclass(frozen=True, slots=True)
class _Spot:
    """A bar: `lane` of `lanes` in its category's slot, from `base` on for `value`."""

    category: int
    lane: int
    lanes: int
    _: KW_ONLY
    base: float
    value: float
    colour: Colour
    tip: str

    def slot(self, start: float, size: float) -> tuple[float, float]:
        """Position across the slot, and width."""
        lane = min(size * 0.72, 64.0 * self.lanes) / self.lanes
        return start + size / 2 + (self.lane - self.lanes / 2) * lane, lane - (1 if self.lanes > 1 else 0)


@dataclass(frozen=True, slots=True)
class _Job:
    """Input of both ways of drawing. `totals` go at the ends of bars where each category has one bar."""

    categories: Sequence[str]
    spots: Sequence[_Spot]
    totals: list[float] | None
    _: KW_ONLY
    heading: Heading
    limits: Range
    form: Format
    rules: Rules
    width: float
    label: str
    apart: tuple[int, str]

    def down(self, category: int) -> float:
        """Pixels by which a lying bar stands below its row."""
        return APART_PX if category >= len(self.categories) - self.apart[0] else 0.0


def _upright(job: _Job, height: float, x_label: str) -> str:
    limits = rounded(job.limits, 5)
    ticks = Scale(*limits, height, 0).ticks(5)
    top = job.heading.height(job.width) + 6
    box = Box(tick_width(ticks, job.form) + 10, top, job.width - 12, height - 40)
    y = Scale(*limits, box.bottom, box.top)
    size = box.width / max(1, len(job.categories))
    parts = list(y_axis(box, y, ticks, job.form))
    for spot in job.spots:
        x, wide = spot.slot(box.left + spot.category * size, size)
        low, high = y.at(spot.base), y.at(spot.base + spot.value)
        parts.append(group(colour_class(spot.colour), rect(x, high, wide, low - high, "fill bar", spot.tip)))
    for i, name in enumerate(job.categories):
        middle = box.left + (i + 0.5) * size
        parts.append(text(middle, box.bottom + 17, shorten(name, size), anchor="middle"))
        if job.totals is not None:
            parts.append(text(middle, y.at(job.totals[i]) - 5, job.form(job.totals[i]), "strong", "middle"))
    parts.append(line(box.left, box.bottom, box.right, box.bottom, "axis"))
    for value, words in job.rules:
        parts.append(line(box.left, y.at(value), box.right, y.at(value), "rule"))
        parts.append(text(box.right, y.at(value) - 4, words, "note", "end"))
    if x_label:
        parts.append(text(box.right, box.bottom + 34, x_label, anchor="end"))
    return chart(job.width, height, job.label, [*job.heading.draw(job.width), *parts])


def _lying(job: _Job) -> str:
    lanes = max((spot.lanes for spot in job.spots), default=1)
    row = ROW_PX if lanes == 1 else 12.0 * lanes + 10
    left = min(max((text_width(name) for name in job.categories), default=0.0), 0.36 * job.width) + 10
    top = job.heading.height(job.width) + (14 if job.rules else 0)
    bottom = top + row * len(job.categories) + (APART_PX if job.apart[0] else 0)
    ends = job.totals if job.totals is not None else [spot.value for spot in job.spots]
    x = Scale(*job.limits, left, job.width - max((text_width(job.form(v)) for v in ends), default=0.0) - 10)
    parts = []
    for i, name in enumerate(job.categories):
        middle = top + (i + 0.5) * row + job.down(i)
        parts.append(text(left - 8, middle + 4, shorten(name, left - 8), anchor="end"))
        if job.totals is not None:
            parts.append(
                text(x.at(min(job.totals[i], x.high)) + 6, middle + 4, job.form(job.totals[i]), "strong")
            )
    for spot in job.spots:
        y, high = spot.slot(top + spot.category * row + job.down(spot.category), row)
        start, end = x.at(spot.base), x.at(min(spot.base + spot.value, x.high))
        parts.append(
            group(colour_class(spot.colour), rect(start, y, end - start, high, "fill bar", spot.tip))
        )
        if job.totals is None and spot.value > 0:
            parts.append(text(end + 5, y + high / 2 + 4, job.form(spot.value), "small"))
        if spot.base + spot.value > x.high:
            parts.append(
                tag(
                    "path",
                    d=f"M{number(end - 16)} {number(y + high)}l4 {number(-high)}h4l-4 {number(high)}z",
                    cls="cut",
                )
            )
    if job.apart[0]:
        parts.append(text(left, top + row * (len(job.categories) - job.apart[0]) + 20, job.apart[1], "note"))
    zero = x.at(max(0.0, job.limits[0]))
    parts.append(line(zero, top, zero, bottom, "axis"))
    for value, words in job.rules:
        parts.append(line(x.at(value), top - 4, x.at(value), bottom, "rule"))
        parts.append(text(x.at(value), top - 8, words, "note", "middle"))
    return chart(job.width, bottom + 8, job.label, [*job.heading.draw(job.width), *parts])
