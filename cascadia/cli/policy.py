"""`cascadia policy`: workers and policies of models that answer in one pass."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import output_dir
from cascadia.report.numbers import plural

if TYPE_CHECKING:
    from cascadia.planner.policies.choose import Chosen
    from cascadia.planner.policies.compared import Row

FILE = "policies.json"
FURTHER = tuple(f"policies-{at}.json" for at in range(2, 8))
"""Of workers that hold other models than the first."""


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder to write policies.json to, which a router looks up. Default: none is written.",
)
@click.option(
    "--compare",
    "compares",
    is_flag=True,
    help="Play what others would do on the same workers too; each with the best of its settings.",
)
@click.option("--force", is_flag=True, help="Write into a folder even if it has other files in it.")
@with_output
def policy(spec: Path, out: Path | None, compares: bool, force: bool, output: Output) -> None:
    """Choose workers for the one-pass models of SPEC, and which model takes which batch on them.

    SPEC is a YAML file with stages (name, task, accuracy), latency (a table by stage and batch), workers, workload and
    objective.
    """
    from cascadia.files.policies_file import write_policies
    from cascadia.planner.policies.choose import choose
    from cascadia.planner.policies.compared import baseline_rows
    from cascadia.planner.policies.read import read_asked

    asked = read_asked(spec)
    for note in asked.notes:
        output.note(note)
    with output.progress("choosing workers and policies"):
        chosen = choose(asked.group, asked.kinds, asked.wanted)
    rows = baseline_rows(chosen.group, asked.wanted) if compares else []
    if out is not None:
        with output_dir(out, (FILE, *FURTHER), force=force) as folder:
            for name, policies in zip((FILE, *FURTHER), (chosen.policies, *chosen.further), strict=False):
                write_policies(policies, folder / name)
    output.show(summary(chosen, rows, asked.wanted.late_max))
    output.document(_document(chosen, rows, out))


def summary(chosen: "Chosen", rows: "list[Row]", late_max: float) -> str:
    """Rivals and baselines side by side, for a terminal."""
    price = f", {chosen.usd_per_hour:g} $/h" if chosen.usd_per_hour else ""
    bound = "" if chosen.bound is None else f"; nothing passes {chosen.bound:.2f}"
    lines = [
        f"{plural(chosen.group.workers, 'worker')} of kind {chosen.kind.name!r}{price}: "
        f"policies {chosen.policies.kind!r}, {plural(len(chosen.policies.levels), 'level')}{bound}",
        "",
        f"{'':<16}{'accuracy':>9}{'late':>9}{'p50':>9}{'p99':>9}{'busy':>7}{'batch':>7}",
    ]
    told = [(policies.kind, outcome) for policies, outcome in chosen.rivals]
    told += [(row.name, row.outcome) for row in rows]
    for name, o in told:
        late = f"{o.late:.2%}" + ("!" if o.late > late_max else "")
        lines.append(
            f"{name:<16}{o.accuracy:>9.2f}{late:>9}{o.p50_s * 1000:>7.1f}ms{o.p99_s * 1000:>7.1f}ms"
            f"{o.busy:>7.0%}{o.batch:>7.1f}"
        )
    lines += [f"  {row.name}: {row.setting}" for row in rows]
    if not chosen.kind.holds_all:
        lines += ["", "who sits where:"]
        for sits, count in Counter(chosen.sits).items():
            lines.append(f"  {count} workers: {', '.join(sits)}")
    return "\n".join(lines)


def _document(chosen: "Chosen", rows: "list[Row]", out: Path | None) -> dict[str, object]:
    return {
        "workers": chosen.group.workers,
        "kind": chosen.kind.name,
        "usd_per_hour": chosen.usd_per_hour,
        "policies": chosen.policies.kind,
        "levels": len(chosen.policies.levels),
        "outcome": chosen.outcome,
        "bound": chosen.bound,
        "sits": chosen.sits,
        "rivals": [{"policies": policies.kind, "outcome": outcome} for policies, outcome in chosen.rivals],
        "baselines": [{"name": row.name, "setting": row.setting, "outcome": row.outcome} for row in rows],
        "expected": [level.expected for level in chosen.policies.levels],
        "out": out,
    }
