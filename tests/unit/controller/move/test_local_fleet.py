"""A plan becomes processes and a router on this machine, and another plan without losing a request."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.process import Restarts
from cascadia.controller.local.backend import LocalBackend
from cascadia.controller.local.control_socket import ask, listening
from cascadia.controller.local.desired import LocalPlan, local_plan
from cascadia.controller.local.fleet import LocalFleet
from cascadia.controller.local.members import FleetError
from cascadia.controller.local.supervisor import supervise
from cascadia.controller.move.backend import Moved, StepFailed, move, move_or_return
from cascadia.controller.move.state import JUDGE, reached
from cascadia.controller.move.steps import AwaitReady, Drain, Start, Step, Stop
from cascadia.controller.speed.watch import LocalEngines
from cascadia.domain.errors import BadInput
from tests.unit.controller.machine import NO_GPU_JUDGE, engine, local, two_stages
from tests.unit.controller.test_local_process import until

pytestmark = pytest.mark.slow

QUICK = Restarts(first_s=0.05, longest_s=0.1, most=2)
ASK = {"messages": [{"role": "user", "content": "hello"}]}


@asynccontextmanager
async def running(folder: Path, gpus: int = 3) -> AsyncIterator[LocalFleet]:
    fleet = LocalFleet(folder, {"here": tuple(range(gpus))}, QUICK)
    async with listening(fleet, lambda: None):
        try:
            yield fleet
        finally:
            await fleet.close(5.0)


def backend(folder: Path, *plans: LocalPlan) -> LocalBackend:
    launches = {kind: launch for plan in plans for kind, launch in plan.launches.items()}
    return LocalBackend(folder, launches, {plan.routing.label: plan.router for plan in plans})


def url_of(plan: LocalPlan) -> str:
    return f"http://127.0.0.1:{plan.router['port']}"


def test_one_and_two_become_two_and_one_under_load_without_a_failed_request(tmp_path: Path) -> None:
    machine = local(tmp_path)
    first = local_plan(two_stages(1, 2), machine)
    second = local_plan(replace(two_stages(2, 1), thresholds=(0.0,)), machine)

    async def load(client: httpx.AsyncClient, statuses: list[int], stop: asyncio.Event) -> None:
        while not stop.is_set():
            for model in ("small", "large"):
                answer = await client.post("/v1/chat/completions", json={"model": model, **ASK})
                statuses.append(answer.status_code)

    async def main() -> None:
        async with running(tmp_path) as fleet:
            there = backend(tmp_path, first, second)
            await move(there, first.desired(), at_once=3)
            statuses: list[int] = []
            steps: list[Step] = []
            stop = asyncio.Event()
            async with httpx.AsyncClient(base_url=url_of(first), timeout=60, trust_env=False) as client:
                loads = [asyncio.create_task(load(client, statuses, stop)) for _ in range(4)]
                await until(lambda: len(statuses) > 20)
                await move(there, second.desired(), note=steps.append)
                before = len(statuses)
                await until(lambda: len(statuses) > before + 20)
                stop.set()
                await asyncio.gather(*loads)
            assert set(statuses) == {200}
            assert reached(await there.observe(), second.desired())
            assert [type(step).__name__ for step in steps] == [
                "Route",
                "Drain",
                "Stop",
                "Start",
                "AwaitReady",
            ]
            assert {m.process.started for m in fleet.members.values()} == {1}

    asyncio.run(main())


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("before", ["embedding", "certainty"])
def test_a_judge_changes_under_load_in_one_step(before: str, tmp_path: Path) -> None:
    """From one that accepts all, or from none of its own, to one that accepts nothing: both run while the router
    changes over, and the former ends."""
    machine = local(tmp_path)

    def judged(kind: str, score: str) -> LocalPlan:
        plan = replace(two_stages(1, 1), judge=replace(NO_GPU_JUDGE, kind=kind))
        scores = {JUDGE: engine(JUDGE, "--score", score)} if kind == "embedding" else {}
        return local_plan(plan, machine.model_copy(update={"stages": {**machine.stages, **scores}}))

    first, second = judged(before, "100"), judged("embedding", "0")

    async def main() -> None:
        async with running(tmp_path) as fleet:
            there = backend(tmp_path, first, second)
            await move(there, first.desired(), at_once=3)
            answers: list[httpx.Response] = []
            stop = asyncio.Event()

            async def load(client: httpx.AsyncClient) -> None:
                while not stop.is_set():
                    answers.append(
                        await client.post("/v1/chat/completions", json={"model": "cascadia", **ASK})
                    )

            steps: list[Step] = []
            async with httpx.AsyncClient(base_url=url_of(first), timeout=60, trust_env=False) as client:
                loads = [asyncio.create_task(load(client)) for _ in range(4)]
                await until(lambda: len(answers) > 20)
                await move(there, second.desired(), note=steps.append)
                moved = len(answers)
                await until(lambda: len(answers) > moved + 20)
                stop.set()
                await asyncio.gather(*loads)
            assert {answer.status_code for answer in answers} == {200}
            assert {answer.headers["x-cascadia-stage"] for answer in answers[moved + 4 :]} == {"large"}
            if before == "embedding":
                assert answers[0].headers["x-cascadia-stage"] == "small"
            order = ["Start", "AwaitReady", "Route", *(["Drain", "Stop"] * (before == "embedding"))]
            assert [type(step).__name__ for step in steps] == order
            assert len([name for name in fleet.members if name.startswith("judge-")]) == 1

    asyncio.run(main())


def test_a_plans_embedding_judge_is_served_beside_the_router() -> None:
    plan = replace(two_stages(1, 1), judge=replace(NO_GPU_JUDGE, kind="embedding", model="/judges/head.json"))
    found = local_plan(plan)
    judge = next(launch for kind, launch in found.launches.items() if kind.stage.startswith("judge-"))
    argv, _ = judge.filled(port=8201, name="judge-0", gpus=())
    assert argv[-6:] == ("judge", "serve", "/judges/head.json", "--port", "8201", "--quiet")
    assert judge.kind.gpus == 0
    assert found.routing.stages == ("small", "large", judge.kind.stage)


def test_an_embedding_judge_that_learned_nothing_is_one_line() -> None:
    plan = replace(two_stages(1, 1), judge=replace(NO_GPU_JUDGE, kind="embedding"))
    with pytest.raises(BadInput, match=r"nothing says what it has learned; write judge: \{model: FILE\}"):
        local_plan(plan)


def test_what_a_draining_replica_has_in_hand_is_finished_before_it_stops(tmp_path: Path) -> None:
    machine = local(tmp_path)
    first, second = (local_plan(two_stages(n, 1), machine) for n in (2, 1))
    gate = tmp_path / "gate"

    async def main() -> None:
        async with running(tmp_path) as fleet:
            there = backend(tmp_path, first, second)
            await move(there, first.desired(), at_once=3)
            async with httpx.AsyncClient(base_url=url_of(first), timeout=60, trust_env=False) as client:
                body = {"model": "small", **ASK, "gate": str(gate)}
                asked = [
                    asyncio.create_task(client.post("/v1/chat/completions", json=body)) for _ in range(8)
                ]
                await until(lambda: Path(f"{gate}.arrived").exists())
                observed = await there.observe()
                assert sum(r.running for r in observed.replicas) == 8
                moving = asyncio.create_task(move(there, second.desired()))
                await until(lambda: any(m.leaving for m in fleet.members.values()))
                assert not moving.done()
                Path(f"{gate}.go").touch()
                answers = await asyncio.gather(*asked)
                await moving
            assert {answer.status_code for answer in answers} == {200}
            assert len(fleet.members) == 2

    asyncio.run(main())


def test_a_model_that_will_not_load_rolls_the_move_back_and_says_why(tmp_path: Path) -> None:
    machine = local(tmp_path)
    broken = engine("large", argv=["no-such-engine", "{port}"])
    first = local_plan(two_stages(1, 1), machine)
    second = local_plan(
        two_stages(1, 2), machine.model_copy(update={"stages": {**machine.stages, "large": broken}})
    )

    async def main() -> None:
        async with running(tmp_path) as fleet:
            there = backend(tmp_path, first, second)
            await move(there, first.desired(), at_once=2)
            with pytest.raises(
                Moved, match=r"rolled back: await large-1: large-1 did not start: cannot start no-such-engine"
            ):
                await move_or_return(there, second.desired(), first.desired())
            assert reached(await there.observe(), first.desired())
            assert sorted(fleet.members) == ["large-0", "small-0"]

    asyncio.run(main())


class Dies(Exception):
    """The controller, at a chosen step."""


class Mortal(LocalBackend):
    """Dies before or after its `at`th step."""

    at = 0
    after = False

    async def take(self, step: Step) -> None:
        self.at -= 1
        if self.at < 0 and not self.after:
            raise Dies
        await super().take(step)
        if self.at < 0:
            raise Dies


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("at", range(4))
def test_a_controller_that_dies_at_any_step_is_followed_by_another(tmp_path: Path, at: int) -> None:
    machine = local(tmp_path)
    first, second = local_plan(two_stages(2, 1), machine), local_plan(two_stages(1, 2), machine)

    async def main() -> None:
        async with running(tmp_path):
            await move(backend(tmp_path, first), first.desired(), at_once=3)
            dying = Mortal(tmp_path, second.launches, {second.routing.label: second.router})
            dying.at, dying.after = at, bool(at % 2)
            with pytest.raises(Dies):
                await move(dying, second.desired())
            there = backend(tmp_path, second)
            await move(there, second.desired())
            assert reached(await there.observe(), second.desired())

    asyncio.run(main())


@pytest.mark.long
def test_a_stage_that_has_lost_its_only_replica_for_good_hinders_no_move(tmp_path: Path) -> None:
    """Its place in the router's file stays as it was until there is another, on a port that nobody else gets."""
    machine = local(tmp_path)
    first, second = local_plan(two_stages(1, 1), machine), local_plan(two_stages(1, 2), machine)

    async def main() -> None:
        async with running(tmp_path) as fleet:
            there = backend(tmp_path, first, second)
            await move(there, first.desired(), at_once=2)
            lost = fleet.members["small-0"].process
            for starts in (1, 2):
                await until(lambda starts=starts: lost.started == starts and lost.state == "ready")
                os.kill(descendants(lost.pid or 0)[0], signal.SIGKILL)
                await until(lambda: lost.state != "ready")
            await until(lambda: lost.state == "failed")
            large = next(kind for kind in second.counts if kind.stage == "large")
            for step in (Stop("small-0"), Start("large-1", large), AwaitReady("large-1")):
                await there.take(step)
            await move(there, second.desired())
            assert reached(await there.observe(), second.desired())
            addresses = {member.process.url for member in fleet.members.values()}
            assert len(addresses) == 3
            assert lost.url not in addresses
            async with httpx.AsyncClient(base_url=url_of(first), timeout=60, trust_env=False) as client:
                for model in ("small", "large"):
                    answer = await client.post("/v1/chat/completions", json={"model": model, **ASK})
                    assert answer.status_code == 200

    asyncio.run(main())


