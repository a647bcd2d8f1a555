"""A release's replicas on a cluster, as moves see them. All that is known of them is in the cluster's own objects."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from cascadia.clients.cluster.kubernetes_api import ApiFailed, Document, KubernetesApi, Name
from cascadia.controller.kubernetes.adopt_from_helm import take_over
from cascadia.controller.kubernetes.desired import (
    ADMITTED,
    CAPACITY,
    DRAINING,
    REPLICA,
    KubernetesPlan,
    Made,
    PoolGpus,
    Serving,
    owned,
)
from cascadia.controller.kubernetes.pods import (
    beside,
    gpus_there,
    kind_of,
    leaves,
    lost,
    machines_of,
    ready_for_s,
    replica_of,
    serves,
    trouble_of,
)
from cascadia.controller.kubernetes.routers import Routers
from cascadia.controller.move.backend import StepFailed
from cascadia.controller.move.state import Kind, Observed, Routing
from cascadia.controller.move.steps import AwaitReady, Drain, Route, Start, Step, Stop, Undrain
from cascadia.files.addresses import http_url
from cascadia.render.kubernetes.containers import HTTP_PORT
from cascadia.render.kubernetes.engines.workloads import least_available
from cascadia.render.kubernetes.release import SERVES, Release
from cascadia.render.kubernetes.router import NAME as ROUTER

LOOK_S = 0.5
RETRY_S = 60.0
"""For how long an API server may refuse or be silent before a step has failed."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds for which something may keep a replica from starting.

    `trouble_s`: an image that cannot be pulled, a quota. `room_s`: no node has room, e.g. while an autoscaler adds one.
    """

    startup_s: float = 3900.0
    trouble_s: float = 120.0
    room_s: float = 600.0


@dataclass(slots=True)
class _Found:
    """A replica's objects."""

    workload: Document
    pods: list[Document]

    @property
    def name(self) -> str:
        return str(self.workload["metadata"]["name"])

    @property
    def kind(self) -> Name:
        return "Deployment" if self.workload["kind"] == "Deployment" else "LeaderWorkerSet"

    def said(self, annotation: str) -> bool:
        return annotation in self.workload["metadata"]["annotations"]

    @property
    def admitted(self) -> bool:
        """Tells whether routers send to it. One that died stays: it is coming back."""
        return self.said(ADMITTED) and not self.said(DRAINING) and not leaves(self.workload)


class _Looks(Generic[T]):
    """Looks that all who wait share: each gets one that began after it asked. Fifty that start would else list all pods
    of the release a hundred times a second."""

    def __init__(self, look: Callable[[], Awaitable[T]]) -> None:
        self._look = look
        self._now: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def look(self) -> T:
        if self._next is None or self._next.done():
            self._next = asyncio.create_task(self._after(self._now))
        # Who no longer waits leaves it to the others.
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None and not before.done():
            await asyncio.wait({before})
        self._now, self._next = self._next, None
        return await self._look()


