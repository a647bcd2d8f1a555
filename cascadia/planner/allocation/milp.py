"""A thin hand on HiGHS for small integer programs: rows and columns in, whole numbers and a proof out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np


@dataclass(frozen=True, slots=True)
class MilpResult:
    """`values` per column, None if no solution was found. `proven`: optimal, or infeasible, without doubt.

    `bound` is the solver's dual bound on the objective. A time limit is never a proof.
    """

    values: list[int] | None
    proven: bool
    objective: float = 0.0
    bound: float = 0.0


@dataclass
class Milp:
    """Minimise cost'x subject to rows and bounds."""

    cost: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[tuple[float, float, Sequence[tuple[int, float]]]] = field(default_factory=list)

    def integer(self, *, cost: float = 0.0, upper: float = highspy.kHighsInf) -> int:
        return self._column(cost, upper, whole=True)

    def real(self, *, cost: float = 0.0, upper: float = highspy.kHighsInf) -> int:
        return self._column(cost, upper, whole=False)

    def _column(self, cost: float, upper: float, *, whole: bool) -> int:
        self.cost.append(cost)
        self.upper.append(upper)
        self.whole.append(whole)
        return len(self.cost) - 1

    def at_least(self, limit: float, row: Sequence[tuple[int, float]]) -> None:
        self.rows.append((limit, highspy.kHighsInf, row))

    def at_most(self, limit: float, row: Sequence[tuple[int, float]]) -> None:
        self.rows.append((-highspy.kHighsInf, limit, row))

    def equal(self, value: float, row: Sequence[tuple[int, float]]) -> None:
        self.rows.append((value, value, row))

    def solve(self, time_limit_s: float) -> MilpResult:
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("time_limit", time_limit_s)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.passModel(self._model())
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return MilpResult(None, proven=True)
        info = solver.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return MilpResult(None, proven=False)
        values = [round(v) for v in solver.getSolution().col_value]
        optimal = status == highspy.HighsModelStatus.kOptimal
        return MilpResult(values, optimal, info.objective_function_value, info.mip_dual_bound)

    def _model(self) -> "highspy.HighsLp":
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.cost), len(self.rows)
        model.col_cost_ = np.array(self.cost)
        model.col_lower_ = np.zeros(len(self.cost))
        model.col_upper_ = np.array(self.upper)
        model.integrality_ = [
            highspy.HighsVarType.kInteger if w else highspy.HighsVarType.kContinuous for w in self.whole
        ]
        model.row_lower_ = np.array([low for low, _, _ in self.rows])
        model.row_upper_ = np.array([high for _, high, _ in self.rows])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.cumsum([0] + [len(row) for _, _, row in self.rows])
        model.a_matrix_.index_ = np.array([j for _, _, row in self.rows for j, _ in row], dtype=np.int32)
        model.a_matrix_.value_ = np.array([a for _, _, row in self.rows for _, a in row])
        return model
