"""A change that the router does not take up is none: nobody counts as drained, ready or routed to by it."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.process import Restarts
from cascadia.controller.local.backend import LocalBackend
from cascadia.controller.local.control_socket import listening
from cascadia.controller.local.desired import LocalPlan, local_plan
from cascadia.controller.local.engines_file import Local
from cascadia.controller.local.fleet import LocalFleet
from cascadia.controller.local.router_process import RouterProcess
from cascadia.controller.move.backend import StepFailed, move
from cascadia.controller.move.state import Kind
from cascadia.controller.move.steps import AwaitReady, Drain, Route, Start, Step, Stop, Undrain
from cascadia.controller.scale.steps import steps_to
from cascadia.router.access.keys import Key, make_key
from cascadia.router.access.keys_file import add_key
from tests.unit.controller.machine import local, two_stages
from tests.unit.controller.test_local_process import until

pytestmark = pytest.mark.slow

QUICK = Restarts(first_s=0.05, longest_s=0.1, most=5)
ASK = {"model": "small", "messages": [{"role": "user", "content": "hello"}]}


@asynccontextmanager
async def serving(folder: Path, plan: LocalPlan) -> AsyncIterator[tuple[LocalFleet, LocalBackend]]:
    fleet = LocalFleet(folder, {"here": (0, 1, 2, 3)}, QUICK)
    async with listening(fleet, lambda: None):
        try:
            backend = LocalBackend(folder, plan.launches, {plan.routing.label: plan.router})
            await move(backend, plan.desired(), at_once=3)
            yield fleet, backend
        finally:
            await fleet.close(5.0)


def small_of(plan: LocalPlan) -> Kind:
    return next(kind for kind in plan.counts if kind.stage == "small")


def with_keys(folder: Path) -> tuple[LocalPlan, Path, str, Local]:
    """A plan whose router asks for a key, their file, a key, and what this machine is told."""
    keys, made = folder / "keys.yaml", make_key()
    add_key(keys, Key(made.id, "me", made.digest), datetime.now(UTC))
    machine = local(folder)
    machine = machine.model_copy(update={"router": {**machine.router, "keys": {"file": str(keys)}}})
    return local_plan(two_stages(2, 1, gpus=4), machine), keys, made.text, machine


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("change", ["drain", "stop", "await", "undrain", "route"])
def test_nothing_has_changed_where_the_router_refuses(change: str, tmp_path: Path) -> None:
    plan, keys, key, machine = with_keys(tmp_path)
    other = local_plan(replace(two_stages(2, 1, gpus=4), thresholds=(10.0,)), machine)
    steps: dict[str, tuple[list[Step], Step]] = {
        "drain": ([], Drain("small-0")),
        "stop": ([], Stop("small-0")),
        "await": ([Start("small-2", small_of(plan))], AwaitReady("small-2")),
        "undrain": ([Drain("small-0")], Undrain("small-0")),
        "route": ([], Route(other.routing)),
    }
    before, refused = steps[change]

    async def answers(url: str) -> set[str]:
        async with httpx.AsyncClient(
            base_url=url, timeout=60, trust_env=False, headers={"authorization": f"Bearer {key}"}
        ) as client:
            found = [await client.post("/v1/chat/completions", json=ASK) for _ in range(8)]
            assert all(answer.status_code == 200 for answer in found)
            return {answer.json()["choices"][0]["message"]["content"] for answer in found}

    async def main() -> None:
        async with serving(tmp_path, plan) as (fleet, backend):
            url = f"http://127.0.0.1:{plan.router['port']}"
            backend.documents[other.routing.label] = other.router
            for step in before:
                await backend.take(step)
            ready = [r.name for r in (await backend.observe()).replicas if r.state == "ready"]
            there, file = await backend.observe(), (tmp_path / "router.yaml").read_text()
            text = keys.read_text()
            keys.write_text("keys: [")
            with pytest.raises(StepFailed, match="the router refused its new plan"):
                await backend.take(refused)
            assert await backend.observe() == there
            assert (tmp_path / "router.yaml").read_text() == file
            # Nobody is stopped whom requests still go to.
            stops = [step.name for step in steps_to(there, plan.counts) if isinstance(step, Stop)]
            assert not set(stops) & set(ready)
            assert await answers(url) == {
                str(fleet.members[n].process.program.port) for n in ready if n != "large-0"
            }
            # Once the file makes sense again, the same step is taken.
            keys.write_text(text)
            await backend.take(refused)
            assert await backend.observe() != there

    asyncio.run(main())


@pytest.mark.long
def test_a_router_that_dies_after_it_refused_begins_anew_with_what_was_in_force(tmp_path: Path) -> None:
    plan = local_plan(two_stages(2, 1, gpus=4), local(tmp_path))
    nonsense = replace(plan.routing, label="nonsense")

    async def main() -> None:
        async with serving(tmp_path, plan) as (fleet, backend):
            backend.documents["nonsense"] = {**plan.router, "nonsense": 1}
            with pytest.raises(StepFailed, match="the router refused its new plan"):
                await backend.take(Route(nonsense))
            router = fleet._router.process
            assert router is not None
            os.kill(descendants(router.pid or 0)[0], signal.SIGKILL)
            await until(lambda: router.started == 2 and router.state == "ready")
            async with httpx.AsyncClient(base_url=router.url, timeout=60, trust_env=False) as client:
                answer = await client.post("/v1/chat/completions", json=ASK)
                assert answer.status_code == 200

    asyncio.run(main())


def test_what_the_machine_refuses_is_said_and_the_fleet_lives_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked would else be told that the fleet had ended."""
    plan = local_plan(two_stages(2, 1, gpus=4), local(tmp_path))

    async def main() -> None:
        async with serving(tmp_path, plan) as (_, backend):
            there = await backend.observe()
            (tmp_path / "tmp").write_text("no folder for the locks of ports")
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
            with pytest.raises(StepFailed, match="Not a directory"):
                await backend.take(Start("small-2", small_of(plan)))
            assert await backend.observe() == there

    asyncio.run(main())


def test_of_two_who_stop_a_replica_the_later_leaves_alone_who_has_its_name_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a controller's wait and the move that follows it do."""
    plan = local_plan(two_stages(2, 1, gpus=4), local(tmp_path))
    idle, asked, goes_on = RouterProcess.idle, list[str](), asyncio.Event()

    async def slowly(self: RouterProcess, stage: str) -> bool:
        asked.append(stage)
        if len(asked) == 1:
            await goes_on.wait()
        return await idle(self, stage)

    async def main() -> None:
        async with serving(tmp_path, plan) as (fleet, backend):
            await backend.take(Drain("small-0"))
            monkeypatch.setattr(RouterProcess, "idle", slowly)
            late = asyncio.create_task(fleet.stop("small-0"))
            await until(lambda: bool(asked))
            await fleet.stop("small-0")
            assert "small-0" not in fleet.members
            await backend.take(Start("small-0", small_of(plan)))
            goes_on.set()
            await late
            assert fleet.members["small-0"].process.state in ("starting", "ready")
            await backend.take(AwaitReady("small-0"))

    asyncio.run(main())
