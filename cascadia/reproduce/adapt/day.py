"""One day met in each way: by the controller, by plans that stay, by hourly ones, by oracles."""

from collections.abc import Callable, Sequence
from pathlib import Path

from cascadia.report.markdown import markdown
from cascadia.reproduce.adapt.days import DAYS, HOUR_S, Day
from cascadia.reproduce.adapt.plans import plan_for
from cascadia.reproduce.adapt.rates import RATES
from cascadia.reproduce.adapt.ways import (
    Outcome,
    World,
    adaptive,
    every,
    forty_lines,
    inner_loop,
    oracle,
    oracle_of_peaks,
    stays,
)

ASKED = 0.95
WAYS = ("adaptive", "inner", "forty", "static", "hourly", "oracle", "peaks")


def regimes(day: Day) -> list[tuple[float, float]]:
    starts = [r.start_s for r in day.regimes]
    return list(zip(starts, [*starts[1:], day.duration_s], strict=True))


def world_of(day: Day, folder: Path) -> World:
    if day.name in RATES:
        # All begin with one plan, for 12 requests a second: the square wave's.
        known = DAYS["square"]()
        return World(day, folder, plan_for(known, folder.parent / "square" / "known", *regimes(known)[0]))
    return World(day, folder, plan_for(day, folder / "known", *regimes(day)[0]))


def run(way: str, world: World, tell: Callable[[float], None], before: Sequence[Day] = ()) -> Outcome:
    if way == "adaptive":
        return adaptive(world, "adaptive", tell, before=before)
    if way == "forty":
        return forty_lines(world, tell)
    if way == "inner":
        return inner_loop(world, tell)
    if way == "hourly":
        return every(world, HOUR_S, tell)
    if way == "peaks":
        return oracle_of_peaks(world, tell)
    folder = world.folder / "known"
    if way == "oracle":
        plans = [(at_s, plan_for(world.day, folder, at_s, end_s)) for at_s, end_s in regimes(world.day)]
        return oracle(world, plans, tell)
    index = int(way.removeprefix("static"))
    plan = plan_for(world.day, folder, *regimes(world.day)[index])
    return stays(world, f"the plan for {world.day.regimes[index].name!r}", plan, tell)


def ways_of(day: Day, wanted: list[str]) -> list[str]:
    found: list[str] = []
    for way in wanted:
        found += [f"static{i}" for i in range(len(day.regimes))] if way == "static" else [way]
    return found


def table(outcomes: list[Outcome], day: Day) -> str:
    rows = [
        (
            o.way,
            f"{100 * o.attained:.1f} %",
            f"{100 * o.refused:.1f} %",
            f"{o.p95_s:.0f} s",
            f"{o.quality:.1f}",
            f"{o.usd:,.0f}",
            str(o.moves),
        )
        for o in outcomes
    ]
    within = f"within {day.slo_s:g} s"
    return markdown(
        ("way", within, "turned away", "p95", f"quality (asked {day.quality_min:g})", "$ a day", "moves"),
        rows,
    )
