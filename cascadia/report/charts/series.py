"""A line of a chart, from its data to its pixels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cascadia.report.charts.ink import along
from cascadia.report.charts.scale import Format, Scale
from cascadia.report.charts.svg import Colour, Floats, colour_class, group, polyline, tag, text, tooltip

MOST_TIPS = 24
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


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """`series` in pixels (x, y); NaN where it leaves the chart."""

    series: Series
    colour: Colour
    x: Floats
    y: Floats

    @property
    def end(self) -> tuple[float, float] | None:
        finite = np.flatnonzero(np.isfinite(self.x) & np.isfinite(self.y))
        return (float(self.x[finite[-1]]), float(self.y[finite[-1]])) if len(finite) else None

    @property
    def ink(self) -> Floats:
        return along(self.x, self.y)

    def name(self, x: float, y: float, anchor: str) -> str:
        return group(colour_class(self.colour), text(x, y, self.series.name, "label", anchor))

    def draw(self, *, markers: bool, x_label: str, x_format: Format, y_format: Format) -> str:
        series = self.series
        cls = "line" + (" bold" if series.bold else "") + (" dash" if series.dashed else "")
        dots = []
        if not series.steps:
            data_x, data_y = np.asarray(series.x, np.float64), np.asarray(series.y, np.float64)
            shown = np.flatnonzero(np.isfinite(self.x) & np.isfinite(self.y))
            for i in shown[:: -(-len(shown) // MOST_TIPS) or 1].tolist():
                tip = f"{series.name}: {y_format(float(data_y[i]))} at {x_format(float(data_x[i]))} {x_label}"
                at = {"cx": float(self.x[i]), "cy": float(self.y[i])}
                dots.append(
                    tag("circle", tooltip(tip), **at, r=3.5, cls="dot")
                    if markers
                    else tag("circle", tooltip(tip), **at, r=4, cls="hit")
                )
        return group(colour_class(self.colour), polyline(self.x, self.y, cls), *dots)


def drawn(series: Series, index: int, x: Scale, y: Scale) -> Drawn:
    """Clipped to the scales: points beyond y's ends lie on them, points beyond x's are left out."""
    data_x, data_y = np.asarray(series.x, np.float64), np.asarray(series.y, np.float64)
    if series.steps and len(data_x) > 1:
        data_x, data_y = np.repeat(data_x, 2)[1:], np.repeat(data_y, 2)[:-1]
    inside = (data_x >= x.low - 1e-9) & (data_x <= x.high + 1e-9)
    px, py = x(np.where(inside, data_x, np.nan)), y(np.clip(data_y, y.low, y.high))
    return Drawn(series, index if series.colour is None else series.colour, px, py)
