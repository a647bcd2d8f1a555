"""`cascadia demo --plan-only`: plan the bundled example, from its files to the report."""

import shlex
import shutil
import sys
from pathlib import Path

import click

from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

EXAMPLE = "example"
"""The folder of the example's files, inside that of its plan."""


def plan_bundled(out: Path, output: Output) -> None:
    """Writes the example's files and runs `cascadia plan` on them; a spec that was edited is kept."""
    refuse_strangers(out)
    spec = _write_example(out / EXAMPLE, output)
    run_plan(spec, out, ["--json"] * output.json + ["--quiet"] * output.quiet)
    output.show(_ending(out, spec))


def refuse_strangers(out: Path, ours: tuple[str, ...] = (EXAMPLE,)) -> None:
    """`plan` refuses a folder with files but no plan in it. That of an unfinished demo must pass: check it here."""
    elsewhere = "name another with --out"
    try:
        if out.exists() and not out.is_dir():
            raise BadInput(str(out), "is a file, not a folder", elsewhere)
        if not out.is_dir() or (out / "plan.json").exists():
            return
        strange = any(entry.name not in ours for entry in out.iterdir())
    except OSError as error:
        raise BadInput(str(out), f"cannot be written to ({error.strerror})", elsewhere) from None
    if strange:
        raise BadInput(str(out), "has files in it but no plan.json", elsewhere)


def _write_example(folder: Path, output: Output) -> Path:
    from cascadia.cli.shared.output_dir import output_dir
    from cascadia.demo.plan_example import EXAMPLE_FILES, SPEC, SPEC_NAME, write_example

    spec = folder / SPEC_NAME
    with output_dir(folder, EXAMPLE_FILES) as staging:
        write_example(staging)
        if spec.is_file() and spec.read_bytes() != SPEC.encode():
            kept = spec.replace(spec.with_suffix(".edited.yaml"))
            output.note(f"note: {spec} was edited: kept as {kept.name}")
    return spec


def run_plan(spec: Path, out: Path, flags: list[str]) -> None:
    """Runs what a user would run next, so that the demo shows the real thing."""
    from cascadia.cli.plan.plan import plan

    context = plan.make_context(
        "plan", [str(spec), "--out", str(out), *flags], parent=click.get_current_context().parent
    )
    with context:
        # Not as a flag: the report tells the command, and from now on it does without.
        context.params["force"] = True
        plan.invoke(context)


def _ending(out: Path, spec: Path) -> str:
    program = "cascadia" if shutil.which("cascadia") else shlex.quote(sys.argv[0])
    where, folder, trace = (shlex.quote(str(path)) for path in (spec, out, spec.parent / "chat.parquet"))
    return f"""
The plan in words and pictures: {out / "report.html"}
Its spec, trace and quality table are in {spec.parent}. Try next:

  {program} plan {where} --quality-min 90
  {program} compare {where}
  {program} simulate {folder} --trace {trace} --rate 30
"""
