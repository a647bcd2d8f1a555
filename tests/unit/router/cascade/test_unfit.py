"""A stage that cannot read what is asked is passed over, be it smaller or larger than the one that has answered."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.testing.engines import Answer, FakeEngine, send
from cascadia.testing.one_pass import classifier
from cascadia.testing.routers import ScriptedGate, run, running, stages, started
from tests.unit.router.cascade.test_one_pass import UNSURE, classify, two

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LONG, NO_PICTURES, MISTAKE = (
    "This model's maximum context length is 512 tokens.",
    "At most 0 image(s) may be provided in one prompt.",
    "No such field.",
)


def refuses(message: str) -> Answer:
    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 400, json.dumps({"error": {"message": message, "code": 400}}).encode())

    return answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("message", "content", "why"),
    [(LONG, "q", "context"), (NO_PICTURES, [PICTURE], "media"), (MISTAKE, "q", None)],
)
def test_where_the_last_stage_cannot_read_it_the_answer_before_is_given(
    message: str, content: Any, why: str | None, stream: bool
) -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine(answer=refuses(message))
        async with started(small, large):
            settings = stages(small, large, thresholds=(50.0,))
            async with running(settings, ScriptedGate({"weak": 10.0})) as up:
                found = await up.chat(stream=stream, messages=[{"role": "user", "content": content}])
        if why is None:
            assert (found.status_code, found.json()["error"]["message"]) == (400, message)
            return
        assert (found.status_code, found.headers["x-cascadia-stopped"]) == (200, "failed")
        assert found.headers["x-cascadia-stage"] == "small"
        assert f"large;outcome={why}" in found.headers["x-cascadia-steps"]

    run(main)


@pytest.mark.parametrize("unfit", ["small", "large"])
def test_texts_too_long_for_one_model_are_another_s(unfit: str) -> None:
    async def main() -> None:
        reads, lacks = classifier(lambda _: UNSURE), FakeEngine(answer=refuses(LONG))
        engines = (lacks, reads) if unfit == "small" else (reads, lacks)
        async with started(*engines), running(two(*engines)) as router:
            found = await classify(router, input=["a", "b"])
        answers = "large" if unfit == "small" else "small"
        assert (found.status_code, found.headers["x-cascadia-stage"]) == (200, answers)
        assert f"{unfit};outcome=context" in found.headers["x-cascadia-steps"]
        assert found.headers.get("x-cascadia-stopped") == (None if unfit == "small" else "failed")
        assert len(found.json()["data"]) == 2

    run(main)


def test_what_no_model_reads_is_refused() -> None:
    async def main() -> None:
        engines = FakeEngine(answer=refuses(LONG)), FakeEngine(answer=refuses(LONG))
        async with started(*engines), running(two(*engines)) as router:
            found = await classify(router, input="a")
        assert (found.status_code, found.json()["error"]["message"]) == (400, LONG)

    run(main)
