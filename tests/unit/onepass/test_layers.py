"""Passes that end behind a layer: whose answer it is, who goes on, and how clients and metrics see them."""

import asyncio
from pathlib import Path

import httpx
import numpy as np
import pytest

from cascadia.cli.engine.models import Named, named, runners_of
from cascadia.cli.exits.common import looked
from cascadia.domain.errors import BadInput
from cascadia.domain.names import LayerExit, Point, point_of
from cascadia.onepass.app import application
from cascadia.onepass.layers import layers_of
from cascadia.onepass.measuring import exits_to_measure, measured
from cascadia.onepass.questions import Question, read_questions
from cascadia.ramps.cuts import cuts
from cascadia.ramps.file import read_ramps
from cascadia.ramps.texts import read_model
from cascadia.ramps.train import readings
from tests.unit.onepass.little_model import LABELS, little_model
from tests.unit.onepass.test_exits import HEADER, trained

TEXTS = [f"w{n} w{(3 * n) % 20} w{n % 7}" for n in range(20)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers, with a ramp behind the first attention block, the first layer, and the second attention block."""
    return trained(tmp_path_factory.mktemp("layers"))


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("small", Point("small", None)),
        ("small@layer-2", Point("small", LayerExit(2))),
        ("a/b@layer-12/0.875", Point("a/b", LayerExit(12, 0.875))),
        ("small@512", Point("small@512", None)),
        ("small@layer-0", Point("small@layer-0", None)),
        ("small@layer-2/1.5", Point("small@layer-2/1.5", None)),
    ],
)
def test_an_exits_name_is_read_as_it_is_written(name: str, point: Point) -> None:
    assert point_of(name) == point
    assert f"{point.stage}{point.at or ''}" == name


def test_a_layer_is_known_by_the_work_before_its_ramp(model: Path) -> None:
    shares = read_ramps(model)[1].shares
    assert len(shares) == 3
    assert layers_of(model, 2) == {1: 1}


def test_all_leave_with_the_ramps_answer_or_the_surest_alone(model: Path) -> None:
    at, reader = layers_of(model, 2)[1], read_model(model, 8)
    known = readings(read_ramps(model)[0], looked(reader, cuts(reader.model), TEXTS))
    whole, every = runners_of([Named(None, model, None), Named(None, model, LayerExit(1))], 1)
    ids = whole.ids(TEXTS)
    answered = every.forward(ids)
    assert answered.values.argmax(axis=1).tolist() == known.labels[:, at].tolist()
    assert set(answered.exit_at.tolist()) == {0}  # type: ignore[union-attr]
    sure = float(np.median(1 - known.doubts[:, at]).round(4))
    (some,) = runners_of([Named("some", model, LayerExit(1, sure))], 1)
    half = some.forward(ids)
    left = half.exit_at == 0
    assert left.tolist() == (known.doubts[:, at] < 1 - sure).tolist()
    assert 5 <= left.sum() <= 15
    assert half.values[left].argmax(axis=1).tolist() == known.labels[left, at].tolist()
    assert np.allclose(half.values[~left], whole.forward(ids).values[~left], atol=1e-5)


def test_an_exit_is_a_model_to_clients_who_may_decline_it(model: Path) -> None:
    runners = runners_of(
        [named(str(model)), named(f"{model}@layer-1"), named(f"x={model}@layer-1/0.9999")], 1
    )
    assert [runner.model.name for runner in runners] == ["little", "little@layer-1", "x"]
    # One cut of the weights serves both exits behind a layer.
    assert runners[1].exits._passes is runners[2].exits._passes  # type: ignore[union-attr]

    async def asked() -> tuple[list[httpx.Response], str, list[str]]:
        app = application(runners)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
                body = {"model": "little@layer-1", "input": ["w1 w2", "w3"]}
                found = [
                    await client.post("/v1/classify", json=body, headers=headers)
                    for headers in ({}, {HEADER: "off"})
                ]
                found.append(await client.post("/v1/classify", json=body | {"model": "little"}))
                models = (await client.get("/v1/models")).json()["data"]
                return found, (await client.get("/metrics")).text, [each["id"] for each in models]

    (left, stayed, whole), metrics, models = asyncio.run(asked())
    assert left.headers[HEADER] == "1,1"
    parts = [[part.get("exit") for part in reply.json()["data"]] for reply in (left, stayed, whole)]
    assert parts == [[1, 1], [0, 0], [None, None]]
    assert left.json()["usage"]["exits"] == {"left": [2, 0], "setting": 1, "settings": 1, "withdrawn": 0}
    assert stayed.headers[HEADER] == "-,-"
    assert HEADER not in whole.headers
    told = [[part["probs"] for part in reply.json()["data"]] for reply in (stayed, whole)]
    assert np.allclose(*told, atol=1e-5)
    assert 'cascadia_engine_exits_taken{at="1",model="little@layer-1"} 2.0' in metrics
    assert models == ["little", "little@layer-1", "x"]


def test_a_layer_without_a_ramp_is_told_with_those_that_have_one(model: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no ramp behind layer 2.*name a layer that has one: 1"):
        runners_of([named(f"{model}@layer-2")], 1)
    with pytest.raises(BadInput, match=r"train ramps with `cascadia exits train"):
        runners_of([named(f"{little_model(tmp_path)}@layer-1")], 1)


def test_exits_are_measured_for_all_and_for_the_surest_parts(model: Path) -> None:
    rng = np.random.default_rng(0)
    asked = [Question(text, LABELS[at % 3], test=True) for at, text in enumerate(TEXTS)]
    (whole,) = runners_of([named(str(model))], 1)
    exits = exits_to_measure(whole, model, asked)
    assert exits[-1] == LayerExit(1)
    assert 1 <= len(exits) - 1 <= 3
    for runner in runners_of([Named(None, model, at) for at in exits], 1):
        found = measured(runner, asked, passes=1, rng=rng)
        assert found.name == runner.model.name
        assert point_of(found.name).at in exits
        left, went_on = runner.exits.state.taken  # type: ignore[union-attr]
        assert left > 0
        assert (went_on == 0) == (point_of(found.name).at == LayerExit(1))


def test_texts_of_a_users_own_have_labels(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "w1", "label": "cats"}\n' * 100)
    assert read_questions(path) == [Question("w1", "cats", test=True)] * 100
    path.write_text('{"text": "w1", "label": "cats"}\n{"text": "w1"}\n')
    with pytest.raises(BadInput, match=r"texts\.jsonl:2: has no text and label"):
        read_questions(path)
    path.write_text('{"text": "w1", "label": "cats"}\n')
    with pytest.raises(BadInput, match="has 1 texts"):
        read_questions(path)
