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
from dataclasses import asdict
from pathlib import Path

from cascadia.reproduce.adapt.day import ASKED, WAYS, run, table, ways_of, world_of
from cascadia.reproduce.adapt.days import DAYS, HOUR_S, REPEATED
from cascadia.reproduce.adapt.ways import Outcome


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--day", choices=DAYS, default="changing")
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--out", type=Path, default=Path("adapt-results"))
    parser.add_argument(
        "--days-before", type=int, default=0, help="such days the controller has seen, of other seeds"
    )
    options = parser.parse_args()
    day = DAYS[options.day]()
    if options.days_before and options.day not in REPEATED:
        parser.error(
            f"--days-before: {options.day} is no day that repeats; write one of {', '.join(REPEATED)}"
        )
    before = [REPEATED[options.day](seed) for seed in range(1, options.days_before + 1)]
    folder = options.out.resolve() / options.day
    folder.mkdir(parents=True, exist_ok=True)
    world = world_of(day, folder)
    print(f"{day.name}: {len(day.trace):,} requests", file=sys.stderr)
    outcomes = []
    for way in ways_of(day, options.way or list(WAYS)):
        seen = f"-after-{len(before)}" if before and way == "adaptive" else ""
        kept = folder / f"{way}{seen}.json"
        if not kept.exists():
            began = time.perf_counter()

            def tell(now_s: float, way: str = way) -> None:
                if now_s % HOUR_S == 0.0:
                    print(f"\r{way}: {now_s / HOUR_S:.0f} h", end="", file=sys.stderr, flush=True)

            found = run(way, world, tell, before)
            kept.write_text(json.dumps(asdict(found)))
            print(f" in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        outcomes.append(Outcome(**json.loads(kept.read_text())))
    print(table(outcomes, day))
    return 0 if all(o.attained >= ASKED for o in outcomes if o.way == "adaptive") else 1


if __name__ == "__main__":
    sys.exit(main())
