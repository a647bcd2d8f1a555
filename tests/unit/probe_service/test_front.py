"""A front passes an engine's answers on, with a score of the slot that wrote them."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI, Request, Response

from cascadia.clients.engines.llama_slots import EngineFailed, LlamaSlots
from cascadia.probe_service.app import Front, application
from cascadia.probe_service.scoring import Scoring
from cascadia.probe_service.slots import Busy, Slots
from cascadia_judge.probe.kv_state import read_kv_state
from cascadia_judge.probe.probe import Probe
from cascadia_judge.probe.training import Place, train_probe
from tests.unit.judge.probe.states import LAYERS, WIDTH, learnable, saved

PROMPT, WRITTEN = 6, 4


@pytest.fixture(scope="module")
def probe() -> Probe:
    seen, quality = learnable(300)
    questions = [f"q{i}" for i in range(300)]
    return train_probe(seen, quality, questions, Place(3, LAYERS), about={}).probe


class Llama:
    """llama.cpp's server as far as a front asks for it. `state` is what each slot's cache holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = np.zeros((LAYERS, PROMPT + WRITTEN - 1, WIDTH), np.float16)
        self.asked: list[dict[str, Any]] = []
        self.running = self.most = 0
        self.status = 200
        self.hold = asyncio.Event()
        self.hold.set()
        self.app = FastAPI()
        for path in ("/v1/chat/completions", "/v1/completions"):
            self.app.add_api_route(path, self.chat, methods=["POST"])
        for path, answer in (("/apply-template", {"prompt": "hi"}), ("/tokenize", {"tokens": [1] * PROMPT})):
            self.app.add_api_route(path, lambda answer=answer: answer, methods=["POST"])
        self.app.add_api_route("/completion", self.prefill, methods=["POST"])
        self.app.add_api_route("/props", lambda: {"total_slots": 2})
        self.app.add_api_route("/health", lambda: {"status": "ok"})
        self.app.add_api_route("/metrics", lambda: Response("llamacpp:tokens 1\n"))
        self.app.add_api_route("/slots/{slot}", self.save, methods=["POST"])
        self.prefilled = False

    async def prefill(self, request: Request) -> dict[str, Any]:
        assert (await request.json())["n_predict"] == 0
        self.prefilled = True
        return {}

    async def save(self, slot: int, request: Request) -> dict[str, Any]:
        tokens = PROMPT if self.prefilled else None
        content = saved(self.state[:, :tokens], slot=slot)
        (self.folder / (await request.json())["filename"]).write_bytes(content)
        return {}

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body | {"authorization": request.headers.get("authorization")})
        self.prefilled = False
        self.running += 1
        self.most = max(self.most, self.running)
        await self.hold.wait()
        self.running -= 1
        if self.status != 200:
            return Response('{"error": {"message": "no"}}', self.status, media_type="application/json")
        timings = {"cache_n": 2, "prompt_n": PROMPT - 2, "predicted_n": WRITTEN}
        choice = {"index": 0, "finish_reason": "stop"}
        if body.get("stream"):
            first = {"choices": [choice | {"delta": {"content": "4"}}]}
            events = [first, {"choices": [], "timings": timings}]
            text = "".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n"
            return Response(text, media_type="text/event-stream")
        document = {"choices": [choice | {"message": {"content": "4"}}], "timings": timings}
        return Response(json.dumps(document), media_type="application/json")


class Up:
    """A front, `client` at it, over `llama`."""

    def __init__(self, probe: Probe, folder: Path, most_waiting: int = 8) -> None:
        self.llama = Llama(folder)
        engine = httpx.AsyncClient(transport=httpx.ASGITransport(self.llama.app), base_url="http://llama")
        self.slots = LlamaSlots(engine, folder)
        self.scoring = Scoring(probe, self.slots, lambda: 0.0)
        front = Front(engine, self.scoring, Slots(2, most_waiting))
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(application(front)), base_url="http://front"
        )

    async def chat(self, **more: Any) -> httpx.Response:
        body = {"model": "small", "messages": [{"role": "user", "content": "2 + 2?"}]} | more
        return await self.client.post(
            "/v1/chat/completions", json=body, headers={"authorization": "Bearer k"}
        )


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def test_a_document_and_a_stream_have_the_score_of_the_slot_that_wrote_them(
    probe: Probe, tmp_path: Path
) -> None:
    async def main() -> None:
        up = Up(probe, tmp_path)
        wanted = probe.tell(probe.read(read_kv_state(saved(up.llama.state)), PROMPT))
        assert wanted is not None
        document = (await up.chat()).json()
        assert document["cascadia_probe"]["score"] == pytest.approx(wanted, abs=1e-3)
        assert document["choices"][0]["message"]["content"] == "4"
        events = (await up.chat(stream=True)).text.split("\n\n")
        assert events[-3].startswith(": cascadia_probe ")
        assert json.loads(events[-3].partition("probe ")[2])["score"] == pytest.approx(wanted, abs=1e-3)
        assert events[-2:] == ["data: [DONE]", ""]
        assert {asked["id_slot"] for asked in up.llama.asked} <= {0, 1}
        assert {asked["authorization"] for asked in up.llama.asked} == {"Bearer k"}
        assert not list(tmp_path.iterdir())

    run(main)