def test_gpus_are_given_once(tmp_path: Path) -> None:
    plan = local_plan(two_stages(2, 1), local(tmp_path))

    async def main() -> None:
        async with running(tmp_path, gpus=2) as fleet:
            kinds = list(plan.launches)
            await fleet.start("a", plan.launches[kinds[0]])
            await fleet.start("b", plan.launches[kinds[1]])
            assert sorted(m.gpus for m in fleet.members.values()) == [(0,), (1,)]
            with pytest.raises(FleetError, match="1 GPUs of here are wanted, and 0 are free"):
                await fleet.start("c", plan.launches[kinds[0]])

    asyncio.run(main())


def test_the_last_replica_that_serves_a_stage_is_not_drained(tmp_path: Path) -> None:
    plan = local_plan(two_stages(1, 1), local(tmp_path))

    async def main() -> None:
        async with running(tmp_path):
            there = backend(tmp_path, plan)
            await move(there, plan.desired(), at_once=2)
            with pytest.raises(StepFailed, match="small-0 is the last replica of small"):
                await there.take(Drain("small-0"))
            with pytest.raises(StepFailed, match="there is no replica nobody"):
                await there.take(Drain("nobody"))
            kind = next(iter(plan.launches))
            with pytest.raises(StepFailed, match="is there already"):
                await there.take(Start("small-0", kind))

    asyncio.run(main())


