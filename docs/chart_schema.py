"""The parts of the chart's values.schema.json that follow from elsewhere, under its key `definitions`.

Kubernetes' own definitions (1.34; strict, without null) of what a value hands on to a pod or a policy, with what its
API server demands beyond them (`RULES`); the router's settings; and how names, labels and quantities are written.
Patterns are read by Go and by Python: no lookaround.
"""

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

from cascadia.controller.settings.file import controller_schema
from cascadia.router.settings.file import settings_schema

Schema = dict[str, Any]

KUBERNETES = "v1.34.0-local"
CORE = "io.k8s.api.core.v1."
NETWORK = "io.k8s.api.networking.v1."
SELECTORS = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
HANDED_ON = (
    *(
        f"{CORE}{kind}"
        for kind in ("Affinity", "Container", "EnvVar", "PodSecurityContext", "SecurityContext")
    ),
    *(f"{CORE}{kind}" for kind in ("Toleration", "Volume", "VolumeMount")),
    *(f"{NETWORK}{kind}" for kind in ("NetworkPolicyEgressRule", "NetworkPolicyPeer")),
)

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
VALUE = "([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
QUALIFIED = rf"({SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
REPOSITORY = r"[a-z0-9]+([-._]+[a-z0-9]+)*(/[a-z0-9]+([-._]+[a-z0-9]+)*)*"
REGISTRY = rf"([a-z0-9][-a-z0-9.]*(:[0-9]+)?(/{REPOSITORY})?)"
TAG = "[A-Za-z0-9_][-A-Za-z0-9_.]*"


def text(pattern: str, longest: int | None = None) -> Schema:
    return {"type": "string", "pattern": f"^{pattern}$", **({"maxLength": longest} if longest else {})}


def of_names(key: Schema, value: Schema) -> Schema:
    """A map whose keys are free within bounds."""
    return {"type": "object", "propertyNames": key, "additionalProperties": value}


