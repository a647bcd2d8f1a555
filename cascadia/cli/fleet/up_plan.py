"""Plan that `cascadia up` begins with, where the fleet of this run-dir had another in force last."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia.controller.memory.state import Last


def chosen(folder: Path, plan: Path, *, replace: bool, resume: bool, output: Output) -> Path:
    """`plan`, or the one that was in force last. What is not gone on with is said. Raises `BadInput` where the fleet
    has moved from what it came up with, and nobody says which of the two is meant."""
    from cascadia.controller.memory.state import digest_of, last_of

    if replace and resume:
        raise BadInput("--replace, --resume", "contradict each other", "give one of them")
    last = last_of(folder)
    if last is None:
        return plan
    found = _of_the_two(folder, plan, last, replace=replace, resume=resume, output=output)
    if last.under_way is not None and digest_of(last.under_way) != digest_of(found):
        to = last.under_way
        output.note(
            f"a move to {to} was under way when the fleet ended; `cascadia move {shlex.quote(str(to))}` begins it again"
        )
    return found


def _of_the_two(
    folder: Path, plan: Path, last: "Last", *, replace: bool, resume: bool, output: Output
) -> Path:
    from cascadia.controller.local.supervisor import LOCK, only_one
    from cascadia.controller.memory.state import digest_of

    if plan.resolve() == last.plan or digest_of(plan) == digest_of(last.plan):
        return plan
    if not last.plan.exists():
        output.note(f"{last.plan} was in force here last and has gone; beginning with {plan}")
        return plan
    if resume and last.asked_digest == digest_of(plan):
        output.note(f"going on with {last.plan}, which was in force last")
        return last.plan
    if last.moved and not replace and not resume:
        with only_one(folder / LOCK, "a fleet runs here already", "end it with `cascadia down`"):
            raise BadInput(
                str(plan),
                f"this fleet has moved to {last.plan} since it came up with {last.asked}",
                f"`--resume` goes on with that, `--replace` begins with {plan}",
            )
    output.note(f"{last.plan} was in force here last; beginning with {plan}")
    return plan
