"""Endpoints that --stages, --endpoint, --judge and --api-key-env name."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from cascadia.clients.engines.chat import Endpoint
from cascadia.clients.engines.served_models import Target
from cascadia.domain.errors import BadInput
from cascadia_judge.scores.checks import CHECKS, Check

JUDGE = "judge"
_ADDRESS = "http://127.0.0.1:8000/v1#model"
_ONE = re.compile(r"[^=,/]+=https?://")
_BETWEEN = re.compile(r",(?=[^=,/]+=https?://)")


def stage_targets(stages: Sequence[str], endpoints: Sequence[str]) -> tuple[Target, ...]:
    """Targets in the order given; of a spec, in its own."""
    specs = [value for value in stages if not _ONE.match(value)]
    if not specs:
        if endpoints:
            raise BadInput(
                "--endpoint", "belongs to the stages of a spec", "give addresses with --stages alone"
            )
        given = [_named("--stages", one) for value in stages for one in _BETWEEN.split(value)]
        _refuse_twice("--stages", [endpoint.name for endpoint in given])
        return tuple(Target(endpoint, (endpoint.name,)) for endpoint in given)
    if len(stages) > 1:
        if Path(specs[0]).suffix not in (".yaml", ".yml"):
            raise _no_address("--stages", specs[0])
        raise BadInput(
            "--stages", f"{specs[0]} stands beside other stages", "give one spec, or addresses only"
        )
    return _of_spec(specs[0], endpoints)


def judge_of(values: Sequence[str]) -> tuple[Endpoint | None, Check | None]:
    """The judge's endpoint and the check, at least one of them."""
    checks = [check for check in CHECKS if check in values]
    addresses = [value for value in values if value not in CHECKS]
    for value in addresses:
        if not value.startswith(("http://", "https://")):
            kinds = ", ".join(CHECKS)
            raise BadInput(
                "--judge", f"{value!r} is neither a check nor an address", f"write {kinds} or {_ADDRESS}"
            )
    if len(checks) > 1 or len(addresses) > 1:
        raise BadInput("--judge", "more than one of a kind", "give at most one address and one check")
    judge = _endpoint("--judge", JUDGE, addresses[0]) if addresses else None
    return judge, checks[0] if checks else None


def with_keys(targets: Sequence[Target], given: Sequence[str]) -> tuple[Target, ...]:
    """Each with the API key in the variable that `given` (VARIABLE for all, or NAME=VARIABLE) names."""
    keys: dict[str, str] = {}
    names = [target.endpoint.name for target in targets]
    for value in given:
        name, _, variable = value.rpartition("=")
        if name and name not in names:
            raise BadInput("--api-key-env", f"nothing is named {name!r}", f"name one of {', '.join(names)}")
        key = os.environ.get(variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise BadInput("--api-key-env", f"the variable {variable!r} holds no key", "put the key into it")
        keys[name] = key
    return tuple(
        target._replace(
            endpoint=replace(target.endpoint, api_key=keys.get(target.endpoint.name, keys.get("")))
        )
        for target in targets
    )


def _of_spec(path: str, endpoints: Sequence[str]) -> tuple[Target, ...]:
    from cascadia.planner.spec.file import read_spec

    if "=" in path and not Path(path).exists():
        raise _no_address("--stages", path)
    stages = read_spec(path).stages
    given = [_named("--endpoint", value) for value in endpoints]
    _refuse_twice("--endpoint", [endpoint.name for endpoint in given])
    at: Mapping[str, Endpoint] = {endpoint.name: endpoint for endpoint in given}
    names = [stage.name for stage in stages]
    for endpoint in given:
        if endpoint.name not in names:
            raise BadInput(
                "--endpoint", f"{path} has no stage {endpoint.name!r}", f"its stages: {', '.join(names)}"
            )
    for name in names:
        if name not in at:
            raise BadInput(
                "--endpoint", f"stage {name!r} has no address", f"add --endpoint {name}={_ADDRESS}"
            )
    return tuple(Target(at[stage.name], (stage.name, stage.model)) for stage in stages)


def _named(option: str, text: str) -> Endpoint:
    name, _, address = text.partition("=")
    if not name.strip() or not address.startswith(("http://", "https://")):
        raise _no_address(option, text)
    if name.strip() == JUDGE:
        raise BadInput(option, f"a stage cannot be called {JUDGE!r}", "give it another name")
    return _endpoint(option, name.strip(), address)


def _endpoint(option: str, name: str, text: str) -> Endpoint:
    address, _, model = text.partition("#")
    try:
        parts = urlsplit(address)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0) and not parts.query
    except ValueError:
        usable = False
    if not usable or not address.isprintable() or " " in address:
        raise _no_address(option, text)
    url = address.rstrip("/").removesuffix("/chat/completions")
    return Endpoint(name, url if parts.path.strip("/") else f"{url}/v1", model)


def _refuse_twice(option: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BadInput(option, f"stage {name!r} is given twice", "give each stage one address")


def _no_address(option: str, text: str) -> BadInput:
    example = _ADDRESS if option == "--judge" else f"small={_ADDRESS}"
    return BadInput(option, f"{text!r} names no address", f"write e.g. {example}")
