"""Which stages may answer a request, before any is asked."""

import asyncio
from types import SimpleNamespace

import pytest

from cascadia.router.cascade.eligible import gear_threshold, route, too_long
from cascadia.router.openai.bounded import LONG_BYTES
from cascadia.router.replicas.results import Reply
from cascadia.router.settings.model import ACCEPTS_ALL, GearSettings


def stage(name: str, max_model_len: int | None = None, *, ready: bool = True) -> SimpleNamespace:
    settings = SimpleNamespace(max_model_len=max_model_len, threshold=70.0)
    told: list[str] = []
    metrics = SimpleNamespace(escalated=told.append)
    return SimpleNamespace(name=name, settings=settings, metrics=metrics, told=told, ready=ready)


CASCADE = [stage("small"), stage("medium"), stage("large")]


@pytest.mark.parametrize(
    ("n", "first", "last", "names"),
    [
        (None, 0, 2, ["small", "medium", "large"]),
        (4, 0, 2, ["small", "medium", "large"]),
        (5, 0, 2, ["large"]),
        (5, 0, 1, ["medium"]),
        (1, 1, 2, ["medium", "large"]),
        (1, 1, 1, ["medium"]),
    ],
)
def test_who_wants_more_choices_than_are_judged_is_answered_by_the_last_alone(
    n: int | None, first: int, last: int, names: list[str]
) -> None:
    fields = SimpleNamespace(choices=n or 1, output_limit=None, unwritten=False)
    ask = SimpleNamespace(first=first, last=last, gear=None, fields=fields, body=b"{}")
    found = asyncio.run(route(ask, CASCADE, 4))  # type: ignore[arg-type]
    assert [each.name for each in found.stages] == names
    assert found.beyond == []


def names(stages: object) -> str:
    return " ".join(each.name for each in stages)  # type: ignore[attr-defined]


def ways(cascade: list[SimpleNamespace], **changes: object) -> tuple[str, str]:
    """Stages, and those beyond, of a request that may reach all of `cascade` unless `changes` say otherwise."""
    fields = SimpleNamespace(choices=1, output_limit=changes.pop("output_limit", None), unwritten=False)
    given = {
        "first": 0,
        "last": len(cascade) - 1,
        "gear": None,
        "fields": fields,
        "body": b"{}",
        "score_min": 0.0,
    }
    found = asyncio.run(route(SimpleNamespace(**(given | changes)), cascade, 4))  # type: ignore[arg-type]
    return names(found.stages), names(found.beyond)


@pytest.mark.parametrize(
    ("asked", "limits", "expected"),
    [
        ("b", {}, ("b", "c d a")),
        ("a c", {}, ("a c", "d b")),
        ("a b c d", {}, ("a b c d", "")),
        ("b", {"score_min": 1.0}, ("b c d", "a")),
        ("a d", {"first": 1, "last": 2}, ("b", "c")),
        ("d", {"last": 2}, ("c", "b a")),
        ("a", {"first": 1}, ("b", "c d")),
        ("c", {"first": 1}, ("c", "d b")),
    ],
)
def test_a_gears_stages_are_asked_within_the_requests_limits_and_the_others_beyond(
    asked: str, limits: dict[str, object], expected: tuple[str, str]
) -> None:
    gear = GearSettings(0, None, tuple(asked.split()))
    assert ways([stage(name) for name in "abcd"], gear=gear, **limits) == expected


@pytest.mark.parametrize(
    ("asked", "down", "score_min", "expected"),
    [
        ("b", "b", 0.0, ("c", "a")),
        ("c", "c", 0.0, ("b", "a")),
        ("b c", "b", 0.0, ("b c", "a")),
        ("a b c", "abc", 0.0, ("a b c", "")),
        ("b", "b", 5.0, ("b c", "a")),
    ],
)
def test_where_none_of_a_gears_stages_serves_another_does(
    asked: str, down: str, score_min: float, expected: tuple[str, str]
) -> None:
    gear = GearSettings(0, None, tuple(asked.split()))
    cascade = [stage(name, ready=name not in down) for name in "abc"]
    assert ways(cascade, gear=gear, score_min=score_min) == expected


@pytest.mark.parametrize(
    ("tokens", "wanted", "expected"),
    [
        (9, 1, "small large"),
        (9, None, "small large"),
        (10, 1, "large"),
        (5, 5, "small large"),
        (5, 6, "large"),
    ],
)
def test_what_is_too_long_even_at_six_bytes_a_token_is_not_tried(
    tokens: int, wanted: int | None, expected: str
) -> None:
    cascade = [stage("small", 10), stage("large", 8)]
    found, beyond = ways(cascade, body=b"x" * (6 * tokens), output_limit=wanted)
    assert (found, beyond) == (expected, "")
    assert cascade[0].told == ([] if "small" in found else ["context"])
    assert cascade[1].told == []


def test_pictures_are_no_text_and_their_bytes_say_nothing_of_tokens() -> None:
    body = b'{"image_url": "%s"}' % (b"x" * 600)
    assert ways([stage("small", 10), stage("large")], body=body) == ("small large", "")


def test_a_long_body_is_looked_through_in_turns() -> None:
    async def main() -> int:
        fields = SimpleNamespace(choices=1, output_limit=None, unwritten=False)
        ask = SimpleNamespace(first=0, last=1, gear=None, fields=fields, body=b"i" * (4 * LONG_BYTES))
        cascade = [stage("small", 10), stage("large")]
        task, turns = asyncio.ensure_future(route(ask, cascade, 4)), 0  # type: ignore[arg-type]
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert names((await task).stages) == "large"
        return turns

    assert asyncio.run(main()) > 4


def test_a_prompt_too_long_for_a_gears_stage_goes_on_beyond_it() -> None:
    gear = GearSettings(0, None, ("a",))
    cascade = [stage("a", 10), stage("b"), stage("c")]
    assert ways(cascade, gear=gear, body=b"x" * 600) == ("b", "c")


@pytest.mark.parametrize(
    ("name", "threshold"), [("a", 30.0), ("b", 70.0), ("c", ACCEPTS_ALL), ("d", ACCEPTS_ALL)]
)
def test_the_last_stage_of_a_gear_is_content_with_its_own_answers(name: str, threshold: float) -> None:
    gear = GearSettings(0, None, ("a", "b", "c"), {"a": 30.0, "c": 90.0})
    assert gear_threshold(gear, stage(name)) == threshold  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, b'{"code": "context_length_exceeded"}', True),
        (413, b"the request exceeds the available CONTEXT SIZE", True),
        (422, b"longer than max_model_len", True),
        (500, b"context_length_exceeded", False),
        (400, b"temperature must be positive", False),
    ],
)
def test_an_engine_says_in_words_that_a_prompt_is_too_long(status: int, body: bytes, expected: bool) -> None:
    refused: Reply[None] = Reply(status, b"", body)
    assert too_long(refused) is expected
