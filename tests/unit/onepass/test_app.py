"""The engine's service: its shapes, what it refuses, and that requests share passes."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import httpx

from cascadia.onepass.app import AT_ONCE_MAX, application
from cascadia.onepass.runner import Input, Runner
from tests.unit.onepass.little_model import LABELS, little_model


@asynccontextmanager
async def serving(folder: Path, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    runners = [
        Runner.read(little_model(folder, "little")),
        Runner.read(little_model(folder, "ranks", task="rerank")),
    ]
    app = application(runners, **more)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
            yield client


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_texts_are_classified_in_the_shape_of_vllm(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as client:
            asked = {"model": "little", "input": ["w1 w2", "w3"]}
            many = (await client.post("/v1/classify", json=asked)).json()
            one = (await client.post("/classify", json={"input": "w3"})).json()
            metrics = (await client.get("/metrics")).text
            models = (await client.get("/v1/models")).json()
            health = (await client.get("/health")).status_code
        assert many["object"] == "list"
        assert [part["index"] for part in many["data"]] == [0, 1]
        for part in many["data"]:
            assert part["label"] == LABELS[part["probs"].index(max(part["probs"]))]
            assert part["num_classes"] == 3
        assert many["usage"]["prompt_tokens"] == many["usage"]["total_tokens"] == 7
        assert [round(p, 5) for p in one["data"][0]["probs"]] == [
            round(p, 5) for p in many["data"][1]["probs"]
        ]
        assert 'cascadia_engine_batch_size_sum{model="little"} 3.0' in metrics
        assert 'cascadia_engine_requests_total{model="little",status="200"} 2.0' in metrics
        assert [model["id"] for model in models["data"]] == ["little", "ranks"]
        assert health == 200

    run(main())


def test_documents_are_ranked_in_the_shape_of_vllm(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as client:
            asked = {"model": "ranks", "query": "w1", "documents": ["w9", {"text": "w1"}, "w3"], "top_n": 2}
            found = (await client.post("/v1/rerank", json=asked)).json()
        assert len(found["results"]) == 2
        assert found["results"][0]["index"] == 1
        assert found["results"][0]["document"] == {"text": "w1"}
        assert abs(found["results"][0]["relevance_score"] - 1.0) < 1e-5
        assert found["usage"] == {"prompt_tokens": 12, "total_tokens": 12}

    run(main())


def test_a_long_text_is_read_beside_the_event_loop(tmp_path: Path) -> None:
    """A million characters take seconds, and others have deadlines of milliseconds."""
    on_the_loop = []

    class Reader(Runner):
        def ids(self, inputs: Sequence[Input], *, truncate: int | None = None) -> list[list[int]]:
            on_the_loop.append(current_thread() is main_thread())
            return Runner.ids(self, inputs, truncate=truncate)

    async def main() -> None:
        app = application([Reader.read(little_model(tmp_path, "little"))])
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://engine") as client,
        ):
            for text in ("w1", "w1 " * AT_ONCE_MAX, ["w1 w2 w3"] * 1024, ["w1 w2 w3 w4 w5 w6"] * 1024):
                asked = {"input": text, "truncate_prompt_tokens": -1}
                assert (await client.post("/v1/classify", json=asked)).status_code == 200
        assert on_the_loop == [True, False, True, False]

    run(main())


def test_what_cannot_be_served_is_told_in_openai_s_words(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, api_key="k") as client:
            keyless = await client.post("/v1/classify", json={"input": "w1"})
            client.headers["authorization"] = "Bearer k"
            cases = [
                ("/v1/classify", {"model": "none", "input": "w1"}, 404, "model_not_found"),
                ("/v1/classify", {"model": "ranks", "input": "w1"}, 400, "wrong_task"),
                ("/v1/classify", {"input": ["w1", " "]}, 400, "invalid_request"),
                ("/v1/classify", {"input": []}, 400, "invalid_request"),
                ("/v1/classify", {"input": ["w1", 3]}, 400, "invalid_request"),
                ("/v1/classify", {"input": "w1 " * 9}, 400, "invalid_request"),
                ("/v1/rerank", {"query": "w1", "documents": []}, 400, "invalid_request"),
                ("/v1/classify", {"input": {"a": 1}}, 400, "invalid_request"),
            ]
            for path, body, status, code in cases:
                found = await client.post(path, json=body)
                assert (found.status_code, found.json()["error"]["code"]) == (status, code), body
        assert keyless.status_code == 401

    run(main())


def test_what_is_wrong_with_a_text_is_told_with_its_place_as_the_client_wrote_it(tmp_path: Path) -> None:
    long = "w1 " * 9
    cases: list[tuple[str, dict[str, Any], str, str]] = [
        ("classify", {"input": long}, "input", "has 9 tokens, and little reads 6: send a shorter one"),
        ("classify", {"input": [long]}, "input", "has 9 tokens"),
        ("classify", {"input": ["w1", "w2", long]}, "input[2]", "has 9 tokens"),
        ("classify", {"input": ["w1", "\u3000"]}, "input[1]", "is empty, or white space alone"),
        ("classify", {"input": [[5], [999]]}, "input[1]", "token id is not within 0 and 23"),
        ("rerank", {"query": long, "documents": ["w1"]}, "query", "has 9 tokens"),
        ("rerank", {"query": "", "documents": ["w1"]}, "query", "is empty"),
        ("rerank", {"query": "w1", "documents": ["w1", {"text": long}]}, "documents[1]", "has 9 tokens"),
        ("rerank", {"query": "w1", "documents": ["w1", " "]}, "documents[1]", "is empty"),
    ]

    async def main() -> None:
        async with serving(tmp_path) as client:
            for path, body, place, said in cases:
                error = (await client.post(f"/v1/{path}", json=body)).json()["error"]
                assert error["message"].startswith(f"{place}: "), body
                assert said in error["message"], body
                assert error["param"] == place, body
            for asked in (0, -2, 99):
                body = {"model": "little", "input": "w1", "truncate_prompt_tokens": asked}
                error = (await client.post("/v1/classify", json=body)).json()["error"]
                assert (
                    error["message"] == f"truncate_prompt_tokens is {asked}; give 1 to 8, or -1 for as many."
                )

    run(main())


def test_any_number_of_results_may_be_asked_for_and_documents_may_be_alike(tmp_path: Path) -> None:
    documents = ["w1 \u00e9\u4e2d\U0001f600", "w1", {"text": "w1"}, "w3"]

    async def main() -> None:
        async with serving(tmp_path) as client:
            for top_n, count in ((None, 4), (0, 4), (-1, 4), (1, 1), (4, 4), (99, 4)):
                body = {"query": "w1", "documents": documents, "top_n": top_n}
                found = (await client.post("/v1/rerank", json=body)).json()["results"]
                assert len(found) == count
                # Equals keep their order.
                assert [one["index"] for one in found[:2]] == [1, 2][:count]
            one = (await client.post("/v1/rerank", json={"query": "w1", "documents": "w3"})).json()["results"]
        assert [each["index"] for each in one] == [0]

    run(main())


def test_requests_that_wait_together_share_a_pass(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, at_once=8) as client:
            asked = [
                client.post("/v1/classify", json={"model": "little", "input": f"w{n}"}) for n in range(12)
            ]
            found = await asyncio.gather(*asked)
            metrics = (await client.get("/metrics")).text
        assert all(one.status_code == 200 for one in found)
        passes = float(
            metrics.split('cascadia_engine_batch_seconds_count{model="little"} ')[1].split("\n")[0]
        )
        assert passes < 12

    run(main())


def test_too_many_waiting_inputs_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, most_waiting=2) as client:
            found = await client.post("/v1/classify", json={"model": "little", "input": ["w1", "w2", "w3"]})
        assert (found.status_code, found.headers["retry-after"]) == (429, "1")

    run(main())
