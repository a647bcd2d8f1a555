"""The cascade of models that answer in one pass: by margin, input by input; and what is no cascade."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from cascadia.router.openai.one_pass import margin, margin_at, shares
from cascadia.router.settings.model import ReplicaSettings, StageSettings, Task
from cascadia.testing.engines import FakeEngine, send
from cascadia.testing.one_pass import classifier
from cascadia.testing.routers import Running, run, running, stages, started

SURE, UNSURE, LARGE = [0.9, 0.1], [0.55, 0.45], [0.2, 0.8]


def small() -> FakeEngine:
    return classifier(lambda text: UNSURE if "hard" in text else SURE)


def two(*engines: FakeEngine, task: Task = "classify", threshold: float = 50.0) -> tuple[StageSettings, ...]:
    names = ("small", "large")
    return tuple(
        StageSettings(name, name, (ReplicaSettings(engine.url),), bar, task=task)
        for name, engine, bar in zip(names, engines, (threshold, 0.0), strict=True)
    )


async def classify(router: Running, **body: Any) -> httpx.Response:
    path = body.pop("path", "/v1/classify")
    return await router.client.post(path, json={"model": "cascadia"} | body)


def test_a_certain_answer_stays_and_an_uncertain_one_goes_on() -> None:
    async def main() -> None:
        engines = small(), classifier(lambda _: LARGE)
        async with started(*engines), running(two(*engines)) as router:
            easy = await classify(router, input="easy")
            hard = await classify(router, input="hard", path="/classify")
        assert easy.headers["x-cascadia-stage"] == "small"
        assert easy.headers["x-cascadia-score"] == "80.00"
        assert hard.headers["x-cascadia-stage"] == "large"
        assert hard.json()["data"] == [{"index": 0, "label": "1", "probs": LARGE, "num_classes": 2}]
        assert hard.json()["usage"]["prompt_tokens"] == 5
        assert hard.json()["cascadia"]["usage"]["prompt_tokens"] == 10
        assert "small;outcome=score;score=10.00;threshold=50.00" in hard.headers["x-cascadia-steps"]

    run(main)


def test_what_an_earlier_stage_said_counts_by_its_weight() -> None:
    async def main() -> None:
        for weight, label in ((0.0, "1"), (1.0, "0")):
            engines = classifier(lambda _: [0.7, 0.3]), classifier(lambda _: [0.4, 0.6])
            async with started(*engines):
                first, second = two(*engines)
                async with running((first, replace(second, earlier_weight=weight))) as router:
                    found = await classify(router, input=["hard", "hard too"])
            assert [part["label"] for part in found.json()["data"]] == [label, label]

    run(main)


def test_of_a_list_only_what_is_uncertain_goes_on_and_all_comes_back_in_order() -> None:
    async def main() -> None:
        engines = small(), classifier(lambda _: LARGE)
        async with started(*engines), running(two(*engines)) as router:
            found = await classify(router, input=["easy", "hard 1", "plain", "hard 2"])
        assert engines[1].requests[0]["input"] == ["hard 1", "hard 2"]
        assert [part["label"] for part in found.json()["data"]] == ["0", "1", "0", "1"]
        assert [part["index"] for part in found.json()["data"]] == [0, 1, 2, 3]
        assert found.json()["cascadia"]["stages"] == ["small", "large", "small", "large"]
        assert found.json()["usage"]["prompt_tokens"] == 20

    run(main)


def test_where_the_last_stage_fails_the_best_earlier_answer_is_marked() -> None:
    async def broken(_: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 500, b"{}")

    async def main() -> None:
        engines = small(), FakeEngine(answer=broken)
        async with started(*engines), running(two(*engines)) as router:
            found = await classify(router, input="hard")
        assert (found.status_code, found.headers["x-cascadia-stopped"]) == (200, "failed")
        assert found.json()["data"][0]["probs"] == UNSURE

    run(main)


def test_who_has_no_time_left_for_a_slow_stage_has_the_answer_before_it() -> None:
    async def main() -> None:
        engines = small(), classifier(lambda _: LARGE)
        async with started(*engines), running(two(*engines)) as router:
            router.router.stages[1].admission.times.took(60.0)
            found = await classify(router, input="hard", deadline_ms=30_000)
        assert (found.status_code, found.headers["x-cascadia-stopped"]) == (200, "deadline")
        assert found.headers["x-cascadia-stage"] == "small"
        assert engines[1].requests == []

    run(main)


def test_an_answer_that_is_given_because_no_better_one_could_be_had_is_counted_for_its_stage() -> None:
    async def broken(_: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 500, b"{}")

    async def main() -> None:
        engines = small(), FakeEngine(answer=broken)
        async with started(*engines), running(two(*engines)) as router:
            accepted = router.router.metrics.accepted.labels
            assert (await classify(router, input=["easy", "hard"])).headers["x-cascadia-stopped"] == "failed"
            assert (accepted("small").value, accepted("large").value) == (1.0, 0.0)
            router.router.stages[1].admission.times.took(60.0)
            late = await classify(router, input="hard", deadline_ms=30_000)
            assert late.headers["x-cascadia-stopped"] == "deadline"
            assert (accepted("small").value, accepted("large").value) == (2.0, 0.0)

    run(main)


def test_an_answer_says_what_it_cost_where_prices_are_known_as_a_chat_s_does() -> None:
    async def main() -> None:
        engines = small(), classifier(lambda _: LARGE)
        async with started(*engines):
            free = two(*engines)
            priced = tuple(replace(s, price=(p, 0.0)) for s, p in zip(free, (100.0, 1000.0), strict=True))
            async with running(priced) as router:
                found = await classify(router, input=["easy", "hard"])
                counted = router.router.metrics.registry.get_sample_value
                usd = [counted("cascadia_cascade_usd_total", {"stage": name}) for name in ("small", "large")]
            async with running(free) as router:
                unpriced = await classify(router, input="easy")
        # Two inputs of 5 tokens at $100 a million, and one of them at $1,000.
        assert usd == [pytest.approx(0.001), pytest.approx(0.005)]
        assert found.headers["x-cascadia-usd"] == "0.006000000"
        assert found.json()["cascadia"]["usd"] == pytest.approx(0.006)
        assert "x-cascadia-usd" not in unpriced.headers
        assert "usd" not in unpriced.json()["cascadia"]

    run(main)


def test_an_engine_that_refuses_is_passed_on() -> None:
    async def main() -> None:
        engines = small(), small()
        async with started(*engines), running(two(*engines)) as router:
            found = await classify(router, input="poison")
        assert (found.status_code, found.json()["error"]["code"]) == (400, "bad")
        engines = small(), classifier(lambda _: LARGE, poison="hard")
        async with started(*engines), running(two(*engines)) as router:
            later = await classify(router, input=["easy", "too", "hard"])
        assert later.json()["error"]["message"] == "input[2]: cannot be read"

    run(main)


def test_a_request_of_its_own_names_the_least_margin() -> None:
    async def main() -> None:
        engines = small(), classifier(lambda _: LARGE)
        async with started(*engines), running(two(*engines)) as router:
            found = await classify(router, input="easy", score_min=95)
            last = await classify(router, input="hard", max_stage="small")
        assert found.headers["x-cascadia-stage"] == "large"
        assert last.headers["x-cascadia-stage"] == "small"

    run(main)


def ranker(scores: list[float], *, as_list: bool = False) -> FakeEngine:
    async def answer(_: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        name = "score" if as_list else "relevance_score"
        results = sorted(
            ({"index": at, "document": text, name: scores[at]} for at, text in enumerate(body["documents"])),
            key=lambda one: -one[name],
        )[: body.get("top_n") or None]
        usage = {"prompt_tokens": 8, "total_tokens": 8}
        send(
            writer,
            200,
            json.dumps(results if as_list else {"id": "r", "usage": usage, "results": results}).encode(),
        )

    return FakeEngine(answer=answer)


def test_a_ranking_goes_on_by_the_margin_at_its_cut() -> None:
    asked = {"query": "q", "documents": ["a", "b", "c"]}

    async def main() -> None:
        for as_list in (False, True):
            engines = ranker([0.9, 0.8, 0.1], as_list=as_list), ranker([0.1, 0.2, 0.9], as_list=as_list)
            async with started(*engines), running(two(*engines, task="rerank")) as router:
                first = await classify(router, **asked, top_n=1, path="/v1/rerank")
                both = await classify(router, **asked, top_n=2, path="/rerank")
            results = [found.json() if as_list else found.json()["results"] for found in (first, both)]
            # Between first and second there is little, between second and third much.
            assert [one["index"] for one in results[0]] == [2]
            assert first.headers["x-cascadia-stage"] == "large"
            assert [one["index"] for one in results[1]] == [0, 1]
            assert both.headers["x-cascadia-score"] == "70.00"
            assert engines[0].requests[1]["top_n"] == 3

    run(main)


@pytest.mark.parametrize("top_n", [None, 0, 3, 9])
def test_all_results_are_as_certain_however_they_are_asked_for(top_n: int | None) -> None:
    """Who writes the number of documents into `top_n` had the smallest model's order, however close it was."""
    asked = {"query": "q", "documents": ["a", "b", "c"]} | ({} if top_n is None else {"top_n": top_n})

    async def main() -> None:
        engines = ranker([0.50, 0.49, 0.48]), ranker([0.1, 0.2, 0.9])
        async with started(*engines), running(two(*engines, task="rerank")) as router:
            found = await classify(router, **asked, path="/v1/rerank")
        assert found.headers["x-cascadia-stage"] == "large"
        assert [one["index"] for one in found.json()["results"]] == [2, 1, 0]

    run(main)