class KubernetesBackend:
    """`plans` (by the label of their routing) are those that may be moved to or from. `clock` is Unix time."""

    def __init__(
        self,
        api: KubernetesApi,
        release: Release,
        patience: Patience | None = None,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self.api = api
        self.routers = Routers(api, release)
        self.plans: dict[str, KubernetesPlan] = {}
        self.pools: dict[str, PoolGpus] = {}
        self._made: dict[Kind, Made] = {}
        self._release = release
        self._patience = patience or Patience()
        self._looks = _Looks(self._found_and_nodes)

    def know(self, plan: KubernetesPlan) -> None:
        self.plans[plan.routing.label] = plan
        self.pools |= plan.pools
        self._made |= plan.made

    async def observe(self) -> Observed:
        return await patiently(self._observe)

    async def take(self, step: Step) -> None:
        try:
            await patiently(lambda: self._take(step))
        except (ApiFailed, StepFailed) as error:
            raise StepFailed(f"{step}: {error}") from error

    async def prepare(self, plan: KubernetesPlan) -> int:
        """Routers can start, before there is any replica; engines that Helm made are ours. How many pods of those there
        were. Raises `BadInput`."""
        return await patiently(lambda: self._prepare(plan))

    async def _prepare(self, plan: KubernetesPlan) -> int:
        owner = await self._owner()
        taken = await take_over(self.api, plan, owner)
        await self.routers.prepare(plan.router_yaml([]), owner)
        return taken

    async def addresses(self) -> dict[str, tuple[Kind, str]]:
        """Kind and address of each replica that routers send to and that answers."""
        return {
            name: (kind_of(found.workload), http_url(pod["status"]["podIP"], HTTP_PORT))
            for name, found in (await self._found()).items()
            for pod in found.pods
            if found.admitted and serves(pod)
        }

    async def _observe(self) -> Observed:
        found = await self._found()
        nodes = await self.api.nodes()
        replicas = beside((replica_of(f.workload, f.pods, nodes), f.pods) for f in found.values())
        there = gpus_there(self.pools, nodes)
        machines = machines_of(self.pools, nodes)
        return Observed(replicas, there, await self.routers.routing(), machines=machines)

    async def _take(self, step: Step) -> None:
        match step:
            case Start():
                await self._start(step)
            case AwaitReady(name):
                await self._await_ready(name)
                await self._budgets()
            case Undrain(name):
                found = await self._of(name)
                # Named by DNS again before routers count on it; `Drain` goes the other way.
                await self._label(found, "true")
                await self._annotate(found, {DRAINING: None})
                await self._retell()
            case Drain(name):
                await self._known()
                found = await self._of(name)
                await self._annotate(found, {DRAINING: "true"})
                await self._retell()
                await self._label(found, "draining")
            case Stop(name):
                await self._stop(name)
                await self._sweep()
            case Route(routing):
                await self._known()
                await self._tell(routing)
                await self._sweep()

    async def _start(self, start: Start) -> None:
        owner = await self._owner()
        made = self._made[start.kind]
        replica = made.replica(
            start.name, start.kind, start.machine, only=bool(start.empties and start.machine)
        )
        for document in [*made.shared(), replica]:
            await self.api.apply(owned(document, owner))

    async def _await_ready(self, name: str) -> None:
        began_s = time.monotonic()
        while True:
            there, nodes = await self._looks.look()
            found = _named(there, name)
            await self._give_up_lost(found, nodes)
            if any(map(serves, found.pods)):
                break
            self._check(found, time.monotonic() - began_s)
            await self._sleep(LOOK_S)
        if not found.said(ADMITTED):
            await self._annotate(found, {ADMITTED: "true"})
            await self._retell()

    async def _known(self) -> None:
        """Routers find an address as late as they forget one. What stands in for others, or is routed to, counts when
        they all have: that is waited for once, before something relies on it, and beside whatever loads meanwhile."""
        left_s = self._unknown_s((await self._found()).values())
        if left_s > 0:
            await self._sleep(left_s)

    def _unknown_s(self, found: Iterable[_Found]) -> float:
        """Seconds until all that is ready has been so for as long as DNS takes."""
        takes_s = float(self._release.values["engines"]["preStopSeconds"])
        ready = [f for f in found if f.admitted and any(map(serves, f.pods))]
        return max((takes_s - ready_for_s(f.pods, self._clock()) for f in ready), default=0.0)

    def _check(self, found: _Found, waited_s: float) -> None:
        """Raises `StepFailed` where there is nothing left to wait for."""
        trouble = trouble_of(found.workload, found.pods)
        if trouble is not None:
            limits = {"never": 0.0, "soon": self._patience.trouble_s, "with room": self._patience.room_s}
            if waited_s >= limits[trouble.passes]:
                raise StepFailed(trouble.what)
        if waited_s >= self._patience.startup_s:
            raise StepFailed(f"{found.name} was not ready within {self._patience.startup_s:.0f} s")

    async def _stop(self, name: str) -> None:
        """Deletes the replica; its kubelet waits for what it has in hand: the pod's grace period is made for
        that.
        """
        found = (await self._found()).get(name)
        if found is None:
            return  # somebody who died meanwhile had asked for it
        grace_s = max((pod["spec"].get("terminationGracePeriodSeconds", 30) for pod in found.pods), default=0)
        until_s = time.monotonic() + grace_s + RETRY_S
        await self.api.delete(found.kind, found.name)
        while True:
            there, nodes = await self._looks.look()
            left = there.get(name)
            if left is None:
                return
            await self._give_up_lost(left, nodes)
            if time.monotonic() > until_s:
                raise StepFailed(f"{found.name} still ends after {grace_s + RETRY_S:.0f} s")
            await self._sleep(LOOK_S)

    async def _give_up_lost(self, found: _Found, nodes: list[Document]) -> None:
        """No kubelet will end a pod whose node has gone; its workload makes another when it is deleted."""
        for pod in [pod for pod in found.pods if lost(pod, nodes)]:
            found.pods.remove(pod)
            await self.api.delete("Pod", pod["metadata"]["name"], at_once=True)

    async def _retell(self) -> None:
        """The shares of what serves now, where routers have been told to serve anything."""
        routing = await self.routers.routing()
        if routing is not None and routing.label in self.plans:
            await self._tell(routing)

    async def _tell(self, routing: Routing) -> None:
        serving = [
            self._serving(found, routing) for found in (await self._found()).values() if found.admitted
        ]
        missing = [stage for stage in routing.stages if not any(s.stage == stage for s in serving)]
        if missing:
            raise StepFailed(f"routers cannot serve {', '.join(missing)}: no replica is ready")
        text = self.plans[routing.label].router_yaml(serving)
        await self.routers.tell(text, await self._owner(), routing)

    def _serving(self, found: _Found, routing: Routing) -> Serving:
        """Entry of the replica in the router's settings. Its weight is that of the plan in force where that has
        the kind, else of the plan that it was started for.
        """
        kind = kind_of(found.workload)
        about = found.workload["metadata"]
        made = self.plans[routing.label].made.get(kind)
        capacity_rps = float(about["annotations"][CAPACITY]) if made is None else made.capacity_rps
        return Serving(kind.stage, about["labels"]["cascadia/workload"], capacity_rps)

    async def _sweep(self) -> None:
        """Services and budgets of groups and stages that have no replicas any more, and get none."""
        routing = await self.routers.routing()
        wanted = self.plans[routing.label].made.values() if routing and routing.label in self.plans else ()
        names = {document["metadata"]["name"] for made in wanted for document in made.shared()}
        for found in (await self._found()).values():
            labels = found.workload["metadata"]["labels"]
            names |= {self._release.named(f"{labels['cascadia/workload']}-http")}
            names |= {self._release.named(labels["cascadia/service"])}
        kinds: tuple[Name, ...] = ("Service", "PodDisruptionBudget")
        for kind in kinds:
            for document in await self.api.all(kind, self._release.selector() | {"cascadia/service": None}):
                if document["metadata"]["name"] not in names:
                    await self.api.delete(kind, document["metadata"]["name"])
        await self._budgets()

    async def _budgets(self) -> None:
        """Writes disruption budgets for as many replicas as a stage has now: with fewer a drain could take
        more, with more it could take none.
        """
        staying: dict[str, list[int]] = {}
        for found in (await self._found()).values():
            if not found.said(DRAINING) and not leaves(found.workload):
                stage = found.workload["metadata"]["labels"]["cascadia/service"]
                staying.setdefault(stage, []).append(kind_of(found.workload).pods)
        for document in await self.api.all(
            "PodDisruptionBudget", self._release.selector() | {"cascadia/service": None}
        ):
            least = least_available(staying.get(document["metadata"]["labels"]["cascadia/service"], []))
            if least and document["spec"].get("minAvailable") != least:
                name = document["metadata"]["name"]
                await self.api.merge("PodDisruptionBudget", name, {"spec": {"minAvailable": least}})

    async def _found(self) -> dict[str, _Found]:
        """Replicas by name; those that are being deleted as well, while they hold their GPUs."""
        labels = self._release.selector() | {REPLICA: None}
        kinds: tuple[Name, ...] = ("Deployment", "LeaderWorkerSet")
        pods: dict[str, list[Document]] = {}
        for pod in await self.api.all("Pod", labels):
            pods.setdefault(pod["metadata"]["labels"][REPLICA], []).append(pod)
        found = {}
        for kind in kinds:
            for workload in await self.api.all(kind, labels):
                about = workload["metadata"]
                found[about["annotations"][REPLICA]] = _Found(
                    {**workload, "kind": kind}, pods.get(about["name"], [])
                )
        return found

    async def _found_and_nodes(self) -> tuple[dict[str, _Found], list[Document]]:
        # In this order: whoever is on a node was there before it was listed.
        return await self._found(), await self.api.nodes()

    async def _of(self, name: str) -> _Found:
        return _named(await self._found(), name)

    async def _annotate(self, found: _Found, annotations: dict[str, str | None]) -> None:
        await self.api.merge(found.kind, found.name, {"metadata": {"annotations": annotations}})

    async def _label(self, found: _Found, value: str) -> None:
        """Labels the pods that serve: another value than the Service asks for takes them out of it."""
        for pod in found.pods:
            if SERVES in pod["metadata"]["labels"]:
                await self.api.merge(
                    "Pod", pod["metadata"]["name"], {"metadata": {"labels": {SERVES: value}}}
                )

    async def _owner(self) -> Document:
        """Owner of all that is made here: it goes when the release goes."""
        return await self.api.owner("Service", self._release.named(ROUTER))


def _named(there: Mapping[str, _Found], name: str) -> _Found:
    if name not in there:
        raise StepFailed(f"there is no replica {name}: somebody has deleted it")
    return there[name]


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Calls again while the API server is silent or overloaded: what a step has done may be done again."""
    until_s = time.monotonic() + RETRY_S
    wait_s = 0.2
    while True:
        try:
            return await call()
        except ApiFailed as error:
            if not error.passes or time.monotonic() > until_s:
                raise
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, 5.0)
