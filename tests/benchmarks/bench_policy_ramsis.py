"""RAMSIS section 7 in simulation: policies beside what others would do with the same models and workers.

Traffic: five curves of the rate over 40 s, each at the rates of the paper's trace (1,617 to 3,905 requests/s):
constant, a day's curve, that of azure_2023 (conversations, by minute; needs the public data), and the first two with
gamma gaps of shape 0.25. Arrivals are drawn around the curve, as section 7 does; the bundled encoders get nine times
the rates, for a quarter of the time. Policies are made on one draw and played on another. The load is counted over half
a second by all alike. Each baseline has, in each cell, the best of its settings on the draw that is played.

Told are the accuracy at no more than 1 % late, and how many workers fewer reach a baseline's accuracy at no more than
1 % late. `bound` is a fluid's accuracy at each moment's rate, in the mean.

    python -m tests.benchmarks.bench_policy_ramsis [--quick] [--tasks image text encoders] [--slos 2]

Prints Markdown tables; exits with 1 where more than 1 % is late although a fluid fits at the highest rate with a tenth
of the workers to spare, or the mean saving is below that of the paper (image 17.53 %, text 31.25 % over Jellyfish+,
20.01 % and 25.31 % over ModelSwitching).
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from cascadia.domain.policy import Policies
from cascadia.domain.workload import Floats
from cascadia.planner.policies.choose import on_workers
from cascadia.planner.policies.compared import baseline_rows
from cascadia.planner.policies.fluid import fluid_bound
from cascadia.planner.policies.played import Outcome, play
from cascadia.planner.policies.residence import Kind
from cascadia.planner.policies.tables import Group, group
from cascadia.planner.policies.wanted import Wanted
from cascadia.policy.problem import ModelProfile
from tests.benchmarks.one_pass_profiles import FAMILIES
from tests.benchmarks.report_table import markdown
from tests.data import data_dir, data_path

LOWEST_RPS, HIGHEST_RPS = 1617.0, 3905.0
LATE_MAX = 0.01
LASTS_S = 40
BURSTY = 0.25
SCALE = {"encoders": 9.0}
"""The rates are so many times the paper's."""
SLOS_S = {"encoders": (0.05, 0.1), "image": (0.15, 0.5), "text": (0.2, 0.1)}
WORKERS = {"encoders": (20, 30, 40), "image": (60, 80, 100), "text": (20, 60, 100)}
TRIED = {
    "image": (50, 54, 60, 66, 72, 80, 90, 100),
    "text": (14, 17, 20, 26, 32, 40, 50, 60, 80, 100),
    "encoders": (12, 14, 16, 18, 20, 23, 26, 30, 35, 40),
}
"""Numbers of workers that our policies are tried on."""
PAPER = {("image", "jellyfish+"): 0.1753, ("text", "jellyfish+"): 0.3125,
         ("image", "modelswitching"): 0.2001, ("text", "modelswitching"): 0.2531}  # fmt: skip
OURS = ("mdp", "mdp-counted", "in-flight")
BOUND = "bound"
"""A fluid always in the best batches: no policy saves more workers."""
Curve = Callable[[Floats], Floats]


def constant(moment: Floats) -> Floats:
    return np.full(len(moment), 0.5 * (LOWEST_RPS + HIGHEST_RPS))


def day(moment: Floats) -> Floats:
    """One trough and one peak, with the hours' own unevenness."""
    wave = 0.5 - 0.5 * np.cos(2 * np.pi * moment) + 0.08 * np.sin(2 * np.pi * 7 * moment)
    return LOWEST_RPS + (HIGHEST_RPS - LOWEST_RPS) * np.clip(wave, 0, 1)


