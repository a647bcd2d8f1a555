"""The free room of a plot, and the clearest place in it for a name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cascadia.report.charts.frame import Box, Rules
from cascadia.report.charts.scale import Scale
from cascadia.report.charts.svg import Floats, text, text_width

Anchor = tuple[float, float, str]
"""x, y of a text's baseline, and its text-anchor."""
Corners = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(slots=True)
class Room:
    """The free room of a plot: what is drawn (`ink`, points in pixels) and which labels stand already."""

    box: Box
    ink: Floats
    taken: list[Corners] = field(default_factory=list)

    def place(self, content: str, x: Floats, y: Floats, own: slice | None = None) -> Anchor | None:
        """The clearest place beside any of the points (x, y); None where every place would cover something.

        A single point's label may stand farther off, since it has no other point to stand beside.

        `own` are the rows of `ink` that the label belongs to: it may stand near them, and far from the others.
        """
        best: tuple[float, Anchor] | None = None
        others = self.ink if own is None else np.delete(self.ink, own, axis=0)
        for px, py in zip(x.tolist(), y.tolist(), strict=True):
            for dx, dy, anchor in _SIDES if len(x) > 1 else _SIDES + _FAR_SIDES:
                corners = self._corners(content, (px + dx, py + dy, anchor))
                if not self._free(corners):
                    continue
                clearance = min(_distance(others, corners), 16.0) - 0.4 * (abs(dx) + abs(dy))
                if best is None or clearance > best[0]:
                    best = clearance, (px + dx, py + dy, anchor)
        if best is None:
            return None
        self.take(content, best[1])
        return best[1]

    def name_rules(self, x: Scale, y: Scale, h_lines: Rules, v_lines: Rules) -> Iterable[str]:
        """Words of the rules that `across` drew: where the fewest drawn points lie under them."""
        box = self.box
        for value, words in h_lines:
            if y.holds(value):
                at = y.at(value)
                ends = (
                    (box.left + 4, "start"),
                    (box.right - 4, "end"),
                    ((box.left + box.right) / 2, "middle"),
                )
                yield self._name_rule(
                    words, [(px, at + dy, anchor) for dy in (-4, 13) for px, anchor in ends]
                )
        for value, words in v_lines:
            if x.holds(value):
                at = x.at(value)
                rows = [box.top + 10 + share * (box.height - 16) for share in (0, 0.1, 0.2, 1, 0.8, 0.4, 0.6)]
                sides = ((at + 5, "start"), (at - 5, "end"))
                yield self._name_rule(words, [(px, row, anchor) for row in rows for px, anchor in sides])

    def _name_rule(self, words: str, places: Sequence[Anchor]) -> str:
        free = [place for place in places if self._free(self._corners(words, place))]
        inside = [place for place in places if self._within(self._corners(words, place))]
        place = (free or inside or places)[0]
        self.take(words, place)
        return text(place[0], place[1], words, "note", place[2])

    def take(self, content: str, at: Anchor) -> None:
        self.taken.append(self._corners(content, at))

    @staticmethod
    def _corners(content: str, at: Anchor) -> Corners:
        width = text_width(content, bold=True)
        left = at[0] - {"start": 0.0, "middle": width / 2, "end": width}[at[2]]
        return left, at[1] - 10, left + width, at[1] + 3

    def _within(self, corners: Corners) -> bool:
        left, top, right, bottom = corners
        box = self.box
        return left >= box.left + 2 and right <= box.right + 2 and top >= box.top - 2 and bottom <= box.bottom

    def _free(self, corners: Corners) -> bool:
        left, top, right, bottom = corners
        if not self._within(corners):
            return False
        if any(left < r and right > lf and top < b and bottom > t for lf, t, r, b in self.taken):
            return False
        x, y = self.ink[:, 0], self.ink[:, 1]
        return not bool(((x > left - 2) & (x < right + 2) & (y > top - 1) & (y < bottom + 1)).any())


_SIDES = (
    (9.0, 4.0, "start"),
    (-9.0, 4.0, "end"),
    (0.0, -9.0, "middle"),
    (0.0, 18.0, "middle"),
    (8.0, -7.0, "start"),
    (-8.0, -7.0, "end"),
    (8.0, 15.0, "start"),
    (-8.0, 15.0, "end"),
)
_FAR_SIDES = (
    (10.0, -20.0, "start"),
    (-10.0, -20.0, "end"),
    (10.0, 29.0, "start"),
    (-10.0, 29.0, "end"),
    (10.0, -36.0, "start"),
    (-10.0, -36.0, "end"),
    (10.0, 45.0, "start"),
    (-10.0, 45.0, "end"),
)


def _distance(points: Floats, corners: Corners) -> float:
    if not len(points):
        return np.inf
    left, top, right, bottom = corners
    dx = np.maximum(np.maximum(left - points[:, 0], points[:, 0] - right), 0)
    dy = np.maximum(np.maximum(top - points[:, 1], points[:, 1] - bottom), 0)
    return float(np.hypot(dx, dy).min())
