"""What Prometheus scrapes, and the dashboards that Grafana's sidecar picks up."""

from collections.abc import Iterator
from importlib import resources
from typing import Any

from cascadia.render.kubernetes.containers import given
from cascadia.render.kubernetes.release import MONITORING, Release


def monitoring(release: Release) -> Iterator[dict[str, Any]]:
    values = release.values["monitoring"]
    wanted = values["serviceMonitor"]["enabled"]
    if wanted == "always" or (wanted == "auto" and MONITORING in release.apis):
        yield _service_monitor(release)
    if values["dashboards"]["enabled"]:
        yield from _dashboards(release)


def _service_monitor(release: Release) -> dict[str, Any]:
    """The router, and every engine: both answer `/metrics` at the port that serves."""
    values = release.values["monitoring"]["serviceMonitor"]
    serving = {"key": "app.kubernetes.io/component", "operator": "In", "values": ["router", "stage", "judge"]}
    found = release.metadata("", "monitoring")
    found["labels"] |= values["labels"]
    return {
        "apiVersion": MONITORING,
        "kind": "ServiceMonitor",
        "metadata": found,
        "spec": {
            "selector": {"matchLabels": release.selector(), "matchExpressions": [serving]},
            "namespaceSelector": {"matchNames": [release.namespace]},
            "endpoints": [{"port": "http", "path": "/metrics", "interval": values["interval"]}],
            "targetLabels": ["cascadia/service"],
        },
    }


def _dashboards(release: Release) -> Iterator[dict[str, Any]]:
    folder = resources.files("cascadia.render.kubernetes").joinpath("dashboards")
    texts = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".json")
    }
    if texts:
        found = release.metadata("dashboards", "monitoring")
        found["labels"] |= release.values["monitoring"]["dashboards"]["labels"]
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": found, **given(data=texts)}
