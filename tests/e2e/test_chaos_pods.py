"""Replicas behind one name, as pods behind a headless Service, appear, leave and die under load: nothing is lost.

The name is told to the router's process by a preloaded `getaddrinfo`; all else is real.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.chaos_fleet import Fleet, fleet
from tests.e2e.test_chaos import Told, all_answered, all_held_answered, told, under_load

NAME = "small-pods.test"
RESOLVED_WITHIN_S = 10.0
__all__ = ["told"]


class Pods:
    """Of the first stage, at addresses of the loopback network and one port. `names` is what DNS says."""

    def __init__(self, up: Fleet, names: Path) -> None:
        first = up.engines["small"][0]
        self.up = up
        self.names = names
        self.all = [up.engine_at("small", i, f"127.0.0.{i + 1}", first.port) for i in range(3)]
        self.all[0] = first

    def says(self, *numbers: int) -> None:
        """DNS, from now on."""
        new = self.names.with_name("new")
        new.write_text("".join(f"{self.all[i].host}\n" for i in numbers))
        os.replace(new, self.names)

    def state(self) -> dict[str, Any]:
        state = self.up.state()
        return {"ready": list(state["stages"]["small"]["replicas"].values()), "leaving": state["leaving"]}

    def until(self, ready: int) -> None:
        """So many are ready, and none is leaving with work in hand."""
        until = time.monotonic() + RESOLVED_WITHIN_S
        while time.monotonic() < until:
            state = self.state()
            if [r["state"] for r in state["ready"]] == ["ready"] * ready and not state["leaving"]:
                return
            time.sleep(0.02)
        raise AssertionError(f"not {ready} replicas after {RESOLVED_WITHIN_S:.0f} s: {self.state()}")


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path / "dns_names.so"
    source = Path(__file__).with_name("dns_names.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, timeout=600
    )
    with fleet(tmp_path) as up:
        found = Pods(up, tmp_path / "names")
        found.says(0)
        document = up.document()
        small = {"url": f"http://{NAME}:{found.all[0].port}", "resolve": "dns"}
        document["stages"][0]["replicas"] = [small]
        up.settings["stages"] = document["stages"]
        up.settings["health"] = {"resolve_s": 0.2}
        router = up.routers[0]
        router.kill()
        up.router(router.port, 0, [])
        router.command = [
            "env",
            f"LD_PRELOAD={library}",
            f"NAMES_OF={NAME}",
            f"NAMES_FILE={found.names}",
            *router.command,
        ]
        router.start()
        up.until_ready()
        try:
            yield found
        finally:
            for pod in found.all:
                pod.kill()


def test_pods_appear_and_vanish(pods: Pods, told: Told) -> None:
    """One that DNS does not name any more is killed as soon as it has finished what it had."""

    def grow() -> None:
        for pod in pods.all[1:]:
            pod.start()
        pods.says(0, 1, 2)
        pods.until(3)

    def shrink() -> None:
        pods.says(2)
        pods.until(1)
        for pod in pods.all[:2]:
            pod.kill()

    seen = under_load(pods.up, grow, shrink)
    told("pods of the first stage appear and vanish", seen)
    all_answered(seen)


def test_a_pod_dies_before_dns_knows(pods: Pods, told: Told) -> None:
    for pod in pods.all[1:]:
        pod.start()
    pods.says(0, 1, 2)
    pods.until(3)

    seen = under_load(pods.up, pods.all[1].kill, lambda: pods.says(0, 2))
    told("a pod dies, and DNS names it for 3 s more", seen)
    all_held_answered(seen)
    pods.until(2)
