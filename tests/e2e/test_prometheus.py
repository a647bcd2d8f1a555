"""A real Prometheus reads the router, loads the alerts, and answers every query of the dashboard.

Its programs are looked for on the path, or in the folder that CASCADIA_PROMETHEUS names; Debian packages them as
`prometheus`.
"""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from cascadia.clients.local_ports import free_port
from tests.e2e.test_ui import scene
from tests.unit.router.engines import Running, run

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "deploy/grafana"
SEARCHED = os.pathsep.join([os.environ.get("CASCADIA_PROMETHEUS", ""), os.environ.get("PATH", "")])
PROMETHEUS = shutil.which("prometheus", path=SEARCHED)
PROMTOOL = shutil.which("promtool", path=SEARCHED)
SCRAPES_S = 6.0
"""Some scrapes of one second: a rate needs two."""
QUIET = {"Answers without a verdict", "Requests by key", "Refused by key", "Tokens by key"}
"""Panels with nothing to show where no verdict fails and no keys are asked for."""

pytestmark = pytest.mark.skipif(PROMETHEUS is None or PROMTOOL is None, reason="no Prometheus here")


def queries() -> list[tuple[str, str]]:
    """Title of the panel and query, with the dashboard's variables as `All` makes them."""
    board = json.loads((GRAFANA / "cascadia.json").read_text())
    found = []
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$__rate_interval", "10s")
            for name in ("job", "instance", "stage"):
                query = query.replace(f"${name}", ".*")
            found.append((panel["title"], query))
    return found


def test_the_alerts_are_rules_that_prometheus_takes() -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "rules", GRAFANA / "alerts.yaml"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_router_says_is_well_formed_and_the_dashboard_has_figures(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene() as router:
            text = (await router.client.get("/metrics")).text
            assert PROMTOOL is not None
            lint = subprocess.run(
                [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60
            )
            assert lint.returncode != 1, lint.stdout + lint.stderr
            await compare(router, tmp_path)

    run(main)


async def compare(router: Running, folder: Path) -> None:
    port = free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(GRAFANA / "alerts.yaml")],
        "scrape_configs": [
            {"job_name": "cascadia", "static_configs": [{"targets": [f"127.0.0.1:{router.port}"]}]}
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    assert PROMETHEUS is not None
    process = await asyncio.create_subprocess_exec(
        PROMETHEUS,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            await until_scraped(client, router)
            shown = {title for title, query in queries() if await answered(client, query)}
            assert {title for title, _ in queries()} - shown == QUIET
            down = 'cascadia_replica_state{state="down", replica="medium-1"}'
            assert (await answered(client, down))[0]["value"][1] == "1"
    finally:
        process.terminate()
        await process.wait()


async def until_scraped(client: httpx.AsyncClient, router: Running) -> None:
    """Requests go on meanwhile, so that there are rates."""
    loop = asyncio.get_running_loop()
    end_s = None
    async with asyncio.timeout(90):
        while end_s is None or loop.time() < end_s:
            await router.chat()
            await router.chat(stream=True, stream_options={"include_usage": True})
            await router.chat("large")
            try:
                if end_s is None and await answered(client, "cascadia_build_info"):
                    end_s = loop.time() + SCRAPES_S
            except httpx.TransportError:
                await asyncio.sleep(0.2)


async def answered(client: httpx.AsyncClient, query: str) -> list[dict[str, list[str]]]:
    answer = await client.get("/api/v1/query", params={"query": query})
    if answer.status_code == 503:
        return []
    document = answer.json()
    assert document["status"] == "success", f"{query}: {document}"
    found: list[dict[str, list[str]]] = document["data"]["result"]
    return found
