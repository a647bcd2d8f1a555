"""How long a move on a cluster takes: what DNS needs is waited for once, beside what loads, before it is relied on."""

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from cascadia.clients.cluster.kubernetes_api import KubernetesApi
from cascadia.controller.kubernetes.backend import LOOK_S, KubernetesBackend
from cascadia.controller.kubernetes.desired import KubernetesPlan, kubernetes_plan
from cascadia.controller.move.backend import move
from cascadia.controller.move.state import Kind, reached
from cascadia.controller.move.steps import AwaitReady, Drain, Route, Start, Step
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.render.kubernetes.chart_values import merged
from cascadia.testing.cluster import FakeCluster
from cascadia.testing.plans import plan, stage
from tests.unit.deploy.matrix import CERTAINTY, values_of

GPUS = 8
STARTUP_S, DNS_S = 10.0, 35.0
LOOKS_S = 1.0
"""A start is seen up to half a second after it is ready."""


def planned(small: int) -> Plan:
    pools = Cluster((Pool("h100", "h100-sxm", 1, GPUS, 2.5),))
    return plan([stage("small", ReplicaGroup("h100", 1, 1, small, 1.0))], pools, CERTAINTY)


def known(of: Plan, **engines: object) -> KubernetesPlan:
    values = merged(values_of(of), {"engines": engines})
    return kubernetes_plan(of, values, "cascadia", "llm", frozenset({"policy/v1"}))


class Moves:
    """Of a release whose cluster is in memory; each step with when it was done."""

    def __init__(self, *plans: KubernetesPlan) -> None:
        self.cluster = FakeCluster(GPUS, STARTUP_S)
        self.done: list[tuple[Step, float]] = []
        clocks = {"clock": self.cluster.clock, "sleep": self.cluster.sleep}
        api = cast(KubernetesApi, self.cluster)
        self.backend = KubernetesBackend(api, plans[0].release, **clocks)  # type: ignore[arg-type]
        for one in plans:
            self.backend.know(one)

    def to(self, wanted: KubernetesPlan, at_once: int) -> float:
        """Seconds that it took."""

        async def main() -> float:
            began_s = self.cluster.now_s
            await move(_Noted(self), wanted.desired({}), at_once=at_once)
            assert reached(await self.backend.observe(), wanted.desired({}))
            return self.cluster.now_s - began_s

        return asyncio.run(main())

    def at_s(self, sort: type[Step]) -> list[float]:
        return [at_s for step, at_s in self.done if isinstance(step, sort)]


class _Noted:
    def __init__(self, moves: Moves) -> None:
        self.observe = moves.backend.observe
        self._moves = moves

    async def take(self, step: Step) -> None:
        await self._moves.backend.take(step)
        self._moves.done.append((step, self._moves.cluster.now_s))


@pytest.mark.parametrize(("at_once", "batches"), [(1, 4), (2, 2), (4, 1)])
def test_several_starts_wait_for_dns_beside_each_other(at_once: int, batches: int) -> None:
    """One after the other they would take 4 x 45 s."""
    before, after = known(planned(1)), known(planned(5))
    moves = Moves(before, after)
    assert moves.to(before, 1) == pytest.approx(STARTUP_S + DNS_S, abs=LOOKS_S), (
        "routers have to find the first"
    )
    assert moves.to(after, at_once) == pytest.approx(batches * STARTUP_S, abs=batches * LOOKS_S)


def test_none_is_drained_before_routers_know_who_stands_in_for_it() -> None:
    before, after = known(planned(3)), known(planned(3), env=[{"name": "NEW", "value": "1"}])
    moves = Moves(before, after)
    moves.to(before, 3)
    moves.done.clear()
    took_s = moves.to(after, 3)
    (first, *_) = moves.at_s(Drain)
    assert first >= max(moves.at_s(AwaitReady)) + DNS_S - LOOKS_S
    assert took_s < 2 * (STARTUP_S + DNS_S), "six starts and drains, and DNS is waited for once"
    assert len(moves.at_s(Start)) == len(moves.at_s(Drain)) == 3


def test_what_a_controller_that_died_did_not_wait_for_the_next_one_does() -> None:
    before, after = known(planned(2)), known(planned(2), env=[{"name": "NEW", "value": "1"}])
    moves = Moves(before, after)
    moves.to(before, 2)
    died_s = moves.cluster.now_s

    async def main() -> None:
        kind = next(iter(after.made))
        for step in (Start("small-7", kind), AwaitReady("small-7")):
            await moves.backend.take(step)
        again = Moves(before, after)
        again.cluster = moves.cluster
        clocks = {"clock": moves.cluster.clock, "sleep": moves.cluster.sleep}
        api = cast(KubernetesApi, moves.cluster)
        heir = KubernetesBackend(api, before.release, **clocks)  # type: ignore[arg-type]
        heir.know(before)
        await heir.take(Drain("small-0"))

    asyncio.run(main())
    assert moves.cluster.now_s - died_s >= STARTUP_S + DNS_S


def test_routing_waits_as_well() -> None:
    before = known(planned(1))
    moves = Moves(before)
    moves.to(before, 1)
    (ready,), (routed,) = moves.at_s(AwaitReady), moves.at_s(Route)
    assert routed - ready == pytest.approx(DNS_S, abs=LOOKS_S)


def test_who_routers_send_to_is_asked_for_its_own_figures() -> None:
    """A replica that starts, or drains, is not."""
    before, after = known(planned(2)), known(planned(3))
    moves = Moves(before, after)
    moves.to(before, 2)
    (kind,) = before.made

    async def asked() -> dict[str, tuple[Kind, str]]:
        await moves.backend.take(Start("small-7", kind))
        await moves.backend.take(Drain("small-0"))
        return await moves.backend.addresses()

    assert asyncio.run(asked()) == {"small-1": (kind, "http://127.0.0.1:8000")}


def test_those_that_start_together_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would else list all pods of the release twice a second."""
    together = 8
    moves = Moves(known(planned(together)))
    cluster, looks = moves.cluster, 0
    listed = cluster.all

    async def all_of(kind: str, labels: Mapping[str, str | None]) -> list[dict[str, object]]:
        nonlocal looks
        looks += kind == "Pod"
        return await listed(kind, labels)

    async def sleep(seconds: float) -> None:
        cluster.now_s += seconds / together
        await asyncio.sleep(0)

    monkeypatch.setattr(cluster, "all", all_of)
    api = cast(KubernetesApi, cluster)
    backend = KubernetesBackend(api, known(planned(together)).release, clock=cluster.clock, sleep=sleep)
    backend.know(known(planned(together)))

    async def main() -> None:
        (kind,) = known(planned(together)).made
        names = [f"small-{i}" for i in range(together)]
        for name in names:
            await backend.take(Start(name, kind))
        await asyncio.gather(*(backend.take(AwaitReady(name)) for name in names))
        assert {replica.state for replica in (await backend.observe()).replicas} == {"ready"}

    asyncio.run(main())
    while_loading = STARTUP_S / LOOK_S
    assert looks < while_loading + 2 * together


def test_who_no_longer_waits_leaves_the_look_to_the_others() -> None:
    moves = Moves(known(planned(2)))
    (kind,) = known(planned(2)).made

    async def main() -> None:
        for name in ("small-0", "small-1"):
            await moves.backend.take(Start(name, kind))
        leaves, stays = (
            asyncio.ensure_future(moves.backend.take(AwaitReady(name))) for name in ("small-0", "small-1")
        )
        await asyncio.sleep(0)
        leaves.cancel()
        await stays
        assert leaves.cancelled()

    asyncio.run(main())