def test_nothing_is_asked_where_no_fleet_runs(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no fleet runs here; start one with `cascadia up`"):
        asyncio.run(ask(tmp_path, "observe"))


def test_what_the_fleet_cannot_understand_it_says(tmp_path: Path) -> None:
    async def main() -> dict[str, Any]:
        async with running(tmp_path):
            with pytest.raises(FleetError, match="cannot be understood"):
                await ask(tmp_path, "dance")
            return await ask(tmp_path, "observe")

    assert asyncio.run(main())["replicas"] == []


@pytest.mark.long
def test_all_begin_to_load_at_once_and_the_router_serves_with_one_of_each_stage(tmp_path: Path) -> None:
    machine = local(tmp_path)
    waits = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]):\n    time.sleep(0.01)\n"
    waits += "os.execv(sys.argv[2], sys.argv[2:])"
    small = machine.stages["small"]
    held = [sys.executable, "-c", waits, f"{tmp_path}/{{name}}-may-go", *small.command]
    stages = {**machine.stages, "small": small.model_copy(update={"command": held})}
    plan = local_plan(two_stages(2, 1), machine.model_copy(update={"stages": stages}))
    steps: list[str] = []

    async def states() -> dict[str, str]:
        return {r["name"]: r["state"] for r in (await ask(tmp_path, "observe"))["replicas"]}

    async def main() -> None:
        up = asyncio.create_task(supervise(plan, tmp_path, note=lambda step: steps.append(str(step))))
        await until(lambda: "await small-0" in steps)
        assert [step for step in steps if step.startswith("start ")] == [
            "start large-0 (1 of here)",
            "start small-0 (1 of here)",
            "start small-1 (1 of here)",
        ]
        (tmp_path / "small-0-may-go").touch()
        await until(lambda: "await small-1" in steps)
        assert await states() == {"large-0": "ready", "small-0": "ready", "small-1": "starting"}
        async with httpx.AsyncClient(base_url=url_of(plan), timeout=60, trust_env=False) as client:
            assert (await client.post("/v1/chat/completions", json={"model": "small", **ASK})).is_success
        (tmp_path / "small-1-may-go").touch()
        async with asyncio.timeout(60):
            while set((await states()).values()) != {"ready"}:
                await asyncio.sleep(0.01)
        await ask(tmp_path, "down")
        await up

    asyncio.run(main())


def test_the_metrics_of_each_replica_that_serves_are_read(tmp_path: Path) -> None:
    made = local_plan(two_stages(1, 2), local(tmp_path))

    async def main() -> None:
        engines = LocalEngines(tmp_path)
        assert await engines.metrics() == {}
        async with running(tmp_path):
            there = backend(tmp_path, made)
            await move(there, made.desired(), at_once=3)
            document = await ask(tmp_path, "observe")
            found = await engines.metrics()
            assert {name: kind.stage for name, (kind, _) in found.items()} == {
                r["name"]: r["kind"]["stage"] for r in document["replicas"]
            }
            for replica in document["replicas"]:
                port = replica["url"].rpartition(":")[2]
                assert found[replica["name"]][1] == f"llamacpp:prompt_tokens_total {port}\n"

    asyncio.run(main())
