"""`cascadia compare`: the plan beside every baseline, simulated on the same requests."""

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import (
    with_goodput,
    with_gpus,
    with_output,
    with_quality_min,
    with_rate,
    with_seed,
)
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import Written
from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Level

if TYPE_CHECKING:
    from cascadia.domain.problem import Problem


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@with_rate
@with_quality_min
@with_gpus
@with_goodput
@with_seed
@click.option(
    "--plots",
    type=Written(),
    help="HTML file to write attainment curves and the table to. Default: none.",
)
@click.option(
    "--over-time",
    is_flag=True,
    help="Compare gears over the trace; the plan's stand beside single settings and the gears of "
    "others, on the same GPUs. Default: off.",
)
@with_output
@ends_at_once
def compare(
    spec: Path,
    rate_rps: float | None,
    quality_min: float | None,
    gpus: tuple[str, ...],
    levels: tuple[tuple[Level, ...], ...],
    seed: int | None,
    plots: Path | None,
    over_time: bool,
    output: Output,
) -> None:
    """Give every baseline its best setting on SPEC and simulate all on the same requests.

    Baselines: each model alone, a coin between two, CascadeServe (load-only), a pre-router, uniform parallelism and
    allocation, and Cascadia without refinement, judge cost or guarantee. With --over-time: a load that swings, met by
    one setting chosen with knowledge of the trace, one model (DynBa), one model at a time (Model Switching+),
    CascadeServe's gears as printed, and autoscaling with a perfect forecast (Cocktail+).
    """
    if over_time and plots is not None:
        raise BadInput("--plots", "draws no comparison over time", "leave one of the two out")
    from cascadia.cli.compare_outputs import as_json, table, write_plots
    from cascadia.cli.plan.plan import pool_gpus
    from cascadia.cli.shared.compiling import telling_of_the_compiler
    from cascadia.files.text import check_writable
    from cascadia.planner.baselines.compare import compare as run
    from cascadia.planner.plan import open_search
    from cascadia.planner.problem.read import read_problem
    from cascadia.planner.refinement.refine import effort_for
    from cascadia.planner.spec.overrides import Overrides

    if plots is not None:
        check_writable(plots)
    change = Overrides(
        tuple(pool_gpus(text) for text in gpus),
        rate_rps,
        quality_min,
        latency_max_s=None,
        quantile=None,
        confidence=None,
        seed=seed,
        levels=tuple(chain.from_iterable(levels)),
    )
    with output.progress("reading") as bar, telling_of_the_compiler(bar) as step:
        problem = read_problem(spec, change)
        if over_time:
            _over_time(problem, step, output)
            return
        with open_search(problem) as search:
            found = run(search, effort_for(problem.cluster), progress=lambda share, name: step(share, name))
    if plots is not None:
        write_plots(plots, problem, found)
    output.show(table(problem, found))
    for gate in found.gates:
        output.show(gate.said)
    for note in problem.notes:
        output.note(f"note: {note}")
    output.document(as_json(problem, found))


def _over_time(problem: "Problem", step: Callable[[float, str], None], output: Output) -> None:
    from cascadia.cli.compare_over_time import over_time_json, over_time_table
    from cascadia.planner.over_time.compare import compare_over_time
    from cascadia.planner.plan import plan

    made = plan(problem, progress=lambda text: step(0.0, text))
    found = compare_over_time(made, progress=step)
    output.show(over_time_table(found))
    for note in made.notes:
        output.note(f"note: {note}")
    output.document(over_time_json(found))
