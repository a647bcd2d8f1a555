"""What the router costs beside its engine, and beside other routers: whole answers, streams, the cascade.

One core has the router, the other a mock engine and the load. Ours asks for a key, holds its limits, counts and logs.
Rounds go through all routers in turn, and ratios are of the same round.

    python -m tests.benchmarks.bench_router [--quick] [--no-peers]

Exits with 1 where a ratio misses what is asked.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.benchmarks.report_table import markdown
from tests.benchmarks.router_peers import CASCADEFLOW, LITELLM, RUST, Peer, peer_running
from tests.benchmarks.router_rig import (
    COLUMNS,
    LOAD_CORE,
    ROUTER_CORE,
    SAID,
    Case,
    Running,
    cascadia,
    floor_running,
    mock_engine,
    ratio,
    stopped,
    verdict,
)

MANY = 32
ASKED_RATE = 1.3
ASKED_ADDED = 1.5
ASKED_CASCADES = 10.0
ASKED_FIRST_US = 400.0
ASKED_FURTHER_US = 250.0


def case(router: Running, connections: int, **body: object) -> Case:
    return Case(router, connections, {"model": "small", "stream": False} | SAID | body)


def rounds(cases: list[Case], count: int, seconds: float) -> None:
    routers = [each.router for each in cases]
    for each in cases:
        each.round(0.3)
        each.loads.clear()
        each.cpu_us.clear()
    for _ in range(count):
        for each in cases:
            with stopped(routers, each.router):
                each.round(seconds)


def shown(title: str, rows: list[tuple[str, ...]]) -> None:
    print(f"\n### {title}\n\n{markdown(COLUMNS, rows)}\n", flush=True)


def straight(engine: Running, floor: Running, routers: list[Running], count: int, seconds: float) -> bool:
    """Ours is the first of `routers`, the Rust ones follow. `floor` passes bytes on and reads none of them."""
    alone, bare, one = case(engine, 1), case(floor, MANY), [case(router, 1) for router in routers]
    many, streams = [case(router, MANY) for router in routers], [case(r, MANY, stream=True) for r in routers]
    rounds([alone, bare, *one, *many, *streams], count, seconds)
    rows = [alone.row("engine alone, 1 connection"), bare.row(f"{floor.name}, {MANY} connections")]
    for router, *cases in zip(routers, one, many, streams, strict=True):
        kinds = ("1 connection", f"{MANY} connections", f"streams of 50 chunks, {MANY} connections")
        rows += [each.row(f"{router.name}, {kind}") for each, kind in zip(cases, kinds, strict=True)]
    shown("Straight to a stage", rows)
    if len(routers) == 1:
        return True
    fastest = max(range(1, len(routers)), key=lambda at: many[at].rps)
    rates = [[load.rps for load in each.loads] for each in many]
    base = [load.quantile_us(0.5) for load in alone.loads]
    added = [
        [load.quantile_us(0.5) - floor for load, floor in zip(each.loads, base, strict=True)] for each in one
    ]
    name = routers[fastest].name
    said = [
        verdict(f"requests/s beside {name}", ratio(rates[0], rates[fastest]), ASKED_RATE, least=True),
        verdict(f"added p50 beside {name}", ratio(added[0], added[fastest]), ASKED_ADDED, least=False),
    ]
    print("\n".join(line for line, _ in said), flush=True)
    return all(kept for _, kept in said) and not any(each.bad for each in (one[0], many[0], streams[0]))


def cascades(ours: Running, other: Running | None, count: int, seconds: float) -> bool:
    accepted = case(ours, MANY, model="cascadia")
    refused = case(ours, MANY, model="cascadia", quality_min=90)
    cases = [accepted, refused] + ([case(other, MANY, model="auto")] if other else [])
    rounds(cases, count, seconds)
    names = ["accepted at the first stage", "refused, second stage answers", "cascadeflow"]
    shown("The cascade, scored by a mock judge", [c.row(n) for c, n in zip(cases, names, strict=False)])
    first_us = median(accepted.cpu_us)
    further_us = median(b - a for a, b in zip(accepted.cpu_us, refused.cpu_us, strict=True))
    said = [
        verdict("CPU, accepted at the first stage", first_us, ASKED_FIRST_US, least=False, unit=" µs"),
        verdict("CPU, a further stage", further_us, ASKED_FURTHER_US, least=False, unit=" µs"),
    ]
    if other:
        # The slower of ours: where cascadeflow stops after its first stage, it has done less.
        rates = [[load.rps for load in each.loads] for each in (refused, cases[-1])]
        said.append(verdict("requests/s beside cascadeflow", ratio(*rates), ASKED_CASCADES, least=True))
    print("\n".join(line for line, _ in said), flush=True)
    return all(kept for _, kept in said) and not (accepted.bad or refused.bad)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few, short rounds")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    parser.add_argument("--only", choices=("straight", "cascade", "litellm"), help="a part of it")
    given = parser.parse_args()
    count, seconds = (3, 0.7) if given.quick else (7, 1.0)
    os.sched_setaffinity(0, {LOAD_CORE})
    kept = True
    with ExitStack() as stack:
        port = stack.enter_context(mock_engine())
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engine = Running("engine alone", port, None)
        ours = stack.enter_context(cascadia(port))

        def started(peer: Peer, until: ExitStack) -> Running:
            return until.enter_context(peer_running(peer, port, ROUTER_CORE, scratch))

        if given.only in (None, "straight"):
            with ExitStack() as part:
                peers = [] if given.no_peers else [started(peer, part) for peer in RUST]
                floor = part.enter_context(floor_running(port))
                kept &= straight(engine, floor, [ours, *peers], count, seconds)
        if given.only in (None, "cascade"):
            with ExitStack() as part:
                other = None if given.no_peers else started(CASCADEFLOW, part)
                kept &= cascades(ours, other, count, seconds)
        if given.only in (None, "litellm") and not given.no_peers:
            with ExitStack() as part:
                cases = [case(ours, MANY), case(started(LITELLM, part), MANY)]
                rounds(cases, 3, seconds)
                shown("Beside LiteLLM's proxy", [each.row(each.router.name) for each in cases])
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
