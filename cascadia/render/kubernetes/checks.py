"""Values that no valid objects can be made of: each is refused with where, what is wrong and what to write.

The chart's values.schema.json comes first, then what must hold between values (`templates/_checks.tpl` has the same,
word for word).
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.render.kubernetes.chart_values import Values
from cascadia.render.kubernetes.engines.units import Unit, engines_of, slots, units
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.router_config import routers
from cascadia.render.names import CHARTS_OWN

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_FACTORS = {"": 1.0, "m": 0.001} | {
    suffix: float(base**power)
    for base, suffixes in (
        (1000, ("k", "M", "G", "T", "P", "E")),
        (1024, ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")),
    )
    for power, suffix in enumerate(suffixes, 1)
}


def check(release: Release) -> None:
    """Raises `BadInput` for the first thing that is wrong."""
    _fits_the_schema(release.values)
    for found in refusals(release):
        raise found


def refusals(release: Release) -> Iterator[BadInput]:
    """Refusals by what must hold between values that fit the schema."""
    values, space = release.values, release.namespace
    if not _NAMESPACE.fullmatch(space) or len(space) > 63:
        what = f"{json.dumps(space)} is no name of one"
        yield BadInput("namespace", what, "write lower-case letters, digits and dashes, 63 at most")
    yield from _names(values)
    scaling = values["router"]["autoscaling"]
    least, most = int(scaling["minReplicas"]), int(scaling["maxReplicas"])
    if least > most:
        what = f"{least} is above maxReplicas ({most})"
        yield _refusal("router.autoscaling.minReplicas", what, "lower it, or raise maxReplicas")
    spec = values["controller"]["spec"]
    if values["controller"]["enabled"] and not spec["configMapName"] and not spec["claimName"]:
        what = "names neither a ConfigMap nor a claim"
        yield _refusal("controller.spec", what, "write configMapName: cascadia-spec")
    yield from _elsewhere(values)
    yield from _per_stage(values)
    yield from _resources("router.resources", values["router"]["resources"])
    yield from _resources("controller.resources", values["controller"]["resources"])
    yield from _resources("judge.service.resources", values["judge"]["service"]["resources"])
    secrets = [{"mountPath": f"/secrets/{secret['name']}"} for secret in values["router"]["secrets"]]
    yield from _mounts("router.secrets", secrets, ())
    for unit in units(values):
        yield from _engines(values, unit)


def _refusal(where: str, what: str, instead: str) -> BadInput:
    return BadInput(f"values: {where}", what, instead)


def _names(values: Values) -> Iterator[BadInput]:
    """No two objects have one name."""
    taken = dict.fromkeys(CHARTS_OWN, "the chart")
    if not values["judge"]["groups"]:
        taken["judge"] = "the chart"
    served: set[str] = set()
    for unit in units(values):
        if unit["role"] == "stage":
            if unit["servedModelName"] in served:
                what = f"two are called {json.dumps(unit['servedModelName'], ensure_ascii=False)}"
                yield _refusal("stages", what, "give each a servedModelName of its own")
            served.add(unit["servedModelName"])
        names = [name for slot, group in slots(unit) for name in (group["name"], slot, f"{slot}-http")]
        for name in (unit["name"], f"{unit['name']}-ranks", *names):
            if name in taken:
                what = f'the name "{name}" of {unit["name"]} is taken by {taken[name]}'
                yield _refusal("stages", what, "give it another name")
            taken[name] = unit["name"]


def _elsewhere(values: Values) -> Iterator[BadInput]:
    """Each is a stage of the cascade, and each router may send it something."""
    for stage in values["externalStages"]:
        name, most = stage["servedModelName"], int(stage["requestsPerMinute"])
        if name not in values["cascade"]["stages"]:
            what = f"{json.dumps(name, ensure_ascii=False)} is not among cascade.stages"
            yield _refusal("externalStages", what, "write it there, in its place")
        if 0 < most < routers(values):
            what = f"{name} may be sent {most} requests a minute, and there may be {routers(values)} routers"
            yield _refusal("externalStages", what, "lower router.autoscaling.maxReplicas")


def _per_stage(values: Values) -> Iterator[BadInput]:
    served = [stage["servedModelName"] for stage in values["stages"]]
    known = list(dict.fromkeys([*values["cascade"]["stages"], *served, "judge"]))
    for name in sorted(values["engines"]["perStage"]):
        if name not in known:
            yield _refusal(f"engines.perStage.{name}", "is no stage", f"write one of {', '.join(known)}")


def _engines(values: Values, unit: Unit) -> Iterator[BadInput]:
    where, engines = f"engines (of {unit['name']})", engines_of(values, unit)
    asked, most = int(engines["memoryGiPerGpu"]), int(engines["memoryLimitGiPerGpu"])
    if asked > most:
        what = f"{asked} is above memoryLimitGiPerGpu ({most})"
        yield _refusal(f"{where}.memoryGiPerGpu", what, "lower it, or raise memoryLimitGiPerGpu")
    for group in unit["groups"]:
        if group["gpuResource"] in engines["extraResources"]:
            what = f"{group['gpuResource']} is counted by the plan"
            yield _refusal(f"{where}.extraResources", what, "leave it out")
    writable = engines["writablePaths"]
    volumes = ["cache", "shm", "tmp", *(f"writable-{i}" for i, _ in enumerate(writable))]
    paths = ["/cache", "/dev/shm", "/tmp", *writable]
    if unit["modelsVolume"]:
        volumes, paths = [*volumes, "models"], [*paths, "/models"]
    for volume in engines["volumes"]:
        if volume["name"] in volumes:
            what = f"the name {volume['name']} is taken"
            yield _refusal(f"{where}.volumes", what, "give the volume another name")
        volumes.append(volume["name"])
    mounts = [*({"mountPath": path} for path in paths), *engines["volumeMounts"]]
    yield from _mounts(f"{where}.volumeMounts", mounts, volumes)
    containers = ["engine"]
    for container in engines["initContainers"]:
        at = f"{where}.initContainers"
        if container["name"] in containers:
            what = f"the name {container['name']} is taken"
            yield _refusal(at, what, "give the container another name")
        containers.append(container["name"])
        yield from _mounts(f"{at}.{container['name']}", container.get("volumeMounts", ()), volumes)
        yield from _resources(at, container.get("resources", {}))


def _mounts(where: str, mounts: Sequence[dict[str, Any]], volumes: Sequence[str]) -> Iterator[BadInput]:
    """Each is of a known volume (where these are given), no two are at one path."""
    paths: set[str] = set()
    for mount in mounts:
        path = mount["mountPath"].removesuffix("/")
        if path in paths:
            yield _refusal(where, f"two are mounted at {path}", "leave one out")
        paths.add(path)
        name = mount.get("name")
        if name and volumes and name not in volumes:
            yield _refusal(where, f"{name} is no volume", f"write one of {', '.join(volumes)}")


def _resources(where: str, found: dict[str, Any]) -> Iterator[BadInput]:
    """Refuses resources: none requests more than its limit; what cannot be shared, as much."""
    limits = found.get("limits", {})
    for name, asked in sorted(found.get("requests", {}).items()):
        if name in limits and _quantity(asked) > _quantity(limits[name]):
            what = f"the request for {name} is above its limit"
            yield _refusal(where, what, "lower it, or raise the limit")
        if "/" in name and _quantity(asked) != _quantity(limits.get(name, 0)):
            what = f"the request for {name} is not its limit, and it cannot be shared"
            yield _refusal(where, what, "write the same for both")


def _quantity(text: str | float) -> float:
    """512Mi as a number."""
    number = re.match(r"[0-9.]+", str(text))
    assert number is not None, "the schema has it so"
    return float(number[0]) * _FACTORS[str(text)[number.end() :]] if isinstance(text, str) else float(text)


@cache
def _schema() -> Values:
    file = resources.files("cascadia.render.kubernetes").joinpath("values.schema.json")
    found: Values = json.loads(file.read_text(encoding="utf-8"))
    return found


def _fits_the_schema(values: Values) -> None:
    """Slow to import, and only of use where values are a user's."""
    import jsonschema

    def pattern(_: Any, wanted: str, found: Any, *_schema: Any) -> Iterator[jsonschema.ValidationError]:
        """Checks a pattern as Go has it, where `$` is the end, and not before a last line's end."""
        if isinstance(found, str) and (found.endswith("\n") or not re.search(wanted, found)):
            yield jsonschema.ValidationError(f"{found!r} does not match {wanted!r}")

    extended = jsonschema.validators.extend(jsonschema.Draft7Validator, {"pattern": pattern})  # type: ignore[no-untyped-call]
    validator = extended(_schema())
    found = jsonschema.exceptions.best_match(validator.iter_errors(values))
    if found is not None:
        where = found.json_path.removeprefix("$").removeprefix(".")
        what = found.message if len(found.message) <= 300 else f"{found.message[:300]}..."
        raise _refusal(where or "all", what, "see docs/reference/helm.md")
