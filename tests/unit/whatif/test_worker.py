"""A plan's process: its lines, its failures, and its end when it is not wanted."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cascadia.whatif.asked import Asked
from cascadia.whatif.worker import NotPlanned, Worker


def worker(program: str) -> Worker:
    return Worker([sys.executable, "-S", "-c", f"import json, sys, os, time\n{program}"], Path("s.yaml"))


def test_it_gets_what_is_asked_and_says_each_step(tmp_path: Path) -> None:
    program = (
        "asked = json.load(sys.stdin); print(json.dumps({'step': 'one'})); print(json.dumps({'told': asked}))"
    )
    said: list[dict[str, Any]] = []
    told = asyncio.run(worker(program).plan(Asked(gpus={"h100": 8}), tmp_path / "1", said.append))
    assert told == {"spec": "s.yaml", "folder": str(tmp_path / "1"), "asked": {"gpus": {"h100": 8}}}
    assert said == [{"step": "one"}]


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("print(json.dumps({'error': 'no plan: why'}))", "no plan: why"),
        ("os._exit(9)", "planning ended with exit code 9 and no plan"),
    ],
)
def test_its_failure_is_one_line(tmp_path: Path, program: str, line: str) -> None:
    with pytest.raises(NotPlanned) as caught:
        asyncio.run(worker(program).plan(Asked(), tmp_path, lambda _: None))
    assert str(caught.value) == line


def test_it_is_killed_when_the_plan_is_stopped(tmp_path: Path) -> None:
    async def main() -> int:
        begun = asyncio.Event()
        pids: list[int] = []

        def say(line: dict[str, Any]) -> None:
            pids.append(line["step"])
            begun.set()

        program = "print(json.dumps({'step': os.getpid()}), flush=True); time.sleep(600)"
        task = asyncio.create_task(worker(program).plan(Asked(), tmp_path, say))
        await begun.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return pids[0]

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(main()), 0)
