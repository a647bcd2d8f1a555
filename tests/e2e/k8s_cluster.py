"""A real API server, controller manager and scheduler on loopback, with nodes and kubelets that are simulated.

CASCADIA_K8S_BIN names a folder with kube-apiserver, kube-controller-manager, kube-scheduler (1.20) and etcd.
"""

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from cascadia.clients.processes.ports import free_port

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PATIENCE_S = 600.0
"""What takes longer has failed: no claim about time, as all that is started here shares a machine that may be busy."""


class Cluster(NamedTuple):
    url: str
    token: str
    kubeconfig: Path

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        said = {"authorization": f"Bearer {self.token}", **headers}
        return httpx.request(method, self.url + path, json=body, headers=said, verify=False, timeout=60)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        answer.raise_for_status()
        return answer.json()

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """No engine that is started gets ready before the block ends: what waits for one cannot end before either."""
        file = self.kubeconfig.with_name("loading")
        file.touch()
        try:
            yield
        finally:
            file.unlink()


def programs() -> Path:
    folder = os.environ.get("CASCADIA_K8S_BIN")
    if folder is None:
        pytest.skip(f"set CASCADIA_K8S_BIN to a folder with {', '.join(PROGRAMS)}, or run `make test-k8s`")
    missing = [name for name in PROGRAMS if not (Path(folder) / name).exists()]
    if missing:
        pytest.skip(f"{folder} lacks {', '.join(missing)}")
    return Path(folder)


@contextlib.contextmanager
def cluster(
    folder: Path,
    gpus_of_nodes: dict[str, int],
    startup_s: float = 0.0,
    routers: str = "fake",
    *,
    packs: bool = True,
) -> Iterator[Cluster]:
    """`gpus_of_nodes`: by node, written PRODUCT/NAME with the product that its label names. `startup_s`: of engines.
    `routers`: `fake` or `real`. `packs`: whether the scheduler fills nodes one after another; by itself it scatters."""
    found, port, token = programs(), free_port, secrets.token_hex(16)
    etcd, peer, api = (f"http://127.0.0.1:{port()}", f"http://127.0.0.1:{port()}", port())
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    key = folder / "sa.key"
    subprocess.run(
        ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True, timeout=600
    )
    url = f"https://127.0.0.1:{api}"
    config = folder / "kubeconfig"
    config.write_text(yaml.safe_dump(kubeconfig(url, token)))
    kube = [f"--kubeconfig={config}", "--leader-elect=false", "--bind-address=127.0.0.1", "--port=0"]
    commands = [
        [
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd}",
            "--unsafe-no-fsync",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
        ],
        [
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={api}",
            "--insecure-port=0",
            f"--cert-dir={folder / 'certs'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--disable-admission-plugins=ServiceAccount",
        ],
        [
            "kube-controller-manager",
            *kube,
            f"--secure-port={port()}",
            f"--cert-dir={folder / 'cm'}",
            f"--service-account-private-key-file={key}",
        ],
        [
            "kube-scheduler",
            f"--config={_scheduler(folder, config, packs)}",
            "--bind-address=127.0.0.1",
            "--port=0",
            f"--secure-port={port()}",
            f"--cert-dir={folder / 'scheduler'}",
        ],
    ]
    with contextlib.ExitStack() as stack:
        for name, *arguments in commands:
            _start(stack, folder / f"{name}.log", [str(found / name), *arguments])
            if name == "kube-apiserver":
                until(lambda: _ready(url, token), "the API server answers")
        told = [str(folder / "pods"), url, token, str(startup_s), routers]
        nodes = [sys.executable, "-m", "tests.e2e.k8s_nodes", *told]
        _start(stack, folder / "nodes.log", nodes + [f"{name}={n}" for name, n in gpus_of_nodes.items()])
        made = Cluster(url, token, config)
        until(lambda: len(made.get("/api/v1/nodes")["items"]) == len(gpus_of_nodes), "nodes are there")
        yield made


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.2)


def _start(stack: contextlib.ExitStack, log: Path, command: list[str]) -> None:
    out = stack.enter_context(log.open("w"))
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    stack.callback(process.wait, timeout=30)
    stack.callback(process.kill)


def _scheduler(folder: Path, kubeconfig: Path, packs: bool) -> Path:
    """One that packs fills nodes one after another, as docs/how-to/kubernetes.md advises."""
    path, told_at = folder / "scheduler.yaml", f"127.0.0.1:{free_port()}"
    spreads = ("NodeResourcesLeastAllocated", "NodeResourcesBalancedAllocation", "PodTopologySpread")
    score = {
        "disabled": [{"name": name} for name in (*spreads, "SelectorSpread")],
        "enabled": [{"name": "NodeResourcesMostAllocated", "weight": 5}],
    }
    counted = {"resources": [{"name": "nvidia.com/gpu", "weight": 1}]}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"score": score},
        "pluginConfig": [{"name": "NodeResourcesMostAllocated", "args": counted}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "healthzBindAddress": told_at,
        "metricsBindAddress": told_at,
        **({"profiles": [profile]} if packs else {}),
    }
    path.write_text(yaml.safe_dump(document))
    return path


def _ready(url: str, token: str) -> bool:
    try:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.get(f"{url}/readyz", headers=headers, verify=False, timeout=2).text == "ok"
    except httpx.HTTPError:
        return False


def kubeconfig(url: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "l", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "a", "user": {"token": token}}],
        "contexts": [{"name": "l", "context": {"cluster": "l", "user": "a"}}],
        "current-context": "l",
    }
