"""Ink that is drawn, as points in pixels, so that labels can keep off it."""

import numpy as np

from cascadia.report.charts.frame import Box, Rules
from cascadia.report.charts.scale import Scale
from cascadia.report.charts.svg import Floats


def rule_ink(box: Box, x: Scale, y: Scale, h_lines: Rules, v_lines: Rules) -> Floats:
    """Points along the rules of a chart, so that no name comes to lie on one."""
    rows = [np.empty((0, 2))]
    for value, _ in h_lines:
        if y.holds(value):
            at = np.arange(box.left, box.right, 6.0)
            rows.append(np.column_stack((at, np.full(len(at), y.at(value)))))
    for value, _ in v_lines:
        if x.holds(value):
            at = np.arange(box.top, box.bottom, 6.0)
            rows.append(np.column_stack((np.full(len(at), x.at(value)), at)))
    return np.concatenate(rows)


def along(x: Floats, y: Floats, step_px: float = 6.0) -> Floats:
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
