"""A fleet that another version of cascadia started is not moved by this one: either would misread the other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cascadia.controller.local.backend import LocalBackend
from cascadia.controller.local.control_socket import ask, listening
from cascadia.controller.local.fleet import LocalFleet
from cascadia.controller.local.members import FleetError
from cascadia.controller.speed.watch import LocalEngines
from cascadia.domain.errors import BadInput

KIND = {"stage": "small", "pool": "here", "gpus": 1, "spec": "a", "pods": 1}
LAUNCH: dict[str, Any] = {"kind": KIND, "argv": ["engine"], "secrets": []}
ROUTING = {"stages": ["small"], "thresholds": [], "label": ""}
REPLICA = {"name": "small-0", "kind": KIND, "state": "ready", "running": 0, "url": "http://127.0.0.1:1"}
TOLD: dict[str, Any] = {
    "replicas": [REPLICA],
    "gpus": {"here": 1},
    "routing": ROUTING,
    "launches": [LAUNCH],
    "document": {},
}


class Fleet(LocalFleet):
    """A fleet that tells what it was given."""

    told = TOLD

    async def observe(self) -> dict[str, Any]:
        return self.told


def observed(folder: Path, told: dict[str, Any]) -> None:
    async def main() -> None:
        fleet = Fleet(folder, {"here": (0,)})
        fleet.told = told
        async with listening(fleet, lambda: None):
            await LocalBackend(folder).observe()

    asyncio.run(main())


def test_what_this_version_tells_is_read(tmp_path: Path) -> None:
    observed(tmp_path, TOLD)


@pytest.mark.parametrize(
    "change",
    [
        {"launches": [{"kind": KIND, "argv": ["engine"]}]},
        {"launches": [LAUNCH | {"warm": True}]},
        {"replicas": [REPLICA | {"kind": KIND | {"racks": 2}}]},
        {"replicas": [{"name": "small-0"}]},
        {"routing": {"stages": ["small"]}},
    ],
    ids=[
        "a launch lacks a member",
        "one too many",
        "a kind has one too many",
        "a replica lacks one",
        "gates",
    ],
)
def test_who_tells_more_or_less_is_of_another_version(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as told:
        observed(tmp_path, TOLD | change)
    assert str(told.value) == (
        f"{tmp_path}: is of a fleet that another version of cascadia started; "
        "end it with `cascadia down`, then start it with `cascadia up PLAN --resume`"
    )


def test_an_engine_s_speed_is_not_known_of_a_fleet_of_another_version(tmp_path: Path) -> None:
    async def main() -> None:
        fleet = Fleet(tmp_path, {"here": (0,)})
        fleet.told = TOLD | {"replicas": [{"name": "small-0", "url": ""}]}
        async with listening(fleet, lambda: None):
            assert await LocalEngines(tmp_path).metrics() == {}

    asyncio.run(main())


def test_a_fleet_says_what_to_do_where_it_is_told_what_it_does_not_know(tmp_path: Path) -> None:
    async def main() -> None:
        async with listening(LocalFleet(tmp_path, {"here": (0,)}), lambda: None):
            await ask(tmp_path, "start", name="small-0", launch=LAUNCH | {"warm": True})

    with pytest.raises(FleetError, match=r"warm.*another version of cascadia.*`cascadia down`"):
        asyncio.run(main())
