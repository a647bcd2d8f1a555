"""Every number that the project claims, measured here: `make bench`.

    python -m tests.benchmarks [NAME...] [--quick]

Each benchmark is a process of its own with a time limit. Exits with 1 where one misses what is asked of it, fails, or
runs out of time; those that need the public data are skipped, saying so, where it is absent.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.benchmarks.report_table import markdown
from tests.data import ROOT, data_dir


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`quick` are the arguments of a short look; `limit_s` ends a run that hangs."""

    name: str
    shows: str
    limit_s: float
    quick: tuple[str, ...] = ()
    needs_data: bool = True


BENCHMARKS = (
    Benchmark(
        "planner", "how long `cascadia plan` takes, and how that grows", 1500, ("--quick", "--no-growth")
    ),
    Benchmark(
        "simulator", "simulated requests per CPU-second", 600, ("--requests", "50000"), needs_data=False
    ),
    Benchmark(
        "policy", "how long policies of one-pass models take to solve and to play", 300, needs_data=False
    ),
    Benchmark(
        "policy_ramsis",
        "policies of one-pass models beside RAMSIS's baselines",
        3600,
        ("--quick", "--tasks", "text"),
        needs_data=False,
    ),
    Benchmark("optimality", "plans beside exhaustive search", 1800),
    Benchmark(
        "gear_plans", "plans with gears beside the best single setting", 900, ("--quick",), needs_data=False
    ),
    Benchmark("batch_tokens", "plans with and without a choice of tokens an iteration", 600),
    Benchmark("guarantee", "how often plans miss their quality bar", 1800, ("--samples", "50")),
    Benchmark("questions", "plans' latency with other questions", 3600, ("--samples", "3")),
    Benchmark("compare", "Cascadia beside every baseline", 3600, ("--quick",)),
    Benchmark("fidelity", "how far iteration times are off, by GPU and engine", 300),
    Benchmark("router", "the router beside other routers", 900, ("--quick",), needs_data=False),
    Benchmark(
        "properties",
        "property tests with new examples, for half an hour",
        3600,
        ("--minutes", "1", "controller"),
        needs_data=False,
    ),
    Benchmark(
        "operations",
        "upgrades, drains, lost nodes and rolled routers under load, on an API server",
        1800,
        ("--minutes", "2"),
        needs_data=False,
    ),
    Benchmark(
        "mutants",
        "how many mutants of what decides are noticed by unit tests",
        7200,
        ("--sample", "14", "--quick"),
        needs_data=False,
    ),
    Benchmark("keys", "what a key and its limits cost a request", 120, needs_data=False),
    Benchmark(
        "stalls",
        "a search for the requests that keep the router's event loop longest",
        3600,
        ("--seconds", "1"),
        needs_data=False,
    ),
    Benchmark(
        "streams", "delay and memory of streams through the router", 300, ("--quick",), needs_data=False
    ),
    Benchmark("overload", "the router under ten times its load", 300, ("--quick",), needs_data=False),
    Benchmark(
        "soak", "two million requests through the router", 1800, ("--requests", "100000"), needs_data=False
    ),
    Benchmark("judge", "how much of a cascade's possible gain each judge recovers", 5400),
    Benchmark(
        "formats", "what judges' reading does to honest answers, and what it costs", 1200, ("--scored", "10")
    ),
    Benchmark("injection", "how often an attempt raises a score", 1800, ("--first", "1"), needs_data=False),
    Benchmark(
        "controller_alarms",
        "false alarms of change detection in a million windows, and its delay",
        900,
        ("--windows", "80000", "--no-delays"),
        needs_data=False,
    ),
    Benchmark(
        "controller_move",
        "requests that fail while a fleet of real engines is moved",
        2400,
        ("--engine", "little", "--requests", "500"),
        needs_data=False,
    ),
    Benchmark(
        "adapt_day",
        "a day on 256 simulated GPUs: the controller beside plans that stay and an oracle",
        3600,
        ("--day", "stationary", "--way", "adaptive"),
        needs_data=False,
    ),
    Benchmark(
        "adapt_transition",
        "the paper's test of transitions, in simulation",
        900,
        ("--loads", "2"),
        needs_data=False,
    ),
    Benchmark(
        "exits",
        "exits certified while they serve, beside Apparate's loop",
        1800,
        ("--streams", "20"),
        needs_data=False,
    ),
    Benchmark(
        "length_exits",
        "tokens that exits save a model which thinks step by step",
        3600,
        ("--questions", "12", "--held-out", "12"),
        needs_data=False,
    ),
    Benchmark(
        "exits_serving", "answer times and work with exits in force", 1800, ("--pairs", "3"), needs_data=False
    ),
    Benchmark("traces", "reading ten million requests", 900, needs_data=False),
)


@dataclass(frozen=True, slots=True)
class Ending:
    name: str
    said: str
    took_s: float

    @property
    def good(self) -> bool:
        return self.said in {"kept", "skipped"}


def machine() -> str:
    """What the figures below depend on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in _lines(Path("/proc/cpuinfo"))
            if line.startswith("model name")
        ),
        platform.processor() or platform.machine(),
    )
    facts = (
        ("CPU", f"{model}, {len(os.sched_getaffinity(0))} cores here"),
        ("load", ", ".join(f"{load:.1f}" for load in os.getloadavg()) + " over 1, 5, 15 minutes"),
        ("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}"),
        (
            "libraries",
            ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "highspy", "pulp", "pyarrow")),
        ),
        ("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
    )
    return markdown(("machine", ""), facts, text_columns=2)


def run(benchmark: Benchmark, quick: bool) -> Ending:
    """The benchmark's table on stdout, and how it ended."""
    print(f"\n## {benchmark.name}: {benchmark.shows}\n", flush=True)
    if benchmark.needs_data and not data_dir().is_dir():
        print("skipped: the public data is absent (set CASCADIA_DATA to its folder)", flush=True)
        return Ending(benchmark.name, "skipped", 0.0)
    command = [sys.executable, "-m", f"tests.benchmarks.bench_{benchmark.name}"]
    start = time.perf_counter()
    try:
        code = subprocess.run(
            [*command, *(benchmark.quick if quick else ())],
            cwd=ROOT,
            timeout=benchmark.limit_s,
            check=False,
        ).returncode
        said = "kept" if code == 0 else f"missed (exit {code})"
    except subprocess.TimeoutExpired:
        said = f"stopped after {benchmark.limit_s:.0f} s"
    return Ending(benchmark.name, said, time.perf_counter() - start)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="measure what is claimed")
    names = [b.name for b in BENCHMARKS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a short look at each")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(names)):
        parser.error(f"no benchmark {unknown[0]!r}: choose from {', '.join(names)}")
    print(machine())
    endings = [run(b, options.quick) for b in BENCHMARKS if not options.names or b.name in options.names]
    rows = [(ending.name, ending.said, f"{ending.took_s:.0f} s") for ending in endings]
    print(f"\n## in short\n\n{markdown(('benchmark', 'what is asked', 'took'), rows, text_columns=2)}")
    return 0 if all(ending.good for ending in endings) else 1


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
