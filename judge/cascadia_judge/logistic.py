"""Regularised logistic regression, in numpy.

Problem: given columns x (n, d), standardised, and targets y in 0-1, minimise the weighted mean of
-y log p - (1 - y) log(1 - p), p = 1 / (1 + exp(-b - w x)), plus ridge / 2 |w|^2. It is convex; Newton's
steps, halved where they overshoot, end when no step is worth it. Unknown values (NaN) count as the mean.
"""

from dataclasses import dataclass

import numpy as np

from cascadia_judge.features import Floats

STEPS_MAX = 50


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """`weight` (d) is of the columns as they come, not standardised; `mean` (d) stands in for NaN."""

    weight: Floats
    bias: float
    mean: Floats

    def __call__(self, x: Floats) -> Floats:
        """Log-odds of (n, d): (n)."""
        return np.asarray(np.where(np.isnan(x), self.mean, x) @ self.weight + self.bias, dtype=np.float64)


def fit_line(x: Floats, y: Floats, weight: Floats, ridge: float) -> Line:
    known = ~np.isnan(x)
    total = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0.0).sum(axis=0) / total
    spread = np.sqrt((np.where(known, x - mean, 0.0) ** 2).sum(axis=0) / total)
    scale = np.where(spread > 1e-12, 1.0 / np.maximum(spread, 1e-12), 0.0)
    z = np.hstack([np.where(known, x - mean, 0.0) * scale, np.ones((len(x), 1))])
    share = weight / weight.sum()
    penalty = np.append(np.full(x.shape[1], ridge), 1e-9)
    w = np.zeros(z.shape[1])

    def loss(w: Floats) -> float:
        f = z @ w
        return float(share @ (np.logaddexp(0.0, f) - y * f) + 0.5 * penalty @ w**2)

    now = loss(w)
    for _ in range(STEPS_MAX):
        p = 1.0 / (1.0 + np.exp(-(z @ w)))
        gradient = z.T @ (share * (p - y)) + penalty * w
        curvature = (z * (share * np.maximum(p * (1 - p), 1e-9))[:, None]).T @ z + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while (after := loss(w - size * step)) > now and size > 1e-6:
            size /= 2
        if now - after < 1e-10:
            break
        w, now = w - size * step, after
    coefficients = w[:-1] * scale
    return Line(coefficients, float(w[-1] - coefficients @ mean), mean)
