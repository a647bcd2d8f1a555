"""How close the engine comes to an independent simulator's 208 runs, on the identical requests.

`given`: with that simulator's iteration times and scheduling rules, so that only the engine is compared;
`roofline`: with our iteration times, from the catalogue's calibration on its own (`engine="vidur"`);
`unseen`: with constants fitted without the run's model (on the H100, which has one model, its degree of TP);
`V1`: with its iteration times and vLLM V1's rules, which shows what the rules themselves change.

    python -m tests.benchmarks.bench_vidur [--timing given|roofline|unseen|V1]

Prints mean |error| by group, and the ten worst runs; exits with 1 where a target is missed.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields, replace
from typing import NamedTuple

import numpy as np

from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.iteration.scheduling import VLLM_V1
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from tests.benchmarks.fidelity.vidur_runs import Outcome, Run, read_runs, read_trace
from tests.benchmarks.fidelity.vidur_timing import (
    analytic,
    from_iteration_times,
    reproduction,
    unseen,
)

MEASURES = [f.name for f in fields(Outcome)]
ASKED = {
    "given": Outcome(0.03, 0.03, 0.05, 0.05, 0.01),
    "roofline": Outcome(0.06, 0.06, 0.08, 0.08, float("inf")),
    "unseen": Outcome(*[float("inf")] * 5),
    "V1": Outcome(*[float("inf")] * 5),
}
TIMINGS: dict[str, Callable[[Run], ReplicaTiming]] = {
    "given": from_iteration_times,
    "roofline": analytic,
    "unseen": unseen,
    "V1": lambda run: replace(from_iteration_times(run), scheduling=VLLM_V1),
}


class Compared(NamedTuple):
    """`error` [5]: ours over theirs, less 1, in the order of `MEASURES`."""

    run: Run
    error: tuple[float, ...]
    preemptions: int


def outcome(run: Run, timing: ReplicaTiming) -> tuple[Outcome, int]:
    """Ours for the run's requests, and the preemptions."""
    trace = read_trace(run)
    done = simulate_stage(
        [Replica(timing)] * run.replicas,
        "round-robin",
        trace.arrival_ps,
        trace.input_tokens,
        trace.output_tokens,
        np.zeros_like(trace.input_tokens),
    )
    e2e_s = (done.finish_ps - trace.arrival_ps) / PS_PER_S
    ttft_s = (done.first_token_ps - trace.arrival_ps) / PS_PER_S
    latencies = [float(np.quantile(of, q)) for of in (e2e_s, ttft_s) for q in (0.5, 0.95)]
    span_s = float(done.finish_ps.max()) / PS_PER_S
    return Outcome(*[*latencies, len(e2e_s) / span_s]), done.preemptions


def compare(run: Run, timing: Callable[[Run], ReplicaTiming]) -> Compared:
    ours, preemptions = outcome(run, timing(run))
    pairs = zip(astuple(ours), astuple(run.outcome), strict=True)
    return Compared(run, tuple(a / b - 1 for a, b in pairs), preemptions)


def print_group(name: str, of: Sequence[Compared]) -> None:
    size = np.abs([c.error for c in of])
    cells = " | ".join(f"{100 * mean:.2f}" for mean in size.mean(axis=0))
    print(f"| {name} | {len(of)} | {cells} | {100 * size[:, :4].max():.1f} |")


def load_of(run: Run) -> str:
    if run.qps == float("inf"):
        return "saturated"
    return "load below 0.6" if run.load < 0.6 else "load 0.6 and above"


def print_table(all_runs: Sequence[Compared]) -> None:
    groupings: list[Callable[[Run], str]] = [
        lambda r: "chunked" if r.chunked else "whole prompts",
        lambda r: f"PP {r.pp}",
        lambda r: f"{r.replicas} replicas",
        load_of,
        lambda r: r.workload,
        lambda r: f"{r.model.split('/')[1]} {r.gpu} TP {r.tp}",
        lambda r: "with preemptions" if r.restarts else "without preemptions",
        lambda r: f"{'chunked' if r.chunked else 'whole'}, PP {r.pp}, {load_of(r)}",
    ]
    print(f"| mean abs. error, % | runs | {' | '.join(MEASURES)} | worst latency |")
    print("|---" * (len(MEASURES) + 3) + "|")
    print_group("all", all_runs)
    for group_of in groupings:
        for name in sorted({group_of(c.run) for c in all_runs}):
            print_group(name, [c for c in all_runs if group_of(c.run) == name])


def print_reproduction(runs: Sequence[Run]) -> None:
    """Of the iteration times given, by the tables made of them: what the engine cannot be blamed for."""
    flat = [reproduction(run) for run in runs if run.pp == 1]
    for i, phase in enumerate(("decode", "prefill")):
        size = np.abs(np.concatenate([errors[i] for errors in flat]))
        print(f"Iterations given, {phase}: reproduced within {100 * size.mean():.2f} % on average, ", end="")
        print(f"{100 * np.quantile(size, 0.9):.1f} % at p90.")
    print()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--timing", choices=sorted(TIMINGS), default="given")
    timing = parser.parse_args().timing
    runs = read_runs()
    if timing == "given":
        print_reproduction(runs)
    compared = [compare(run, TIMINGS[timing]) for run in runs]
    print_table(compared)
    print("\nWorst ten (ours over theirs, less 1, in %):")
    for c in sorted(compared, key=lambda c: -max(abs(e) for e in c.error))[:10]:
        cells = " ".join(f"{100 * e:+.1f}" for e in c.error)
        print(f"{c.run.name}: {cells}; preemptions {c.preemptions}, theirs {c.run.restarts}")
    mean = np.abs([c.error for c in compared]).mean(axis=0)
    asked = astuple(ASKED[timing])
    for name, got, most in zip(MEASURES, mean, asked, strict=True):
        print(f"{name}: {100 * got:.2f} % (asked: {100 * most:.0f} %)")
    return 0 if all(got <= most for got, most in zip(mean, asked, strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
