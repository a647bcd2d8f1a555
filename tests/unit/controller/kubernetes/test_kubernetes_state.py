"""What a controller on a cluster remembers, whoever takes over and however much has happened since."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from cascadia.clients.cluster.kubernetes_api import Document, KubernetesApi
from cascadia.controller.kubernetes import run as running
from cascadia.controller.kubernetes.plans import KubernetesPlans
from cascadia.controller.kubernetes.state import MOST_BYTES, MOVE, KubernetesState
from cascadia.controller.loop import Controller
from cascadia.controller.memory.history import Entry, moved_at_s, planned_gpus
from cascadia.controller.memory.latest import STEPS
from cascadia.controller.memory.state import UnderWay
from cascadia.controller.memory.timing import move_timings
from cascadia.domain.errors import BadInput
from cascadia.files.plan_file import write_plan
from cascadia.render.kubernetes.chart_values import defaults, merged
from cascadia.render.kubernetes.release import Release
from tests.unit.controller.machine import two_stages
from tests.unit.controller.scale.test_scaler import World
from tests.unit.deploy.matrix import values_of


class Cluster:
    """The one object that the state is kept in."""

    namespace = "llm"

    def __init__(self) -> None:
        self.kept: Document | None = None

    async def get(self, kind: str, name: str) -> Document | None:
        return self.kept

    async def owner(self, kind: str, name: str) -> Document:
        return {}

    async def apply(self, document: Document) -> None:
        self.kept = document

    def state(self, folder: Path) -> KubernetesState:
        release = Release(merged(defaults(), values_of(two_stages(1, 1))), "cascadia", "llm")
        return KubernetesState(cast(KubernetesApi, self), release, folder)


class Plans:
    """Plans without a need of their own."""

    def __init__(self) -> None:
        self.rates_rps: dict[str, float] = {}

    def read(self, plan: Path) -> Any:
        return self


class KilledHereError(Exception):
    pass


def look(world: World, controller: Controller, state: KubernetesState, rest: Callable[[], Any]) -> None:
    """One look, in which `rest` takes the place of the inner loop's letting go."""
    controller.rest = rest  # type: ignore[method-assign]
    plans = cast(KubernetesPlans, Plans())
    asyncio.run(running._look(controller, plans, state, world.plan, None))


def test_a_plan_that_was_given_is_moved_to_though_its_first_leader_dies_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the inner loop lets go it may save the state; who is killed then has not begun the move."""
    monkeypatch.setattr(running, "check_agreement", lambda *_: None)
    world, cluster = World(tmp_path, lambda _: 10.0), Cluster()
    first = cluster.state(tmp_path / "first")
    first.put_in_force(world.plan)
    first.given = first.keep(world.plan).parent.name
    asyncio.run(first.save())
    write_plan(two_stages(2, 1, 12), world.plan)

    async def saved_and_killed() -> None:
        await first.save()
        raise KilledHereError

    with pytest.raises(KilledHereError):
        look(world, world.controller(first), first, saved_and_killed)
    second = cluster.state(tmp_path / "second")
    asyncio.run(second.load())

    async def rested() -> None:
        pass

    look(world, world.controller(second), second, rested)
    assert second.in_force().read_bytes() == world.plan.read_bytes()
    assert [entry.what for entry in second.entries() if entry.kind == "given"] != []


def test_steps_push_out_no_move_decision_or_profile(tmp_path: Path) -> None:
    """A day of many steps: moves are counted, GPUs and the usual load known, the next leader knows the same."""
    cluster = Cluster()
    state = cluster.state(tmp_path / "first")
    write_plan(two_stages(1, 1), tmp_path / "plan.json")
    state.put_in_force(tmp_path / "plan.json")
    state.add(Entry(0.5, "profile", "a day", {"stretches": {"1": 5.0}}))
    state.add(Entry(0.6, "decision", "move: better", {"gpus": {"here": 3}}))
    moves = [100.0 * k for k in range(1, 25)]
    for at_s in moves:
        state.add(Entry(at_s, "begun", "to new", {}))
        for step in range(200):
            state.add(Entry(at_s + 0.1 * step, "step", f"start small-{step} (1 of here) {'x' * 400}", {}))
        state.add(Entry(at_s + 30.0, "moved", "new is in force", {}))
    asyncio.run(state.save())
    second = cluster.state(tmp_path / "second")
    asyncio.run(second.load())
    for known in (state.entries(), second.entries()):
        assert moved_at_s(known, 10_000.0) == moves
        assert planned_gpus(known) == {"here": 3}
        assert known[0].facts == {"stretches": {"1": 5.0}}
        assert [entry.at_s for entry in known] == sorted(entry.at_s for entry in known)
    assert sum(entry.kind == "step" for entry in state.entries()) == STEPS
    assert [told.begun_at_s for told in move_timings(second.entries())] == moves[-2:], "only of whole ones"


def test_where_there_is_no_room_steps_give_way_first(tmp_path: Path) -> None:
    cluster = Cluster()
    state = cluster.state(tmp_path)
    write_plan(two_stages(1, 1), tmp_path / "plan.json")
    state.put_in_force(tmp_path / "plan.json")
    state.add(Entry(0.0, "begun", "to new", {}))
    for step in range(200):
        state.add(Entry(1.0 + step, "step", "x" * (MOST_BYTES // 150), {}))
    state.add(Entry(500.0, "moved", "new is in force", {}))
    asyncio.run(state.save())
    assert cluster.kept is not None
    text = cluster.kept["data"]["history.jsonl"]
    assert len(text.encode()) <= MOST_BYTES
    again = cluster.state(tmp_path / "again")
    asyncio.run(again.load())
    kinds = [entry.kind for entry in again.entries()]
    assert (kinds[0], kinds[-1]) == ("begun", "moved")
    assert 100 < len(kinds) < 202


def test_a_state_that_another_version_left_is_read_or_named(tmp_path: Path) -> None:
    """A traceback here is a controller that begins anew for ever."""
    world, cluster = World(tmp_path, lambda _: 10.0), Cluster()
    first = cluster.state(tmp_path / "first")
    first.put_in_force(world.plan)
    first.put_under_way(UnderWay(world.plan, world.plan, {}, {}))
    asyncio.run(first.save())
    assert cluster.kept is not None
    data, plans = cluster.kept["data"], cluster.kept["binaryData"]
    said = json.loads(data[MOVE])

    def load(told: object, binary: dict[str, str] = plans) -> KubernetesState:
        text = told if isinstance(told, str) else json.dumps(told)
        cluster.kept = {"data": {**data, MOVE: text}, "binaryData": binary}
        found = cluster.state(tmp_path / "second")
        asyncio.run(found.load())
        return found

    assert load({**said, "later": 1}).under_way() is not None
    without = {name: told for name, told in said["move"].items() if name != "need_now_rps"}
    others: list[object] = [
        "{",
        "[]",
        {**said, "move": without},
        {**said, "move": 3},
        {**said, "in_force": 3},
    ]
    for torn in others:
        with pytest.raises(BadInput, match="delete that ConfigMap"):
            load(torn)
    binaries: list[dict[str, str]] = [{}, dict.fromkeys(plans, "AAAA"), dict.fromkeys(plans, "é")]
    for binary in binaries:
        with pytest.raises(BadInput, match="delete that ConfigMap"):
            load(said, binary)
