"""A real llama.cpp that gets a twentieth of its core: `profile latency` keeps its time and what it could measure."""

import json
import time
from pathlib import Path

import pytest

from cascadia.clients.processes.ports import free_port
from cascadia_sim.calibration.file import read_calibration
from tests.e2e.commands import Cascadia
from tests.e2e.engine_commands import llama_command
from tests.e2e.engine_servers import CONTEXT, NAME, running
from tests.e2e.slowed import slowed

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
ALLOWED_S = 40
FIT_S = 20.0
"""What the command may take beside measuring: to start, and to fit on a busy machine."""
AWAKE_S, ASLEEP_S = 0.02, 0.38


def test_a_slow_engines_profile_keeps_its_time_says_what_is_missing_and_goes_on(
    cascadia: Cascadia, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    flags = ("--max-num-batched-tokens", "2048", "--quantization", "awq-int4", "--gpu", "cpu")
    with (
        running(llama_command(port, 4, CONTEXT), {}, port, tmp_path / "engine.log") as url,
        slowed(port, AWAKE_S, ASLEEP_S),
    ):
        command = (
            "profile",
            "latency",
            "--json",
            "--base-url",
            url,
            "--model",
            NAME,
            "--architecture",
            MODEL,
        )
        command = (*command, *flags, "--max-seconds", str(ALLOWED_S), "--out", "own.json")
        began_s = time.monotonic()
        first = cascadia(*command)
        took_s = time.monotonic() - began_s
        second = cascadia(*command, "--resume")
    found, more = first.document, second.document
    with capsys.disabled():
        for told in (found, more):
            missing = "; ".join(told["missing"]) or "nothing"
            print(
                f"\n{told['took_s']:.1f} s, {told['calibration']['fit']['points']} points, missing: {missing}"
            )
    assert took_s < ALLOWED_S + FIT_S
    assert found["took_s"] < ALLOWED_S + FIT_S / 2
    assert found["missing"]
    assert "note: not measured: " in first.stderr
    assert "--resume" in first.stderr
    assert len(more["missing"]) <= len(found["missing"])
    assert json.loads((tmp_path / "own.json").read_text())["profile"]["missing"] == more["missing"]
    calibration = read_calibration(tmp_path / "own.json")
    assert calibration.fit.points > found["calibration"]["fit"]["points"] - 1
    assert calibration.efficiency.iteration_s + calibration.efficiency.kernel_s > 0