def azure(moment: Floats) -> Floats:
    from cascadia_traces.formats.reading import read_trace

    arrival_s = np.asarray(read_trace(data_path("traces/azure_2023_conv.csv")).arrival_s)
    counts = np.histogram(arrival_s, bins=60)[0].astype(float)[1:-1]
    level = (counts - counts.min()) / (counts.max() - counts.min())
    return LOWEST_RPS + (HIGHEST_RPS - LOWEST_RPS) * level[(moment * len(level)).astype(int) % len(level)]


def _scaled(curve: Curve, scale: float, moment: Floats) -> Floats:
    return scale * curve(moment)


def drawn(curve: Curve, shape: float, seed: int, lasts_s: float) -> Floats:
    """Arrivals whose rate follows the curve: unit gaps, stretched by what the curve has summed up to."""
    moments_s = np.linspace(0, lasts_s, 20_001)
    passed = np.concatenate([[0], np.cumsum(curve(moments_s[:-1] / lasts_s) * np.diff(moments_s))])
    gaps = np.random.default_rng(seed).gamma(shape, 1 / shape, int(passed[-1] * 1.05) + 1000)
    units = np.cumsum(gaps)
    return np.interp(units[units < passed[-1]], passed, moments_s)


@dataclass
class Cell:
    """One task, SLO and traffic; what our policies reach on any number of workers is found once."""

    task: str
    slo_s: float
    name: str
    planned_on: Wanted
    played_on: Wanted
    curve: Curve
    known: dict[tuple[str, int], Outcome] = field(default_factory=dict)

    @property
    def models(self) -> Sequence[ModelProfile]:
        return FAMILIES[self.task]

    def ours(self, kind: str, workers: int) -> Outcome:
        if (kind, workers) not in self.known:
            planned = on_workers("g", Kind("w", tuple(self.models), workers), workers, self.planned_on)
            assert planned is not None
            for policies, _ in planned.rivals:
                self.known[policies.kind, workers] = self._played(policies)
            best = planned.policies.kind
            self.known["chosen", workers] = self.known[best, workers]
        return self.known[kind, workers]

    def _played(self, policies: Policies) -> Outcome:
        return play(policies, self.models, self.played_on.arrival_s, skip=self.played_on.skip)

    def fewest(self, kind: str, accuracy: float, most: int) -> float | None:
        """Workers with which our policies reach the accuracy, on the line between two numbers that were tried; None
        where not even `most` do."""
        tried = {k: self._reached(kind, k) for k in TRIED[self.task] if k <= most}
        known = [(k, reached) for k, reached in tried.items() if reached is not None]
        reaches = [(k, reached) for k, reached in known if reached >= accuracy]
        if not reaches:
            return None
        least, enough = min(reaches)
        below = [(k, reached) for k, reached in known if k < least]
        if not below:
            return least
        k, reached = below[-1]
        return k + (least - k) * (accuracy - reached) / (enough - reached)

    def _reached(self, kind: str, workers: int) -> float | None:
        """Accuracy of so many workers; None where more than `LATE_MAX` is late, or a fluid does not fit."""
        if kind == BOUND:
            made = group("g", self.models, slo_s=self.slo_s, workers=workers)
            return self.bound(made) if self.feasible(made, 1.0) else None
        outcome = self.ours(kind, workers)
        return outcome.accuracy if outcome.late <= LATE_MAX else None

    def bound(self, made: Group) -> float:
        rates = self.curve(np.linspace(0, 1, 201)[:-1])
        bounds = [fluid_bound(made, float(rate)) for rate in rates]
        known = [0.0 if bound is None else bound for bound in bounds]
        return float(np.average(known, weights=rates))

    def feasible(self, made: Group, share: float = 0.9) -> bool:
        """Tells whether a fluid fits at the highest rate on this share (0-1) of the workers."""
        fewer = replace(made, workers=int(share * made.workers))
        return fluid_bound(fewer, float(self.curve(np.linspace(0, 1, 201)[:-1]).max())) is not None


