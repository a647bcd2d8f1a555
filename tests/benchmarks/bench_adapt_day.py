"""A day on 256 simulated H100s whose traffic changes: the controller beside plans that stay, hourly ones, an oracle.

    python -m tests.benchmarks.bench_adapt_day [--day changing] [--way adaptive] [--out adapt-results]

The controller is the real one, planning included; its clock and its fleet are simulated, and the requests of the whole
day go through the simulator with queues and batches carried over each move. What was measured is kept in `--out`, so
that a run which was cut off goes on. Exits with 1 where the controller keeps the SLO for less than 95 %.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests.benchmarks.adapt.days import DAYS, HOUR_S, Day
from tests.benchmarks.adapt.plans import plan_for
from tests.benchmarks.adapt.ways import (
    Outcome,
    World,
    adaptive,
    every,
    forty_lines,
    oracle,
    oracle_of_peaks,
    stays,
)
from tests.benchmarks.report_table import markdown

ASKED = 0.95
WAYS = ("adaptive", "forty", "static", "hourly", "oracle", "peaks")


def regimes(day: Day) -> list[tuple[float, float]]:
    starts = [r.start_s for r in day.regimes]
    return list(zip(starts, [*starts[1:], day.duration_s], strict=True))


def world_of(day: Day, folder: Path) -> World:
    first = plan_for(day, folder / "known", *regimes(day)[0])
    return World(day, folder, first)


def run(way: str, world: World, tell: Callable[[float], None]) -> Outcome:
    if way == "adaptive":
        return adaptive(world, "adaptive", tell)
    if way == "forty":
        return forty_lines(world, tell)
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


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--day", choices=DAYS, default="changing")
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--out", type=Path, default=Path("adapt-results"))
    options = parser.parse_args()
    day = DAYS[options.day]()
    folder = options.out.resolve() / options.day
    world = world_of(day, folder)
    print(f"{day.name}: {len(day.trace):,} requests", file=sys.stderr)
    outcomes = []
    for way in ways_of(day, options.way or list(WAYS)):
        kept = folder / f"{way}.json"
        if not kept.exists():
            began = time.perf_counter()

            def tell(now_s: float, way: str = way) -> None:
                if now_s % HOUR_S == 0.0:
                    print(f"\r{way}: {now_s / HOUR_S:.0f} h", end="", file=sys.stderr, flush=True)

            found = run(way, world, tell)
            kept.write_text(json.dumps(asdict(found)))
            print(f" in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        outcomes.append(Outcome(**json.loads(kept.read_text())))
    print(table(outcomes, day))
    return 0 if all(o.attained >= ASKED for o in outcomes if o.way == "adaptive") else 1


if __name__ == "__main__":
    sys.exit(main())
