"""How long a policy of one-pass models takes to solve, and how fast their workers are simulated.

Policies: the paper's sizes (RAMSIS table 2: 9 and 60 models, batches up to 29, FLD with 10 and 100 steps, MD), for 60
workers at half and at nine tenths of their capacity; the worst of these is told. What it expects is played on 2 million
requests. Simulation: a solved policy with a queue for each worker, the ladder by requests in flight on one, and one
worker with batches of 1. Compilation is left out. Batching: the whole queue as a batch beside a part of it, played on
60,000 requests.

    python -m tests.benchmarks.bench_policy [batching]

Prints three Markdown tables, or that of batching; exits with 1 where 9 models take more than 1 CPU-second, 60 more than
10, or less than 5 million requests are simulated in a CPU-second.
"""

import sys
import time

import numpy as np

from cascadia.planner.policies.in_flight import first_borders, rungs
from cascadia.planner.policies.mdp import solved, solved_variable
from cascadia.planner.policies.played import play, worker_kind
from cascadia.planner.policies.sustained import unit_arrivals
from cascadia.planner.policies.tables import group, largest_batches
from cascadia.policy.arrivals import Poisson
from cascadia.policy.problem import problem
from cascadia.policy.solve import solve
from cascadia_sim.batch.simulate import BatchFleet, Level, Step, WorkerKind, simulate_batches
from tests.benchmarks.one_pass_profiles import FAMILIES, many
from tests.benchmarks.report_table import markdown
from tests.unit.policy.profiles import profiles

SLO_S, WORKERS = 0.405, 60
PAPER_S = {(9, "FLD 10"): "14.62", (9, "FLD 100"): "132.20", (9, "MD"): "115.50", (60, "FLD 10"): "148.87",
           (60, "FLD 100"): "1355.09", (60, "MD"): "over 24 h"}  # fmt: skip
ASKED_S = {9: 1.0, 60: 10.0}
ASKED_PER_CPU_S = 5e6
REQUESTS = 2_000_000


def solving() -> bool:
    rows, met = [], True
    for count, models in ((9, FAMILIES["image"]), (60, many(FAMILIES["image"]))):
        assert len(models) >= count, len(models)
        for name, steps in (("FLD 10", 10), ("FLD 100", 100), ("MD", None)):
            took_s, rounds, apart = 0.0, 0, 0.0
            for load in (0.5, 0.9):
                made = group("g", models, slo_s=SLO_S, workers=WORKERS)
                rate_rps = load * made.capacity_rps
                begin = time.process_time()
                posed = problem(models, Poisson(rate_rps), slo_s=SLO_S, workers=WORKERS, slack_steps=steps)
                solution = solve(posed)
                took_s = max(took_s, time.process_time() - begin)
                rounds = max(rounds, solution.rounds)
                played = made.policies([solution.policy()], "mdp", queue="worker")
                fleet = BatchFleet(
                    (worker_kind(played, made.models, WORKERS),), slo_s=SLO_S, queue="worker", index="rate"
                )
                run = simulate_batches(fleet, unit_arrivals(n=REQUESTS) / rate_rps)
                accuracy = np.array([model.accuracy for model in made.models])[run.model]
                reward = float(np.where(run.latency_s <= SLO_S + 1e-9, accuracy, 0.0).mean())
                apart = max(apart, abs(reward - solution.expected.reward))
            met &= took_s <= ASKED_S[count]
            batch = max(model.largest_batch(SLO_S) for model in models)
            rows.append([f"{len(models)} models, {name}", f"{batch}", f"{took_s:.2f}", f"{rounds}",
                         f"{apart:.3f}", PAPER_S[count, name]])  # fmt: skip
    columns = ("", "largest batch", "CPU s", "rounds", "expected - played, points", "paper, s")
    print(markdown(columns, rows))
    return met


def simulating() -> bool:
    made = group("g", FAMILIES["image"], slo_s=0.15, workers=WORKERS)
    rate_rps = 0.8 * made.capacity_rps
    posed = problem(made.models, Poisson(rate_rps), slo_s=0.15, workers=WORKERS)
    each = made.policies([solve(posed).policy()], "mdp", queue="worker")
    caps = largest_batches(made.models, 0.15, 0.5)
    ladder = rungs(made, first_borders(made, caps), caps, 1.0)
    one = WorkerKind(1, ((1.0,),), (Level(1e9, ((Step(0.0, 0, 1),),)),))
    fleets = {
        f"{WORKERS} workers, a solved policy each": (
            BatchFleet((worker_kind(each, made.models, WORKERS),), slo_s=0.15, queue="worker", index="rate"),
            rate_rps,
        ),
        f"{WORKERS} workers, a ladder by requests in flight": (
            BatchFleet((worker_kind(ladder, made.models, WORKERS),), slo_s=0.15, queue="central", index="in_flight"),
            rate_rps,
        ),
        "one worker, batches of 1": (BatchFleet((one,), slo_s=5.0, queue="central", index="rate"), 0.8),
    }  # fmt: skip
    rows, met = [], True
    for name, (fleet, rate) in fleets.items():
        arrival_s = unit_arrivals(n=REQUESTS) / rate
        simulate_batches(fleet, arrival_s[:1000])
        begin = time.process_time()
        run = simulate_batches(fleet, arrival_s)
        speed = REQUESTS / (time.process_time() - begin)
        met &= speed >= ASKED_PER_CPU_S
        rows.append([name, f"{run.batch.mean():.1f}", f"{speed / 1e6:.1f} M"])
    print(markdown(("", "mean batch", "requests a CPU-second"), rows))
    return met


def batching() -> None:
    rows = []
    models = profiles()
    for workers in (1, 4, 20):
        made = group("g", models, slo_s=0.1, workers=workers)
        for load in (0.3, 0.6):
            rate_rps = load * made.capacity_rps
            arrival_s = unit_arrivals(n=60_000) / rate_rps
            told = [f"{workers}", f"{load:g}"]
            for solved_of in (solved, solved_variable):
                begin = time.process_time()
                policy = solved_of(made, Poisson(rate_rps), 0.01)
                took_s = time.process_time() - begin
                found = play(made.policies([policy], "mdp", queue="worker"), models, arrival_s, skip=1000)
                told += [f"{found.accuracy:.2f}, {found.late:.2%} late", f"{took_s:.1f}"]
            rows.append(told)
    print(markdown(("workers", "of capacity", "whole queue", "CPU s", "a part too", "CPU s"), rows))


def main() -> int:
    batching()
    if "batching" in sys.argv:
        return 0
    print()
    fast = solving()
    print()
    return 0 if simulating() and fast else 1


if __name__ == "__main__":
    sys.exit(main())
