"""The chart ships what deploy/grafana holds."""

import pytest

from tests.unit.deploy.chart import CHART, by_us

SHIPPED = CHART / "dashboards"
SOURCE = CHART.parents[1] / "grafana"


def test_the_charts_copies_are_the_originals() -> None:
    """A chart can hold no file from outside its folder."""
    originals = {file.name: file.read_text(encoding="utf-8") for file in SOURCE.iterdir()}
    copies = {file.name: file.read_text(encoding="utf-8") for file in SHIPPED.iterdir()}
    assert copies == originals, "copy them: cp deploy/grafana/* deploy/helm/cascadia/dashboards/"


def test_grafanas_sidecar_finds_the_dashboards() -> None:
    found = by_us("three stages")["v1", "ConfigMap", "cascadia-dashboards"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert set(found["data"]) == {file.name for file in SOURCE.glob("*.json")}


@pytest.mark.parametrize(
    ("name", "monitored"),
    [("three stages", False), ("prometheus is there", True), ("no monitor and no dashboards", False)],
)
def test_a_monitor_is_made_where_the_cluster_knows_the_kind(name: str, monitored: bool) -> None:
    kinds = {kind for _, kind, _ in by_us(name)}
    assert bool({"ServiceMonitor", "PrometheusRule"} & kinds) is monitored


def test_each_of_the_operators_kinds_is_asked_for_by_itself() -> None:
    kinds = {kind for _, kind, _ in by_us("prometheus without rules")}
    assert "ServiceMonitor" in kinds
    assert "PrometheusRule" not in kinds


def test_the_monitor_selects_every_service_that_has_metrics() -> None:
    found = by_us("prometheus is there")
    selector = found["monitoring.coreos.com/v1", "ServiceMonitor", "cascadia"]["spec"]["selector"]
    (serving,) = selector["matchExpressions"]
    services = [o for (_, kind, _), o in found.items() if kind == "Service"]
    assert len(services) == 7
    for service in services:
        labels = service["metadata"]["labels"]
        assert selector["matchLabels"].items() <= labels.items()
        assert labels[serving["key"]] in serving["values"]
        assert [port["name"] for port in service["spec"]["ports"]] == ["http"]


def test_an_engine_whose_metrics_are_no_prometheus_text_is_left_out() -> None:
    found = by_us("tensorrt-llm")
    (endpoint,) = found["monitoring.coreos.com/v1", "ServiceMonitor", "cascadia"]["spec"]["endpoints"]
    (rule,) = endpoint["relabelings"]
    assert rule["action"] == "drop"
    (label,) = (name.removeprefix("__meta_kubernetes_pod_label_") for name in rule["sourceLabels"])
    pods = [
        o["spec"]["template"]["metadata"]["labels"]
        for (_, kind, _), o in found.items()
        if kind == "Deployment"
    ]
    names = [
        {key.translate(str.maketrans("./-", "___")): value for key, value in labels.items()}
        for labels in pods
    ]
    assert sorted(labels[label] == rule["regex"] for labels in names) == [False, True, True]


def test_the_controllers_figures_are_scraped_also_while_it_is_not_ready() -> None:
    found = by_us("a controller with all")
    service = found["v1", "Service", "cascadia-controller"]["spec"]
    pods = found["apps/v1", "Deployment", "cascadia-controller"]["spec"]["template"]
    assert service["selector"].items() <= pods["metadata"]["labels"].items()
    assert service["publishNotReadyAddresses"] is True
    probe = pods["spec"]["containers"][0]["readinessProbe"]["httpGet"]
    assert probe == {"path": "/ready", "port": "http"}
    monitor = by_us("prometheus is there")["monitoring.coreos.com/v1", "ServiceMonitor", "cascadia"]
    (serving,) = monitor["spec"]["selector"]["matchExpressions"]
    component = found["v1", "Service", "cascadia-controller"]["metadata"]["labels"][serving["key"]]
    assert component in serving["values"]


def test_alerts_link_to_the_runbook_where_it_is_served() -> None:
    rules = by_us("a monitor in any case")["monitoring.coreos.com/v1", "PrometheusRule", "cascadia"]["spec"]
    for rule in [rule for group in rules["groups"] for rule in group["rules"]]:
        base, _, path = rule["annotations"]["runbook_url"].partition("/docs/")
        assert base == "https://git.example/cascadia"
        assert rule["annotations"]["runbook"] == f"docs/{path}"
