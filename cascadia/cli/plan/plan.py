"""`cascadia plan`: from a spec to a deployment, written as a folder."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import (
    AsGiven,
    gear_count,
    number,
    positive,
    refuse_ignored,
    share,
    with_goodput,
    with_gpus,
    with_output,
    with_quality_min,
    with_rate,
    with_seed,
)
from cascadia.cli.shared.output import Output
from cascadia.domain.deadline import PLANNED, TIME_LIMIT_S, Deadline
from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Level

if TYPE_CHECKING:
    from cascadia.domain.problem import Problem
    from cascadia.planner.spec.overrides import Overrides

OF_A_SEARCH = ("formulation", "time_limit_s", "plan_requests")
"""Options of a cascade's search, which models that answer in one pass do without."""


@click.command(cls=AsGiven)
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder to write the plan, its report and its manifests to. Default: none; the plan is printed only.",
)
@click.option("--force", is_flag=True, help="Write to --out even if it holds other files than a plan's.")
@with_gpus
@with_rate
@with_quality_min
@click.option(
    "--latency-max",
    "latency_max_s",
    type=positive,
    metavar="S",
    help="Largest latency at the objective's quantile, in seconds. Default: the spec's.",
)
@click.option(
    "--quantile",
    type=number,
    metavar="P",
    help="Quantile of the latency that the objective is about, 0-1. Default: the spec's.",
)
@with_goodput
@click.option(
    "--within",
    type=share,
    metavar="SHARE",
    help="Share of latency given up for cost; the cheapest plan within it of the fastest is taken, "
    "e.g. 3%. Default: the spec's.",
)
@click.option(
    "--confidence",
    type=number,
    metavar="P",
    help="Confidence with which the quality bound holds, 0.5-1. Default: the spec's.",
)
@click.option(
    "--gears",
    type=gear_count,
    metavar="N|off",
    help="Largest number of settings for rising load, 1-64; `off` is 1, one setting for any load. "
    "Default: the spec's, else 8 where latency is bounded.",
)
@click.option(
    "--budget",
    "budget_usd_per_hour",
    type=positive,
    metavar="USD",
    help="Dollars an hour that the nodes in use may cost; each node is paid whole. Default: the spec's.",
)
@click.option(
    "--pools",
    type=click.Choice(["any"]),
    help="GPUs to choose from, under a budget; `any` offers each that the bundled calibrations "
    "measured, at its list price. Default: the spec's.",
)
@with_seed
@click.option(
    "--formulation",
    type=click.Choice(["columns", "paper", "kairos"]),
    default="columns",
    show_default=True,
    help="Formulation of the allocation's integer program; ours (columns), the Cascadia paper's own "
    "(paper), or `kairos`: ours on the nodes that Kairos would rent within the budget, for one "
    "stage.",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=positive,
    default=TIME_LIMIT_S,
    show_default=True,
    metavar="S",
    help="Seconds that the whole command may take; the best plan found by then is told, with what was left out.",
)
@click.option(
    "--plan-requests",
    type=click.IntRange(1000),
    default=30_000,
    show_default=True,
    metavar="N",
    help="Number of requests of a longer trace that the search uses; the plan is then tried on all.",
)
@click.option("--no-report", is_flag=True, help="Write all files except report.html.")
@with_output
@ends_at_once
def plan(
    spec: Path,
    out: Path | None,
    force: bool,
    gpus: tuple[str, ...],
    rate_rps: float | None,
    quality_min: float | None,
    latency_max_s: float | None,
    quantile: float | None,
    levels: tuple[tuple[Level, ...], ...],
    within: float | None,
    confidence: float | None,
    gears: int | None,
    budget_usd_per_hour: float | None,
    pools: Literal["any"] | None,
    seed: int | None,
    formulation: Literal["columns", "paper", "kairos"],
    time_limit_s: float,
    plan_requests: int,
    no_report: bool,
    output: Output,
) -> None:
    """Plan a deployment for SPEC (a cascade.yaml) and print it.

    With --out, also write plan.json, report.html and the manifests. Flags such as --rate stand in for the
    spec's own values. Where all stages classify or rerank, SPEC is one of `cascadia schema policy`.
    """
    from cascadia.cli.shared.startup import collect_rarely, load_numba_alone

    collect_rarely()
    from cascadia.planner.beside.forked import Forked, can_fork
    from cascadia.planner.problem.read import read_problem

    asked_gpus = tuple(pool_gpus(text) for text in gpus)

    def change() -> "Overrides":
        from cascadia.planner.spec.overrides import Overrides

        return Overrides(
            asked_gpus,
            rate_rps,
            quality_min,
            latency_max_s=latency_max_s,
            quantile=quantile,
            confidence=confidence,
            seed=seed,
            within=within,
            gears=gears,
            levels=tuple(chain.from_iterable(levels)),
            budget_usd_per_hour=budget_usd_per_hour,
            pools=pools,
        )

    def read() -> Iterator["Problem"]:
        yield read_problem(spec, change())

    # Reading takes no longer than to load what plans; what both need is loaded by now, once.
    reading = Forked(read) if can_fork() else read()
    load_numba_alone()
    from cascadia.cli.plan.outputs import (
        PLAN_FILES,
        command_line,
        manifests,
        summary,
        write_outputs,
        write_report,
    )
    from cascadia.cli.shared.compiling import telling_of_the_compiler
    from cascadia.planner.plan import plan as make_plan
    from cascadia.planner.spec.file import answers_in_one_pass
    from cascadia.planner.thinning import planned_on_part

    if answers_in_one_pass(spec):
        from cascadia.cli.plan.one_pass import plan_and_write

        refuse_ignored(OF_A_SEARCH, "to models that answer in one pass", "leave it out")
        plan_and_write(spec, change(), out, force=force, reports=not no_report, output=output)
        return
    deadline = Deadline(time_limit_s)
    with ExitStack() as stack:
        folder, at_once = None, out is not None and not no_report and can_fork()
        if out is not None:
            from cascadia.cli.shared.output_dir import output_dir

            folder = stack.enter_context(output_dir(out, PLAN_FILES, force=force))
        with output.progress("reading") as bar, telling_of_the_compiler(bar) as step:
            (problem,) = reading
            make = partial(
                make_plan,
                formulation=formulation,
                progress=lambda text: step(None, text),
                processes=at_once,
            )
            result = planned_on_part(problem, make, plan_requests, deadline.part(PLANNED))
            if folder is not None:
                step(None, "writing")
                beside = Forked(partial(manifests, result.plan)) if at_once else None
                if not no_report:
                    write_report(folder, result, spec, command_line(click.get_current_context()))
                write_outputs(folder, result, beside)
    output.show(summary(result.plan))
    for note in result.notes:
        output.note(f"note: {note}")
    if out is not None:
        output.show(f"written to {out}")
    if output.json:
        from cascadia.planner.sensitivity.knee import knee

        output.document({"plan": result.plan, "notes": result.notes, "knee": knee(result), "out": out})


def pool_gpus(text: str) -> tuple[str | None, int]:
    """`[POOL=]N` of --gpus."""
    pool, _, count = text.rpartition("=")
    if not count.isdecimal() or len(count) > 9:
        raise BadInput("--gpus", f"{text!r} is not [POOL=]N", "write e.g. --gpus 32 or --gpus h100-sxm=32")
    return pool or None, int(count)
