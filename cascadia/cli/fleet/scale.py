"""`cascadia scale`: more or fewer replicas of a stage, by hand."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.fleet.common import ANOTHER_MOVES, CONTROLLER_LOCK, RUN_DIR, asked, run_dir_option
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia.controller.move.state import Kind
    from cascadia.controller.move.steps import Step


@click.command()
@click.argument("stage")
@click.argument("replicas", type=click.IntRange(1))
@run_dir_option
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@with_output
def scale(stage: str, replicas: int, run_dir: Path | None, dry_run: bool, output: Output) -> None:
    """Run as many REPLICAS of STAGE, of its most frequent kind; the rest stays as it is.

    A controller that runs on the same fleet may scale it again when traffic changes.
    """
    from cascadia.controller.local.supervisor import only_one

    folder = run_dir or RUN_DIR
    if dry_run:
        taken = asyncio.run(_scale(folder, stage, replicas, dry_run, output))
    else:
        asked(folder, "observe")
        with only_one(folder / CONTROLLER_LOCK, *ANOTHER_MOVES):
            taken = asyncio.run(_scale(folder, stage, replicas, dry_run, output))
    output.document({"stage": stage, "replicas": replicas, "steps": [str(step) for step in taken]})


def _room(kind: "Kind", counts: "Counter[Kind]", gpus: int) -> int:
    """Number of replicas of a kind that `gpus` hold beside all others of its pool."""
    taken = sum(other.gpus * n for other, n in counts.items() if other.pool == kind.pool and other != kind)
    return (gpus - taken) // kind.gpus


async def _scale(folder: Path, stage: str, replicas: int, dry_run: bool, output: Output) -> "list[Step]":
    from cascadia.controller.local.backend import LocalBackend
    from cascadia.controller.move.backend import foreseen, move
    from cascadia.controller.move.state import Desired, gpus_of

    backend = LocalBackend(folder)
    observed = await backend.observe()
    counts = Counter(r.kind for r in observed.replicas if r.state in ("starting", "ready"))
    kinds = [kind for kind, _ in counts.most_common() if kind.stage == stage]
    if not kinds or observed.routing is None:
        known = ", ".join(sorted({kind.stage for kind in counts}))
        raise BadInput(stage, "no replica of it runs here", f"there are {known or 'none'}")
    others = sum(counts[kind] for kind in kinds[1:])
    if replicas > (most := others + _room(kinds[0], counts, observed.gpus.get(kinds[0].pool, 0))):
        what = f"the {gpus_of(kinds[0].pool)} hold {most} of {stage}, not {replicas}"
        raise BadInput("REPLICAS", what, f"write at most {most}")
    counts[kinds[0]] = max(0, replicas - others)
    for kind in reversed(kinds[1:]):
        counts[kind] -= max(0, min(counts[kind], sum(counts[k] for k in kinds) - replicas))
    desired = Desired(
        counts,
        observed.routing,
        capacity_rps={kind: launch.capacity_rps for kind, launch in backend.launches.items()},
    )
    taken: list[Step] = []

    def note(step: "Step") -> None:
        taken.append(step)
        output.show(str(step))

    if dry_run:
        for step in await foreseen(observed, desired):
            note(step)
    else:
        await move(backend, desired, note=note)
    if not taken:
        output.show("nothing to do")
    return taken
