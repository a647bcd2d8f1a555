"""A run asks each stage and the judge as often as need be, bears with failures in passing, and names the others."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from cascadia.clients.engines.chat import TRIES, Endpoint
from cascadia.profile.quality.journal import Done, Failed
from cascadia.profile.quality.prompts import Prompt
from cascadia.profile.quality.run import GIVE_UP_AFTER, Finished, Job, run
from tests.unit.profile.engine import HANGS_UP, Body, Engine, Says, question, serving

PROMPTS = tuple(
    Prompt(f"q{n}", ({"role": "user", "content": f"question {n}"},), "exact", f"answer {n}")
    for n in range(12)
)


def right(body: Body) -> Says:
    return Says(question(body).replace("question", "answer"))


def grade(says: Says) -> Callable[[Body], Says]:
    return lambda body: says


SURE = Says("9", top={"9": 0.75, "1": 0.25})


def job(stage: Engine, judge: Engine | None = None, prompts: tuple[Prompt, ...] = PROMPTS) -> Job:
    return Job(
        prompts=prompts,
        stages=(Endpoint("small", stage.url, "m"),),
        judge=Endpoint("judge", judge.url, "j") if judge else None,
        concurrency=3,
    )


def outcomes(wanted: Job, done: set[tuple[str, str]] | None = None) -> list[Finished]:
    """What a run reports."""
    seen: list[Finished] = []
    asyncio.run(run(wanted, done or set(), seen.append))
    return seen


def done_of(seen: list[Finished]) -> dict[str, Done]:
    return {f.outcome.prompt_id: f.outcome for f in seen if isinstance(f.outcome, Done)}


def failed_of(seen: list[Finished]) -> dict[str, Failed]:
    return {f.outcome.prompt_id: f.outcome for f in seen if isinstance(f.outcome, Failed)}


def test_every_prompt_is_asked_once_and_a_few_at_a_time(waits: list[float]) -> None:
    with serving(right) as stage, serving(grade(SURE)) as judge:
        seen = outcomes(job(stage, judge))
    assert Counter(question(body) for body in stage.asked) == Counter(f"question {n}" for n in range(12))
    assert stage.at_once <= 3
    assert judge.at_once <= 3
    assert waits == []
    row = done_of(seen)["q4"]
    assert row.score == pytest.approx(100 * (9 * 0.75 + 1 * 0.25) / 9)
    assert row == Done(
        "q4", "small", row.score, quality=100.0, input_tokens=11, output_tokens=7, cut=False, expected=True
    )


def test_the_score_is_the_judges_and_the_quality_the_checks() -> None:
    with serving(lambda body: Says("no idea")) as stage, serving(grade(SURE)) as judge:
        seen = outcomes(job(stage, judge))
    assert {(row.score > 70, row.quality) for row in done_of(seen).values()} == {(True, 0.0)}


def test_checks_alone_give_both() -> None:
    with serving(right) as stage:
        seen = outcomes(job(stage))
    assert {(row.score, row.quality) for row in done_of(seen).values()} == {(100.0, 100.0)}


def test_a_prompt_without_reference_has_no_quality() -> None:
    bare = (replace(PROMPTS[0], check=None, reference=None),)
    with serving(right) as stage, serving(grade(SURE)) as judge:
        seen = outcomes(job(stage, judge, bare))
    assert done_of(seen)["q0"].quality is None


def test_what_is_done_is_not_asked_again() -> None:
    with serving(right) as stage:
        seen = outcomes(job(stage), {("q0", "small"), ("q7", "small")})
    assert len(stage.asked) == len(seen) == 10
    assert "q0" not in done_of(seen)


def test_the_judge_sees_the_question_and_the_answer_and_gives_one_token() -> None:
    with serving(right) as stage, serving(grade(SURE)) as judge:
        outcomes(job(stage, judge, PROMPTS[:1]))
    (body,) = judge.asked
    assert "\nquestion 0\n[end of question" in question(body)
    assert "\nanswer 0\n[end of answer" in question(body)
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("j", 1, 0.0)


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_failures_in_passing_are_asked_again_with_growing_waits(status: int, waits: list[float]) -> None:
    says = iter([Says("busy", status), Says("busy", status), Says("busy", status)])
    with serving(lambda body: next(says, None) or right(body)) as stage:
        seen = outcomes(job(stage, prompts=PROMPTS[:1]))
    assert len(done_of(seen)) == 1
    assert [0.75 * at_most < wait <= at_most for wait, at_most in zip(waits, (0.5, 1, 2), strict=True)] == [
        True
    ] * 3


def test_an_engine_that_says_when_to_come_back_is_believed(waits: list[float]) -> None:
    says = iter([Says("busy", 429, {"retry-after": "17"}), Says("busy", 503, {"retry-after": "soon"})])
    with serving(lambda body: next(says, None) or right(body)) as stage:
        outcomes(job(stage, prompts=PROMPTS[:1]))
    assert waits[0] == 17.0
    assert 0.75 < waits[1] <= 1.0


ODD = (
    b'{"choices":[{"message":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":1e9}]}}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1}}'
)


@pytest.mark.long(in_ci=2)
@pytest.mark.parametrize(
    "content", [b"<html>", b"{}", b'{"choices": []}', b'{"choices": [{"message": {}}]}', ODD]
)
def test_a_reply_that_cannot_be_read_fails_its_prompt_and_says_so(content: bytes) -> None:
    says = iter([Says(raw=content)])
    with serving(lambda body: next(says, None) or right(body)) as stage:
        seen = outcomes(replace(job(stage), concurrency=1))
    assert failed_of(seen)["q0"].kind == "unreadable reply"
    assert len(done_of(seen)) == 11


def test_a_dropped_connection_is_made_anew(waits: list[float]) -> None:
    says = iter([Says(status=HANGS_UP)])
    with serving(lambda body: next(says, None) or right(body)) as stage:
        seen = outcomes(replace(job(stage), concurrency=1))
    assert len(done_of(seen)) == 12
    assert len(waits) == 1


def test_what_never_succeeds_fails_and_says_why(waits: list[float]) -> None:
    with serving(lambda body: Says("out of memory", 500)) as stage:
        seen = outcomes(job(stage, prompts=PROMPTS[:1]))
    assert failed_of(seen)["q0"] == Failed("q0", "small", "small", "HTTP 500")
    assert seen[0].why.endswith("answers 500: out of memory")
    assert len(stage.asked) == 1 + len(waits) == TRIES


def test_a_refusal_is_not_asked_again_and_the_others_go_on(waits: list[float]) -> None:
    def too_long(body: Body) -> Says:
        return Says("too long", 400) if question(body) != "question 11" else right(body)

    with serving(too_long) as stage:
        seen = outcomes(job(stage))
    assert waits == []
    assert len(stage.asked) == 12
    assert set(done_of(seen)) == {"q11"}


def test_a_stage_that_only_fails_is_left_alone_after_a_while_and_the_other_goes_on() -> None:
    many = tuple(replace(PROMPTS[0], id=str(n)) for n in range(60))
    with serving(lambda body: Says("no such model", 404)) as bad, serving(right) as good:
        both = replace(
            job(bad, prompts=many),
            stages=(Endpoint("small", bad.url, "m"), Endpoint("large", good.url, "m")),
        )
        seen = outcomes(both)
    assert GIVE_UP_AFTER <= len(bad.asked) < GIVE_UP_AFTER + 3
    assert len(good.asked) == 60
    assert {f.outcome.stage for f in seen if isinstance(f.outcome, Done)} == {"large"}


def test_an_engine_that_never_answers_has_failed_when_every_attempt_has_timed_out(waits: list[float]) -> None:
    import threading

    release = threading.Event()

    def stuck(body: Body) -> Says:
        release.wait(60)
        return right(body)

    with serving(stuck) as stage:
        hurried = replace(job(stage, prompts=PROMPTS[:1]), timeout_s=0.05)
        seen = outcomes(hurried)
        release.set()
    assert failed_of(seen)["q0"].kind == "time-out"
    assert seen[0].why == "small: no answer within 0.05 s"
    assert len(waits) == TRIES - 1


def test_an_engine_that_is_gone_is_told(waits: list[float]) -> None:
    with serving(right) as stage:
        gone = job(stage, prompts=PROMPTS[:1])
    seen = outcomes(gone)
    assert failed_of(seen)["q0"].kind == "no connection"
    assert "cannot be reached" in seen[0].why
    assert len(waits) == TRIES - 1


def test_an_engine_that_knows_the_limit_of_tokens_by_its_newer_name_is_told_it_so() -> None:
    def newer(body: Body) -> Says:
        if "max_tokens" in body:
            return Says("max_tokens is not supported, use max_completion_tokens", 400)
        return right(body) if body["max_completion_tokens"] == 1024 else Says("whose limit?", 400)

    with serving(newer) as stage:
        seen = outcomes(replace(job(stage), concurrency=1))
    assert len(done_of(seen)) == 12
    assert len(stage.asked) == 13


def test_tokens_that_are_written_alike_count_together() -> None:
    tops = [{"token": "9", "logprob": -1.0}, {"token": "9", "logprob": -1.0}, {"token": "0", "logprob": -1.0}]
    choice = {"message": {"content": "9"}, "logprobs": {"content": [{**tops[0], "top_logprobs": tops}]}}
    raw = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}).encode()
    with serving(right) as stage, serving(grade(Says(raw=raw))) as judge:
        seen = outcomes(job(stage, judge, PROMPTS[:1]))
    assert done_of(seen)["q0"].score == pytest.approx(200 / 3)


def test_a_judge_that_talks_first_is_given_room() -> None:
    def talks(body: Body) -> Says:
        return Says("Grade: 7" if body["max_tokens"] > 1 else "Grade", top={"Grade": 1.0})

    with serving(right) as stage, serving(talks) as judge:
        seen = outcomes(job(stage, judge, PROMPTS[:1]))
    assert done_of(seen)["q0"].score == pytest.approx(100 * 7 / 9)
    assert not done_of(seen)["q0"].expected


def test_a_judge_that_must_be_forced_to_write_a_digit_is() -> None:
    def forced(body: Body) -> Says:
        if "response_format" in body:
            return Says("9", top={"9": 0.03, "0": 0.01, "I": 0.9})
        return Says("I", top={"I": 1.0})

    with serving(right) as stage, serving(forced) as judge:
        seen = outcomes(job(stage, judge, PROMPTS[:1]))
    assert done_of(seen)["q0"].score == pytest.approx(75.0)
    assert len(judge.asked) == 2


def test_a_judge_whose_engine_knows_no_schemas_is_asked_once_for_one() -> None:
    def plain(body: Body) -> Says:
        if "response_format" in body:
            return Says("response_format is not supported", 400)
        return Says("I say 6" if body["max_tokens"] > 1 else "I")

    with serving(right) as stage, serving(plain) as judge:
        seen = outcomes(replace(job(stage, judge), concurrency=1))
    assert len(done_of(seen)) == 12
    assert sum("response_format" in body for body in judge.asked) == 1


def test_a_judge_that_writes_nonsense_fails_by_name_after_some_attempts() -> None:
    with serving(right) as stage, serving(grade(Says("I like it", top={"I": 1.0}))) as judge:
        seen = outcomes(job(stage, judge, PROMPTS[:1]))
    assert failed_of(seen)["q0"] == Failed("q0", "small", "judge", "no grade")
    assert seen[0].why == "judge: the judge wrote 'I like it', and no grade when asked in other manners"
    assert len(judge.asked) == 4
    assert len(stage.asked) == 1


def test_a_judge_without_logprobs_is_asked_without_them_from_then_on() -> None:
    def plain(body: Body) -> Says:
        return Says("logprobs are not supported", 400) if "logprobs" in body else Says("6")

    with serving(right) as stage, serving(plain) as judge:
        seen = outcomes(replace(job(stage, judge), concurrency=1))
    assert len(done_of(seen)) == 12
    assert sum("logprobs" in body for body in judge.asked) == 1


def test_an_answer_that_is_no_text_at_all_is_judged_and_takes_a_token() -> None:
    raw = b'{"choices":[{"message":{"content":null}}],"usage":{"prompt_tokens":3,"completion_tokens":0}}'
    with serving(lambda body: Says(raw=raw)) as stage, serving(grade(SURE)) as judge:
        seen = outcomes(job(stage, judge, PROMPTS[:1]))
    assert done_of(seen)["q0"].output_tokens == 1


def test_half_a_surrogate_pair_in_an_answer_reaches_the_judge() -> None:
    with serving(lambda body: Says("\ud83d")) as stage, serving(grade(SURE)) as judge:
        seen = outcomes(job(stage, judge, PROMPTS[:1]))
    assert len(done_of(seen)) == 1


def test_what_goes_wrong_with_keeping_an_answer_ends_the_run_as_itself() -> None:
    def full(finished: Finished) -> None:
        raise OSError(28, "No space left on device")

    with serving(right) as stage, pytest.raises(OSError, match="No space left"):
        asyncio.run(run(job(stage), set(), full))
