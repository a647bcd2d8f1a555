"""The paper's test of transitions (Cascadia, section 4.4, figure 11 and table 5): three traces of 8, 16 and 10 minutes.

    python -m tests.benchmarks.bench_adapt_transition [--loads 2] [--confidences 0.5 0.95] [--out adapt-results]

`cascadia.reproduce.adapt.transition` says what is simulated. Exits with 1 where another system has the lower SLO scale.
"""

import argparse
import json
import sys
from dataclasses import asdict
from itertools import product
from pathlib import Path

from cascadia.reproduce.adapt.transition import Ran, measure, table


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loads", type=float, nargs="+", default=[2.0])
    parser.add_argument("--confidences", type=float, nargs="+", default=[0.5, 0.95])
    parser.add_argument("--out", type=Path, default=Path("adapt-results"))
    options = parser.parse_args()
    rows: list[Ran] = []
    for load, confidence in product(options.loads, options.confidences):
        folder = options.out.resolve() / f"transition-{load:g}-{confidence:g}"
        kept = folder / "ran.json"
        if not kept.exists():
            folder.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps([asdict(r) for r in measure(load, confidence, folder)]))
            print(f"load {load:g} at {confidence:g} done", file=sys.stderr, flush=True)
        rows += [Ran(**r) for r in json.loads(kept.read_text())]
    print(table(rows))
    ours = {(r.load, r.confidence): r.slo_scale for r in rows if r.system == "Cascadia"}
    return 0 if all(r.slo_scale >= ours[r.load, r.confidence] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
