"""A probe learns from readings, knows which questions are like its own, and is a file of numbers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.arrays import array_written
from cascadia_judge.probe.file import dump_probe, is_probe, read_probe
from cascadia_judge.probe.kv_state import read_kv_state
from cascadia_judge.probe.reading import Reading
from cascadia_judge.probe.training import Place, Probed, train_probe
from tests.unit.judge.probe.states import LAYERS, WIDTH, learnable, saved

PLACE = Place(3, LAYERS)


@pytest.fixture(scope="module")
def probed() -> Probed:
    seen, quality = learnable(400)
    return train_probe(seen, quality, [f"q{i}" for i in range(400)], PLACE, about={"rows": 400})


def readings(count: int, seed: int) -> tuple[list[Reading], np.ndarray]:
    seen, quality = learnable(count, seed)
    return [Reading(whole[:WIDTH], whole[WIDTH:]) for whole in seen.whole], quality


def test_a_right_answer_has_a_higher_score_than_a_wrong_one(probed: Probed) -> None:
    assert probed.probe.answer.measured["auc"] > 0.9
    some, quality = readings(200, seed=1)
    told = [(probed.probe.tell(reading), right) for reading, right in zip(some, quality, strict=True)]
    known = [(score, right) for score, right in told if score is not None]
    assert len(known) > 160
    right = np.mean([score for score, right in known if right])
    assert right > 40 + np.mean([score for score, right in known if not right])
    # The question alone tells less, but something.
    assert 0.55 < probed.probe.question.measured["auc"] < probed.probe.answer.measured["auc"]
    expected = [probed.probe.tell(Reading(reading.question, None)) for reading in some]
    assert any(score is not None and 0 <= score <= 100 for score in expected)


def test_of_a_question_unlike_those_of_training_it_says_nothing(probed: Probed) -> None:
    some, _ = readings(200, seed=2)
    assert np.mean([probed.probe.tell(each) is None for each in some]) < 0.15
    strange = [replace(each, question=each.question + 2.0 * np.eye(WIDTH)[9]) for each in some]
    assert all(probed.probe.tell(each) is None for each in strange)


def test_a_table_holds_what_would_be_served_so_unlike_questions_score_nothing(probed: Probed) -> None:
    assert np.mean(probed.unlike) == pytest.approx(0.01, abs=0.01)
    assert (probed.served[probed.unlike] == 0.0).all()
    assert (probed.served == probed.scores)[~probed.unlike].all()
    assert 0.01 < probed.probe.familiar.unlike_rate < 0.05


def test_what_is_written_is_read_and_says_the_same(probed: Probed, tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    file.write_text(dump_probe(probed.probe))
    assert is_probe(file)
    again = read_probe(file)
    assert (again.layer, again.about) == (3, {"rows": 400})
    for reading in readings(50, seed=3)[0]:
        assert again.tell(reading) == pytest.approx(probed.probe.tell(reading), abs=1e-3)
    assert read_probe(file).digest == again.digest
    file.write_text(dump_probe(replace(probed.probe, about={"rows": 401})))
    assert read_probe(file).digest != again.digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "cascadia-embedding-judge"}, "is no probe"),
        ({"version": 99}, "version 99"),
        ({"width": 8}, "damaged"),
        ({"layer": 5}, "damaged"),
        ({"answer": None}, "damaged"),
    ],
)
def test_another_file_is_refused_in_one_line(
    probed: Probed, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    file = tmp_path / "probe.json"
    file.write_text(json.dumps(json.loads(dump_probe(probed.probe)) | change))
    with pytest.raises(BadVerdict, match=said):
        read_probe(file)


def test_a_probe_may_be_at_the_first_layer_and_its_axes_are_as_wide_as_the_model(
    probed: Probed, tmp_path: Path
) -> None:
    file = tmp_path / "probe.json"
    document = json.loads(dump_probe(probed.probe))
    file.write_text(json.dumps(document | {"layer": 0}))
    assert read_probe(file).layer == 0
    for name, shape in (("mean", (WIDTH - 1,)), ("scale", (WIDTH + 1,)), ("directions", (WIDTH - 1, 4))):
        axes = document["familiar"] | {name: array_written(np.ones(shape), "f4")}
        file.write_text(json.dumps(document | {"familiar": axes}))
        with pytest.raises(BadVerdict, match="axes do not fit the width"):
            read_probe(file)


def test_a_file_is_a_probe_that_says_so_in_front(tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    assert not is_probe(file)
    for blanks, found in ((100, True), (200, False)):
        file.write_text(" " * blanks + '"kind": "cascadia-probe"')
        assert is_probe(file) is found


def test_a_model_of_another_shape_is_refused(probed: Probed) -> None:
    other = read_kv_state(saved(np.ones((LAYERS, 6, 2 * WIDTH), np.float16)))
    with pytest.raises(BadVerdict, match="trained on 5 layers of 16 values, and the engine has 5 of 32"):
        probed.probe.read(other, 3)


def test_chance_has_the_seed_0_where_none_is_given() -> None:
    seen, quality = learnable(60)
    questions = [str(i) for i in range(60)]
    plain, seeded = (
        train_probe(seen, quality, questions, PLACE, about={}, **given).scores.tolist()
        for given in ({}, {"seed": 0})
    )
    assert plain == seeded


def test_too_little_to_learn_from_is_said() -> None:
    seen, quality = learnable(40)
    with pytest.raises(BadVerdict, match="40 rows of 40 questions are too few"):
        train_probe(seen, quality, [str(i) for i in range(40)], PLACE, about={})
    seen, quality = learnable(60)
    with pytest.raises(BadVerdict, match="all have quality 100"):
        train_probe(seen, quality * 0 + 100, [str(i) for i in range(60)], PLACE, about={})
    for questions, said in ((10, "all have quality 100"), (9, "60 rows of 9 questions are too few")):
        with pytest.raises(BadVerdict, match=said):
            train_probe(seen, quality * 0 + 100, [str(i % questions) for i in range(60)], PLACE, about={})
