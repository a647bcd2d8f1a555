"""`cascadia judge`: what is trained can be examined and served; mistakes are one line."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import CliRunner

from cascadia.cli.judge.common import encoder_folder_of
from cascadia.cli.main import main
from cascadia.cli.shared.output import Output
from cascadia.clients.hub import fetch as model_catalogue_fetch
from cascadia.clients.hub.catalogue import CatalogueModel
from tests.unit.judge import tiny_encoder
from tests.unit.judge.graded import rows, write


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder.write(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def judge(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judge")
    answers = write(folder / "answers.jsonl", rows(120) + rows(120, seed=3, stage="large"))
    done = cascadia(
        "train", answers, "--out", folder / "judge.json", "--folds", 2, "--table", folder / "quality.csv",
        "--encoder", encoder, "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    (folder / "told.json").write_text(done.stdout)
    return folder / "judge.json"


def cascadia(*args: object):
    return CliRunner().invoke(main, ["judge", *map(str, args)])


@pytest.mark.parametrize(("times", "most"), [(0.01, 1), (0.1, 10)])
def test_answers_graded_on_another_scale_are_refused(tmp_path: Path, times: float, most: int) -> None:
    graded = [replace(row, quality=row.quality * times) for row in rows(20)]
    refused = cascadia("train", write(tmp_path / "a.jsonl", graded), "--out", tmp_path / "j.json")
    assert refused.exit_code == 2
    assert f"quality never exceeds {most}; write 0-100" in refused.stderr


@pytest.mark.long
def test_training_tells_what_each_head_looks_at_and_how_good_it_is(judge: Path) -> None:
    told = json.loads((judge.parent / "told.json").read_text())
    assert told["about"]["questions"] == 120
    assert told["about"]["stages"] == {"small": 120, "large": 120}
    looks = [head["looks_at"] for head in told["heads"]]
    assert ["question"] in looks
    assert ["question", "answer"] in looks
    assert any("certainty" in groups for groups in looks)
    answered = [head for head in told["heads"] if head["looks_at"] != ["question"]]
    assert all(head["auc"] > 0.7 and head["ece"] < 20 for head in answered)
    written = json.loads(judge.read_text())
    assert written["about"] == told["about"]
    assert len(written["about"]["encoder"]) == 64


@pytest.mark.long
def test_the_table_is_one_that_a_plan_can_rest_on(judge: Path) -> None:
    from cascadia.planner.problem.quality_file import read_quality

    table = read_quality(judge.parent / "quality.csv", ("small", "large"))
    assert len(table) == 120
    assert 0 <= table.score.min() < table.score.max() <= 100
    assert set(table.quality.ravel()) == {0.0, 100.0}
    assert table.foreseen is not None
    assert np.corrcoef(table.foreseen.ravel(), table.score.ravel())[0, 1] > 0


def test_a_table_of_an_examination_foresees_what_the_judge_says_of_the_question_alone(
    judge: Path, encoder: Path, tmp_path: Path
) -> None:
    from cascadia.planner.problem.quality_file import read_quality
    from cascadia_judge.embedding import EmbeddingJudge
    from cascadia_judge.encoder.encoder import Encoder

    asked = rows(20, seed=21)
    answers = write(tmp_path / "fresh.jsonl", asked)
    done = cascadia("eval", judge, answers, "--encoder", encoder, "--table", tmp_path / "t.csv", "--json")
    assert done.exit_code == 0, done.stderr
    table = read_quality(tmp_path / "t.csv", ("small",))
    assert table.foreseen is not None
    alone = EmbeddingJudge.read(judge, Encoder.read(encoder))
    wanted = [alone.score(row.question, None, None, "small").score for row in asked]
    # Alone and in a batch, vectors differ in their last digits, and so may the side of a tree's split.
    assert table.foreseen[0].tolist() == pytest.approx(wanted, abs=1.5)
    assert np.ptp(wanted) > 10


def test_a_judge_is_examined_on_other_answers(judge: Path, encoder: Path, tmp_path: Path) -> None:
    answers = write(tmp_path / "fresh.jsonl", rows(100, seed=21))
    done = cascadia("eval", judge, answers, "--encoder", encoder, "--bins", 4, "--json")
    told = json.loads(done.stdout)
    assert told["rows"] == 100
    assert told["auc"] > 0.75
    assert sum(row["pairs"] for row in told["reliability"]) == 100
    shown = cascadia("eval", judge, answers, "--encoder", encoder)
    assert "mean quality" in shown.stdout


def test_a_judge_is_served_until_sigterm(judge: Path, encoder: Path) -> None:
    start = "from cascadia.cli.main import main; main()"
    options = ["judge", "serve", str(judge), "--port", "0", "--encoder", str(encoder)]
    command = [sys.executable, "-c", start, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        (url,) = re.findall(r"http://\S+?(?=/v1)", said)
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            good = client.post(
                "/v1/score", json={"question": "what is two ?", "answer": "the no two and cat cat"}
            ).json()
            bad = client.post(
                "/v1/score", json={"question": "what is two ?", "answer": "the no two and"}
            ).json()
            before = client.post("/v1/score", json={"question": "what is two ?"}).json()
        assert bad["score"] < good["score"]
        assert 0 <= before["score"] <= 100
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate(timeout=60)


_PROBE = ("train", "few.jsonl", "--out", "j.json", "--probe")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("train", "none.jsonl", "--out", "j.json"), "none.jsonl: no such file"),
        (("train", "few.jsonl", "--out", "j.json"), "are too few"),
        (("train", "few.jsonl", "--out", "none/j.json"), "lies in a folder that does not exist"),
        (
            ("train", "few.jsonl", "--out", "j.json", "--stage", "huge"),
            "--stage huge: has no rows; the stages are small",
        ),
        (("train", "few.jsonl", "--out", "j.json", "--table", "t.txt"), "not a known kind"),
        (("train", "bad.jsonl", "--out", "j.json"), "bad.jsonl: line 1: is no JSON"),
        (("eval", "bad.jsonl", "few.jsonl"), "bad.jsonl: is no JSON"),
        (("eval", "none.json", "few.jsonl"), "none.json: is no file of a judge"),
        (("serve", "none.json"), "none.json: is no file of a judge"),
        (
            ("train", "few.jsonl", "--out", "j.json", "--probe"),
            "--engine: is missing: a probe reads an engine's states",
        ),
        (
            ("train", "few.jsonl", "--out", "j.json", "--probe", "--engine", "http://127.0.0.1:9"),
            "--slot-folder: is missing",
        ),
        (
            (*_PROBE, "--engine", "127.0.0.1:9", "--slot-folder", "."),
            "--engine 127.0.0.1:9: is no address",
        ),
        (
            (*_PROBE, "--engine", "http://127.0.0.1:9", "--slot-folder", "none"),
            "--slot-folder none: is no folder",
        ),
        ((*_PROBE, "--foresight"), "--foresight: is not of --probe"),
        ((*_PROBE, "--decoys", "1"), "--decoys: is not of --probe"),
        (("train", "few.jsonl", "--out", "j.json", "--engine", "http://127.0.0.1:9"), "is of --probe only"),
        (("serve", "probe.json"), "--engine: is missing"),
        (("serve", "probe.json", "--engine", "http://h:1", "--", "x"), "ENGINE: is a command, and --engine"),
        (
            ("serve", "probe.json", "--api-key-env", "HOME", "--engine", "http://127.0.0.1:9"),
            "give the engine a key: it is passed on",
        ),
        (
            ("serve", "probe.json", "--engine", "http://127.0.0.1:9", "--slot-folder", "."),
            "probe.json: has version 9",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    args: tuple[str, ...], said: str, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CASCADIA_ENCODER", str(encoder))
    write(tmp_path / "few.jsonl", rows(5))
    (tmp_path / "bad.jsonl").write_text("no json\n")
    (tmp_path / "probe.json").write_text('{"kind": "cascadia-probe", "version": 9}')
    done = cascadia(*args)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not os.path.exists("j.json")


def test_the_encoder_is_what_is_named_then_the_variables_then_the_catalogues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []

    def fetch(model: CatalogueModel, tell: object) -> Path:
        fetched.append(model.model)
        return tmp_path / "fetched"

    monkeypatch.setattr(model_catalogue_fetch, "fetch", fetch)
    monkeypatch.setenv("CASCADIA_ENCODER", str(tmp_path / "variable"))
    assert encoder_folder_of(tmp_path / "named", Output()) == tmp_path / "named"
    assert encoder_folder_of(None, Output()) == tmp_path / "variable"
    monkeypatch.delenv("CASCADIA_ENCODER")
    assert encoder_folder_of(None, Output()) == tmp_path / "fetched"
    assert fetched == ["sentence-transformers/all-MiniLM-L6-v2"]
