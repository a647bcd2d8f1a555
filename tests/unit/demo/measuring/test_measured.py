"""What a pass came to, and how sure that is."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cascadia.cli.demo.table import dollars, examples_table, findings, results_table
from cascadia.cli.shared.narrow import fitting
from cascadia.demo.measuring.asking import Answer
from cascadia.demo.measuring.measured import Pass, paired, wilson
from cascadia.demo.questions.question import Question, words
from cascadia.domain.external import External
from tests.unit.planner.plans import a_plan


def answers(pattern: str, stage: str = "small", seconds: float = 1.0) -> tuple[Answer, ...]:
    """`+` is right and `-` is wrong."""
    question = Question("kind", "key", "text", words("yes"))
    return tuple(
        Answer(
            question,
            "yes" if sign == "+" else "no",
            stage,
            seconds=seconds * (i + 1),
            input_tokens=10,
            output_tokens=2,
            total_tokens=(10, 2),
        )
        for i, sign in enumerate(pattern)
    )


def test_wilsons_interval_has_its_textbook_value() -> None:
    """Newcombe 1998, table I: 15 of 148 has limits 0.0624 and 0.1605 at 95 %."""
    share = wilson(15, 148)
    assert share.value == pytest.approx(15 / 148)
    assert (share.lower, share.upper) == pytest.approx((0.0624, 0.1605), abs=5e-5)


def test_the_limits_stay_within_0_and_1() -> None:
    assert wilson(0, 60).lower == 0.0
    assert wilson(60, 60).upper == pytest.approx(1.0)
    assert wilson(60, 60).lower < 0.95


def test_only_questions_where_two_differ_tell_who_is_better() -> None:
    found = paired(answers("++++-"), answers("+----"))
    assert (found.gain, found.won, found.lost) == (pytest.approx(0.6), 3, 0)
    assert found.by_luck == pytest.approx(1 / 8)


def test_two_equals_are_equal_by_luck() -> None:
    assert paired(answers("+-"), answers("+-")).by_luck == 1.0


def test_results_stand_side_by_side_on_a_terminal_of_80_columns() -> None:
    """With names as long as those of the demo's models."""
    plan = a_plan()
    one, two = plan.stages[0], plan.stages[-1]
    models = ("HuggingFaceTB/SmolLM2-135M-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct")
    stages = tuple(replace(stage, model=model) for stage, model in zip((one, two), models, strict=True))
    passes = [Pass(name, answers("+-" * 36), {"any": 90.0}) for name in ("cascadia", one.name, two.name)]
    table = results_table(passes, replace(plan, stages=stages), {one.name: 0.65, two.name: 0.94})
    assert fitting(table, Console(width=80)) is table


def test_dollars_are_those_of_the_api_whose_answers_were_paid_for() -> None:
    """A question costs 10 tokens read at $100 a million and 2 written at $1,000: $0.003; two of four go there."""
    plan = a_plan()
    api = External(100.0, 1000.0, ttft_p50_s=0.1, ttft_p95_s=0.1, tpot_p50_s=0.01, tpot_p95_s=0.01)
    small, large = replace(plan.stages[0], name="small"), replace(plan.stages[-1], name="large", external=api)
    predicted = replace(plan.predicted, rate_rps=2.0, usd_per_hour=12.0, usd_per_hour_elsewhere=9.0)
    paid = replace(plan, stages=(small, large), predicted=predicted)
    passes = [
        Pass("cascadia", answers("++") + answers("++", "large"), {}),
        Pass("small", answers("++++"), {}),
        Pass("large", answers("++++", "large"), {}),
    ]
    (line,) = dollars(passes, paid)
    assert line == (
        "An hour at this rate costs $13.800: $3.000 for a core and $10.800 of tokens (planned: $12.000); all by large"
        " would be $21.600."
    )
    assert dollars(passes, replace(paid, stages=(small, replace(large, external=None)))) == []


def test_quantiles_are_of_answers_that_were_had() -> None:
    one = Pass("small", answers("+" * 20), {"small": 5.0})
    assert one.quantile_s(0.5) == 10.0
    assert one.quantile_s(0.95) == 19.0
    assert one.quantile_s(1.0) == 20.0


def test_the_first_answers_are_shown_as_they_came() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(examples_table(Pass("cascadia", answers("+-+"), {})))
    assert [line.split() for line in out.getvalue().splitlines()] == [
        ["right", "small", "text", "yes"],
        ["wrong", "small", "text", "no"],
        ["right", "small", "text", "yes"],
    ]


def test_cost_and_shares_are_a_question() -> None:
    one = Pass("cascadia", answers("++") + answers("+-", "large"), {"small": 1.0, "large": 2.0, "judge": 1.0})
    assert one.engine_s_per_question == 1.0
    assert one.answered_by("large") == 0.5
    assert one.tokens == (10.0, 2.0)


@pytest.mark.parametrize(("planned_s", "told"), [(0.3, True), (1.0, False), (2.0, False), (4.2, True)])
def test_a_plan_from_a_busy_machine_is_told_apart(planned_s: float, told: bool) -> None:
    one = Pass("any", answers("++"), {"small": 1.0})
    assert any("--calibrate" in line for line in findings(one, one, one, planned_s)) == told
