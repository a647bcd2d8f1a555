"""Past its deadline planning ends soon with a plan that holds, and never says that there is none."""

from dataclasses import replace

import pytest

from cascadia.domain.deadline import Deadline
from cascadia.domain.errors import Infeasible, OutOfTime
from cascadia.domain.objective import Objective
from cascadia.planner.plan import plan
from tests.unit.planner.played_again import played_again
from tests.unit.planner.problems import NODE, briefly, hosted_judge, problem

CASES = [
    problem(judge=hosted_judge()),
    problem(objective=Objective("cost", 0.95, 52.0, 30.0), pools=(NODE, replace(NODE, name="more"))),
    problem(objective=Objective("quality", 0.95, None, 30.0)),
]


@pytest.mark.parametrize("case", CASES)
def test_a_plan_made_in_no_time_holds_and_says_what_was_left_out(case) -> None:  # type: ignore[no-untyped-def]
    result = plan(case, deadline=Deadline(0.0))
    assert result.chosen.certificate is not None
    assert result.chosen.certificate.holds
    played = played_again(result.plan, case)
    assert played.again_s <= 1.3 * played.once_s
    assert case.objective.strain(result.plan.predicted.objective_s, ()) <= 1.0
    note = result.notes[-1]
    assert note.startswith("the time limit left out: ")
    assert "how much more traffic the plan carries" in note
    assert result.plan.headroom is None


class EndsInHeadroom(Deadline):
    """Deadline that passes once it has been asked whether there is time for the headroom."""

    asked = 0

    @property
    def passed(self) -> bool:
        return self.asked > 1

    def leaves_out(self, what: str) -> bool:
        self.asked += what == "how much more traffic the plan carries"
        return super().leaves_out(what)


@pytest.mark.long
def test_headroom_that_was_cut_short_is_not_told_as_none() -> None:
    """That a plan carries hardly more was once told where nobody had looked."""
    assert briefly(CASES[0], deadline=EndsInHeadroom()).plan.headroom is None


class EndsForOthers(Deadline):
    """Deadline that never passes but of what others would deploy."""

    def part(self, share: float) -> "Deadline":
        return EndsForOthers(left_out=self._left_out)

    def apart(self, share: float = 1.0) -> Deadline:
        return Deadline(0.0)


@pytest.mark.long
def test_others_that_were_cut_short_are_not_told_as_steps_of_the_search() -> None:
    (note,) = [n for n in briefly(CASES[0], deadline=EndsForOthers()).notes if "time limit" in n]
    assert note.startswith("the time limit left out: a part of what others would deploy; ")


def test_what_was_not_found_in_time_is_not_called_infeasible() -> None:
    hard = problem(objective=Objective("latency", 0.95, 52.0, 0.001))
    with pytest.raises(OutOfTime, match="does not show that there is none; a longer --time-limit"):
        plan(hard, deadline=Deadline(0.0))


def test_a_bar_out_of_reach_is_infeasible_whatever_the_time() -> None:
    with pytest.raises(Infeasible, match="above what any routing of these models reaches"):
        plan(problem(quality_min=99.9), deadline=Deadline(0.0))


def test_without_a_deadline_nothing_is_left_out() -> None:
    assert not any("time limit" in note for note in briefly(problem()).notes)
