"""Linear program that is solved many times: HiGHS itself, without PuLP, begins each time from the solution before."""

from collections.abc import Mapping
from typing import NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

INF = highspy.kHighsInf


class Largest(NamedTuple):
    """Value of the objective, of each column, and the price of each row: what one more of its limit would gain."""

    value: float
    columns: Floats
    prices: Floats


class LinearProgram:
    """Columns are at least 0, rows lie between two limits."""

    def __init__(self, columns: int) -> None:
        self.highs = highspy.Highs()  # type: ignore[no-untyped-call]
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.columns = self.rows = 0
        for _ in range(columns):
            self.column()

    def column(self) -> int:
        self.highs.addVar(0.0, INF)
        self.columns += 1
        return self.columns - 1

    def row(self, weights: Mapping[int, float], low: float, high: float) -> int:
        at = np.fromiter(weights, np.int32, len(weights))
        self.highs.addRow(low, high, len(at), at, np.fromiter(weights.values(), np.float64, len(at)))
        self.rows += 1
        return self.rows - 1

    def limit(self, row: int, low: float, high: float) -> None:
        self.highs.changeRowBounds(row, low, high)

    def largest(self, worth: Mapping[int, float]) -> Largest:
        """The largest sum of `worth` by column. Programs here are bounded, and 0 is a solution."""
        costs = np.zeros(self.columns)
        costs[list(worth)] = list(worth.values())
        self.highs.changeColsCost(self.columns, np.arange(self.columns, dtype=np.int32), -costs)
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise ArithmeticError(
                f"no optimum: {self.highs.modelStatusToString(self.highs.getModelStatus())}"
            )
        found = self.highs.getSolution()
        columns, prices = np.array(found.col_value), -np.array(found.row_dual)
        return Largest(float(costs @ columns), columns, prices)
