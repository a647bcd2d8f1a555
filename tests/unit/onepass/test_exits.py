"""The engine's exits: what a response says of them, who declines them, and their metrics."""

import asyncio
import hashlib
from pathlib import Path
from random import Random
from typing import Any

import httpx
import numpy as np
import onnx
import pytest

from cascadia.cli.exits.common import chosen, looked
from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.exits.path import Path as Settings
from cascadia.exits.timing import Timing
from cascadia.onepass.app import application
from cascadia.onepass.batches import _forward, _List
from cascadia.onepass.exits import exits_of
from cascadia.onepass.runner import Forwarded, Runner
from cascadia.ramps.cuts import cuts
from cascadia.ramps.file import write_ramps
from cascadia.ramps.live import Live
from cascadia.ramps.passes import Passes
from cascadia.ramps.texts import read_model
from cascadia.ramps.train import fit, readings
from tests.unit.onepass.little_model import little_model

HEADER = "x-cascadia-exit"


def trained(folder: Path) -> Path:
    """A model of two layers with ramps beside it."""
    at = little_model(folder, layers=2)
    rng = np.random.default_rng(4)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, 20, rng.integers(1, 6))) for _ in range(600)]
    reader = read_model(at, 8)
    places = cuts(reader.model)
    seen = looked(reader, places, texts)
    ramps = fit(places, seen.take(slice(400)))
    timing = Timing(1, (1.0,) * (len(places) + 1), (0.001,) * len(places))
    sha = hashlib.sha256((at / "model.onnx").read_bytes()).hexdigest()
    fresh = readings(ramps, seen.take(slice(400, None)))
    write_ramps(at, ramps, chosen(fresh, ramps, (timing,), sha, 0.2, 1.0).about)
    return at


def in_force(at: Path, shadow: float) -> Live:
    """Exits with a setting in force that lets everything out at the first ramp."""
    model = onnx.load(at / "model.onnx")
    ramps = fit(
        cuts(model), looked(read_model(at, 8), cuts(model), [f"w{n} w{n // 2}" for n in range(20)] * 20)
    )
    # Every doubt is below 2.
    controller = Controller(Promise(0.9, 0.5), Settings(np.full((1, len(ramps)), 2.0)))
    for _ in range(50):
        controller.feed(np.zeros(len(ramps), dtype=np.int64), np.zeros(len(ramps)), 0)
    assert controller.certified == 0
    return Live(Passes.of(model, ramps), controller, shadow, Random(1))


async def asked(runner: Runner, *requests: tuple[Any, dict[str, str]]) -> tuple[list[httpx.Response], str]:
    app = application([runner])
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
            found = [
                await client.post("/v1/classify", json={"input": given}, headers=headers)
                for given, headers in requests
            ]
            await counted(runner, sum(1 if isinstance(given, str) else len(given) for given, _ in requests))
            return found, (await client.get("/metrics")).text


async def counted(runner: Runner, inputs: int) -> None:
    """Returns when passes of so many inputs have ended: an answer is given before its pass has."""
    async with asyncio.timeout(60):
        while runner.exits is not None and sum(runner.exits.state.taken) < inputs:
            await asyncio.sleep(0.001)


def test_a_response_says_where_each_input_left(tmp_path: Path) -> None:
    at = trained(tmp_path)
    live = exits_of(at, Promise(0.2, 0.9), 1.0, 1)
    (two, _), metrics = asyncio.run(asked(Runner.read(at, exits=live), (["w1 w2", "w3"], {}), ("w1", {})))
    assert two.headers[HEADER] == "-,-"
    assert 'cascadia_engine_exits_shadowed{model="little"} 3.0' in metrics
    assert 'cascadia_engine_exits_certified{model="little"} 0.0' in metrics
    assert 'cascadia_engine_exits_taken{at="0",model="little"} 3.0' in metrics
    assert live.state.fed_back == 3


def test_settings_in_force_let_inputs_out_and_who_declines_stays(tmp_path: Path) -> None:
    at = trained(tmp_path)
    live = in_force(at, shadow=0.0)
    plain = Runner.read(at)
    runner = Runner.read(at, exits=live)
    requests = ((["w1 w2", "w3"], {}), (["w1 w2", "w3"], {HEADER: "off"}))
    (left, stayed), metrics = asyncio.run(asked(runner, *requests))
    assert left.headers[HEADER] == "1,1"
    assert stayed.headers[HEADER] == "-,-"
    whole = plain.forward(plain.ids(["w1 w2", "w3"])).values
    assert [part["probs"] for part in stayed.json()["data"]] == whole.astype(float).tolist()
    assert 'cascadia_engine_exits_taken{at="1",model="little"} 2.0' in metrics


def test_a_list_is_answered_when_its_last_input_has_left(tmp_path: Path) -> None:
    at = trained(tmp_path)
    live = in_force(at, shadow=1.0)
    runner = Runner.read(at, exits=live)
    lists = [_List(runner, runner.ids(["w3 w4"]), True), _List(runner, runner.ids(["w1 w2", "w3"]), False)]
    given: list[tuple[int, Forwarded]] = []
    found = _forward(lists, lambda at, part: given.append((at, part)))
    live.close()
    # The second list leaves at the first ramp, and runs on to the end for the controller.
    assert [at for at, _ in given] == [1, 0]
    for at, part in given:
        assert part.values.tolist() == found[at].values.tolist()
        assert part.exit_at is not None
        assert part.exit_at.tolist() == found[at].exit_at.tolist()  # type: ignore[union-attr]
    # Who declines is no evidence.
    assert live.state.shadowed == 2


def test_what_was_certified_outlives_the_engine(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    at = trained(tmp_path)
    texts = [f"w{n} w{n % 7}" for n in range(20)]
    live = exits_of(at, Promise(0.5, 0.5), 1.0, 1)
    asyncio.run(asked(Runner.read(at, exits=live), *[(texts, {})] * 3))
    again = exits_of(at, Promise(0.5, 0.5), 1.0, 1)
    assert live.state.fed_back == 60
    assert (again.state.fed_back, again.state.certified) == (60, live.state.certified)
    assert live.state.certified >= 0
    stricter = exits_of(at, Promise(0.01, 0.5), 1.0, 1)
    assert stricter.state.fed_back == 0
    (at / "exits-state.json").write_text("{")
    assert exits_of(at, Promise(0.5, 0.5), 1.0, 1).state.fed_back == 0
    assert "exits begin anew" in caplog.text


def test_a_model_without_exits_says_nothing_of_them(tmp_path: Path) -> None:
    (one,), metrics = asyncio.run(asked(Runner.read(little_model(tmp_path)), ("w1", {HEADER: "off"})))
    assert HEADER not in one.headers
    assert "exits" not in metrics
