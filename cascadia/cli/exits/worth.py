"""`cascadia exits worth`: at which batch size exits of single tokens stop paying in decoding."""

from pathlib import Path

import click

from cascadia.cli.shared.options import share, with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Those that are shown; of all up to the last that memory holds it is said where exits pay."""


@click.command()
@click.argument("model", metavar="MODEL")
@click.option("--gpu", "gpu_name", required=True, metavar="NAME", help="Name of the GPU, e.g. h100-sxm.")
@click.option(
    "--tp",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of GPUs in a tensor-parallel group.",
)
@click.option(
    "--depth", type=share, default="50%", show_default=True, help="Share of the layers before the ramp."
)
@click.option(
    "--exits",
    "exiting",
    type=share,
    default="50%",
    show_default=True,
    help="Share of the tokens that exit there.",
)
@click.option(
    "--context",
    "context_tokens",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    help="Number of tokens that each sequence holds.",
)
@with_output
def worth(
    model: str, gpu_name: str, tp: int, depth: float, exiting: float, context_tokens: int, output: Output
) -> None:
    """Say what exits of single tokens do to MODEL's time a token, by batch size, from the simulator.

    MODEL is a Hugging Face id of the catalogue, or a config.json. What exited tokens owe the KV cache is made up with
    the next token that goes on, as in Apparate: layers are skipped only where all sequences of the batch skip them.
    """
    from rich.table import Table

    from cascadia.exits.decoding import Engine, paying
    from cascadia.exits.decoding import worth as worth_of
    from cascadia.planner.problem.models import find_architecture
    from cascadia_sim.errors import BadInput as BadShape
    from cascadia_sim.hardware.catalogue import gpu
    from cascadia_sim.iteration.engine_config import EngineConfig

    if not 0 < depth < 1:
        raise BadInput(
            "--depth", f"{depth:g} leaves no layer before the ramp, or none behind", "give e.g. 50%"
        )
    try:
        engine = Engine(
            find_architecture(model, Path(), "MODEL"), gpu(gpu_name), tp, EngineConfig(engine="vllm")
        )
        most = min(engine.most(context_tokens), BATCHES[-1])
        if engine.architecture.layers < 2:
            raise BadInput("MODEL", "has one layer, and no place for a ramp", "name a model with more")
        if most < 1:
            raise BadInput(
                "--context",
                f"the memory beside the model holds no sequence of {context_tokens:,} tokens",
                "give fewer tokens, or a larger --tp",
            )
        shown = sorted({*(batch for batch in BATCHES if batch <= most), most})
        found = [worth_of(engine, batch, context_tokens, depth=depth, share=exiting) for batch in shown]
        pays = paying(engine, context_tokens, depth=depth, share=exiting, most=most)
    except BadShape as error:
        raise BadInput(error.where, error.what, error.instead) from None
    table = Table(
        title=f"{model} on {gpu_name}, tp {tp}: {exiting:.0%} of tokens exit after"
        f" {engine.early_layers(depth)} of {engine.architecture.layers} layers"
    )
    for column in ("batch", "ms a token", "with exits", "change"):
        table.add_column(column, justify="right")
    for one in found:
        table.add_row(
            str(one.batch), f"{1e3 * one.without_s:.2f}", f"{1e3 * one.with_s:.2f}", f"{one.change:+.1%}"
        )
    output.show(table)
    ranges = " and ".join(
        str(one.first) if one.first == one.last else f"{one.first} to {one.last}" for one in pays
    )
    tried = f"of 1 to {most}" + (", more than which memory does not hold" if most < BATCHES[-1] else "")
    output.note(f"pays at batches of {ranges}, {tried}" if pays else f"pays at no batch {tried}")
    output.document(
        {"model": model, "gpu": gpu_name, "tp": tp, "batches": found, "pays_at": [list(one) for one in pays]}
    )
