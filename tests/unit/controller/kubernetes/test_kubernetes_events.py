"""Events of a controller: about its Deployment, few at a time, counted where they repeat, and never in its way."""

import asyncio
from typing import Any, cast

import pytest

from cascadia.clients.cluster.kubernetes_api import ApiFailed, KubernetesApi
from cascadia.controller.kubernetes.events import AT_ONCE, EACH_S, REASONS, Events
from cascadia.controller.memory.history import Entry, Kind
from cascadia.render.kubernetes.release import Release
from cascadia.testing.cluster import FakeCluster


class Told:
    def __init__(self) -> None:
        self.cluster = FakeCluster(0, 0.0)
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "cascadia-controller"},
        }
        self.uid = self.cluster.put(deployment)["metadata"]["uid"]
        self.lost: list[str] = []
        release = Release({"fullnameOverride": ""}, "cascadia", "llm")
        api = cast(KubernetesApi, self.cluster)
        self.events = Events(api, release, "pod-1", lost=self.lost.append, clock=self.cluster.clock)

    def tell(self, *entries: tuple[Kind, str]) -> None:
        for kind, what in entries:
            self.events.tell(Entry(self.cluster.now_s, kind, what))
        asyncio.run(self.events.flush())

    def written(self) -> list[dict[str, Any]]:
        return [found for (kind, _), found in self.cluster.objects.items() if kind == "Event"]


def test_what_is_decided_and_done_is_told_about_the_controllers_deployment() -> None:
    told = Told()
    told.tell(("decision", "move: 40 % better"), ("step", "start small-1"), ("rolled-back", "no image"))
    first, second = told.written()
    assert (first["reason"], first["type"], first["message"]) == ("Decided", "Normal", "move: 40 % better")
    assert (second["reason"], second["type"]) == ("RolledBack", "Warning")
    assert first["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "cascadia-controller",
        "namespace": "llm",
        "uid": told.uid,
    }
    assert first["firstTimestamp"] == first["lastTimestamp"] == "1970-01-12T13:46:40Z"


def test_what_is_said_again_is_counted_where_it_was_said() -> None:
    told = Told()
    for _ in range(3):
        told.tell(("failed", "p cannot be made so: quota"))
        told.cluster.now_s += 60.0
    (event,) = told.written()
    assert event["count"] == 3
    assert event["lastTimestamp"] > event["firstTimestamp"]


def test_a_storm_is_cut_off_counted_and_over_when_time_has_passed() -> None:
    told = Told()
    told.tell(*(("alarm", f"rate changed {i}") for i in range(3 * AT_ONCE)))
    assert len(told.written()) == AT_ONCE
    assert told.lost == ["rate"] * 2 * AT_ONCE
    told.cluster.now_s += 2.5 * EACH_S
    told.tell(*(("alarm", f"rate changed again {i}") for i in range(3)))
    assert len(told.written()) == AT_ONCE + 2


@pytest.mark.parametrize("status", [0, 403, 500])
def test_an_api_server_that_refuses_them_is_in_nobodys_way(status: int) -> None:
    told = Told()
    told.cluster.fails = ApiFailed("no", status)
    told.tell(("moved", "new is in force"))
    assert told.lost == ["api"]


def test_every_kind_but_single_steps_is_told() -> None:
    from typing import get_args

    assert set(get_args(Kind)) - set(REASONS) == {"step"}


def test_what_waits_when_the_controller_ends_is_written_still() -> None:
    told = Told()

    async def main() -> None:
        keeping = asyncio.create_task(told.events.keep())
        await asyncio.sleep(0)
        told.events.tell(Entry(0.0, "moved", "new is in force"))
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping

    asyncio.run(main())
    assert [event["reason"] for event in told.written()] == ["Moved"]
