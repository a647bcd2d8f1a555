"""The doctor says what is there, what is not, and what to do about it."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cascadia import __version__
from cascadia.clients.processes.ports import listen
from cascadia.doctor import machine as machine_room
from cascadia.doctor.fit import fit
from cascadia.doctor.judge import judge
from cascadia.doctor.machine import machine
from cascadia.doctor.programs import images, programs
from cascadia.render.compose.engines import LLAMA_CPP_IMAGE
from cascadia.render.compose.file import JUDGE_IMAGE, ROUTER_IMAGE
from cascadia.testing.plans import three_stages
from tests.data import ROOT
from tests.unit.cli.commands import run

TWO_H100 = "NVIDIA H100 80GB HBM3, 81559, 4, 570.86.15\nNVIDIA H100 80GB HBM3, 81559, 60000, 570.86.15\n"


def prints(answers: dict[str, str]) -> machine_room.Ask:
    """Programs that print these texts, by their first words; others are not there."""

    def answer(command: Sequence[str]) -> str | None:
        return next((text for words, text in answers.items() if " ".join(command).startswith(words)), None)

    return answer


def test_a_gpu_that_somebody_uses_is_to_be_freed() -> None:
    found = {finding.what: finding for finding in machine(prints({"nvidia-smi": TWO_H100}))}
    assert (found["GPU 0"].state, found["GPU 1"].state) == ("good", "bad")
    assert "driver 570.86.15" in found["GPU 0"].said
    assert found["GPU 1"].do == "end what uses it"


def test_a_machine_without_gpus_can_plan() -> None:
    found = {finding.what: finding for finding in machine(prints({}))}
    assert found["GPUs"].state in ("note", "bad")
    assert "plan here" in found["GPUs"].do


def test_a_taken_port_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen("127.0.0.1", 0) as taken:
        monkeypatch.setattr(machine_room, "ROUTER_PORT", taken.getsockname()[1])
        found = [finding for finding in machine(prints({})) if finding.what.startswith("port")]
    assert found[0].state == "bad"
    assert "up --port" in found[0].do


def test_kernels_that_no_folder_keeps_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine_room.kernels().state == "good"
    monkeypatch.setattr(machine_room, "is_kept", lambda: False)
    assert "NUMBA_CACHE_DIR" in machine_room.kernels().do


def test_a_plan_needs_its_engines_and_its_gpus(tmp_path: Path) -> None:
    plan = three_stages()
    engines = {stage.engine for stage in plan.stages if stage.deployed}
    found = {finding.what: finding for finding in programs(plan, prints({}))}
    assert {engine for engine in found if found[engine].state == "bad"} <= engines
    (said,) = fit(plan, [])
    assert said.state in ("bad", "note")
    assert str(plan.gpus) in said.said
    (tmp_path / "compose.yaml").write_text(
        "services: {a: {image: vllm/vllm-openai}, b: {image: cascadia/router}}\n"
    )
    there = prints({"docker image inspect cascadia/router": "[]"})
    states = {finding.said: finding.state for finding in images(plan, tmp_path, there)}
    assert states == {"cascadia/router is here": "good", "vllm/vllm-openai is not here": "note"}


def test_images_are_those_that_compose_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    router, judge, engine = ROUTER_IMAGE, JUDGE_IMAGE, LLAMA_CPP_IMAGE
    services = {"router": {"image": router}, "judge": {"image": judge}, "small": {"image": engine}}
    (tmp_path / "compose.yaml").write_text(json.dumps({"services": services}))
    monkeypatch.setenv("CASCADIA_JUDGE_IMAGE", "mine/judge:1")
    monkeypatch.delenv("CASCADIA_ROUTER_IMAGE", raising=False)
    monkeypatch.delenv("CASCADIA_LLAMA_CPP_IMAGE", raising=False)
    found = {finding.said: finding.do for finding in images(three_stages(), tmp_path, prints({}))}
    assert found == {
        "CASCADIA_LLAMA_CPP_IMAGE is not set": "set it to an image of llama.cpp's server for your hardware",
        f"cascadia/router:{__version__} is not here": "`docker/build.sh` builds it, in a clone",
        "mine/judge:1 is not here": "`docker/build.sh` builds it, in a clone",
    }


def test_another_version_of_an_engine_is_told() -> None:
    found = {finding.what: finding for finding in programs(None, prints({"vllm --version": "0.11.0\n"}))}
    assert found["vllm"].state == "note"
    assert "0.32.0" in found["vllm"].said
    assert "profile latency" in found["vllm"].do


def test_a_judge_s_scale_and_skill_are_told(tmp_path: Path) -> None:
    scale, *gates = judge(ROOT / "docs" / "examples" / "quality.csv", 100)
    assert "0 to 100" in scale.said
    assert [gate.state for gate in gates] == ["good", "good"]
    rows = "".join(
        f"{prompt},{stage},{(prompt * 37) % 100},{100 * ((prompt * 7 // 3) % 2)},5,5\n"
        for stage in ("small", "large")
        for prompt in range(60)
    )
    (tmp_path / "q.csv").write_text("prompt_id,stage,score,quality,input_tokens,output_tokens\n" + rows)
    (_, gate) = judge(tmp_path / "q.csv", 100)
    assert gate.state == "bad"
    assert "another judge" in gate.do


def test_the_command_counts_and_exits_by_what_is_bad() -> None:
    done = run("doctor", "--json")
    document = json.loads(done.stdout)
    bad = [finding for finding in document["findings"] if finding["state"] == "bad"]
    assert document["bad"] == len(bad)
    assert done.exit_code == (1 if bad else 0)
    assert all(finding["do"] for finding in document["findings"] if finding["state"] != "good")


@pytest.mark.parametrize(
    ("name", "told", "state", "said"),
    [
        ("memory.max", "2147483648\n", "note", "2.0 GiB of them usable here"),
        ("memory/memory.limit_in_bytes", "2147483648\n", "note", "2.0 GiB of them usable here"),
        ("memory.max", "max\n", None, ""),
        # What version 1 tells where there is no limit.
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None, ""),
        ("memory.max", "lots\n", None, ""),
    ],
)
def test_of_memory_a_containers_limit_is_what_there_is(
    tmp_path: Path, name: str, told: str, state: str | None, said: str
) -> None:
    unlimited = machine_room.memory(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(told)
    found = machine_room.memory(tmp_path)
    assert found.state == (state or unlimited.state)
    assert said in found.said
    assert (found == unlimited) == (state is None)
