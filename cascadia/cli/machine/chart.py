"""`cascadia chart`: the Helm chart out of the wheel."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

CHART = Path(__file__).parents[2] / "render" / "chart"


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write the chart into.")
@click.option("--force", is_flag=True, help="Write into a folder even if it has other files in it.")
@with_output
@ends_at_once
def chart(out: Path, force: bool, output: Output) -> None:
    """Write the Helm chart of this version: `helm install cascadia DIR -f plan/helm-values.yaml` takes it."""
    from cascadia.cli.shared.output_dir import output_dir

    inside = sorted(str(file.relative_to(CHART)) for file in CHART.rglob("*") if file.is_file())
    names = ("Chart.yaml", *(name for name in inside if name != "Chart.yaml"))
    with output_dir(out, names, force=force) as staging:
        try:
            for name in names:
                (staging / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(CHART / name, staging / name)
        except OSError as error:
            what = f"cannot be written to ({error.strerror})"
            raise BadInput(str(out), what, "name another with --out") from None
    if others := _others(out, names):
        output.note(f"helm also reads what was there before: {', '.join(others)}")
    output.show(f"{out}: {len(inside)} files")
    output.document({"chart": out, "files": inside})


def _others(out: Path, names: Sequence[str]) -> list[str]:
    """Files that are not of the chart and lie in its folders, such as a template of yours or of another version."""
    folders = {Path(name).parts[0] for name in names if "/" in name}
    found = (
        str(file.relative_to(out)) for name in folders for file in (out / name).rglob("*") if file.is_file()
    )
    return sorted(set(found) - set(names))
