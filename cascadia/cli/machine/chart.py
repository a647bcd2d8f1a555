"""`cascadia chart`: the Helm chart out of the wheel."""

import shutil
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

    names = ("Chart.yaml", *sorted(file.name for file in CHART.iterdir() if file.name != "Chart.yaml"))
    with output_dir(out, names, force=force) as staging:
        try:
            for file in sorted(CHART.rglob("*")):
                copy = staging / file.relative_to(CHART)
                copy.mkdir(exist_ok=True) if file.is_dir() else shutil.copyfile(file, copy)
        except OSError as error:
            what = f"cannot be written to ({error.strerror})"
            raise BadInput(str(out), what, "name another with --out") from None
    files = sorted(str(file.relative_to(out)) for file in out.rglob("*") if file.is_file())
    output.show(f"{out}: {len(files)} files")
    output.document({"chart": out, "files": files})
