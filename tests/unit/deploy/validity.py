"""What an API server demands of objects beyond their schemas: names, labels, bounds, what is there twice."""

import re
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
QUALIFIED = re.compile(rf"({SUBDOMAIN.pattern}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|[KMGTPE]i|[MGTPE])?")
VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
FACTORS = {None: 1, "m": 0.001, "k": 1e3}
FACTORS |= {letter: 1000.0**i for i, letter in enumerate("KMGTPE", 1)}
FACTORS |= {f"{letter}i": 1024.0**i for i, letter in enumerate("KMGTPE", 1)}


def problems(found: Object) -> Iterator[str]:
    """Of one object; none where it is valid."""
    about, spec = found["metadata"], found.get("spec", {})
    shape, longest = {"Service": (SERVICE, 63), "Deployment": (LABEL, 63)}.get(
        found["kind"], (SUBDOMAIN, 253)
    )
    if (
        not isinstance(about["name"], str)
        or not shape.fullmatch(about["name"])
        or len(about["name"]) > longest
    ):
        yield f"name {about['name']!r}"
    if "namespace" in about:
        space = about["namespace"]
        if not isinstance(space, str) or not LABEL.fullmatch(space) or len(space) > 63:
            yield f"namespace {space!r}"
    for metadata in _metadata(found):
        yield from _labels(metadata.get("labels", {}))
        for key, text in metadata.get("annotations", {}).items():
            if not QUALIFIED.fullmatch(str(key)) or not isinstance(text, str):
                yield f"annotation {key!r}: {text!r}"
    for low, high in (("minReplicas", "maxReplicas"), ("minReplicaCount", "maxReplicaCount")):
        if low in spec and spec[low] > spec[high]:
            yield f"{low} {spec[low]} above {spec[high]}"
    for template in _templates(found):
        yield from _pod(template["spec"])
        matched = spec.get("selector", {}).get("matchLabels", {})
        if not matched.items() <= template["metadata"]["labels"].items():
            yield "the selector does not match the pods"


def _metadata(found: Object) -> Iterator[Object]:
    yield found["metadata"]
    for template in _templates(found):
        yield template["metadata"]


def _templates(found: Object) -> Iterator[Object]:
    spec = found.get("spec", {})
    ranks = spec.get("leaderWorkerTemplate", {})
    templates = (spec.get("template"), ranks.get("leaderTemplate"), ranks.get("workerTemplate"))
    yield from (template for template in templates if template)


def _labels(labels: Object) -> Iterator[str]:
    for key, text in labels.items():
        right = isinstance(key, str) and isinstance(text, str) and len(text) <= 63
        if not right or not QUALIFIED.fullmatch(key) or not VALUE.fullmatch(text):
            yield f"label {key!r}: {text!r}"


def _pod(spec: Object) -> Iterator[str]:
    yield from _labels(spec.get("nodeSelector", {}))
    volumes = [volume["name"] for volume in spec.get("volumes", ())]
    if len(set(volumes)) < len(volumes) or not all(LABEL.fullmatch(name) for name in volumes):
        yield f"volumes {volumes}"
    for volume in spec.get("volumes", ()):
        for source in ("persistentVolumeClaim", "configMap", "secret"):
            for key in ("claimName", "name", "secretName"):
                if not SUBDOMAIN.fullmatch(volume.get(source, {}).get(key, "a")):
                    yield f"volume {volume}"
    for named in (
        spec.get("serviceAccountName"),
        spec.get("priorityClassName"),
        spec.get("runtimeClassName"),
    ):
        if named is not None and (not isinstance(named, str) or not SUBDOMAIN.fullmatch(named)):
            yield f"names {named!r}"
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    names = [container["name"] for container in containers]
    if len(set(names)) < len(names):
        yield f"containers {names}"
    for container in containers:
        yield from _container(container, volumes)


def _container(container: Object, volumes: list[str]) -> Iterator[str]:
    image = container["image"]
    if not isinstance(image, str) or not image or re.search(r"\s|:$|^[^/]*://", image):
        yield f"image {image!r}"
    variables = [variable["name"] for variable in container.get("env", ())]
    if len(set(variables)) < len(variables) or not all(VARIABLE.fullmatch(name) for name in variables):
        yield f"variables {variables}"
    mounts = container.get("volumeMounts", ())
    paths = [mount["mountPath"].rstrip("/") for mount in mounts]
    if len(set(paths)) < len(paths) or not all(re.fullmatch(r"/[^:]+", path) for path in paths):
        yield f"mounted at {paths}"
    if not {mount["name"] for mount in mounts} <= set(volumes):
        yield f"mounts {mounts}, and there are {volumes}"
    resources = container.get("resources", {})
    limits = resources.get("limits", {})
    for name, asked in resources.get("requests", {}).items():
        if name in limits and _number(asked) > _number(limits[name]):
            yield f"requests {asked} of {name}, and {limits[name]} is the limit"


def _number(quantity: str | float) -> float:
    matched = QUANTITY.fullmatch(str(quantity))
    assert matched is not None, quantity
    return float(matched[1]) * FACTORS[matched[2]]
