"""Dashboards and alerts ask for metrics that exist, by labels that they have; each alert is in the runbook."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.data import ROOT
from tests.unit.controller.service.test_figures import PAGE as of_controllers
from tests.unit.router.telemetry.test_metrics import documented

DASHBOARDS = tuple(ROOT / f"deploy/grafana/{name}.json" for name in ("cascadia", "controller"))
ALERTS = ROOT / "deploy/grafana/alerts.yaml"
SHIPPED = (ALERTS, ROOT / "deploy/helm/cascadia/dashboards/alerts.yaml")
CONTROLLER = "controller_"
"""What the controller's metrics begin with, after `cascadia_`."""
SCRAPED = {"job", "instance", "le"}
"""Labels that Prometheus adds, or a histogram has."""
PROCESS = {
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
}


def panels() -> list[dict[str, Any]]:
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS]
    return [panel for board in boards for panel in board["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return asked + [rule["expr"] for group in rules for rule in group["rules"]]


def named(query: str) -> set[str]:
    return set(re.findall(r"\b(?:cascadia|process)_\w+", query))


def known() -> dict[str, set[str]]:
    """By full name, a histogram's parts among them."""
    found = {}
    of_both = documented() | {f"{CONTROLLER}{n}": labels for n, labels in documented(of_controllers).items()}
    for name, labels in of_both.items():
        for suffix in ("", "_bucket", "_sum", "_count"):
            found[f"cascadia_{name}{suffix}"] = labels
    return found | {name: set() for name in PROCESS}


def test_every_query_asks_for_metrics_that_exist() -> None:
    for query in queries():
        assert named(query), query
        assert named(query) <= set(known()), query


def test_every_query_selects_and_groups_by_labels_that_its_metrics_have() -> None:
    for query in queries():
        have = SCRAPED | set().union(*(known()[name] for name in named(query)))
        selected = re.findall(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"", query)
        grouped = [
            label.strip()
            for part in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", query)
            for label in part.split(",")
        ]
        assert set(selected) | set(grouped) <= have, query


def test_every_metric_is_on_the_dashboard() -> None:
    shown = set().union(*(named(target["expr"]) for panel in panels() for target in panel["targets"]))
    for name in [*documented(), *(f"{CONTROLLER}{name}" for name in documented(of_controllers))]:
        seen = any(one.startswith(f"cascadia_{name}") for one in shown)
        assert seen or name in {"build_info", "shadow_tokens_total"}, name


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_do_not_overlap_and_have_numbers_of_their_own(board: Path) -> None:
    found = json.loads(board.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    taken: set[tuple[int, int]] = set()
    for panel in found:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def alerts(path: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def test_the_runbook_is_of_the_alerts_that_are_shipped_and_no_others() -> None:
    page = (ROOT / "docs/how-to/watch-a-router.md").read_text(encoding="utf-8")
    told = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    shipped = [rule["alert"] for path in SHIPPED for rule in alerts(path)]
    assert sorted(told) == sorted(set(shipped))
    listed = re.findall(
        r"\[(Cascadia\w+)\]\(how-to/watch-a-router\.md#(\w+)\)", (ROOT / "docs/runbook.md").read_text()
    )
    assert sorted(name for name, _ in listed) == sorted(told)
    assert all(anchor == name.lower() for name, anchor in listed)


def test_every_alert_has_its_page_in_the_runbook() -> None:
    rules = alerts(ALERTS)
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^### (\w+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor == rule["alert"].lower()
        assert rule["alert"] in headings
