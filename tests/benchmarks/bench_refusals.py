"""Are refusals right, and is what they name planned, and near? Held against brute force on small clusters.

    python -m tests.benchmarks.bench_refusals [--first 14] [--count 30]

Of each refused problem (`refusals.drawn`) every routing, count, mix and share on a grid is simulated: does one hold and
keep the bounds after all? Each value that the refusal names is planned with, and asked for by brute force a little
nearer: one GPU fewer (up to six), 6 % more requests, 0.02 points of quality more. Exits with 1 where a refusal is wrong
or a value that it names has no plan.
"""

import argparse
import sys

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.problem import Problem
from cascadia.planner.plan import plan
from tests.benchmarks.refusals import Named, at_rate_of, brute, drawn, named, with_gpus

MOST_GPUS = 6
FASTER, BETTER = 1.06, 0.02


def refusal(problem: Problem) -> str | None:
    """What is said where there is no plan; None where there is one, or a model fits nowhere."""
    try:
        plan(problem)
    except Infeasible as why:
        return None if "fits no shape" in str(why) else str(why)
    except BadInput:
        pass
    return None


def has_one(problem: Problem, *, bar: float | None = None, bounded: bool = True) -> bool:
    found = brute(problem, bar=bar, bounded=bounded)
    return found is not None and found.strain <= 1.0


def nearer(problem: Problem, value: Named) -> bool | None:
    """Tells whether something nearer would do than what is named; None where that was not tried."""
    if value.kind == "rate":
        return has_one(at_rate_of(problem, FASTER * value.value))
    if value.kind == "quality":
        return has_one(problem, bar=value.value + BETTER)
    if not value.kind.startswith("GPUs") or value.value > MOST_GPUS:
        return None
    pools = zip(value.problem.cluster.pools, problem.cluster.pools, strict=True)
    grown = next(more for more, less in pools if more != less)
    fewer = with_gpus(value.problem, grown.name, grown.gpus - 1)
    return has_one(fewer, bounded=value.kind == "GPUs")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=14, help="seed of the first problem")
    parser.add_argument("--count", type=int, default=30, help="problems drawn; about half are refused")
    options = parser.parse_args()
    refused = wrong = asked = unplanned = tried = near = 0
    for seed in range(options.first, options.first + options.count):
        problem = drawn(seed)
        if (text := refusal(problem)) is None:
            continue
        refused += 1
        wrong += (mistaken := has_one(problem))
        print(f"{seed}: {text}{' WRONG' if mistaken else ''}", flush=True)
        for value in named(problem, text):
            asked += 1
            unplanned += (missing := refusal(value.problem) is not None)
            closer = nearer(problem, value)
            tried += closer is not None
            near += closer is False
            told = "" if closer is None else ", but nearer would do" if closer else ", and no nearer"
            print(f"  {value.kind} {value.value:g}: {'no plan' if missing else 'planned'}{told}", flush=True)
    print(
        f"{refused} refusals, {wrong} wrong; {asked} values named, {unplanned} without a plan; of {tried} tried nearer,"
        f" {near} are the nearest"
    )
    return int(wrong > 0 or unplanned > 0)


if __name__ == "__main__":
    sys.exit(main())
