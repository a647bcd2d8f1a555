"""Network policies, by which pods may talk to whom: nobody, but for what is said here."""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.containers import HTTP_PORT
from cascadia.render.kubernetes.engines.labels import unit_selector
from cascadia.render.kubernetes.engines.units import Unit, units
from cascadia.render.kubernetes.release import Release

_DNS = {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]}
_PORTS = [{"protocol": "TCP", "port": HTTP_PORT}]
_API_SERVER = {"ports": [{"protocol": "TCP", "port": port} for port in (443, 6443)]}


def network_policies(release: Release) -> Iterator[dict[str, Any]]:
    values = release.values
    if not values["networkPolicy"]["enabled"]:
        return
    yield _policy(release, "default", release.selector(), [], [])
    yield _engines(release)
    for unit in [] if values["controller"]["enabled"] else units(values):
        if any(group["podsPerReplica"] > 1 for group in unit["groups"]):
            yield _ranks(release, unit)
    yield _router(release)
    if values["judge"]["kind"] == "embedding" and not values["judge"]["url"]:
        asked = [_from(release, "router"), *_scraped(release)]
        yield _policy(release, "judge", release.selector(cascadia__workload="judge"), asked, [_DNS])
    if values["controller"]["enabled"]:
        out = [_DNS, _API_SERVER, _to(release, "router"), _to(release, "stage"), _to(release, "judge")]
        matching = release.selector(cascadia__workload="controller")
        yield _policy(release, "controller", matching, _scraped(release), out)


def _router(release: Release) -> dict[str, Any]:
    network = release.values["networkPolicy"]
    clients: dict[str, Any] = {"ports": _PORTS}
    if network["routerFrom"]:
        # And the pod of `helm test`.
        clients = {"from": [*network["routerFrom"], _pods(release, "test")], **clients}
    came = [clients, _from(release, "controller"), *_scraped(release)]
    out = [_DNS, _to(release, "stage"), _to(release, "judge"), *network["routerEgress"]]
    return _policy(release, "router", release.selector(cascadia__workload="router"), came, out)


def _engines(release: Release) -> dict[str, Any]:
    """Policy for engines of whichever plan: pods of the last one serve on while those of the next start, and a
    controller may not write policies. With one, that goes for ranks too.
    """
    matching: dict[str, Any] = {
        "matchLabels": release.selector(),
        "matchExpressions": [{"key": "cascadia/service", "operator": "Exists"}],
    }
    came = [_from(release, "router"), _from(release, "controller"), *_scraped(release)]
    out = [_DNS, *release.values["networkPolicy"]["engineEgress"]]
    if release.values["controller"]["enabled"]:
        ranks = [{"podSelector": matching}]
        came, out = [*came, {"from": ranks}], [*out, {"to": ranks}]
    found = _policy(release, "engines", {}, came, out)
    found["spec"]["podSelector"] = matching
    return found


def _ranks(release: Release, unit: Unit) -> dict[str, Any]:
    """Ranks of a replica talk to each other at ports that they choose."""
    matching = unit_selector(release, unit)
    ranks = [{"podSelector": {"matchLabels": matching}}]
    return _policy(release, f"{unit['name']}-ranks", matching, [{"from": ranks}], [{"to": ranks}])


def _from(release: Release, component: str) -> dict[str, Any]:
    return {"from": [_pods(release, component)], "ports": _PORTS}


def _to(release: Release, component: str) -> dict[str, Any]:
    return {"to": [_pods(release, component)], "ports": _PORTS}


def _scraped(release: Release) -> list[dict[str, Any]]:
    peers = release.values["networkPolicy"]["metricsFrom"]
    return [{"from": peers, "ports": _PORTS}] if peers else []


def _pods(release: Release, component: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/instance": release.name, "app.kubernetes.io/component": component}
    return {"podSelector": {"matchLabels": labels}}


def _policy(
    release: Release, stem: str, matching: dict[str, str], came: list[Any], out: list[Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": release.metadata(stem, "network"),
        "spec": {
            "podSelector": {"matchLabels": matching},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": came,
            "egress": out,
        },
    }
