"""What is kept of a request until it is over: who answered, how long it took, and tokens that nobody counted."""

import pytest

from cascadia.router.cascade.records import LEFT, Record
from cascadia.router.telemetry.stage_record import Step


def record(*steps: Step, **entry: object) -> Record:
    return Record({"status": 200, **entry}, 10.0, steps=list(steps), body=b"x" * 40)


@pytest.mark.parametrize("stage", ["a", "b", "c"])
def test_the_last_turn_of_the_stage_that_is_named_gave_the_answer(stage: str) -> None:
    steps = [Step(name, float(at)) for at, name in enumerate("abcabc")]
    found = record(*steps, stage=stage).answered
    assert found is steps["abc".index(stage) + 3]


@pytest.mark.parametrize(
    "entry", [{"stage": "b"}, {"stage": "a", "status": 500}, {"stage": "a", "error": "failed"}]
)
def test_where_there_was_no_answer_nobody_gave_it(entry: dict[str, object]) -> None:
    assert record(Step("a", 0.0), **entry).answered is None


def test_a_closed_record_has_its_times_to_the_microsecond() -> None:
    found = record()
    assert found.ttft_s is None
    found.close(200, 10.25, 11.2345678)
    assert found.entry["seconds"] == 1.234567
    assert (found.seconds, found.ttft_s) == (pytest.approx(1.2345678), 0.25)
    found.close(200, None, 25.5)
    assert found.entry["seconds"] == found.seconds == 15.5


def test_turns_that_were_cut_off_say_so_and_others_are_left_alone() -> None:
    done, cut = Step("a", 10.0, outcome="accepted", ended_at_s=10.5), Step("b", 10.5)
    record(done, cut).close(200, None, 12.0)
    assert (done.outcome, done.ended_at_s) == ("accepted", 10.5)
    assert (cut.outcome, cut.ended_at_s) == (LEFT, 12.0)
    failed = Step("a", 10.0)
    record(failed, error="exhausted").close(503, None, 12.0)
    assert failed.outcome == "exhausted"


def test_prompts_that_no_engine_counted_are_as_long_as_the_turn_befores_or_as_their_bytes_say() -> None:
    steps = [
        Step("a", 10.0, output_tokens=3),
        Step("b", 10.0, input_tokens=17, output_tokens=3),
        Step("c", 10.0, output_tokens=3),
        Step("d", 10.0),
    ]
    record(*steps).close(200, None, 12.0)
    assert [step.input_tokens for step in steps] == [10, 17, 17, 0]
    short = Step("a", 10.0, output_tokens=3)
    Record({"status": 200}, 10.0, steps=[short], body=b"{}").close(200, None, 12.0)
    assert short.input_tokens == 1


@pytest.mark.parametrize(("outcome", "read"), [("", 10), ("deadline", 10), ("reset", 0), ("refused", 0)])
def test_who_gives_up_has_had_its_prompt_read_by_whoever_was_asked(outcome: str, read: int) -> None:
    asked, waited = Step("a", 10.0, tries=1, outcome=outcome), Step("b", 10.0, outcome=outcome)
    record(asked, waited).close(499, None, 12.0)
    assert (asked.input_tokens, waited.input_tokens) == (read, 0)


def test_answers_by_which_a_judge_compares_are_charged_like_the_answer() -> None:
    step = Step("a", 10.0)
    step.used(100, 10)
    step.again(100, 12)
    step.again(100, 8)
    assert (step.tokens, step.all_tokens) == (110, 330)
    assert step.usd(1.0, 10.0) == pytest.approx((300 * 1.0 + 30 * 10.0) / 1e6)
    found = record(step)
    found.close(200, None, 12.0)
    assert found.entry["tokens"] == {"a": 330}