def cells(task: str, quick: bool, slos: int) -> list[Cell]:
    scale = SCALE.get(task, 1.0)
    lasts_s = (20 if quick else LASTS_S) / scale**0.6
    traffic = [
        ("constant", constant, 1.0),
        ("day", day, 1.0),
        ("constant, bursty", constant, BURSTY),
        ("day, bursty", day, BURSTY),
    ]
    if data_dir() is not None:
        traffic.insert(2, ("azure 2023", azure, 1.0))
    out = []
    for slo_s in SLOS_S[task][:slos]:
        for name, unscaled, shape in traffic[: 2 if quick else None]:
            curve = partial(_scaled, unscaled, scale)
            want = partial(Wanted, slo_s=slo_s, late_max=LATE_MAX, accuracy_min=None)
            planned, played = (want(drawn(curve, shape, seed, lasts_s)) for seed in (1, 2))
            out.append(Cell(task, slo_s, name, planned, played, curve))
    return out


def shown(outcome: Outcome) -> str:
    late = f" ({outcome.late:.1%} late)" if outcome.late > LATE_MAX else ""
    return f"{outcome.accuracy:.2f}{late}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--slos", type=int, default=1, choices=[1, 2])
    parser.add_argument("--tasks", nargs="+", default=["image", "text", "encoders"], choices=list(SLOS_S))
    asked = parser.parse_args()
    failed = []
    for task in asked.tasks:
        rows, saved, gains = [], {}, {}
        for cell in cells(task, asked.quick, asked.slos):
            for workers in WORKERS[task][:: 2 if asked.quick else 1]:
                made = group("g", cell.models, slo_s=cell.slo_s, workers=workers)
                others = {row.name: row.outcome for row in baseline_rows(made, cell.played_on)}
                ours = {kind: cell.ours(kind, workers) for kind in (*OURS, "chosen")}
                chosen = ours["chosen"]
                if chosen.late > LATE_MAX and cell.feasible(made):
                    failed.append(f"{task} {cell.slo_s} {cell.name} {workers}: {chosen.late:.2%} late")
                for name, other in others.items():
                    if other.late <= LATE_MAX and chosen.late <= LATE_MAX:
                        gains.setdefault(name, []).append(chosen.accuracy - other.accuracy)
                        for kind in (
                            ("mdp", "chosen", BOUND)
                            if name in ("jellyfish+", "modelswitching")
                            else ("chosen",)
                        ):
                            least = cell.fewest(kind, other.accuracy, workers)
                            saved.setdefault((name, kind), []).append(
                                0.0 if least is None else 1 - least / workers
                            )
                rows.append(
                    [f"{cell.slo_s * 1000:.0f} ms, {cell.name}", f"{workers}",
                     *(shown(ours[kind]) for kind in OURS), *(shown(o) for o in others.values()),
                     f"{cell.bound(made):.2f}"]
                )  # fmt: skip
                print(rows[-1], file=sys.stderr, flush=True)
        names = ("jellyfish+", "modelswitching", "gears", "greedy", "mixture")
        print(f"\n### {task}\n")
        print(markdown(("SLO, traffic", "workers", *OURS, *names, "bound"), rows))
        print()
        summary = []
        for (name, kind), shares in saved.items():
            paper = PAPER.get((task, name))
            summary.append(
                [name, kind, f"{np.mean(shares):.1%}", f"{np.max(shares):.1%}", f"{np.mean(gains[name]):+.2f}",
                 f"{np.min(gains[name]):+.2f}", "" if paper is None else f"{paper:.1%}", f"{len(shares)}"]
            )  # fmt: skip
            if kind == "chosen" and paper is not None and np.mean(shares) < paper:
                failed.append(f"{task}: {np.mean(shares):.1%} workers fewer than {name}, paper {paper:.1%}")
        columns = ("beside", "policies", "workers fewer", "most", "accuracy", "least", "paper", "cells")
        print(markdown(columns, summary, text_columns=2))
    for line in failed:
        print(f"missed: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
