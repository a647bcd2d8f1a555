"""Means, variances and covariance of parts, put together without a second look at the data."""

from dataclasses import dataclass
from math import sqrt

from cascadia_traces.checks import Floats

ROUNDING = 1e-12
"""Spread, as a share of the mean, below which values are one value: a mean of equal ones is rounded off them."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of n pairs (x, y): their means and the sums of products of deviations from them."""

    n: int = 0
    mean_x: float = 0.0
    mean_y: float = 0.0
    xx: float = 0.0
    yy: float = 0.0
    xy: float = 0.0

    @staticmethod
    def of(x: Floats, y: Floats) -> "Moments":
        if len(x) == 0:
            return Moments()
        from_x, from_y = x - x.mean(), y - y.mean()
        return Moments(
            len(x),
            float(x.mean()),
            float(y.mean()),
            # Not @: its BLAS starts threads for what takes microseconds, and waits for them.
            float((from_x * from_x).sum()),
            float((from_y * from_y).sum()),
            float((from_x * from_y).sum()),
        )

    def __add__(self, other: "Moments") -> "Moments":
        """Moments of both samples together (Chan, Golub, LeVeque 1979)."""
        n = self.n + other.n
        if n == 0:
            return self
        gap_x, gap_y = other.mean_x - self.mean_x, other.mean_y - self.mean_y
        weight = self.n * other.n / n
        return Moments(
            n,
            self.mean_x + gap_x * other.n / n,
            self.mean_y + gap_y * other.n / n,
            self.xx + other.xx + gap_x * gap_x * weight,
            self.yy + other.yy + gap_y * gap_y * weight,
            self.xy + other.xy + gap_x * gap_y * weight,
        )

    @property
    def cv_x(self) -> float | None:
        """Coefficient of variation of x; None where it has no spread to speak of or no mean."""
        return sqrt(self.xx / self.n) / self.mean_x if self.n > 1 and self.mean_x > 0 else None

    @property
    def correlation(self) -> float | None:
        """Pearson's; None where x or y is constant."""
        if _constant(self.n, self.mean_x, self.xx) or _constant(self.n, self.mean_y, self.yy):
            return None
        return max(-1.0, min(1.0, self.xy / (sqrt(self.xx) * sqrt(self.yy))))


def _constant(n: int, mean: float, squares: float) -> bool:
    return squares <= n * (ROUNDING * mean) ** 2
