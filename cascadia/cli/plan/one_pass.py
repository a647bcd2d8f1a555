"""`cascadia plan` of models that answer in one pass."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.plan.outputs import PLAN_FILES, command_line, write_outputs
from cascadia.cli.policy import summary
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import output_dir
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia.planner.policies.read import Asked
    from cascadia.planner.spec.overrides import Overrides


def plan_and_write(
    spec: Path, change: "Overrides", out: Path | None, *, force: bool, reports: bool, output: Output
) -> None:
    """Plans `spec` with what `change` puts in place of its values; shows the plan, and writes it to `out`."""
    from cascadia.cli.shared.compiling import telling_of_the_compiler
    from cascadia.files.text import write_whole
    from cascadia.planner.policies.planned import plan_one_pass
    from cascadia.planner.policies.read import read_asked

    with ExitStack() as stack:
        folder = None if out is None else stack.enter_context(output_dir(out, PLAN_FILES, force=force))
        with output.progress("reading") as bar, telling_of_the_compiler(bar) as step:
            asked = read_asked(spec, change.of_one_pass)
            lengths = longest_inputs(asked, spec)
            step(None, "choosing workers and policies")
            found = plan_one_pass(asked, spec.parent, lengths)
            if folder is not None:
                step(None, "writing")
                write_outputs(folder, found)
            if folder is not None and reports:
                from cascadia.cli.plan.one_pass_report import one_pass_report

                date = datetime.now(UTC).date().isoformat()
                command = command_line(click.get_current_context())
                write_whole(folder / "report.html", one_pass_report(found, spec.name, command, date))
    output.show(summary(found.chosen, [], asked.wanted.late_max))
    for note in found.notes:
        output.note(f"note: {note}")
    if out is not None:
        output.show(f"written to {out}")
    output.document({"plan": found.plan, "notes": found.notes, "out": out})


def longest_inputs(asked: "Asked", spec: Path) -> dict[str, int]:
    """Longest input of each stage's model, in tokens. Raises `BadInput` where a model is not there, or has another task
    or other labels than its stage and the others."""
    from cascadia.files.homes import named_path
    from cascadia.onepass.model import read_model

    found = {}
    labels: dict[tuple[str, ...], str] = {}
    for at, stage in enumerate(asked.spec.stages):
        if stage.model is None:
            continue
        model = read_model(named_path(spec.parent, stage.model))
        where = f"{spec.name}: stages[{at}]"
        if model.task != stage.task:
            raise BadInput(
                f"{where}.task",
                f"is {stage.task}, and {stage.model} can {model.task}",
                f"write {model.task}, or name a model that can {stage.task}",
            )
        labels.setdefault(model.labels, stage.name)
        if len(labels) > 1:
            first = next(iter(labels.values()))
            raise BadInput(
                f"{where}.model",
                f"has other labels than that of {first}",
                "plan models of one question together",
            )
        found[stage.name] = model.tokens_max
    return found
