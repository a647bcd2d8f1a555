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
import yaml

from cascadia.clients.processes.ports import free_port
from cascadia.testing.routers import Running, run
from tests.e2e.test_ui import scene

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


ABOUT = 'job="cascadia-controller", instance="a"'
WELL = {
    "leads{}": "1x400",
    'state{doing="watching"}': "1x400",
    "last_success_timestamp_seconds{}": "0+60x400",
    "alarm{}": "0x400",
    'moves_total{result="rolled-back"}': "0x400",
    'alarms_total{watched="promise"}': "1x400",
    'holds_total{result="failed"}': "0x400",
    "plan_failures_total{}": "0x400",
    'plan_gpus{pool="h100"}': "8x400",
    'cluster_gpus{pool="h100"}': "8x400",
}
"""Samples of a controller that gets on, one a minute, as promtool writes them."""
ILL = {
    "CascadiaControllerDown": {"leads{}": "1x100 _x300"},
    "CascadiaControllerNoLeader": {"leads{}": "1x100 0x300"},
    "CascadiaControllerStuck": {"last_success_timestamp_seconds{}": "0+60x100 6000x300"},
    "CascadiaControllerUndecided": {"alarm{}": "0x100 1x300"},
    "CascadiaPlanningFailing": {"plan_failures_total{}": "0x240 1x160"},
    "CascadiaMovesFailing": {'moves_total{result="rolled-back"}': "0x240 1x160"},
    "CascadiaMoveLong": {'state{doing="moving"}': "0x100 1x300", 'state{doing="watching"}': "1x100 0x300"},
    "CascadiaPlanBroken": {'alarms_total{watched="promise"}': "1x200 2x30 3x30 4x140"},
    "CascadiaPlanNotHeld": {'holds_total{result="failed"}': "0x240 0+1x160"},
    "CascadiaGpusMissing": {'cluster_gpus{pool="h100"}': "8x100 6x300"},
    "CascadiaReplicaDrifts": {'drift{about="small-1"}': "_x100 1x300"},
}
AT = "250m"


def test_each_of_the_controllers_alerts_fires_for_what_it_says_and_for_nothing_else(tmp_path: Path) -> None:
    rules = yaml.safe_load((GRAFANA / "alerts.yaml").read_text())["groups"]
    names = [r["alert"] for group in rules for r in group["rules"] if group["name"] == "cascadia-controller"]
    assert sorted(ILL) == sorted(names)
    tests = [fires(samples, {alert}, names) for alert, samples in ILL.items()] + [fires({}, set(), names)]
    told = {"rule_files": [str(GRAFANA / "alerts.yaml")], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(json.dumps(told))
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "test", "rules", tmp_path / "tests.yaml"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def fires(samples: dict[str, str], wanted: set[str], names: list[str]) -> dict[str, object]:
    """A test of promtool: which of `names` are firing at `AT`, each once."""
    series = [
        {"series": f"cascadia_controller_{name[:-1]}{', ' if '=' in name else ''}{ABOUT}}}", "values": values}
        for name, values in (WELL | samples).items()
    ]
    counted = 'count by (alertname) (ALERTS{{alertstate="firing", alertname="{}"}})'
    asked = [
        {
            "expr": counted.format(name),
            "eval_time": AT,
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name in wanted else [],
        }
        for name in names
    ]
    return {"interval": "1m", "input_series": series, "promql_expr_test": asked}


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
