"""Ladders where a stage's rule learns, and where a stage is somebody's API.

    python -m tests.benchmarks.bench_ladders

By rule: 2,000 requests in bursts on 2 H100 and 4 L4, behind them 2 pairs of H100, in three gears. How long one play
takes (CPU seconds, the best of three), and of that the same requests with their gears known; and how many requests get
another gear than they would by the least outstanding.

By API: least cost at quality 78 within 8 s, two models on GPUs and an API; every minute ten seconds of seven times the
load. Dollars an hour with one setting and on gears, with every gear as good as the bar and with gears down to 60.
"""

from collections.abc import Iterator
from dataclasses import replace
from time import process_time

import numpy as np

from cascadia.domain.objective import Objective, UnderLoad
from cascadia.planner.gears.played import play
from cascadia.planner.plan import plan
from tests.benchmarks.report_table import markdown
from tests.unit.planner.gears.test_gears_elsewhere import BAR, BOUND_S, beside_an_api
from tests.unit.planner.gears.test_played import LADDER, RULES, on_unequal, scene

PLAYS = 3


def by_rule() -> Iterator[tuple[str, ...]]:
    by_load = None
    for balancing in RULES:
        simulator, here, decided = scene(on_unequal(balancing))
        times, known_s = [], []
        for _ in range(PLAYS + 1):  # the first compiles
            began_s = process_time()
            found = play(simulator, here, decided, LADDER)
            played_s = process_time()
            simulator.run(here, found.decided)
            times.append(played_s - began_s)
            known_s.append(process_time() - played_s)
        by_load = found.gear if by_load is None else by_load
        other = float(np.mean(found.gear != by_load))
        yield balancing, f"{min(times):.3f}", f"{min(known_s):.3f}", f"{other:.1%}"


def by_api() -> Iterator[tuple[str, ...]]:
    given = beside_an_api(Objective("cost", 0.95, BAR, BOUND_S))
    for name, problem in (
        ("one setting", replace(given, gears=1)),
        ("gears", given),
        ("gears, floor 60", replace(given, under_load=UnderLoad(60.0))),
    ):
        began_s = process_time()
        found = plan(problem).plan
        predicted, gears = found.predicted, len(found.gears)
        usd = f"{predicted.usd_per_hour:.2f}", f"{predicted.usd_per_hour_elsewhere:.2f}"
        yield name, *usd, f"{predicted.quality.lower:.2f}", str(gears), f"{process_time() - began_s:.1f}"


def main() -> None:
    print(markdown(("rule", "CPU s a play", "of which known gears", "another gear"), list(by_rule())))
    print()
    print(markdown(("plan", "$/h", "tokens", "quality", "gears", "CPU s"), list(by_api())))


if __name__ == "__main__":
    main()
