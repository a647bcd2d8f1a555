"""Exits of one-pass engines on the page: where inputs left, and the setting in force over time."""

import asyncio
from typing import Any

import pytest

from cascadia.router.openai.one_pass import classified_in
from cascadia.router.settings.model import ReplicaSettings, StageSettings
from cascadia.router.upstream.errors import UpstreamError
from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.one_pass import classification, classifier
from cascadia.testing.routers import run, running


def exiting(*told: dict[str, Any]) -> FakeEngine:
    """An engine that tells of its exits, from answer to answer."""
    rest = list(told)

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        send(writer, 200, classification([[0.9, 0.1]] * len(texts), rest.pop(0)))

    return FakeEngine(answer=answer)


def two(small: FakeEngine, large: FakeEngine) -> tuple[StageSettings, ...]:
    return (
        StageSettings("small", "small", (ReplicaSettings(small.url),), 50.0, task="classify"),
        StageSettings("large", "large", (ReplicaSettings(large.url),), 0.0, task="classify"),
    )


def test_the_page_tells_where_inputs_left_and_what_is_certified() -> None:
    async def main() -> None:
        none = {"left": [0, 0, 2], "setting": 0, "settings": 40, "withdrawn": 0}
        some = {"left": [2, 0, 1], "setting": 7, "settings": 40, "withdrawn": 1}
        engines = exiting(none, some), classifier(lambda _: [0.9, 0.1])
        async with started(*engines), running(two(*engines)) as router:
            await router.client.post("/v1/classify", json={"model": "cascadia", "input": ["a", "b"]})
            await router.client.post("/v1/classify", json={"model": "cascadia", "input": ["a", "b", "c"]})
            state = (await router.client.get("/ui/state?window=all")).json()
            metrics = (await router.client.get("/metrics")).text
        small, large = state["stages"]
        assert large["exits"] is None
        assert small["exits"] | {"series": []} == {
            "left": {"0": 3, "1": 2},
            "setting": 7,
            "settings": 40,
            "withdrawn": 1,
            "series": [],
        }
        assert small["exits"]["series"][-1] == 7
        assert 'cascadia_stage_exits_total{at="1",stage="small"} 2.0' in metrics

    run(main)


def test_exits_that_cannot_be_are_an_engines_fault() -> None:
    body = classification([[0.9, 0.1]], {"left": [-1, 2]})
    with pytest.raises(UpstreamError, match="no classification in JSON"):
        asyncio.run(classified_in(b"application/json", body, 1))
