"""Moving a fleet of real engines under constant load: failed requests, and latency during the moves beside that before.

    python -m tests.benchmarks.bench_controller_move [--requests 5000] [--engine llama|little] [--seconds 200]

Three replicas, 1 + 2 to 2 + 1 and back again with another threshold and another embedding judge each time, moved by
`cascadia controller` in three ways: undisturbed; one replica, or the judge, killed with SIGKILL at a random moment
(requests go to the cascade alone then: who asks for a stage whose only replica is killed cannot be answered); the
controller killed with SIGKILL in each step of both moves in turn, and after the last, and followed by another. Exits
with 1 where a request failed, where p95 during undisturbed moves is over twice that before, or where a step was not
reached within the time. What each sort of step took, at the median, goes to standard error.
"""

import argparse
import asyncio
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.move_fleet import PLANS, Fleet, Killing, prepare
from tests.benchmarks.move_load import Load, under_load
from tests.benchmarks.report_table import markdown

UNDISTURBED, REPLICA_KILLED, CONTROLLER_KILLED = WAYS = (
    "undisturbed",
    "a replica killed",
    "the controller killed",
)
SETTLE_S, BETWEEN_S = 5.0, 2.0
AFTER = "after the last"


@dataclass(slots=True)
class Measured:
    load: Load = field(default_factory=Load)
    calm: list[tuple[float, float]] = field(default_factory=list)
    moving: list[tuple[float, float]] = field(default_factory=list)

    @property
    def p95s_ms(self) -> tuple[float, float]:
        """Between the moves, and during them."""
        return self.load.p95_ms(self.calm), self.load.p95_ms(self.moving)


@dataclass(slots=True)
class Killer:
    """Kills the controller in each step of the move from either plan, a step a move, and then anew.

    `hit`: by sort of step, how often; `moments` and `used`: by plan, how many there are, and were.
    """

    rng: random.Random
    hit: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=lambda: Counter(PLANS.keys()))
    used: Counter[str] = field(default_factory=Counter)

    async def next(self, fleet: Fleet) -> Killing:
        steps = await fleet.steps()
        self.moments[fleet.now] = len(steps) + 1
        at = self.used[fleet.now] % (len(steps) + 1)
        self.used[fleet.now] += 1
        self.hit[steps[at].split()[0] if at < len(steps) else AFTER] += 1
        usual_s = fleet.usual_s(steps[at]) if at < len(steps) else 0.0
        return Killing(at, self.rng.uniform(0.0, usual_s))

    @property
    def left(self) -> int:
        return (self.moments - self.used).total()


async def measure(fleet: Fleet, way: str, requests: int, seconds: float, killer: Killer) -> Measured:
    url, found, rng = fleet.url, Measured(), random.Random(1)
    end_s = time.monotonic() + seconds
    models = ("cascadia",) if way == REPLICA_KILLED else ("cascadia", "small", "large")
    async with under_load(url, found.load, models):
        await asyncio.sleep(SETTLE_S)
        found.calm.append((time.monotonic() - SETTLE_S, time.monotonic()))
        while time.monotonic() < end_s and (
            len(found.load.status) < requests or (way == CONTROLLER_KILLED and killer.left)
        ):
            killing = await killer.next(fleet) if way == CONTROLLER_KILLED else None
            began_s = time.monotonic()
            moving = asyncio.create_task(fleet.move(killing))
            if way == REPLICA_KILLED:
                await asyncio.sleep(rng.uniform(0.0, 3.0))
                await asyncio.to_thread(fleet.kill_one, rng)
            await moving
            ended_s = time.monotonic()
            found.moving.append((began_s, ended_s))
            await asyncio.sleep(BETWEEN_S)
            found.calm.append((ended_s, time.monotonic()))
    return found


def shown(way: str, found: Measured) -> tuple[str, ...]:
    calm, moving = found.p95s_ms
    counts = f"{len(found.load.status):,}", str(found.load.failed), str(len(found.moving))
    return way, *counts, f"{calm:.0f}", f"{moving:.0f}", f"{moving / calm:.2f}"


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=5000, help="of each way")
    parser.add_argument("--seconds", type=float, default=600.0, help="of each way at most")
    parser.add_argument("--engine", choices=("llama", "little"), default="llama")
    parser.add_argument("--way", choices=WAYS)
    options = parser.parse_args()
    rows, good = [], True
    # Where a time limit ends this, the fleet is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as name:
        fleet = prepare(Path(name), options.engine)
        fleet.up()
        try:
            for way in [options.way] if options.way else WAYS:
                fleet.took_s.clear()
                killer = Killer(random.Random(2))
                found = asyncio.run(measure(fleet, way, options.requests, options.seconds, killer))
                calm, moving = found.p95s_ms
                good &= found.load.failed == 0 and (way != UNDISTURBED or moving <= 2 * calm)
                rows.append(shown(way, found))
                tell(str(rows[-1]))
                for sort, seconds in fleet.took_s.items():
                    tell(f"{sort}: {len(seconds)}, {statistics.median(seconds):.2f} s")
                if way == CONTROLLER_KILLED:
                    good &= killer.left == 0
                    tell(f"killed in: {dict(killer.hit)}, {killer.left} moments left")
        finally:
            fleet.down()
    print(
        markdown(("moves", "requests", "failed", "moves", "p95 between, ms", "p95 during, ms", "ratio"), rows)
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
