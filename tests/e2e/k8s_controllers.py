"""`cascadia controller --backend kubernetes` as processes on this machine, with the rights that the chart gives."""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from cascadia.domain.plan import Plan
from cascadia.files.plan_file import write_plan
from tests.e2e.k8s_cluster import PATIENCE_S, Cluster, kubeconfig, until
from tests.e2e.k8s_release import SAMPLES_TOKEN, SPACE

PROGRAM = str(Path(sys.executable).with_name("cascadia"))
API = f"/api/v1/namespaces/{SPACE}"


class Controllers:
    """Of one release. `folder` is what its ConfigMaps would be mounted as; the test puts cascade.yaml there."""

    def __init__(self, on: Cluster, folder: Path) -> None:
        self.on = on
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        values = on.get(f"{API}/configmaps/cascadia-controller")["data"]["values.yaml"]
        (folder / "values.yaml").write_text(values)
        (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(on.url, self._token())))

    def _token(self) -> str:
        """Of the account that the chart made: the controller has its rights here too."""
        until(lambda: bool(self._secrets()), "the account has a token")
        return base64.b64decode(self._secrets()[0]["data"]["token"]).decode()

    def _secrets(self) -> list[dict[str, Any]]:
        name = "kubernetes.io/service-account.name"
        found = self.on.get(f"{API}/secrets")["items"]
        return [s for s in found if s["metadata"].get("annotations", {}).get(name) == "cascadia-controller"]

    def give(self, plan: Plan) -> None:
        write_plan(plan, self.folder / "plan.json")

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        number = len(self.processes)
        told = ["--backend", "kubernetes", "--namespace", SPACE, "--values", "values.yaml", "--port", "0"]
        # The inner loop would follow the rate by itself, and stop what nobody asks for.
        (self.folder / "controller.yaml").write_text("scaling: {scales: false}\n")
        told += ["--window", "1", "--arrivals", "0"]
        told += ["--settings", "controller.yaml", "--run-dir", f"run-{number}", *more]
        with (self.folder / f"controller-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [PROGRAM, "controller", "cascade.yaml", "plan.json", *told],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "KUBECONFIG": "kubeconfig", "CASCADIA_SAMPLES_TOKEN": SAMPLES_TOKEN},
            )
        self.processes.append(process)
        return process

    def log(self, number: int) -> str:
        return (self.folder / f"controller-{number}.log").read_text()

    def history(self) -> list[dict[str, Any]]:
        done = subprocess.run(
            [PROGRAM, "history", "--kubernetes", "--namespace", SPACE, "--lines", "500", "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig")},
            timeout=PATIENCE_S,
        )
        if done.returncode:
            assert "there is no history" in done.stderr
            return []
        entries: list[dict[str, Any]] = json.loads(done.stdout)["entries"]
        return entries

    def until_said(self, kind: str, since: int = 0, within_s: float = PATIENCE_S) -> list[dict[str, Any]]:
        deadline_s = time.monotonic() + within_s
        while True:
            found = self.history()
            if any(entry["kind"] == kind for entry in found[since:]):
                return found
            last = self.processes[-1]
            assert last.poll() is None, (
                f"no {kind}: the controller has ended, {self.log(len(self.processes) - 1)}"
            )
            assert time.monotonic() < deadline_s, f"no {kind}: {found[since:]}, {self.log(0)}"
            time.sleep(0.2)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(30)