def test_a_question_unlike_those_of_training_has_no_score_and_many_of_them_are_told(
    probe: Probe, tmp_path: Path
) -> None:
    async def main() -> None:
        up = Up(probe, tmp_path)
        up.llama.state[:, :, 9] = 5.0
        for _ in range(8):
            assert (await up.chat()).json()["cascadia_probe"] == {"failed": "unlike"}
        text = (await up.client.get("/metrics")).text
        assert 'cascadia_probe_failures_total{kind="unlike"} 8.0' in text
        assert "cascadia_probe_drifts_total 1.0" in text
        assert text.startswith("llamacpp:tokens 1")
        # One odd question shuts nobody out.
        up.llama.state[:, :, 9] = 0.0
        assert "score" in (await up.chat()).json()["cascadia_probe"]

    run(main)


def test_a_slot_that_holds_another_answer_is_not_scored(probe: Probe, tmp_path: Path) -> None:
    async def main() -> None:
        up = Up(probe, tmp_path)
        up.llama.state = np.zeros((LAYERS, 40, WIDTH), np.float16)
        assert (await up.chat()).json()["cascadia_probe"] == {"failed": "other"}
        up.llama.state = np.zeros((LAYERS, PROMPT + WRITTEN - 1, 2 * WIDTH), np.float16)
        assert (await up.chat()).json()["cascadia_probe"] == {"failed": "unreadable"}

    run(main)


def test_an_answer_that_promises_less_than_skip_below_is_not_begun(probe: Probe, tmp_path: Path) -> None:
    async def main() -> None:
        up = Up(probe, tmp_path)
        expected = (await up.chat(cascadia_skip_below=100.0)).json()
        assert expected["choices"][0]["message"]["content"] == ""
        assert expected["usage"]["prompt_tokens"] == PROMPT
        assert 0 < expected["cascadia_probe"]["expected"] < 100
        streamed = (await up.chat(cascadia_skip_below=100.0, stream=True)).text
        assert streamed.endswith("data: [DONE]\n\n")
        assert json.loads(streamed.splitlines()[0][6:])["choices"][0]["delta"]["content"] == ""
        assert up.llama.asked == []
        begun = (await up.chat(cascadia_skip_below=0.0)).json()
        assert begun["choices"][0]["message"]["content"] == "4"
        assert "cascadia_skip_below" not in up.llama.asked[0]

    run(main)


def test_each_request_has_a_slot_to_itself_until_it_is_scored(probe: Probe, tmp_path: Path) -> None:
    async def main() -> None:
        up = Up(probe, tmp_path, most_waiting=1)
        up.llama.hold.clear()
        tasks = [asyncio.create_task(up.chat(stream=bool(n % 2))) for n in range(4)]
        while up.llama.running < 2:
            await asyncio.sleep(0)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        (refused,) = done
        assert refused.result().status_code == 429
        up.llama.hold.set()
        answers = [task.result() for task in tasks if await task]
        assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 429]
        assert up.llama.most == 2

    run(main)


@pytest.mark.parametrize("stream", [False, True])
def test_an_engines_refusal_is_passed_on_and_gives_its_slot_back(
    probe: Probe, tmp_path: Path, stream: bool
) -> None:
    async def main() -> None:
        up = Up(probe, tmp_path, most_waiting=0)
        up.llama.status = 400
        for _ in range(5):
            refused = await up.chat(stream=stream)
            assert (refused.status_code, refused.json()["error"]["message"]) == (400, "no")
        up.llama.status = 200
        assert (await up.chat()).status_code == 200

    run(main)


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"[]", 400), (b"{", 400), (b"x" * (8 * 2**20 + 1), 413)],
    ids=["list", "cut", "large"],
)
def test_what_is_no_request_is_refused_in_one_line(
    probe: Probe, tmp_path: Path, content: bytes, status: int
) -> None:
    async def main() -> None:
        up = Up(probe, tmp_path)
        reply = await up.client.post("/v1/chat/completions", content=content)
        assert reply.status_code == status
        assert reply.json()["error"]["code"] in ("invalid_request", "body_too_large")
        assert (await up.client.get("/slots")).status_code == 404
        assert (await up.client.get("/health")).json() == {"status": "ok"}

    run(main)


def test_an_engine_that_saves_elsewhere_or_is_none_is_said(probe: Probe, tmp_path: Path) -> None:
    async def main() -> None:
        up = Up(probe, tmp_path)
        assert await up.slots.count() == 2
        up.slots.folder = tmp_path / "elsewhere"
        with pytest.raises(EngineFailed, match="name its --slot-save-path"):
            await up.slots.saved(0, {})
        up.slots.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(FastAPI()), base_url="http://another"
        )
        with pytest.raises(EngineFailed, match="says 404"):
            await up.slots.count()

    run(main)


def test_nobody_waits_for_a_slot_without_bound() -> None:
    async def main() -> None:
        slots = Slots(1, most_waiting=1)
        assert await slots.take() == 0
        second = asyncio.create_task(slots.take())
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await slots.take()
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        slots.give(0)
        assert await slots.take() == 0

    run(main)


def test_a_client_that_leaves_before_the_first_event_gives_its_slot_back(
    probe: Probe, tmp_path: Path
) -> None:
    async def main() -> None:
        up = Up(probe, tmp_path)
        front = Front(up.slots.client, up.scoring, Slots(1, 0))
        reply = await front.answered("/v1/chat/completions", {"stream": True, "messages": []}, {})
        with pytest.raises(Busy):
            await front.slots.take()

        async def gone(message: Any) -> None:
            raise OSError("the client has gone")

        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        scope = {"type": "http", "asgi": {"spec_version": "2.4"}, "method": "POST", "headers": []}
        with suppress(BaseException):  # Starlette's own for a client that has gone
            await reply(scope, receive, gone)
        assert await front.slots.take() == 0

    run(main)
