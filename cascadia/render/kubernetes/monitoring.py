"""Monitoring: what Prometheus scrapes, and the dashboards that Grafana's sidecar picks up."""

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import yaml

from cascadia.render.kubernetes.release import MONITORING, RULES, Release


def monitoring(release: Release) -> Iterator[dict[str, Any]]:
    values = release.values["monitoring"]
    if _wanted(release, values["serviceMonitor"], MONITORING):
        yield _service_monitor(release)
    if _wanted(release, values["alerts"], RULES):
        yield _alerts(release)
    if values["dashboards"]["enabled"]:
        yield from _dashboards(release)


def _wanted(release: Release, values: dict[str, Any], api: str) -> bool:
    """`auto`: where the cluster knows the operator's kind."""
    return values["enabled"] == "always" or (values["enabled"] == "auto" and api in release.apis)


def _alerts(release: Release) -> dict[str, Any]:
    found = release.metadata("", "monitoring")
    found["labels"] |= release.values["monitoring"]["alerts"]["labels"]
    rules = yaml.safe_load(_folder().joinpath("alerts.yaml").read_text(encoding="utf-8"))
    if base := release.values["monitoring"]["alerts"]["runbookUrl"].removesuffix("/"):
        for rule in [rule for group in rules["groups"] for rule in group["rules"]]:
            rule["annotations"]["runbook_url"] = f"{base}/{rule['annotations']['runbook']}"
    return {"apiVersion": MONITORING, "kind": "PrometheusRule", "metadata": found, "spec": rules}


def _folder() -> Traversable:
    """The chart's copy of deploy/grafana."""
    return resources.files("cascadia.render").joinpath("chart", "dashboards")


def _service_monitor(release: Release) -> dict[str, Any]:
    """The router, the controller and every engine: all answer `/metrics` where they serve. TensorRT-LLM's is JSON."""
    values = release.values["monitoring"]["serviceMonitor"]
    components = ["router", "stage", "judge", "controller"]
    serving = {"key": "app.kubernetes.io/component", "operator": "In", "values": components}
    found = release.metadata("", "monitoring")
    found["labels"] |= values["labels"]
    return {
        "apiVersion": MONITORING,
        "kind": "ServiceMonitor",
        "metadata": found,
        "spec": {
            "selector": {"matchLabels": release.selector(), "matchExpressions": [serving]},
            "namespaceSelector": {"matchNames": [release.namespace]},
            "endpoints": [
                {
                    "port": "http",
                    "path": "/metrics",
                    "interval": values["interval"],
                    "relabelings": [_no_json()],
                }
            ],
            "targetLabels": ["cascadia/service"],
        },
    }


def _no_json() -> dict[str, Any]:
    name = "__meta_kubernetes_pod_label_app_kubernetes_io_name"
    return {"sourceLabels": [name], "regex": "trtllm", "action": "drop"}


def _dashboards(release: Release) -> Iterator[dict[str, Any]]:
    texts = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(_folder().iterdir(), key=lambda file: file.name)
        if file.name.endswith(".json")
    }
    found = release.metadata("dashboards", "monitoring")
    found["labels"] |= release.values["monitoring"]["dashboards"]["labels"]
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": found, "data": texts}
