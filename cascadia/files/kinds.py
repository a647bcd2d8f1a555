"""Kinds of files that commands take: one that was named in another's place is told by what it is."""

from collections.abc import Mapping
from typing import Literal

from cascadia.domain.errors import BadInput

Kind = Literal["plan", "spec", "router", "local", "controller"]

NAMES: dict[Kind, str] = {
    "plan": "a plan",
    "spec": "a spec",
    "router": "a router.yaml",
    "local": "a local.yaml",
    "controller": "a controller.yaml",
}
_CONTROLLER = {"watching", "planning", "moves", "scaling"}


def kind_of(document: object) -> Kind | None:
    """The kind that keys of `document` tell; None where they tell none for sure."""
    if not isinstance(document, Mapping):
        return None
    keys, stages = set(document), document.get("stages")
    if {"predicted", "proof"} <= keys:
        return "plan"
    if "stages" in keys and keys & {"cluster", "workers"} and keys & {"objective", "workload"}:
        return "spec"
    if isinstance(stages, Mapping):
        return "local"
    if isinstance(stages, list) and any(isinstance(one, Mapping) and "replicas" in one for one in stages):
        return "router"
    return "controller" if keys & _CONTROLLER and "stages" not in keys else None


def refuse_other(document: object, wanted: Kind, where: str) -> None:
    """Raises `BadInput` where `document` is of another kind than `wanted`: its keys would be told as unknown."""
    given = kind_of(document)
    if given in (None, wanted):
        return
    assert given is not None
    raise BadInput(where, f"is {NAMES[given]}, not {NAMES[wanted]}", _instead(given, wanted))


def _instead(given: Kind, wanted: Kind) -> str:
    if given == "spec" and wanted in ("plan", "router"):
        return "make a plan of it with `cascadia plan SPEC --out plan/`, and name that folder"
    if given == "plan" and wanted == "spec":
        return "name the cascade.yaml that it was made from"
    return f"name {NAMES[wanted]}"
