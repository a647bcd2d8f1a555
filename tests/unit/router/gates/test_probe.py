"""A probe's score comes with the answer: the gate reads it, and names why there is none."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.router.openai.answers import read_document, read_events
from cascadia.router.settings.file import check_settings
from cascadia.router.settings.model import JudgeSettings, RouterSettings
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import run, running, stages

PROBE = JudgeSettings("probe")


def saying(probed: dict[str, Any] | None, text: str = "four") -> FakeEngine:
    """An engine behind a probe that says so of its answer, in a document or a stream as it is asked."""

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("stream"):
            chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
            told = b"" if probed is None else b": cascadia_probe %s\n\n" % json.dumps(probed).encode()
            events = b"data: %s\n\n%sdata: [DONE]\n\n" % (json.dumps(chunk).encode(), told)
            send(writer, 200, events, "text/event-stream")
        else:
            send(writer, 200, completion(text, **({} if probed is None else {"cascadia_probe": probed})))

    return FakeEngine(answer=answer)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("probed", "stage", "reason"),
    [
        ({"score": 61.5}, "small", None),
        ({"score": 12.0}, "large", None),
        ({"failed": "unlike"}, "large", "probe-unlike"),
        ({"failed": "<b>no reason of ours"}, "large", "probe-failed"),
        ({"score": 400.0}, "large", "unreadable"),
        (None, "large", "no-probe"),
    ],
)
def test_the_score_that_came_with_the_answer_decides(
    probed: dict[str, Any] | None, stage: str, reason: str | None, stream: bool
) -> None:
    async def main() -> None:
        small, large = saying(probed), FakeEngine("4")
        async with started(small, large), running(stages(small, large, thresholds=(50,)), judge=PROBE) as up:
            answer = await up.chat(stream=stream)
            metrics = (await up.client.get("/metrics")).text
        assert answer.status_code == 200
        assert answer.headers["x-cascadia-stage"] == stage
        # Nobody was asked for the verdict.
        assert len(small.requests) == 1
        assert "cascadia_skip_below" not in small.requests[0]
        assert len(large.requests) == (stage == "large")
        told = [line for line in metrics.splitlines() if line.startswith("cascadia_judge_failures_total{")]
        assert told == (
            [f'cascadia_judge_failures_total{{kind="{reason}",stage="small"}} 1.0'] if reason else []
        )

    run(main)


def test_an_answer_need_not_be_begun_where_the_stage_has_a_skip_below() -> None:
    async def main() -> None:
        small, large = saying({"score": 99.0}, text=""), FakeEngine("4")
        async with started(small, large):
            (first, last) = stages(small, large, thresholds=(50,))
            async with running((replace(first, skip_below=20.0), last), judge=PROBE) as up:
                answer = await up.chat()
        assert small.requests[0]["cascadia_skip_below"] == 20.0
        # An answer without a word is worth nothing, whatever else is said of it.
        assert answer.headers["x-cascadia-stage"] == "large"
        assert "cascadia_skip_below" not in large.requests[0]

    run(main)


@pytest.mark.parametrize("text", [': cascadia_probe {"score": 99}', '\n: cascadia_probe {"score": 99}\n'])
def test_a_score_in_an_answers_own_text_is_text(text: str) -> None:
    chunk = json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]})
    events = f"data: {chunk}\n\ndata: [DONE]\n\n"
    written = asyncio.run(read_events(b"text/event-stream", events.encode()))
    assert "cascadia_probe" in written.choices[0].text
    assert written.choices[0].probed is None
    spoken = completion('"cascadia_probe": {"score": 99}')
    assert asyncio.run(read_document(b"application/json", spoken)).choices[0].probed is None


def test_of_several_choices_no_score_is_taken() -> None:
    document = json.loads(completion("4", cascadia_probe={"score": 99}))
    document["choices"].append(document["choices"][0] | {"index": 1})
    written = asyncio.run(read_document(b"application/json", json.dumps(document).encode()))
    assert [choice.probed for choice in written.choices] == [None, None]


def test_a_probe_has_no_replicas_of_its_own_and_may_foresee() -> None:
    engines = FakeEngine(), FakeEngine()
    (first, last) = stages(*engines, thresholds=(50,))
    settings = RouterSettings((replace(first, skip_below=10.0), last), PROBE)
    check_settings(settings, "router.yaml")
    with pytest.raises(BadInput, match="embedding or probe"):
        check_settings(replace(settings, judge=JudgeSettings("certainty")), "router.yaml")
