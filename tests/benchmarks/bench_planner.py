"""How long `cascadia plan SPEC --out DIR` takes, whole, and how that grows.

The reference is Llama-3.1 8B → 70B → 405B-FP8 on nodes of 8 H100s, Azure's conversations at 10 requests/s and 1,000
questions. Compiled code is warm; "cold" runs each have an empty store of stage tables, "warm" ones that of the run
before. Beside wall-clock stand CPU seconds, and a bound timed in the same minutes: a process that imports the
libraries that planning needs and ends.

    python -m tests.benchmarks.bench_planner [--quick] [--no-growth]

Exits with 1 where the best cold run takes longer than the issue allows.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from tests.benchmarks.bench_planner_cases import Target, grown, targets
from tests.benchmarks.bench_planner_run import Step, Timing, bare_imports, plan_command, profiled, timed
from tests.benchmarks.report_table import markdown


def row(target: Target, folder: Path, floor: Timing, quick: bool) -> tuple[tuple[str, ...], bool]:
    """The target's line of the table, and whether its best cold run is in time."""
    command = plan_command(target.make(folder / "spec").path, folder / "out")
    repeats = min(target.repeats, 2) if quick else target.repeats
    cold = timed(command, repeats=repeats)
    warm = timed(command, repeats=repeats, store=folder / "store")
    kept = cold.best_s <= target.asked_s
    cells = (
        target.name,
        f"{target.asked_s:g} s{'' if kept else ' MISSED'}",
        f"{cold.best_s:.2f} s",
        f"{cold.median_s:.2f} s",
        f"{min(cold.cpu_s):.2f} s",
        f"{cold.best_s / floor.best_s:.1f}×",
        f"{warm.best_s:.2f} s",
    )
    return cells, kept


def asked(folder: Path, quick: bool) -> bool:
    floor = bare_imports(5)
    first = next(iter(targets()))
    timed(plan_command(first.make(folder / "spec").path, folder / "out"), repeats=1)  # compiles, if need be
    columns = ("plan", "asked", "cold, best", "median", "CPU", "of bare imports", "warm, best")
    print(markdown(columns, []), flush=True)
    all_kept = True
    for at, target in enumerate(targets()):
        cells, kept = row(target, folder / f"{at}", floor, quick)
        print(f"| {' | '.join(cells)} |", flush=True)
        all_kept &= kept
    print(f"\nBare imports: {floor.best_s:.2f} s at best, {floor.median_s:.2f} s median.", flush=True)
    return all_kept


def growth(folder: Path, quick: bool) -> None:
    """One table for each thing that grows."""
    for what, sizes in groupby(grown(quick), key=lambda one: one[0]):
        rows = []
        for _, size, make in sizes:
            at_hand = folder / f"{what} {size}"
            command = plan_command(make(at_hand / "spec").path, at_hand / "out")
            took = timed(command, repeats=1 if quick else 2)
            rows.append((size, f"{took.best_s:.2f} s", f"{min(took.cpu_s):.2f} s"))
        print(f"\n{markdown((what, 'cold, best', 'CPU'), rows)}", flush=True)


def breakdown(folder: Path) -> None:
    """Where the time of the first target goes, in one process under a profiler (which slows it)."""
    from cascadia.cli.main import main as command

    spec = next(iter(targets())).make(folder / "spec").path
    arguments = plan_command(spec, folder / "out")[1:]

    def once() -> None:
        command.main(arguments, standalone_mode=False)

    once()
    steps, hottest = profiled(once, planning_steps())
    print(f"\n{_steps('step of the plan, 32 H100', steps)}")
    print(f"\n{_steps('function, time of its own', hottest)}")
    print(f"\nOne simulation of the whole cascade: {one_simulation_s(spec):.3f} s.", flush=True)


def planning_steps() -> dict[str, Callable[..., object]]:
    from cascadia.cli.plan import outputs as plan_outputs
    from cascadia.planner import plan
    from cascadia.planner.problem import read as problem_file
    from cascadia.planner.refinement import refine
    from cascadia.planner.search import bilevel
    from cascadia.planner.search import context as search
    from cascadia.planner.search import reference_tables as references
    from cascadia.planner.sensitivity import nearby

    return {
        "read spec, trace and table": problem_file.read_problem,
        "plan": plan.plan,
        "· routings and their bounds": plan.routings_of,
        "· shapes": search.find_shapes,
        "· bi-level loop": bilevel.bilevel,
        "· · tables for all requests": references.References.of,
        "· · tables of each round": search.Search.demands,
        "· · prices of routings": bilevel.priced,
        "· refinement": refine.refine,
        "· · whole cascades": refine.Refinement.simulate,
        "other bars, rates and systems": nearby.sensitivity_of,
        "write plan and manifests": plan_outputs.write_outputs,
        "write the report": plan_outputs.write_report,
    }


def one_simulation_s(spec: Path) -> float:
    """Of the chosen deployment on the whole trace: what no plan that simulates can do without."""
    from cascadia.planner.plan import plan
    from cascadia.planner.problem.read import read_problem

    result = plan(read_problem(spec))
    decided = result.search.decisions(result.chosen.deployment.routing)
    took = []
    for _ in range(3):
        start = time.perf_counter()
        result.simulator.run(result.chosen.deployment, decided)
        took.append(time.perf_counter() - start)
    return min(took)


def _steps(title: str, steps: list[Step]) -> str:
    return markdown((title, "calls", "s"), [(s.name, str(s.calls), f"{s.seconds:.2f}") for s in steps])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="how long planning takes")
    parser.add_argument("--quick", action="store_true", help="fewer runs and sizes")
    parser.add_argument("--no-growth", action="store_true", help="the issue's four sizes only")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        kept = asked(Path(scratch), options.quick)
        breakdown(Path(scratch))
        if not options.no_growth:
            growth(Path(scratch), options.quick)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
