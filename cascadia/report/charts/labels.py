"""Where names go, so that a reader needs no legend: at a line's end, else beside it where there is room."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cascadia.report.charts.frame import Box, Rules
from cascadia.report.charts.scale import Scale
from cascadia.report.charts.svg import Floats, text, text_width

LINE_PX = 13.0
Anchor = tuple[float, float, str]
"""x, y of a text's baseline, and its text-anchor."""
Corners = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Nearest positions in low..high that keep the order of `wanted` and stand at least `gap` apart."""
    order = np.argsort(np.asarray(wanted, np.float64), kind="stable")
    # Less i gaps, "apart by a gap" becomes "not decreasing": pool neighbours that would swap to their mean.
    blocks: list[tuple[float, int]] = []
    for i, index in enumerate(order):
        mean, size = float(wanted[index]) - i * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    top = max(low, high - (len(wanted) - 1) * gap)
    level = [min(max(mean, low), top) for mean, size in blocks for _ in range(size)]
    placed = [0.0] * len(wanted)
    for i, index in enumerate(order):
        placed[index] = level[i] + i * gap
    return placed


@dataclass(slots=True)
class Room:
    """The free room of a plot: what is drawn (`ink`, points in pixels) and which labels stand already."""

    box: Box
    ink: Floats
    taken: list[Corners] = field(default_factory=list)

    def place(self, content: str, x: Floats, y: Floats, own: slice | None = None) -> Anchor | None:
        """The clearest place beside any of the points (x, y); None where every place would cover something.

        `own` are the rows of `ink` that the label belongs to: it may stand near them, and far from the others.
        """
        best: tuple[float, Anchor] | None = None
        others = self.ink if own is None else np.delete(self.ink, own, axis=0)
        for px, py in zip(x.tolist(), y.tolist(), strict=True):
            for dx, dy, anchor in _SIDES:
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


def rule_ink(box: Box, x: Scale, y: Scale, h_lines: Rules, v_lines: Rules) -> Floats:
    """Points along the rules of a chart, so that no name comes to lie on one."""
    rows = [np.empty((0, 2))]
    for value, _ in h_lines:
        if y.holds(value):
            at = np.arange(box.left, box.right, 4.0)
            rows.append(np.column_stack((at, np.full(len(at), y.at(value)))))
    for value, _ in v_lines:
        if x.holds(value):
            at = np.arange(box.top, box.bottom, 4.0)
            rows.append(np.column_stack((np.full(len(at), x.at(value)), at)))
    return np.concatenate(rows)


def along(x: Floats, y: Floats, step_px: float = 4.0) -> Floats:
    """Points (k, 2) every few pixels along a polyline, its gaps left out."""
    finite = np.isfinite(x) & np.isfinite(y)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], finite, [False]))))
    pieces = [np.empty((0, 2))]
    for start, stop in edges.reshape(-1, 2).tolist():
        run_x, run_y = x[start:stop], y[start:stop]
        way = np.concatenate(([0.0], np.cumsum(np.hypot(np.diff(run_x), np.diff(run_y)))))
        at = np.linspace(0.0, way[-1], max(2, int(way[-1] / step_px) + 1))
        pieces.append(np.column_stack((np.interp(at, way, run_x), np.interp(at, way, run_y))))
    return np.concatenate(pieces)
