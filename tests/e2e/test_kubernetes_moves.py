"""Moves on a real API server, with its scheduler and controller manager; nodes and kubelets are simulated."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from cascadia.controller.kubernetes.backend import KubernetesBackend, Patience
from cascadia.controller.kubernetes.desired import kubernetes_plan
from cascadia.controller.kubernetes.lease import LeaseLost
from cascadia.controller.kubernetes.run import lease_of
from cascadia.controller.move.backend import Moved, move, move_or_return
from cascadia.controller.move.state import Observed, reached
from cascadia.controller.move.steps import Step
from cascadia.render.kubernetes.chart_values import merged
from tests.e2e.k8s_cluster import Cluster, cluster, until
from tests.e2e.k8s_release import SPACE, h100_nodes, h100_plan, installed, moving
from tests.e2e.k8s_watch import watching

NODES = 8
PODS = f"/api/v1/namespaces/{SPACE}/pods"
BEFORE = h100_plan(NODES, small=28, large=12, large_tp=2)
AFTER = h100_plan(NODES, small=16, large=24, large_tp=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(NODES), startup_s=0.2) as found:
        yield found


@pytest.fixture
def values(made: Cluster) -> Iterator[dict[str, Any]]:
    """A release, taken away afterwards with all that controllers made for it."""
    with installed(made, BEFORE) as found:
        yield found
    for api, kind in (
        ("apis/apps/v1", "deployments"),
        ("api/v1", "services"),
        ("apis/policy/v1beta1", "poddisruptionbudgets"),
    ):
        assert made.get(f"/{api}/namespaces/{SPACE}/{kind}")["items"] == []
    names = {c["metadata"]["name"] for c in made.get(f"/api/v1/namespaces/{SPACE}/configmaps")["items"]}
    assert not {name for name in names if name.startswith("cascadia")}


class Dies(Exception):
    """A controller, between two steps."""


class Mortal:
    """Takes `steps` steps, then its controller dies."""

    def __init__(self, backend: KubernetesBackend, steps: int) -> None:
        self._backend = backend
        self._steps = steps

    async def observe(self) -> Observed:
        return await self._backend.observe()

    async def take(self, step: Step) -> None:
        if not self._steps:
            raise Dies
        self._steps -= 1
        await self._backend.take(step)


def test_forty_replicas_move_within_their_gpus_and_never_below_what_is_needed(
    made: Cluster, values: dict[str, Any]
) -> None:
    """64 GPUs, of which the first plan takes 52 and the second 64; controllers die every 25 steps."""

    async def main() -> None:
        async with moving(made, values, BEFORE, AFTER) as (backend, (old, new)):
            await backend.prepare(old)
            await move(backend, old.desired(old.rates_rps), at_once=40)
            # What sixteen small and twelve large replicas of the new plan do.
            need = {
                kind.stage: {"small": 16, "large": 12}[kind.stage] * made.capacity_rps
                for kind, made in new.made.items()
            }
        with watching(made, SPACE) as seen:
            died = 0
            while True:
                async with moving(made, values, BEFORE, AFTER) as (backend, (old, new)):
                    try:
                        desired = new.desired({})
                        await move(Mortal(backend, 25), desired, need_rps=need, at_once=4)
                        assert reached(await backend.observe(), desired)
                        break
                    except Dies:
                        died += 1
        assert died >= 1
        assert seen.events >= 2 * (12 + 12)  # at least a beginning and an end of each that came or went
        assert max(seen.most_by_node.values()) <= 8
        assert seen.most <= 64
        assert seen.fewest_ready["small"] >= 16
        assert seen.fewest_ready["large"] >= 12
        left = Counter(pod["metadata"]["labels"].get("cascadia/service") for pod in made.get(PODS)["items"])
        assert {stage: left[stage] for stage in ("small", "large")} == {
            s.name: s.replicas[0].count for s in AFTER.stages
        }

    asyncio.run(main())


def test_an_image_that_is_nowhere_leads_back_and_the_reason_is_said(
    made: Cluster, values: dict[str, Any]
) -> None:
    few = h100_plan(NODES, small=2, large=1)
    broken = merged(values, {"engines": {"env": [{"name": "IMAGE_IS_MISSING", "value": "yes"}]}})

    async def main() -> None:
        async with moving(made, values, few, patience=Patience(trouble_s=1.0)) as (backend, (old,)):
            await backend.prepare(old)
            await move(backend, old.desired({}), at_once=3)
            worse = kubernetes_plan(few, broken, "cascadia", SPACE, old.release.apis)
            backend.know(worse)
            with pytest.raises(Moved) as told:
                await move_or_return(backend, worse.desired({}), old.desired({}))
            assert "ImagePullBackOff: manifest unknown" in str(told.value)
            assert reached(await backend.observe(), old.desired({}))

    asyncio.run(main())


def test_a_quota_leads_back_and_the_reason_is_said(made: Cluster, values: dict[str, Any]) -> None:
    few, more = h100_plan(NODES, small=2, large=1), h100_plan(NODES, small=4, large=1)
    limit = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}}
    limit["spec"] = {"hard": {"requests.nvidia.com/gpu": "5"}}  # type: ignore[assignment]
    quotas = f"/api/v1/namespaces/{SPACE}/resourcequotas"

    async def main() -> None:
        async with moving(made, values, few, more, patience=Patience(trouble_s=1.0)) as (backend, (old, new)):
            await backend.prepare(old)
            await move(backend, old.desired({}), at_once=3)
            made.ask("POST", quotas, limit).raise_for_status()
            until(lambda: "used" in made.get(f"{quotas}/gpus").get("status", {}), "the quota counts")
            with pytest.raises(Moved) as told:
                await move_or_return(backend, new.desired({}), old.desired({}))
            assert "exceeded quota: gpus" in str(told.value)
            assert reached(await backend.observe(), old.desired({}))

    try:
        asyncio.run(main())
    finally:
        made.ask("DELETE", f"{quotas}/gpus")


def test_an_eviction_that_would_take_a_stages_second_replica_is_refused(
    made: Cluster, values: dict[str, Any]
) -> None:
    few = h100_plan(NODES, small=2, large=1)

    async def main() -> None:
        async with moving(made, values, few) as (backend, (old,)):
            await backend.prepare(old)
            await move(backend, old.desired({}), at_once=3)

    asyncio.run(main())
    pods = [p["metadata"] for p in made.get(PODS)["items"] if "-small-" in p["metadata"]["name"]]
    budget = f"/apis/policy/v1beta1/namespaces/{SPACE}/poddisruptionbudgets/cascadia-small"
    until(lambda: made.get(budget)["status"].get("currentHealthy") == 2, "the budget knows its pods")
    answers = []
    for about in pods:
        eviction = {
            "apiVersion": "policy/v1beta1",
            "kind": "Eviction",
            "metadata": {"name": about["name"], "namespace": SPACE},
        }
        answers.append(made.ask("POST", f"{PODS}/{about['name']}/eviction", eviction).status_code)
    assert answers == [201, 429]


def test_a_node_that_vanishes_is_seen_and_its_replicas_are_made_elsewhere(
    made: Cluster, values: dict[str, Any]
) -> None:
    """The node object goes, as with a spot instance: what is left holds another plan."""
    full, less = (
        h100_plan(NODES, small=0, large=8, large_tp=8),
        h100_plan(NODES, small=0, large=6, large_tp=8),
    )

    async def main() -> None:
        async with moving(made, values, full, less) as (backend, (old, new)):
            await backend.prepare(old)
            await move(backend, old.desired({}), at_once=8)
            assert (await backend.observe()).gpus == {"h100": 64}
            made.ask("DELETE", "/api/v1/nodes/h100-3").raise_for_status()
            observed = await backend.observe()
            assert observed.gpus == {"h100": 56}
            await move(backend, new.desired({}))
            assert reached(await backend.observe(), new.desired({}))
            engines = [
                pod for pod in made.get(PODS)["items"] if "cascadia/service" in pod["metadata"]["labels"]
            ]
            assert len(engines) == 6
            assert "h100-3" not in {pod["spec"]["nodeName"] for pod in engines}

    asyncio.run(main())


def test_who_has_lost_the_lease_changes_nothing_any_more(made: Cluster, values: dict[str, Any]) -> None:
    """As if it had been suspended: it does not renew, another takes over, and then it goes on."""

    async def main() -> None:
        async with (
            moving(made, values, BEFORE) as (first, (plan,)),
            moving(made, values, BEFORE) as (second, _),
        ):
            release = plan.release
            one = lease_of(first.api, release, "one", duration_s=3.0)
            other = lease_of(second.api, release, "other", duration_s=3.0)
            first.api.fence, second.api.fence = one.fence, other.fence
            await one.acquire()
            await first.prepare(plan)
            await other.acquire()
            with pytest.raises(LeaseLost):
                await move(first, plan.desired({}))
            assert not [p for p in made.get(PODS)["items"] if "cascadia/service" in p["metadata"]["labels"]]
            await other.release()
            await lease_of(first.api, release, "one again").acquire()

    asyncio.run(main())
