"""`cascadia move`: another plan, by hand, for what runs on this machine."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.fleet.common import (
    ANOTHER_MOVES,
    CONTROLLER_LOCK,
    RUN_DIR,
    engines_of,
    engines_option,
    plan_path,
    run_dir_option,
)
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import CascadiaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cascadia.controller.local.launch import Launch
    from cascadia.controller.local.plans import LocalPlans
    from cascadia.controller.memory.history import Entry
    from cascadia.controller.memory.state import UnderWay
    from cascadia.controller.move.state import Desired, Kind, Observed


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@engines_option
@run_dir_option
@click.option("--at-once", type=click.IntRange(1), default=1, show_default=True,
              help="Number of replicas that may start or drain together.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@with_output
def move(
    plan: Path, engines: Path | None, run_dir: Path | None, at_once: int, dry_run: bool, output: Output
) -> None:
    """Bring what `cascadia up` began to PLAN, replica by replica, without failing a request.

    Replicas that both have stay. Where a step fails, the plan before is put in force again, and the exit code is 1. If
    this command is killed, the next one, or a controller, ends the move.
    """
    from cascadia.controller.local.engines_file import read_local
    from cascadia.controller.local.plans import LocalPlans
    from cascadia.controller.local.supervisor import only_one
    from cascadia.controller.memory.state import remember_engines

    folder, path = (run_dir or RUN_DIR).resolve(), plan_path(plan).resolve()
    plans = LocalPlans(folder, read_local(engines_of(folder, engines)))
    steps = asyncio.run(_steps(folder, plans, path, at_once))
    if dry_run or not steps:
        for step in steps or ["nothing to do"]:
            output.show(step)
        output.document({"plan": path, "steps": steps})
        return
    with only_one(folder / CONTROLLER_LOCK, *ANOTHER_MOVES):
        taken = asyncio.run(_carry_out(folder, plans, path, at_once, output))
    if taken[-1].kind != "moved":
        raise CascadiaError(taken[-1].what)
    if engines is not None:
        remember_engines(folder, engines)
    output.document({"plan": path, "steps": [entry.what for entry in taken if entry.kind == "step"]})


async def _steps(folder: Path, plans: "LocalPlans", path: Path, at_once: int) -> list[str]:
    """All that there is to do, in its order, known before anything is done."""
    from cascadia.controller.move.carry_out import foresee

    await plans.backend.observe()  # where no fleet runs there is no plan in force either
    return [str(step) for step in await foresee(_asked(folder, path), plans, at_once=at_once)]


def _asked(folder: Path, path: Path) -> "UnderWay":
    from cascadia.controller.memory.state import FileState, UnderWay
    from cascadia.files.plan_file import read_plan

    back = FileState(folder).in_force()
    return UnderWay(path, back, read_plan(path).predicted.rates_rps(), read_plan(back).predicted.rates_rps())


async def _carry_out(
    folder: Path, plans: "LocalPlans", path: Path, at_once: int, output: Output
) -> "list[Entry]":
    from time import monotonic, time

    from cascadia.controller.memory.state import FileState
    from cascadia.controller.move.carry_out import Journal, carry_out

    begun = _asked(folder, path)
    last_good = _as_it_runs(await plans.backend.observe(), plans.backend.launches, begun.need_now_rps)
    taken: list[Entry] = []

    def tell(entry: "Entry") -> None:
        taken.append(entry)
        output.show(entry.what)

    journal = Journal(FileState(folder), tell, time, monotonic)
    journal.note("given", f"{path.parent.name}, by hand", {"to": str(path)})
    await carry_out(begun, plans, journal, at_once=at_once, last_good=last_good)
    return taken


def _as_it_runs(
    observed: "Observed", launches: "Mapping[Kind, Launch]", need_rps: dict[str, float]
) -> "Desired | None":
    """State to go back to: engines as they were started, whatever local.yaml says by now."""
    from cascadia.controller.move.state import Desired

    if observed.routing is None:
        return None
    capacity = {kind: launch.capacity_rps for kind, launch in launches.items()}
    return Desired(observed.ready_kinds(), observed.routing, need_rps, capacity)
