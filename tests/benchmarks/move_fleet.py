"""A fleet of three replicas on this machine, and `cascadia controller` processes that move it."""

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median

from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.ports import free_port
from cascadia.controller.local.engines_file import read_local
from cascadia.controller.local.plans import LocalPlans
from cascadia.controller.memory.history import Entry
from cascadia.controller.memory.state import FileState, UnderWay
from cascadia.controller.move.reconcile import reconcile
from cascadia.demo.stages import HEAD
from cascadia.files.plan_file import write_plan
from tests.e2e.commands import PROGRAM, told
from tests.e2e.engine_commands import llama_command
from tests.e2e.test_up import on_cores
from tests.unit.controller.machine import ENGINE, NO_GPU_JUDGE

PLANS = {"one-two": (1, 2, 5.0), "two-one": (2, 1, 95.0)}
"""Replicas of both stages, and the threshold."""
MOST_STARTS = 4
run = partial(told, limit_s=300.0)


@dataclass(frozen=True, slots=True)
class Killing:
    """Of the controller: `after_s` from the beginning of its `step`th step, counted from 0."""

    step: int
    after_s: float


@dataclass(slots=True)
class Fleet:
    """In `folder`, with the plans as folders; `now` names the one in force."""

    folder: Path
    now: str = "one-two"
    took_s: dict[str, list[float]] = field(default_factory=dict)
    """By sort of step, how long each took, seconds; `look` is what comes before a move's first."""

    def up(self) -> None:
        run(self.folder, "up", self.now, "--engines", "local.json", "--detach")

    def down(self) -> None:
        run(self.folder, "down")

    @property
    def url(self) -> str:
        return str(run(self.folder, "status")["router"]["url"])

    @property
    def run_dir(self) -> Path:
        return self.folder / "cascadia-run"

    async def steps(self) -> list[str]:
        """Those that a move to the other plan would take, as they are told."""
        plans = LocalPlans(self.run_dir, read_local(self.folder / "local.json"))
        observed = await plans.backend.observe()
        return list(map(str, reconcile(observed, plans.desired(self._plan(self.other), {}))))

    @property
    def other(self) -> str:
        return next(name for name in PLANS if name != self.now)

    def _plan(self, name: str) -> Path:
        return self.folder / name / "plan.json"

    async def move(self, killing: Killing | None = None) -> None:
        """A controller finds a move under way and ends it; where it is killed, the next one does."""
        state = FileState(self.run_dir)
        state.put_in_force(self._plan(self.now))
        state.put_under_way(UnderWay(self._plan(self.other), self._plan(self.now), {}, {}))
        if killing is not None and await self._controller(killing):
            raise RuntimeError("the controller was to be killed, and ended its move before")
        if killing is None or state.under_way() is not None:
            began_s = time.time()
            await self._controller()
            self._time([entry for entry in state.entries() if entry.at_s >= began_s], began_s)
        if state.in_force() != self._plan(self.other):
            raise RuntimeError(f"the move failed: {state.entries()[-1].what}")
        self.now = self.other

    async def _controller(self, killing: Killing | None = None) -> bool:
        """One controller's life, up to the end of its move; False where it was killed before."""
        (self.folder / "controller.yaml").write_text("scaling: {scales: false}\n")
        arguments = ("controller", "cascade.yaml", self.now, "--engines", "local.json")
        arguments += ("--settings", "controller.yaml")
        process = await asyncio.create_subprocess_exec(
            PROGRAM, *arguments, cwd=self.folder, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        steps = -1
        async for line in process.stderr:
            sort, _, what = line.decode().partition(": ")
            if sort in ("failed", "rolled-back", "error"):
                raise RuntimeError(f"{sort}: {what}")
            if sort == "moved":
                process.terminate()
                await process.wait()
                return True
            steps += sort in ("adopted", "step")
            if killing is not None and steps == killing.step:
                await asyncio.sleep(killing.after_s)
                with suppress(ProcessLookupError):
                    process.kill()
                await process.communicate()
                return False
        raise RuntimeError(f"the controller ended with {await process.wait()}")

    def _time(self, entries: list[Entry], began_s: float) -> None:
        for entry in entries:
            if entry.kind == "adopted":
                self.took_s.setdefault("look", []).append(entry.at_s - began_s)
            elif entry.kind == "step":
                self.took_s.setdefault(entry.what.split()[0], []).append(float(entry.facts["took_s"]))

    def usual_s(self, step: str) -> float:
        """How long such a step took so far."""
        return median(self.took_s.get(step.split()[0], [0.0]))

    def kill_one(self, rng: random.Random) -> None:
        """An engine's own process, whichever replica it is of; none so often that the fleet gives it up."""
        replicas = run(self.folder, "status")["replicas"]
        guards = [r["pid"] for r in replicas if r["state"] == "ready" and r["starts"] < MOST_STARTS]
        for pid in descendants(rng.choice(guards))[:1]:
            os.kill(pid, signal.SIGKILL)


def prepare(folder: Path, engine: str) -> Fleet:
    """`llama`: the plans differ in their judges too, each with a head of its own."""
    little = [sys.executable, str(ENGINE), "{port}"]
    command = little if engine == "little" else llama_command("{port}", 4, 1024)
    stage = {"command": command, "model": "smol", "drain_s": 60, "max_concurrency": 4}
    stages: dict[str, Mapping[str, object]] = {"small": stage, "large": stage}
    if engine == "little":
        stages["judge"] = {"command": [*little, "--score", "50"]}
    (folder / "local.json").write_text(json.dumps({"stages": stages, "router": {"port": free_port()}}))
    for name, (small, large, threshold) in PLANS.items():
        head = folder / f"head-{name}.json"
        shutil.copyfile(HEAD, head)
        judge = replace(NO_GPU_JUDGE, kind="embedding", model=str(head))
        (folder / name).mkdir()
        write_plan(replace(on_cores(small, large, threshold), judge=judge), folder / name / "plan.json")
    return Fleet(folder)
