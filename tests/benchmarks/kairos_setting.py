"""Kairos' setting as far as it is public: four instance types at their prices (Table 4), targets (Table 3), sizes.

The paper prints no latencies. Those here are lines, as it says they are (correlation above 0.99), that keep to its
text: the GPU alone serves 1,000 items within the target, with a large fixed part; the others are cheaper by the small
query, and break the target on large ones. Sizes like Meta's are log-normal, those of section 8.4 and 8.6 Gaussian. So
orders and ratios can be compared, rates cannot. An instance serves one query at a time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.dispatch.latency_model import Coefficients
from cascadia.planner.pool.kairos import Types

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TYPES = ("g4dn.xlarge", "c5n.2xlarge", "r5n.large", "t3.xlarge")
USD = np.array([0.526, 0.432, 0.149, 0.1664])
BUDGET_USD = 2.5
LARGEST = 1000
QUANTILE = 0.99
CLASSES = 20
XI = 0.98
"""Of the target: what is predicted to be later counts as late."""


@dataclass(frozen=True)
class Model:
    """`lines`: by type, the fixed part and that of 1,000 items, in shares of the target `qos_s`."""

    name: str
    qos_s: float
    lines: tuple[tuple[float, float], ...]

    def seconds(self, sizes: Floats) -> Floats:
        """Latency [types, n]."""
        fixed, more = np.array(self.lines).T[:, :, None]
        found: Floats = self.qos_s * (fixed + more * sizes / LARGEST)
        return found

    def coefficients(self, kind: int) -> Coefficients:
        fixed, more = self.lines[kind]
        step_s = 1e-3 * self.qos_s
        return Coefficients(max(fixed * self.qos_s - step_s, 1e-9), more * self.qos_s / LARGEST, step_s, 1e-9)


MODELS = {
    model.name: model
    for model in (
        Model("NCF", 0.005, ((0.15, 0.65), (0.15, 1.20), (0.30, 2.0), (0.30, 1.90))),
        Model("RM2", 0.350, ((0.20, 0.60), (0.20, 0.94), (0.30, 1.4), (0.25, 1.50))),
        Model("WND", 0.025, ((0.15, 0.65), (0.20, 1.10), (0.30, 1.8), (0.30, 1.75))),
        Model("MT-WND", 0.025, ((0.20, 0.65), (0.15, 1.20), (0.30, 2.0), (0.28, 1.80))),
        Model("DIEN", 0.035, ((0.20, 0.65), (0.20, 1.15), (0.35, 1.7), (0.30, 1.70))),
    )
}
"""RM2's were sought so that Fig. 1 holds: by first come, first served (3, 1, 3) is better than (4, 0, 0), and (2, 0, 9)
and (1, 4, 2) are worse."""


def like_metas(queries: int, seed: int = 1) -> Floats:
    """Log-normal sizes: half have up to 60 items, one in 100 has 770 or more."""
    rng = np.random.default_rng(seed)
    return np.clip(np.rint(np.exp(rng.normal(np.log(60), 1.1, queries))), 1, LARGEST)


def gaussian(queries: int, seed: int = 2) -> Floats:
    """Sizes of 400 items on average, nearly none above 760."""
    rng = np.random.default_rng(seed)
    return np.clip(np.rint(rng.normal(400, 120, queries)), 1, LARGEST)


def types_of(model: Model, sizes: Floats) -> Types:
    """Sizes in classes of as many queries each."""
    classes = np.array_split(np.sort(sizes), CLASSES)
    mean = np.array([each.mean() for each in classes])
    last = np.array([each[-1] for each in classes])
    shares = np.array([len(each) for each in classes]) / len(sizes)
    in_time = model.seconds(last) <= XI * model.qos_s
    in_time[0] = True
    return Types(model.seconds(mean), shares, in_time)
