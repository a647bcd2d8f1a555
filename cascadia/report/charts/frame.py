"""The frame of a chart: title, grid, axes with their ticks and names, rules across it, a legend."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cascadia.report.charts.scale import Format, Scale
from cascadia.report.charts.svg import (
    CHARACTER_PX,
    Colour,
    colour_class,
    group,
    line,
    rect,
    text,
    text_width,
)

WIDTH = 440.0
HEIGHT = 270.0
Rules = Sequence[tuple[float, str]]
"""Lines across a chart: at which value, and what to write on them."""


@dataclass(frozen=True, slots=True)
class Box:
    """The plotting area, in pixels from the top left."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


@dataclass(frozen=True, slots=True)
class Heading:
    """Heading above the plot: title, what y is, and a legend (name, colour, dashed) of lines or boxes."""

    title: str
    y_label: str
    legend: tuple[tuple[str, Colour, bool], ...] = ()
    boxes: bool = False

    def legend_rows(self, width: float) -> list[list[tuple[float, tuple[str, Colour, bool]]]]:
        rows: list[list[tuple[float, tuple[str, Colour, bool]]]] = [[]]
        x = 0.0
        for entry in self.legend:
            needed = text_width(entry[0]) + 34
            if rows[-1] and x + needed > width:
                rows.append([])
                x = 0.0
            rows[-1].append((x, entry))
            x += needed
        return rows if self.legend else []

    def height(self, width: float) -> float:
        return 24.0 + (16.0 if self.y_label else 2.0) + 20.0 * len(self.legend_rows(width)) + 8.0

    def draw(self, width: float) -> Iterable[str]:
        yield text(0, 14, self.title, "head")
        if self.y_label:
            yield text(0, 31, self.y_label)
        for i, row in enumerate(self.legend_rows(width)):
            y = (40.0 if self.y_label else 24.0) + 17 * i + 10
            for x, (name, colour, dashed) in row:
                key = line(x, y - 4, x + 16, y - 4, "line dash" if dashed else "line bold")
                key = rect(x + 3, y - 9, 10, 10, "fill", rx=2) if self.boxes else key
                yield group(colour_class(colour), key, text(x + 21, y, name))


def tick_width(ticks: Sequence[float], form: Format) -> float:
    return max((text_width(form(tick)) for tick in ticks), default=0.0)


def y_axis(box: Box, scale: Scale, ticks: Sequence[float], form: Format) -> Iterable[str]:
    for tick in ticks:
        y = scale.at(tick)
        yield line(box.left, y, box.right, y, "grid")
        yield text(box.left - 6, y + 4, form(tick), anchor="end")


def x_axis(box: Box, scale: Scale, ticks: Sequence[float], form: Format, label: str) -> Iterable[str]:
    yield line(box.left, box.bottom, box.right, box.bottom, "axis")
    free_from = -math.inf
    for tick in ticks:
        x, content = scale.at(tick), form(tick)
        yield line(x, box.bottom, x, box.bottom + 4, "axis")
        if x - text_width(content) / 2 >= free_from:
            yield text(x, box.bottom + 17, content, anchor="middle")
            free_from = x + text_width(content) / 2 + CHARACTER_PX
    if label:
        yield text(box.right, box.bottom + 34, label, anchor="end")


def across(box: Box, x: Scale, y: Scale, h_lines: Rules, v_lines: Rules) -> Iterable[str]:
    """Dashed rules at those values that the scales hold."""
    for value, _ in h_lines:
        if y.holds(value):
            yield line(box.left, y.at(value), box.right, y.at(value), "rule")
    for value, _ in v_lines:
        if x.holds(value):
            yield line(x.at(value), box.top, x.at(value), box.bottom, "rule")
