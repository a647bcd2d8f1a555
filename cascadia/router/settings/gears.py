"""Section `gears` of router.yaml: settings of the cascade for rising load, the heaviest first."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from cascadia.domain.errors import BadInput
from cascadia.router.settings.model import GearSettings, RouterSettings


class GearSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    max_in_flight: float | None = Field(
        None, gt=0, description="Requests under way in all routers, up to which it serves; none for the last."
    )
    stages: list[str] = Field(min_length=1, description="Stages that are asked, in order; no other is.")
    thresholds: dict[str, Annotated[float, Field(ge=0, le=1000)]] = Field(
        default_factory=dict, description="Thresholds by stage, in place of its own."
    )
    skip_below: dict[str, Annotated[float, Field(ge=0, le=101)]] = Field(
        default_factory=dict,
        description="Least qualities foreseen, by stage, in place of its own; 101: it is never asked.",
    )


def gears_of(documents: Sequence[Mapping[str, Any]]) -> tuple[GearSettings, ...]:
    """Gears of a checked section, numbered from 0."""
    return tuple(
        GearSettings(
            number=number,
            max_in_flight=document.get("max_in_flight"),
            stages=tuple(document["stages"]),
            thresholds=dict(document.get("thresholds", {})),
            skip_below=dict(document.get("skip_below", {})),
        )
        for number, document in enumerate(documents)
    )


def check_gears(settings: RouterSettings, where: str) -> None:
    """Raises `BadInput` where borders do not rise, or a gear names what is not there."""
    gears = settings.gears
    if gears and settings.mixture is not None:
        raise BadInput(
            f"{where}: mixture",
            "stands beside gears, which bring thresholds of their own",
            "keep one of them",
        )
    for at, gear in enumerate(gears):
        _check_stages(gear, [stage.name for stage in settings.stages], f"{where}: gears[{at}]")
        border = f"{where}: gears[{at}].max_in_flight"
        if gear is not gears[-1] and gear.max_in_flight is None:
            raise BadInput(border, "is missing", "give each gear but the last a border")
        if gear is gears[-1] and gear.max_in_flight is not None:
            raise BadInput(border, "is set", "leave it out: the last gear serves any load")
    for at, (one, following) in enumerate(pairwise(gear.max_in_flight or 0.0 for gear in gears[:-1])):
        if following <= one:
            at_next = f"{where}: gears[{at + 1}].max_in_flight"
            raise BadInput(at_next, f"is {following:g} after {one:g}", "list gears by rising borders")


def _check_stages(gear: GearSettings, known: Sequence[str], at: str) -> None:
    there = f"there are {', '.join(known)}"
    for name in gear.stages:
        if name not in known:
            raise BadInput(f"{at}.stages", f"{name[:100]!r} is no stage", there)
    if list(gear.stages) != [name for name in known if name in gear.stages]:
        raise BadInput(f"{at}.stages", "have another order", "write each once, in the order of stages")
    for key, told in (("thresholds", gear.thresholds), ("skip_below", gear.skip_below)):
        for name in told:
            if name not in gear.stages:
                raise BadInput(
                    f"{at}.{key}", f"{name[:100]!r} is not asked", f"it asks {', '.join(gear.stages)}"
                )
