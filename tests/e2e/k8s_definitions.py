"""Custom resource definitions of others, as an API server of 1.20 takes them."""

from typing import Any

import yaml

from tests.data import data_path
from tests.e2e.k8s_cluster import Cluster, until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def define(on: Cluster, name: str) -> None:
    """`name`: GROUP_PLURAL. It is served when this returns."""
    (document,) = [d for d in yaml.safe_load_all(data_path(f"crds/{name}.yaml").read_text()) if d]
    document.pop("status", None)
    _simplify(document)
    on.ask("POST", DEFINITIONS, document).raise_for_status()
    version = next(v["name"] for v in document["spec"]["versions"] if v["served"])
    group, plural = document["spec"]["group"], document["spec"]["names"]["plural"]
    path = f"/apis/{group}/{version}/{plural}"
    until(lambda: on.ask("GET", path).status_code == 200, f"{plural} are served")


def _simplify(found: Any) -> None:
    """Rules in CEL came later, and lists by keys whose defaults are empty are refused."""
    if isinstance(found, dict):
        found.pop("x-kubernetes-validations", None)
        if found.get("x-kubernetes-list-type") == "map":
            found["x-kubernetes-list-type"] = "atomic"
            del found["x-kubernetes-list-map-keys"]
        if found.get("default", None) == "" and "type" in found:
            del found["default"]
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            _simplify(part)
