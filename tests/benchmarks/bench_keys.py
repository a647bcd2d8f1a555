"""What it takes to let a request in: its key looked up among 10,000, its limits taken, its headers written.

    python -m tests.benchmarks.bench_keys

Exits with 1 where a key with all three limits takes longer than asked. The least of many short rounds counts: what else
the machine does can only add.
"""

import sys
from collections.abc import Callable
from timeit import repeat
from types import SimpleNamespace
from typing import Any

from cascadia.router.access.access import Access
from cascadia.router.access.key_metrics import KeyMetrics
from cascadia.router.access.keys import Key, KeyLimits, Keyring, make_key
from cascadia.router.telemetry.metrics import Metrics
from tests.benchmarks.report_table import markdown
from tests.benchmarks.router_rig import verdict

KEYS = 10_000
CALLS, ROUNDS = 200, 500
ASKED_US = 3.0
LIMITS = {
    "none": KeyLimits(),
    "requests a minute": KeyLimits(10**7),
    "requests, tokens, concurrent": KeyLimits(10**7, 10**9, 10**6),
}


def least_us(what: Callable[[], object]) -> float:
    return min(repeat(what, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def figures(limits: KeyLimits) -> tuple[float, float, float]:
    """µs to look the key up, to let a request in, both with the headers and to the request's end."""
    made = [make_key() for _ in range(KEYS)]
    keys = [Key(one.id, f"key-{i}", one.digest, limits=limits) for i, one in enumerate(made)]
    access = Access(Keyring(keys), KeyMetrics(Metrics()))
    authorization = b"Bearer " + made[KEYS // 2].text.encode("ascii")
    exchange: Any = SimpleNamespace(more=b"")

    def looked_up() -> object:
        return access.caller(authorization, "inference")

    def let_in() -> object:
        # Each answer has its own headers.
        exchange.more = b""
        account = access.caller(authorization, "inference")
        return access.admit_here(exchange, account, "small", 100, 50)

    def from_begin_to_end() -> None:
        exchange.more = b""
        account = access.caller(authorization, "inference")
        hold = access.admit_here(exchange, account, "small", 100, 50)
        hold.spent = 60
        hold.release(left=False)

    end_us = least_us(from_begin_to_end)
    return least_us(looked_up), least_us(let_in), end_us


def main() -> int:
    rows, let_in_us = [], 0.0
    for name, limits in LIMITS.items():
        found = figures(limits)
        let_in_us = found[1]
        rows.append((name, *(f"{figure:.2f}" for figure in found)))
    print(markdown(("limits of the key", "look-up µs", "let in µs", "and to the end µs"), rows))
    line, kept = verdict("a key with three limits", let_in_us, ASKED_US, least=False, unit=" µs")
    print(line)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
