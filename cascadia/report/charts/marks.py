"""Single points that a chart points out, each with its name beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cascadia.report.charts.room import Room
from cascadia.report.charts.scale import Scale
from cascadia.report.charts.svg import Colour, colour_class, group, line, number, tag, text, tooltip


@dataclass(frozen=True, slots=True)
class Mark:
    """A point at (x, y). `shape` "ring" is for the one that was chosen; `tip` is what the mouse finds."""

    x: float
    y: float
    label: str = ""
    colour: Colour = "ink"
    shape: str = "dot"
    tip: str = ""


def draw_marks(marks: Sequence[Mark], x: Scale, y: Scale, room: Room) -> list[str]:
    """Marks outside the scales are left out; a label that finds no room stays in the tooltip."""
    shown = [m for m in marks if x.holds(m.x) and y.holds(m.y) and np.isfinite([x.at(m.x), y.at(m.y)]).all()]
    at = np.array([(x.at(m.x), y.at(m.y)) for m in shown]).reshape(-1, 2)
    drawn = len(room.ink)
    room = Room(room.box, np.concatenate([room.ink, _around(at)]), room.taken)
    drawings: list[str] = []
    # The chosen point's name comes first: it has the choice of places, and it lies on top.
    for i in sorted(range(len(shown)), key=lambda i: shown[i].shape != "ring"):
        mark = shown[i]
        px, py = at[i]
        parts = [_shape(mark, float(px), float(py))]
        if mark.label:
            place = room.place(
                mark.label, at[i : i + 1, 0], at[i : i + 1, 1], own=slice(drawn + 5 * i, drawn + 5 * i + 5)
            )
            if place is not None:
                if abs(place[1] - py) >= 20:
                    parts.insert(0, line(px, py, place[0], place[1] + (3 if place[1] < py else -9), "leader"))
                parts.append(text(place[0], place[1], mark.label, "label", place[2]))
        drawings.append(group(colour_class(mark.colour), *parts, tip=mark.tip or mark.label))
    return drawings[::-1]


def _around(
    at: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    ring = np.array([(0, 0), (4, 0), (-4, 0), (0, 4), (0, -4)], np.float64)
    return (at[:, None, :] + ring[None, :, :]).reshape(-1, 2)


def _shape(mark: Mark, px: float, py: float) -> str:
    if mark.shape == "diamond":
        corners = f"M{number(px)} {number(py - 6)}l6 6l-6 6l-6 -6z"
        return tag("path", tooltip(mark.tip or mark.label), d=corners, cls="dot")
    dot = tag("circle", cx=px, cy=py, r=4.5, cls="dot")
    return dot + tag("circle", cx=px, cy=py, r=9.0, cls="ring") if mark.shape == "ring" else dot
