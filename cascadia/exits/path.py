"""A path of settings, from cautious to bold: each lets out all that the one before it does, or earlier.

A setting is one threshold a ramp. The path has one dial, tau: at each ramp leave those of whom P(its label differs
from the model's) < tau. That probability is learned for each ramp from its doubt, by logistic regression on the
doubt's log-odds (Platt 1999), increasing, so that tau is a threshold on the doubt itself and settings are nested.
"""

from dataclasses import dataclass, replace

import numpy as np

from cascadia.exits.readings import Bools, Floats, Readings, exits, losses

STEPS = 80
"""Settings on a path: each lets out about one input in a hundred more. Their number costs no evidence."""
BOLDEST = 3.0
"""The last setting's risk on the calibration data, as a multiple of the constraint."""
FIRST_OUT = 0.02
"""Share of the inputs that the first setting lets out."""
RIDGE = 1e-3
STEEP = 1e-2
"""The least slope: a ramp whose doubt says nothing is let out of by its mean alone."""
NEAR = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """`thresholds` (settings, ramps) on doubts, not falling from setting to setting. Setting -1 lets nothing out.

    `differed` (settings) is on how many of the `inputs` that it was calibrated on each setting differs from the model;
    None: it was calibrated on none.
    """

    thresholds: Floats
    differed: Floats | None = None
    inputs: int = 0

    def __post_init__(self) -> None:
        if self.thresholds.ndim != 2 or (np.diff(self.thresholds, axis=0) < 0).any():
            raise ValueError("settings are not nested")
        told = self.differed
        if told is not None and (
            told.shape != self.thresholds.shape[:1] or not ((told >= 0) & (told <= self.inputs)).all()
        ):
            raise ValueError("a setting differed more often than there were inputs to calibrate it on")

    @property
    def settings(self) -> int:
        return len(self.thresholds)

    def setting(self, at: int) -> Floats:
        """(ramps): thresholds of a setting, zeros for -1."""
        return self.thresholds[at] if at >= 0 else np.zeros(self.thresholds.shape[1])

    def wrong(self, readings: Readings) -> Bools:
        """(settings, inputs): tells where each setting's answer differs from the model's."""
        return np.array([losses(readings, exits(readings.doubts, row)) for row in self.thresholds])

    def wrong_of(self, doubts: Floats, wrong: Bools) -> Bools:
        """(settings): the same for one input, with its `doubts` and `wrong` (ramps)."""
        if not len(doubts):
            return np.zeros(self.settings, dtype=np.bool_)
        out = doubts < self.thresholds
        return np.asarray(out.any(axis=1) & wrong[out.argmax(axis=1)])


def calibrated(readings: Readings, risk: float, settings: int = STEPS) -> Path:
    """A path on `readings`, which no ramp was trained on: taus at which their risk climbs to `BOLDEST` x `risk`."""
    if not readings.ramps:
        return Path(np.zeros((settings, 0)))
    slopes = np.array([_logistic(readings.doubts[:, k], readings.wrong[:, k]) for k in range(readings.ramps)])
    found = Path(_thresholds(slopes, _taus(readings, slopes, risk, settings)))
    return replace(found, differed=found.wrong(readings).sum(axis=1).astype(np.float64), inputs=len(readings))


def _taus(readings: Readings, slopes: Floats, risk: float, settings: int) -> Floats:
    """Taus from where the first inputs leave to the boldest, each letting out as many inputs more."""
    chances = _chances(readings.doubts, slopes).min(axis=1)
    first = min(np.quantile(chances, FIRST_OUT), risk)
    tried = np.geomspace(first, 0.9, 80)
    rows = _thresholds(slopes, tried)
    found = np.array([losses(readings, exits(readings.doubts, row)).mean() for row in rows])
    bold = np.flatnonzero(found > BOLDEST * risk)
    last = tried[max(1, bold[0])] if len(bold) else tried[-1]
    # An input leaves at a tau above the least chance that it meets: even quantiles of these let out evenly many.
    out = np.linspace((chances < first).mean(), (chances < last).mean(), settings)
    taus = np.clip(np.quantile(chances, out), first, last)
    taus[0], taus[-1] = first, last
    return np.asarray(np.maximum.accumulate(taus))


def _chances(doubts: Floats, slopes: Floats) -> Floats:
    """(inputs, ramps): P(the ramp's label differs)."""
    inside = np.clip(doubts, NEAR, 1 - NEAR)
    at = slopes[:, 0] + slopes[:, 1] * np.log(inside / (1 - inside))
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(at, -500, 500))), dtype=np.float64)


def _thresholds(slopes: Floats, taus: Floats) -> Floats:
    """(taus, ramps): the doubt at which each ramp's P(differs) is tau."""
    odds = np.log(taus / (1 - taus))
    at = (odds[:, None] - slopes[None, :, 0]) / slopes[None, :, 1]
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(at, -700, 700))), dtype=np.float64)


def _logistic(doubt: Floats, wrong: Bools) -> tuple[float, float]:
    """Intercept and slope of P(wrong) in the log-odds of the doubt, by Newton's method."""
    inside = np.clip(doubt, NEAR, 1 - NEAR)
    x = np.log(inside / (1 - inside))
    # One row of each kind at the mean keeps both finite where a ramp is always right, or always wrong.
    x = np.concatenate([x, [x.mean(), x.mean()]])
    y = np.concatenate([wrong.astype(np.float64), [0.0, 1.0]])
    weight = np.concatenate([np.ones(len(wrong)), [0.5, 0.5]])
    a, b = np.log(weight @ y / (weight @ (1 - y))), 1.0
    design = np.stack([np.ones_like(x), x], axis=1)
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(a + b * x, -500, 500)))
        slope = design.T @ (weight * (p - y)) + np.array([0.0, RIDGE * b])
        curve = (design * (weight * np.maximum(p * (1 - p), 1e-9))[:, None]).T @ design
        # Only the slope is held: the intercept is the ramp's own rate of errors.
        step = np.linalg.solve(curve + np.diag([1e-9, RIDGE]), slope)
        # Far from the end the curve is nearly flat, and a whole Newton step would leave for infinity.
        scale = min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        a, b = a - scale * step[0], b - scale * step[1]
        if np.abs(step).max() < 1e-8:
            break
    return float(a), max(float(b), STEEP)
