"""Is whoever is offered more ever given a worse plan?

    python -m tests.benchmarks.bench_supersets [--pairs 30] [--of pools,nodes,...]

Random cascades and goals (`refinement/supersets.py`). Of pools, exits and speculation the answer is no by
construction, and any violation exits with 1; of the rest it is measured: how often, and by how much at the most, the
plan with more is worse. Likewise across goals (`across_goals.py`): is the quality of the fastest or cheapest plan
missed by the goal that seeks it, the cost of the best, or any plan within the fastest's own latency?
"""

import argparse
import sys

from tests.benchmarks.report_table import markdown
from tests.benchmarks.supersets import KINDS, worse

PROMISED = ("pools", "pools-fast", "exits", "speculation")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="plans of supersets")
    parser.add_argument("--pairs", type=int, default=30, help="of each kind")
    parser.add_argument("--of", default=",".join(KINDS), help="kinds, separated by commas")
    options = parser.parse_args(arguments)
    broken = False
    print(markdown(("offered more", "pairs", "worse", "by at most"), []), flush=True)
    for kind in options.of.split(","):
        found = [worse(KINDS[kind](seed)) for seed in range(options.pairs)]
        count = sum(share > 0 for share in found)
        broken |= kind in PROMISED and count > 0
        print(f"| {kind} | {len(found)} | {count} | {max(found):.2%} |", flush=True)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
