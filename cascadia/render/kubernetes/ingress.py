"""Entrance for clients outside the cluster: an Ingress, or a route of a Gateway. TLS ends there."""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.containers import given
from cascadia.render.kubernetes.release import Release

NAME = "router"


def ingress(release: Release) -> Iterator[dict[str, Any]]:
    if release.values["ingress"]["enabled"]:
        yield _ingress(release)
    if release.values["httpRoute"]["enabled"]:
        yield _http_route(release)


def _ingress(release: Release) -> dict[str, Any]:
    values = release.values["ingress"]
    port = {"number": release.values["router"]["service"]["port"]}
    backend = {"service": {"name": release.named(NAME), "port": port}}
    http = {"paths": [{"path": path, "pathType": "Prefix", "backend": backend} for path in values["paths"]]}
    secret = values["tls"]["secretName"]
    tls = [{"secretName": secret, **given(hosts=values["hosts"])}] if secret else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": release.metadata(NAME, NAME, **given(annotations=values["annotations"])),
        "spec": {
            **given(ingressClassName=values["className"], tls=tls),
            "rules": [{"http": http, **given(host=host)} for host in values["hosts"] or [""]],
        },
    }


def _http_route(release: Release) -> dict[str, Any]:
    values = release.values["httpRoute"]
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": path}} for path in values["paths"]],
        "backendRefs": [{"name": release.named(NAME), "port": release.values["router"]["service"]["port"]}],
        **given(timeouts=values["timeouts"]),
    }
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": release.metadata(NAME, NAME, **given(annotations=values["annotations"])),
        "spec": {
            "parentRefs": values["parentRefs"],
            **given(hostnames=values["hostnames"]),
            "rules": [rule],
        },
    }
