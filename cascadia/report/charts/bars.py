"""Bars side by side or on top of each other, upright or lying."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from cascadia.report.charts.frame import HEIGHT, WIDTH, Box, Heading, Rules, tick_width, y_axis
from cascadia.report.charts.scale import Format, Range, Scale, plain, rounded, span
from cascadia.report.charts.svg import (
    Colour,
    chart,
    colour_class,
    group,
    line,
    rect,
    shorten,
    text,
    text_width,
)

ROW_PX = 24.0


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
    width: float = WIDTH,
    height: float | None = None,
) -> str:
    """`y_label` names the values, `x_label` the categories. Lying bars have room for long names."""
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
    )
    return _lying(job) if horizontal else _upright(job, height or HEIGHT, x_label)


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
    bottom = top + row * len(job.categories)
    ends = job.totals if job.totals is not None else [spot.value for spot in job.spots]
    x = Scale(*job.limits, left, job.width - max((text_width(job.form(v)) for v in ends), default=0.0) - 10)
    parts = []
    for i, name in enumerate(job.categories):
        middle = top + (i + 0.5) * row
        parts.append(text(left - 8, middle + 4, shorten(name, left - 8), anchor="end"))
        if job.totals is not None:
            parts.append(text(x.at(job.totals[i]) + 6, middle + 4, job.form(job.totals[i]), "strong"))
    for spot in job.spots:
        y, high = spot.slot(top + spot.category * row, row)
        start, end = x.at(spot.base), x.at(spot.base + spot.value)
        parts.append(
            group(colour_class(spot.colour), rect(start, y, end - start, high, "fill bar", spot.tip))
        )
        if job.totals is None and spot.value > 0:
            parts.append(text(end + 5, y + high / 2 + 4, job.form(spot.value), "small"))
    zero = x.at(max(0.0, job.limits[0]))
    parts.append(line(zero, top, zero, bottom, "axis"))
    for value, words in job.rules:
        parts.append(line(x.at(value), top - 4, x.at(value), bottom, "rule"))
        parts.append(text(x.at(value), top - 8, words, "note", "middle"))
    return chart(job.width, bottom + 8, job.label, [*job.heading.draw(job.width), *parts])