@pytest.mark.parametrize(
    ("path", "task"), [("/classify", "classify"), ("/rerank", "rerank"), ("/v2/rerank", "rerank")]
)
@pytest.mark.parametrize("model", ["cascadia", "small"])
def test_engines_are_asked_by_the_one_path_that_all_have(path: str, task: Task, model: str) -> None:
    """SGLang knows vLLM's other names of it not: what was asked by one was a 404."""
    asked = {"input": "a"} if task == "classify" else {"query": "q", "documents": ["a", "b"]}

    async def main() -> None:
        engines = [small() if task == "classify" else ranker([0.9, 0.1]) for _ in range(2)]
        async with started(*engines), running(two(*engines, task=task)) as router:
            found = await classify(router, **asked, model=model, path=path)
        assert found.status_code == 200
        assert [head.split()[1] for engine in engines for head in engine.heads] == [f"/v1/{task}"]

    run(main)


def test_what_a_router_does_not_cascade_it_says() -> None:
    async def main() -> None:
        engines = small(), small()
        async with started(*engines), running(two(*engines)) as router:
            embedded = await classify(router, input="a", path="/v1/embeddings")
            chat = await router.chat()
        async with started(engine := FakeEngine()), running(stages(engine)) as router:
            classified = await classify(router, input="a")
        said = [found.json()["error"]["message"] for found in (embedded, chat, classified)]
        assert said[0] == (
            "Embeddings of two models cannot be compared, so they do not cascade; name one of small, large."
        )
        assert (
            said[1]
            == "The stages here do not serve /v1/chat/completions: their task is classify, at /v1/classify."
        )
        assert "their task is generate" in said[2]

    run(main)


def test_bad_input_is_told_before_any_engine_is_asked() -> None:
    async def main() -> None:
        engines = small(), small()
        async with started(*engines), running(two(*engines)) as router:
            for body in ({}, {"input": []}, {"input": {"a": 1}}):
                found = await classify(router, **body)
                assert (found.status_code, found.json()["error"]["param"]) == (400, "input")
        assert not engines[0].requests

    run(main)


def test_a_margin_is_the_difference_of_the_two_greatest() -> None:
    assert margin([0.125, 0.75, 0.125]) == 62.5
    assert margin([1.0]) == 100.0
    assert margin_at([0.9, 0.5, 0.25], 2) == 25.0
    assert margin_at([0.9, 0.5], 2) == margin_at([0.9, 0.5], 1) == 40.0
    assert margin_at([0.9], 1) == margin_at([], 1) == 100.0


def test_shares_of_tokens_add_up() -> None:
    assert list(shares(10, [1, 1, 1])) == [3, 3, 4]
    assert list(shares(7, [30, 0, 40])) == [3, 0, 4]
