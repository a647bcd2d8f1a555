"""`cascadia catalogue`: what plans rest on, for each GPU, engine and precision."""

import click

from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput


@click.command()
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="NAME",
    help="GPU whose rows are shown, e.g. h100-sxm. Default: all.",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME",
    help="Engine whose rows are shown: vllm, sglang, trtllm or llama.cpp. Default: all.",
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    metavar="NAME",
    help="Weight format whose rows are shown, e.g. fp8. Default: all.",
)
@with_output
def catalogue(
    gpus: tuple[str, ...], engines: tuple[str, ...], precisions: tuple[str, ...], output: Output
) -> None:
    """Show what the times of a plan rest on, by GPU, engine and precision, and how far off that is on average.

    `served`: fitted to a whole engine; `kernels`: to kernels alone; `generic`: to the GPU's generation; `unmeasured`:
    data sheets. A `~` stands before what is of another GPU, engine or precision. Errors are mean shares, of the time a
    token and to the first token. --json tells each cell, with what was measured for it.
    """
    from cascadia.cli.catalogue_outputs import table
    from cascadia_sim.calibration.catalogue import SERVING_ENGINES
    from cascadia_sim.evidence.support_matrix import support_matrix
    from cascadia_sim.models.quantization import FORMATS

    cards = tuple(_gpu(name) for name in gpus) or None
    chosen = _known("--engine", engines, SERVING_ENGINES)
    cells = support_matrix(cards, chosen, _known("--precision", precisions, tuple(FORMATS)))
    output.show(table(cells))
    output.document({"support": cells})


def _gpu(name: str) -> str:
    from cascadia_sim.hardware.catalogue import UnknownGpu, gpu

    try:
        return gpu(name).name
    except UnknownGpu as error:
        raise BadInput("--gpu", error.what, error.instead) from None


def _known(flag: str, asked: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    for name in asked:
        if name not in known:
            raise BadInput(flag, f"{name!r} is not known", f"write one of {', '.join(known)}")
    return asked or known
