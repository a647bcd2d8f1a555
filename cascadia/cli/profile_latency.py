"""`cascadia profile latency`: drive an engine, fit the simulator to it, say how well the fit holds."""

from pathlib import Path

import click

from cascadia.cli.common import positive, with_output
from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.output import Output


@click.command()
@click.option(
    "--base-url", required=True, metavar="URL", help="Of the engine's OpenAI API, with or without /v1."
)
@click.option("--model", required=True, help="The name that the engine serves the model under.")
@click.option("--api-key-env", metavar="VAR", help="Variable of the environment that holds the engine's key.")
@click.option(
    "--architecture",
    "architecture_name",
    metavar="ID",
    help="Hugging Face id of the catalogue, or a config.json; asked of the engine by default.",
)
@click.option(
    "--gpu",
    "gpu_name",
    metavar="NAME",
    help="What the engine runs on; `cpu` for a core. Needed unless it is this machine's CPU.",
)
@click.option(
    "--tp", type=click.IntRange(1, 64), default=1, show_default=True, help="Tensor-parallel degree."
)
@click.option("--pp", type=click.IntRange(1, 64), default=1, show_default=True, help="Pipeline stages.")
@click.option("--quantization", help="Weight format, where it is not the checkpoint's own, e.g. fp8.")
@click.option(
    "--max-num-seqs",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="The engine's limit of sequences at once, if known.",
)
@click.option(
    "--max-num-batched-tokens",
    type=click.IntRange(16, 1_000_000),
    metavar="N",
    help="The engine's limit of tokens an iteration, if it is not the usual one.",
)
@click.option(
    "--max-seconds", type=positive, default=120.0, show_default=True, metavar="S", help="Time to take, about."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of prompts and arrivals.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the calibration to this JSON file.")
@with_output
@ends_at_once
def latency(
    base_url: str,
    model: str,
    api_key_env: str | None,
    architecture_name: str | None,
    gpu_name: str | None,
    tp: int,
    pp: int,
    quantization: str | None,
    max_num_seqs: int | None,
    max_num_batched_tokens: int | None,
    max_seconds: float,
    seed: int,
    out: Path | None,
    output: Output,
) -> None:
    """Measure an engine behind an OpenAI-compatible API, and fit the simulator to it.

    Sends made-up prompts for about --max-seconds: warm-up, one at a time, more and more at once, then mixed ones.
    The engine should serve nobody else meanwhile. The file of --out goes into a spec as `calibration` of a stage.
    """
    import asyncio

    import numpy as np

    from cascadia.cli.profile_latency_outputs import as_json, tables
    from cascadia.cli.profile_latency_setup import Asked, api_key, check_out, setup_of
    from cascadia.clients.engine_facts import engine_facts
    from cascadia.clients.latency_profile import Profile, profile_latency
    from cascadia.clients.openai_engine import OpenAIEngine
    from cascadia_sim.calibration_json import write_calibration
    from cascadia_sim.calibrations_catalogue import find_calibration

    asked = Asked(
        base_url,
        model,
        architecture_name,
        gpu_name,
        tp,
        pp,
        quantization,
        max_num_seqs,
        max_num_batched_tokens,
    )
    key = api_key(api_key_env)
    check_out(out)

    async def run() -> Profile:
        async with OpenAIEngine(base_url, model, api_key=key) as client:
            facts = await engine_facts(client)
            setup = setup_of(asked, facts)
            start = find_calibration(setup.gpu, setup.config.engine, setup.precision)
            return await profile_latency(
                client,
                facts,
                setup,
                start,
                max_seconds=max_seconds,
                draw=np.random.default_rng(seed),
                progress=step,
            )

    with output.progress("asking the engine") as step:
        found = asyncio.run(run())
    if out is not None:
        write_calibration(found.fitted.calibration, out)
    for table in tables(found):
        output.show(table)
    for note in found.notes:
        output.note(f"note: {note}")
    if out is not None:
        output.show(f"calibration in {out}; name it as `calibration` of a stage in the spec")
    output.document(as_json(found, out))
