"""The few SVG elements that charts are made of. All text and attributes are escaped here, and only here."""

from collections.abc import Iterable
from functools import lru_cache
from html import escape
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Colour = int | Literal["ink", "grey", "accent"]

COLOURS = 8
CHARACTER_PX = 6.6
"""Advance of most letters at 11 px in a wide sans-serif; text is measured by such guesses: no browser is here."""
_NARROW_PX, _WIDE_PX = 3.7, 9.6
_NARROW, _WIDE = frozenset("iljtfrI.,:;'!|()[]/ -"), frozenset("mwMW%@×≥—")
BOLD = 1.12


def colour_class(colour: Colour) -> str:
    """The class that sets --k (marks), --kt (text) and --ko (text upon marks) for what stands within."""
    return f"k{colour % COLOURS}" if isinstance(colour, int) else f"k-{colour}"


def number(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")


def tag(name: str, *children: str, **attributes: float | str | None) -> str:
    """`children` are markup. In attribute names `_` stands for `-`, and `cls` for `class`."""
    parts = [name]
    for key, value in attributes.items():
        if value is None:
            continue
        key = "class" if key == "cls" else key.replace("_", "-")
        parts.append(f'{key}="{escape(value) if isinstance(value, str) else number(value)}"')
    return f"<{' '.join(parts)}>{''.join(children)}</{name}>"


def text(
    x: float, y: float, content: str, cls: str = "", anchor: str | None = None, tip: str | None = None
) -> str:
    return tag("text", escape(content), tooltip(tip), x=x, y=y, cls=cls or None, text_anchor=anchor)


def tooltip(tip: str | None) -> str:
    """The tooltip of the element that holds it."""
    return f"<title>{escape(tip)}</title>" if tip else ""


def group(cls: str, *children: str, tip: str | None = None) -> str:
    return tag("g", tooltip(tip), *children, cls=cls)


def rect(
    x: float, y: float, width: float, height: float, cls: str, tip: str | None = None, rx: float | None = None
) -> str:
    return tag("rect", tooltip(tip), x=x, y=y, width=max(0.0, width), height=max(0.0, height), rx=rx, cls=cls)


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)


def polyline(x: Floats, y: Floats, cls: str) -> str:
    """A path through all finite points; a gap where one is not finite."""
    commands: list[str] = []
    pen_down = False
    for px, py in zip(x.tolist(), y.tolist(), strict=True):
        if not (np.isfinite(px) and np.isfinite(py)):
            pen_down = False
            continue
        commands.append(f"{'L' if pen_down else 'M'}{number(px)} {number(py)}")
        pen_down = True
    if not commands:
        return ""
    return tag("path", d="".join(commands), cls=cls)


@lru_cache(maxsize=4096)
def text_width(content: str, *, bold: bool = False) -> float:
    """A guess on the wide side, in pixels."""
    width = sum(_NARROW_PX if c in _NARROW else _WIDE_PX if c in _WIDE else CHARACTER_PX for c in content)
    return width * BOLD if bold else width


def shorten(content: str, width_px: float) -> str:
    """Cut to what fits, with an ellipsis."""
    if text_width(content) <= width_px:
        return content
    kept = len(content)
    while kept > 1 and text_width(content[:kept]) + CHARACTER_PX > width_px:
        kept -= 1
    return content[:kept].rstrip() + "…"


def chart(width: float, height: float, label: str, children: Iterable[str]) -> str:
    """The whole picture. `label` is what a screen reader says in its place."""
    return tag(
        "svg",
        *children,
        cls="chart",
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_label=label,
        style=f"--w:{number(width)}px",
    )
