"""`cascadia exits` on a small real model: ramps are trained, tuned and examined, and bad input is told in a line."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from cascadia.cli.exits.group import exits
from cascadia.domain.errors import BadInput
from cascadia.ramps.file import read_ramps
from tests.unit.judge.tiny_encoder import WORDS
from tests.unit.ramps.tiny_classifier import classifier

TOKENS = ("--tokens", "16")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and texts of words that it knows."""
    folder = tmp_path_factory.mktemp("classifier")
    onnx.save(classifier(folder), folder / "model.onnx")
    rng = np.random.default_rng(5)
    for name, count in (("train", 800), ("serve", 1500)):
        lines = [" ".join(rng.choice(WORDS[4:], rng.integers(1, 9))) for _ in range(count)]
        (folder / f"{name}.txt").write_text("\n".join(lines))
    found = ran(
        "train",
        str(folder),
        "--texts",
        str(folder / "train.txt"),
        "--risk",
        "20%",
        "--ramp-budget",
        "100%",
        *TOKENS,
    )
    (folder / "said.json").write_text(found.stdout)
    return folder


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(exits, [*arguments, "--json"], catch_exceptions=False)


def test_ramps_are_trained_and_written_beside_the_model(folder: Path) -> None:
    said = json.loads((folder / "said.json").read_text())
    assert len(said["ramps"]["tensors"]) == 3
    assert said["ramps"]["texts"] == 200
    assert {"ramps.json", "ramps.safetensors"} <= {path.name for path in folder.iterdir()}


def test_another_budget_chooses_other_ramps_and_trains_nothing(folder: Path) -> None:
    before = (folder / "ramps.safetensors").read_bytes()
    found = ran("tune", str(folder), "--texts", str(folder / "serve.txt"), "--ramp-budget", "0", *TOKENS)
    assert json.loads(found.stdout)["ramps"]["active"] == []
    again = ran(
        "tune",
        str(folder),
        "--texts",
        str(folder / "serve.txt"),
        "--risk",
        "0.2",
        "--ramp-budget",
        "1",
        *TOKENS,
    )
    assert json.loads(again.stdout)["ramps"]["active"]
    assert (folder / "ramps.safetensors").read_bytes() == before


def test_a_stream_is_served_within_its_promise(folder: Path) -> None:
    texts = ("--texts", str(folder / "serve.txt"), "--risk", "0.2", "--ramp-budget", "1", *TOKENS)
    ran("tune", str(folder), *texts)
    said = json.loads(ran("simulate", str(folder), *texts, "--shadow", "100%").stdout)
    assert said["texts"] == 1500
    assert said["certified"]["first_certified"] < 200
    assert 0 < said["certified"]["differs"] < 0.2
    tenth = json.loads(ran("simulate", str(folder), *texts, "--shadow", "10%").stdout)
    assert tenth["certified"]["first_certified"] > said["certified"]["first_certified"]


def test_exits_of_tokens_pay_for_few_sequences() -> None:
    said = json.loads(ran("worth", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h100-sxm").stdout)
    by_batch = {one["batch"]: one["with_s"] / one["without_s"] for one in said["batches"]}
    assert by_batch[1] < 1 < by_batch[16]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "{}/no", "--texts", "{}/train.txt"], r"no model\.onnx"),
        (["train", "{}", "--texts", "{}/few.txt"], "has 1 texts; give at least 200"),
        (["train", "{}", "--texts", "{}/bad.jsonl"], 'write {"text": "…"}'),
        (["train", "{}", "--texts", "{}/long.txt"], "--tokens: the model cannot run on these texts"),
        (["tune", "{}/bare", "--texts", "{}/train.txt"], "train ramps with"),
        (["simulate", "{}", "--texts", "{}/serve.txt", "--risk", "0"], "lie between 0 and 1"),
        (["worth", "no/model", "--gpu", "h100-sxm"], "no/model"),
        (["worth", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "abacus"], "abacus"),
        (
            ["worth", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h100-sxm", "--depth", "1"],
            "no layer before",
        ),
    ],
)
def test_bad_input_is_told(folder: Path, arguments: list[str], told: str) -> None:
    (folder / "long.txt").write_text("two " * 40 + "\n" + "two and two\n" * 300)
    (folder / "few.txt").write_text("one\n")
    (folder / "bad.jsonl").write_text('{"no": 1}\n' * 300)
    (folder / "bare").mkdir(exist_ok=True)
    with pytest.raises(BadInput, match=told):
        ran(*(argument.replace("{}", str(folder)) for argument in arguments))


def test_half_a_character_in_json_is_a_text(folder: Path) -> None:
    (folder / "halves.jsonl").write_text('{"text": "\\ud800 two"}\n' * 300)
    texts = str(folder / "halves.jsonl")
    assert json.loads(ran("simulate", str(folder), "--texts", texts, *TOKENS).stdout)["texts"] == 300


def test_a_copy_certifies_no_more_in_simulation_than_where_exits_serve(folder: Path) -> None:
    """One text, sent 3,000 times, tells of one input: a simulation once let it leave after as few as of all others."""
    (folder / "same.txt").write_text("two and one\n" * 3000)
    said = json.loads(ran("simulate", str(folder), "--texts", str(folder / "same.txt"), *TOKENS).stdout)
    assert said["certified"]["first_certified"] is None


def test_a_text_may_hold_what_separates_lines_elsewhere_and_mistakes_have_their_own_line(
    folder: Path,
) -> None:
    line = json.dumps({"text": "two \u2028 one \x85 two"}, ensure_ascii=False)
    (folder / "separators.jsonl").write_text(f"{line}\r\n\n" * 300, newline="")
    texts = str(folder / "separators.jsonl")
    assert json.loads(ran("simulate", str(folder), "--texts", texts, *TOKENS).stdout)["texts"] == 300
    (folder / "third.jsonl").write_text(f"{line}\n\nno\n" + f"{line}\n" * 300)
    with pytest.raises(BadInput, match=r"third\.jsonl:3"):
        ran("simulate", str(folder), "--texts", str(folder / "third.jsonl"), *TOKENS)


@pytest.mark.parametrize("command", ["train", "tune"])
@pytest.mark.parametrize("name", ["ramps.json", "ramps.safetensors"])
def test_where_nothing_can_be_written_it_is_told_before_anything_is_trained(
    folder: Path, tmp_path: Path, command: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    real = read_ramps(place)
    monkeypatch.setattr("cascadia.ramps.file.read_ramps", lambda _: real)
    (place / name).unlink()
    (place / name).mkdir()
    before = {path.name: path.stat().st_mtime_ns for path in place.iterdir()}
    with pytest.raises(BadInput, match=rf"model/{name}: is a folder; name a file"):
        ran(command, str(place), "--texts", str(folder / "train.txt"), *TOKENS)
    assert {path.name: path.stat().st_mtime_ns for path in place.iterdir()} == before
