"""Operators and mishaps at random, for as long as wanted, on a real API server under load: is any request lost?

    python -m tests.benchmarks.bench_operations [--minutes 5] [--startup 5] [--seed 1] [--controller]

Two real routers and as many more as a roll needs; nodes, kubelets, DNS and engines are simulated, and an engine takes
`--startup` seconds to load (600 is a large model's). Without `--controller` plans of other shapes follow each other by
`helm upgrade` (A, B, A, C, ...) and `helm rollback`, and an operator scales a stage's only replica to two before a
drain; with it they are given to `cascadia controller`, of which two run, and one or the other is killed at random.
Both: nodes are drained in turn, as `kubectl drain` does; nodes are lost and come back (those whose loss leaves every
stage a ready replica: no other loss can be survived); routers are rolled. Exits with 1 where a request failed, a stage
had no ready replica, or a change did not come to its end. Needs `tests/e2e/build_control_plane.sh` to have run.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from cascadia.controller.kubernetes.pods import ready
from cascadia.domain.plan import Plan
from cascadia.render.kubernetes.chart_values import merged
from tests.benchmarks.report_table import markdown
from tests.e2e.k8s_cluster import PROGRAMS, Cluster, cluster
from tests.e2e.k8s_controllers import Controllers
from tests.e2e.k8s_nodes import HEARTBEAT_S
from tests.e2e.k8s_operations import (
    DEPLOYMENTS,
    SETTINGS,
    Clients,
    cordon,
    engine_pods,
    evict,
    scale,
    settled,
    shaped,
    until,
)
from tests.e2e.k8s_release import SPACE, h100_nodes, helm, install
from tests.e2e.k8s_watch import Seen, watching
from tests.unit.controller.specs import write_spec_of
from tests.unit.deploy.chart import CHART
from tests.unit.deploy.matrix import values_of
from tests.unit.planner.specs import write_inputs

NODES = 3
A = shaped(NODES, small=(1, 4), large=(4, 1))
B = shaped(NODES, small=[(1, 2), (2, 1)], large=(2, 2))
C = shaped(NODES, small=(2, 2), large=(8, 1))
PLANS = (A, B, A, C)
STAGES = ("small", "large")
MERGE = {"content-type": "application/merge-patch+json"}
FORCED = "--force-conflicts"
"""Whose replicas were scaled by hand Helm 4 asks for leave to scale."""
UPGRADE = ("upgrade", "cascadia", str(CHART), FORCED)
KILLS_EVERY_S = (15.0, 45.0)
BACK_S = 2 * HEARTBEAT_S


class Operator:
    """What is done to the release, and how often it was."""

    def __init__(self, on: Cluster, rng: random.Random, patience_s: float) -> None:
        self.on = on
        self.rng = rng
        self.patience_s = patience_s
        self.done: Counter[str] = Counter()
        self.turn = 0
        self.node = 0

    def plan(self) -> Plan:
        self.turn += 1
        return PLANS[self.turn % len(PLANS)]

    async def upgrade(self) -> None:
        values = merged(values_of(self.plan()), SETTINGS)
        await asyncio.to_thread(helm, self.on, *UPGRADE, values=values)
        await self.at_rest("an upgrade")

    async def roll_back(self) -> None:
        """While the upgrade still goes on."""
        values = merged(values_of(self.plan()), SETTINGS)
        await asyncio.to_thread(helm, self.on, *UPGRADE, values=values)
        await asyncio.sleep(self.rng.uniform(0, 5))
        await asyncio.to_thread(helm, self.on, "rollback", "cascadia", FORCED)
        self.turn -= 1
        await self.at_rest("a rollback")

    async def drain(self) -> None:
        name = f"h100-{self.node % NODES}"
        self.node += 1
        cordon(self.on, name)
        try:
            with self.doubled(name):
                await until(lambda: not evict(self.on, name), f"{name} is empty", self.patience_s)
            await self.at_rest("a drain")
        finally:
            cordon(self.on, name, False)

    @contextlib.contextmanager
    def doubled(self, node: str) -> Any:
        """Without a controller: stages whose only replica is on the node have another meanwhile."""
        scaled = []
        for found in self.on.get(DEPLOYMENTS)["items"]:
            stage = found["metadata"]["labels"].get("cascadia/service")
            if stage is not None and found["spec"]["replicas"] == 1 and self.nodes_of(stage) == {node}:
                scaled.append(found["metadata"]["name"])
        for name in scaled:
            scale(self.on, name, 2)
        yield
        for name in scaled:
            scale(self.on, name, 1)

    def nodes_of(self, stage: str) -> set[str]:
        """Those with a ready replica of it."""
        mine = [p for p in engine_pods(self.on) if p["metadata"]["labels"]["cascadia/service"] == stage]
        return {pod["spec"]["nodeName"] for pod in mine if ready(pod)}

    async def lose_a_node(self) -> None:
        routers = [
            p for p in self.on.get(f"/api/v1/namespaces/{SPACE}/pods")["items"] if _is_router(p) and ready(p)
        ]
        kept = [self.nodes_of(stage) for stage in STAGES] + [{p["spec"]["nodeName"] for p in routers}]
        spared = [n for i in range(NODES) if all(on - {n := f"h100-{i}"} for on in kept)]
        # A router that is lost takes along what it has under way: clients would have to ask again.
        spared = [n for n in spared if n not in kept[-1]]
        if not spared:
            self.done["loss of a node (none could be spared)"] += 1
            return
        name = self.rng.choice(spared)
        body = self.on.get(f"/api/v1/nodes/{name}")
        self.on.ask("DELETE", f"/api/v1/nodes/{name}").raise_for_status()
        await asyncio.sleep(self.rng.uniform(5, 20))
        about = {"name": name, "labels": body["metadata"]["labels"]}
        self.on.ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": about})
        # What it had counts as ready until its kubelet is heard again: whoever takes another's place in between takes
        # the last one.
        await asyncio.sleep(BACK_S)
        await self.at_rest("the loss of a node")

    async def roll_routers(self) -> None:
        template = {"metadata": {"annotations": {"rolled": str(time.time())}}}
        path = f"{DEPLOYMENTS}/cascadia-router"
        self.on.ask("PATCH", path, {"spec": {"template": template}}, **MERGE).raise_for_status()
        await self.at_rest("a roll of the routers")

    async def at_rest(self, after: str) -> None:
        self.done[after] += 1
        await until(lambda: settled(self.on), f"at rest after {after}", self.patience_s)


class Commander(Operator):
    """With controllers: plans are given to them, and they see to drains."""

    def __init__(self, on: Cluster, rng: random.Random, patience_s: float, controllers: Controllers) -> None:
        super().__init__(on, rng, patience_s)
        self.controllers = controllers
        self.kills = 0

    async def upgrade(self) -> None:
        last_s = await asyncio.to_thread(self.moved_at_s)
        await asyncio.to_thread(self.controllers.give, self.plan())
        await until(lambda: self.moved_at_s() > last_s, "moved", self.patience_s)
        await self.at_rest("a move")

    def moved_at_s(self) -> float:
        """Of the last move; how many there were is not remembered for ever."""
        return max((e["at_s"] for e in self.controllers.history() if e["kind"] == "moved"), default=0.0)

    @contextlib.contextmanager
    def doubled(self, node: str) -> Any:
        yield

    async def kill_leaders(self) -> None:
        """One of the two at random, which is the leader half the time; another takes its place."""
        while True:
            await asyncio.sleep(self.rng.uniform(*KILLS_EVERY_S))
            alive = [process for process in self.controllers.processes if process.poll() is None]
            self.rng.choice(alive).send_signal(signal.SIGKILL)
            self.kills += 1
            self.controllers.start()


def _is_router(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"].get("cascadia/workload") == "router")


async def go_on(operator: Operator, until_s: float) -> None:
    """Each in turn, in an order by chance, so that a short run has all of them."""
    acts: list[Callable[[], Awaitable[None]]] = [
        *[operator.upgrade] * 3,
        *([] if isinstance(operator, Commander) else [operator.roll_back]),
        operator.drain,
        operator.lose_a_node,
        operator.roll_routers,
    ]
    while True:
        operator.rng.shuffle(acts)
        for act in acts:
            if time.monotonic() > until_s:
                return
            print(f"{time.strftime('%H:%M:%S')} {act.__name__}", file=sys.stderr, flush=True)
            await act()


@contextlib.asynccontextmanager
async def operated(
    on: Cluster, rng: random.Random, patience_s: float, folder: Path | None
) -> AsyncIterator[Operator]:
    """A release of plan A that serves. `folder`: for controllers, where there shall be any."""
    if folder is None:
        values = merged(values_of(A), SETTINGS)
        await asyncio.to_thread(
            helm, on, "install", "cascadia", str(CHART), "--create-namespace", values=values
        )
        operator = Operator(on, rng, patience_s)
        await operator.at_rest("the installation")
        yield operator
        return
    install(on, A, merged(SETTINGS, {"controller": {"enabled": True, "replicas": 1}}))
    write_inputs(folder)
    write_spec_of(A, folder)
    controllers = Controllers(on, folder)
    controllers.give(A)
    try:
        controllers.start()
        await asyncio.to_thread(controllers.until_said, "held", 0, patience_s)
        controllers.start()
        commander = Commander(on, rng, patience_s, controllers)
        await commander.at_rest("the installation")
        killing = asyncio.create_task(commander.kill_leaders())
        yield commander
        killing.cancel()
        commander.done["controllers killed"] = commander.kills
    finally:
        controllers.end()


async def run(on: Cluster, asked: argparse.Namespace, folder: Path | None) -> int:
    patience_s = 180 + 20 * asked.startup
    async with operated(on, random.Random(asked.seed), patience_s, folder) as operator:
        clients = Clients(on)
        asking = asyncio.create_task(clients.run())
        wrong = ""
        with watching(on, SPACE) as seen:
            began_s = time.monotonic()
            try:
                await go_on(operator, began_s + 60 * asked.minutes)
            except AssertionError as error:
                wrong = str(error)
            took_s = time.monotonic() - began_s
        clients.ended.set()
        await asking
    return report(asked, operator, clients, seen, took_s, wrong)


def report(
    asked: argparse.Namespace, operator: Operator, clients: Clients, seen: Seen, took_s: float, wrong: str
) -> int:
    fewest = {stage: seen.fewest_ready.get(stage, 0) for stage in STAGES}
    rows = [[what, str(count)] for what, count in sorted(operator.done.items())]
    rows += [
        ["requests answered", str(clients.answered.total())],
        ["requests lost", str(len(clients.failed))],
        *([f"fewest ready of {stage}", str(count)] for stage, count in fewest.items()),
        ["GPUs held at most", f"{seen.most} of {8 * NODES}"],
        ["minutes", f"{took_s / 60:.1f}"],
        ["seed, start-up", f"{asked.seed}, {asked.startup:g} s"],
    ]
    print(markdown(["with a controller" if asked.controller else "without a controller", ""], rows))
    for what in clients.failed[:20]:
        print(f"lost: {what}", file=sys.stderr)
    if wrong:
        print(f"not done: {wrong}", file=sys.stderr)
    return 1 if clients.failed or wrong or min(fewest.values()) < 1 else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="how long things are done, in minutes (5)")
    parser.add_argument("--startup", type=float, default=5.0, help="how long an engine loads, in seconds (5)")
    parser.add_argument("--seed", type=int, default=1, help="what is done when is drawn with it (1)")
    parser.add_argument(
        "--controller", action="store_true", help="with two controllers that are killed at random"
    )
    asked = parser.parse_args()
    folder = Path(
        os.environ.setdefault("CASCADIA_K8S_BIN", str(Path.home() / ".cache/cascadia/control-plane"))
    )
    if not all((folder / name).exists() for name in PROGRAMS):
        print(f"skipped: {folder} lacks {', '.join(PROGRAMS)}; tests/e2e/build_control_plane.sh makes them")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        state, spec = Path(scratch) / "cluster", Path(scratch) / "spec"
        state.mkdir()
        spec.mkdir()
        with cluster(state, h100_nodes(NODES), asked.startup, routers="real") as on:
            return asyncio.run(run(on, asked, spec if asked.controller else None))


if __name__ == "__main__":
    sys.exit(main())
