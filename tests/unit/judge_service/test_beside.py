"""A judge in an engine's process: both answer at one port, and compute on one thread."""

import asyncio
import threading
from pathlib import Path

import httpx

from cascadia.judge_service.beside import EngineWithJudge
from cascadia.onepass.runner import Runner
from tests.unit.judge_service.test_service import CountingJudge, ready
from tests.unit.onepass.little_model import little_model


def app_of(folder: Path, judge: CountingJudge, **more: str) -> EngineWithJudge:
    return EngineWithJudge([Runner.read(little_model(folder))], judge, **more)  # type: ignore[arg-type]


def test_verdicts_and_classes_come_from_one_port_with_metrics_of_both(tmp_path: Path) -> None:
    async def main() -> None:
        app = app_of(tmp_path, ready(), api_key="k")
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.engine.router.lifespan_context(app.engine),
            httpx.AsyncClient(transport=transport, base_url="http://engine") as client,
        ):
            refused = await client.post("/v1/score", json={"question": "q", "answer": "four"})
            client.headers["authorization"] = "Bearer k"
            verdict = await client.post("/v1/score", json={"question": "q", "answer": "four"})
            answer = await client.post("/v1/classify", json={"input": "w1"})
            metrics = (await client.get("/metrics")).text
        assert (refused.status_code, verdict.status_code, answer.status_code) == (401, 200, 200)
        assert verdict.json()["score"] == 4.0
        assert "cascadia_judge_verdicts_total 1.0" in metrics
        assert 'cascadia_engine_inputs_total{model="little"} 1.0' in metrics

    asyncio.run(main())


def test_a_pass_waits_for_the_verdict_before_it(tmp_path: Path) -> None:
    async def main() -> None:
        judge = CountingJudge(threading.Event())
        app = app_of(tmp_path, judge)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.engine.router.lifespan_context(app.engine),
            httpx.AsyncClient(transport=transport, base_url="http://engine") as client,
        ):
            judged = asyncio.create_task(client.post("/v1/score", json={"question": "q", "answer": "a"}))
            assert await asyncio.to_thread(judge.began.wait, 60)
            classified = asyncio.create_task(client.post("/v1/classify", json={"input": "w1"}))
            _, waits = await asyncio.wait({classified}, timeout=0.1)
            assert waits == {classified}
            judge.free.set()
            assert [(await one).status_code for one in (judged, classified)] == [200, 200]

    asyncio.run(main())