QUALIFIED_NAME = text(QUALIFIED, 317)
OURS = {"pattern": r"^(cascadia/|app\.kubernetes\.io/|pod-template-hash$|leaderworkerset\.)"}
WRITTEN: dict[str, Schema] = {
    "dnsLabel": text(LABEL, 63),
    "dnsName": text(SUBDOMAIN, 253),
    "dnsNameOrNone": text(f"({SUBDOMAIN})?", 253),
    "secretKey": text("[-._a-zA-Z0-9]+", 253),
    "secretKeyOrNone": text("[-._a-zA-Z0-9]*", 253),
    "labelKey": QUALIFIED_NAME,
    "labelKeyOrNone": text(f"({QUALIFIED})?", 317),
    "labelValue": text(VALUE, 63),
    "labels": of_names(QUALIFIED_NAME, text(VALUE, 63)),
    "podLabels": of_names({**QUALIFIED_NAME, "not": OURS}, text(VALUE, 63)),
    "annotations": of_names(QUALIFIED_NAME, {"type": "string"}),
    # Bounds are of numbers, the pattern is of text.
    "quantity": {
        **text(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?"),
        "type": ["string", "number"],
        "minimum": 0,
        "maximum": 1e15,
    },
    "resources": of_names(QUALIFIED_NAME, {"$ref": "#/definitions/quantity"}),
    "extendedResources": of_names(
        text(f"{SUBDOMAIN}/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", 317),
        {**text("[1-9][0-9]*"), "type": ["string", "integer"], "minimum": 1, "maximum": 1_000_000},
    ),
    "registry": text(f"{REGISTRY}?"),
    "repository": text(REPOSITORY),
    "tag": text(f"({TAG})?", 128),
    "image": text(rf"({REGISTRY}/)?{REPOSITORY}(:{TAG})?(@sha256:[0-9a-f]{{64}})?"),
    "mountPath": text(r"/[^:\x00-\x1f]*[^:/\x00-\x1f]"),
    "hostname": text(rf"(\*\.)?{SUBDOMAIN}", 253),
    "url": text(r"https?://[\x21\x23-\x7e]+"),
}

NAMED = {"$ref": "#/definitions/dnsLabel"}
ONE_OF_THE_NODES = {
    "if": {"properties": {"operator": {"enum": ["In", "NotIn"]}}},
    "then": {"required": ["values"], "properties": {"values": {"minItems": 1}}},
    "else": {
        "if": {"properties": {"operator": {"enum": ["Gt", "Lt"]}}},
        "then": {"required": ["values"], "properties": {"values": {"minItems": 1, "maxItems": 1}}},
        "else": {"properties": {"values": {"maxItems": 0}}},
    },
}
MATCHED = {"properties": {"operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]}}}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
PORT_OR_NAME = {**text("[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?"), **PORT, "type": ["string", "integer"]}
RULES: dict[str, Schema] = {
    f"{CORE}Container": {
        "required": ["name", "image"],
        "properties": {
            "name": NAMED,
            "image": {"minLength": 1},
            "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
        },
    },
    f"{CORE}ContainerPort": {
        "properties": {"containerPort": PORT, "protocol": {"enum": ["TCP", "UDP", "SCTP"]}}
    },
    f"{CORE}EnvVar": {
        "properties": {"name": text("[-._a-zA-Z][-._a-zA-Z0-9]*")},
        "not": {"required": ["value", "valueFrom"]},
    },
    f"{CORE}EnvVarSource": {"minProperties": 1, "maxProperties": 1},
    f"{CORE}NodeSelector": {"properties": {"nodeSelectorTerms": {"minItems": 1}}},
    f"{CORE}NodeSelectorRequirement": {
        **ONE_OF_THE_NODES,
        "properties": {
            "key": {"$ref": "#/definitions/labelKey"},
            "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]},
            "values": {"items": {"$ref": "#/definitions/labelValue"}},
        },
    },
    f"{CORE}PodAffinityTerm": {"properties": {"topologyKey": {"$ref": "#/definitions/labelKey"}}},
    f"{CORE}PodSecurityContext": {"properties": {"runAsUser": {"minimum": 0}, "fsGroup": {"minimum": 0}}},
    f"{CORE}PreferredSchedulingTerm": {"properties": {"weight": {"minimum": 1, "maximum": 100}}},
    f"{CORE}ResourceRequirements": {
        "properties": {key: {"$ref": "#/definitions/resources"} for key in ("limits", "requests")}
    },
    f"{CORE}SeccompProfile": {
        "properties": {"type": {"enum": ["RuntimeDefault", "Unconfined", "Localhost"]}}
    },
    f"{CORE}SecretKeySelector": {
        "required": ["name"],
        "properties": {
            "name": {"$ref": "#/definitions/dnsName"},
            "key": {"$ref": "#/definitions/secretKey"},
        },
    },
    f"{CORE}ConfigMapKeySelector": {
        "required": ["name"],
        "properties": {
            "name": {"$ref": "#/definitions/dnsName"},
            "key": {"$ref": "#/definitions/secretKey"},
        },
    },
    f"{CORE}Toleration": {
        "properties": {
            "key": {"$ref": "#/definitions/labelKeyOrNone"},
            "operator": {"enum": ["Exists", "Equal"]},
            "value": {"$ref": "#/definitions/labelValue"},
            "effect": {"enum": ["", "NoSchedule", "PreferNoSchedule", "NoExecute"]},
        },
        "if": {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}},
        "then": {"properties": {"value": {"maxLength": 0}}},
        "else": {"required": ["key"], "properties": {"key": {"minLength": 1}}},
        "dependencies": {"tolerationSeconds": {"properties": {"effect": {"const": "NoExecute"}}}},
    },
    # A name and one source.
    f"{CORE}Volume": {"minProperties": 2, "maxProperties": 2, "properties": {"name": NAMED}},
    f"{CORE}PersistentVolumeClaimVolumeSource": {
        "properties": {"claimName": {"$ref": "#/definitions/dnsName"}}
    },
    f"{CORE}SecretVolumeSource": {
        "required": ["secretName"],
        "properties": {"secretName": {"$ref": "#/definitions/dnsName"}},
    },
    f"{CORE}ConfigMapVolumeSource": {
        "required": ["name"],
        "properties": {"name": {"$ref": "#/definitions/dnsName"}},
    },
    f"{CORE}HostPathVolumeSource": {"properties": {"path": {"minLength": 1}}},
    f"{CORE}EmptyDirVolumeSource": {"properties": {"medium": {"enum": ["", "Memory", "HugePages"]}}},
    f"{CORE}VolumeMount": {"properties": {"name": NAMED, "mountPath": {"$ref": "#/definitions/mountPath"}}},
    f"{CORE}WeightedPodAffinityTerm": {"properties": {"weight": {"minimum": 1, "maximum": 100}}},
    f"{NETWORK}IPBlock": {
        "properties": {"cidr": text(r"([0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}|[0-9a-fA-F:]+/[0-9]{1,3})")}
    },
    f"{NETWORK}NetworkPolicyPeer": {
        "minProperties": 1,
        "dependencies": {"ipBlock": {"maxProperties": 1}},
    },
    f"{NETWORK}NetworkPolicyPort": {
        "properties": {
            "protocol": {"enum": ["TCP", "UDP", "SCTP"]},
            "port": PORT_OR_NAME,
            "endPort": PORT,
        },
        "dependencies": {"endPort": {"required": ["port"], "properties": {"port": PORT}}},
    },
    f"{SELECTORS}LabelSelector": {"properties": {"matchLabels": {"$ref": "#/definitions/labels"}}},
    f"{SELECTORS}LabelSelectorRequirement": {
        **ONE_OF_THE_NODES,
        "properties": {**MATCHED["properties"], "key": {"$ref": "#/definitions/labelKey"}},
    },
    QUANTITY: {"$ref": "#/definitions/quantity"},
}
PARTIAL = ("", "Judge", "SamplesSection", "Stage")
"""What the chart writes itself: a value need only have what it changes."""


def definitions() -> Schema:
    """What `definitions` of values.schema.json has to be."""
    return {**WRITTEN, **_kubernetes(), **_router(), **_sections("controller", controller_schema())}


@cache
def _all_of_kubernetes() -> Schema:
    folder = resources.files("kubernetes_validate").joinpath("kubernetes-json-schema", KUBERNETES)
    found: Schema = json.loads(folder.joinpath("_definitions.json").read_text(encoding="utf-8"))["$defs"]
    return found


def _kubernetes() -> Schema:
    wanted, found = list(HANDED_ON), {}
    while wanted:
        name = wanted.pop(0)
        if name not in found:
            entry = _plain(_all_of_kubernetes()[name])
            found[name] = _ruled(entry, RULES.get(name, {}))
            wanted += _referred(found[name])
    return dict(sorted(found.items()))


def _plain(entry: Any) -> Any:
    """Without descriptions and null; unknown members are failures."""
    if isinstance(entry, list):
        return [_plain(item) for item in entry]
    if not isinstance(entry, dict):
        return entry
    kept = {key: value for key, value in entry.items() if key not in ("description", "title", "format")}
    found = {key: value if key == "properties" else _plain(value) for key, value in kept.items()}
    found = {key: value for key, value in found.items() if not key.startswith("x-kubernetes")}
    if isinstance(found.get("type"), list):
        (found["type"],) = [kind for kind in found["type"] if kind != "null"]
    if "properties" in found:
        found["properties"] = {key: _plain(value) for key, value in found["properties"].items()}
        found.setdefault("additionalProperties", False)
    if "$ref" in found:
        return {"$ref": found["$ref"].replace("#/$defs/", "#/definitions/")}
    return found


def _ruled(entry: Schema, rules: Schema) -> Schema:
    """With `rules` over it, member by member."""
    if "$ref" in rules:
        return dict(rules)
    members = dict(entry.get("properties", {}))
    for key, rule in rules.get("properties", {}).items():
        # Beside a reference nothing else counts.
        member = {"allOf": [members[key]]} if "$ref" in members[key] else members[key]
        members[key] = rule if "$ref" in rule else {**member, **rule}
    return {**entry, **rules, **({"properties": members} if members else {})}


def _referred(entry: Any) -> Iterator[str]:
    if isinstance(entry, dict):
        name = str(entry.get("$ref", "")).removeprefix("#/definitions/")
        if name.startswith("io.k8s."):
            yield name
        for value in entry.values():
            yield from _referred(value)
    elif isinstance(entry, list):
        for value in entry:
            yield from _referred(value)


def _router() -> Schema:
    """router.yaml and its sections."""
    found = _sections("router", settings_schema())
    for name in PARTIAL:
        found[f"router.{name}".strip(".")].pop("required")
    # Admin routes without keys would be open to anyone.
    found["router"]["dependencies"] = {"admin": ["keys"]}
    return found


def _sections(file: str, whole: Schema) -> Schema:
    """A file of settings and its sections, of draft 7, by names that begin with that of `file`."""
    parts: Schema = {"": whole, **whole.pop("$defs")}
    return {f"{file}.{name.strip('_')}".strip("."): _draft7(entry, file) for name, entry in parts.items()}


def _draft7(entry: Any, file: str) -> Any:
    if isinstance(entry, list):
        return [_draft7(item, file) for item in entry]
    if not isinstance(entry, dict):
        return entry
    found = {
        key: {name: _draft7(value, file) for name, value in part.items()}
        if key == "properties"
        else _draft7(part, file)
        for key, part in entry.items()
        if key not in ("title", "default", "format", "description")
    }
    if "prefixItems" in found:
        found["items"] = found.pop("prefixItems")
    if {"type": "null"} in found.get("anyOf", ()):
        choices = [choice for choice in found["anyOf"] if choice != {"type": "null"}]
        if len(choices) > 1:
            return {"anyOf": [*choices, {"type": "null"}]}
        (found,) = choices
        # A section that is left out is not written; where null says something, it stands for no text or number.
        return {**found, "type": [found["type"], "null"]} if "type" in found else found
    if "$ref" in found:
        return {"$ref": f"#/definitions/{file}.{found['$ref'].rpartition('/')[2].strip('_')}"}
    return found


def filled(schema: Schema) -> Schema:
    """`schema` with the definitions that it should have."""
    return {**schema, "definitions": definitions()}
