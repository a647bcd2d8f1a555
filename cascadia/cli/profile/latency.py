"""`cascadia profile latency`: drive an engine, fit the simulator to it, say how well the fit holds."""

from pathlib import Path

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import positive, with_output, with_own_seed
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import Written
from cascadia.domain.errors import BadInput


@click.command()
@click.option(
    "--base-url",
    required=True,
    metavar="URL",
    help="Address of the engine's OpenAI API, with or without /v1.",
)
@click.option("--model", required=True, help="Name that the engine serves the model under.")
@click.option(
    "--api-key-env",
    metavar="VAR",
    help="Environment variable that holds the engine's key. Default: no key is sent.",
)
@click.option(
    "--architecture",
    "architecture_name",
    metavar="ID",
    help="Architecture of the model: an id of the catalogue, or a config.json. Default: asked of the engine.",
)
@click.option(
    "--gpu",
    "gpu_name",
    metavar="NAME",
    help="GPU that the engine runs on, or `cpu`; or the file of a GPU of your own, as in a spec. "
    "Default: this machine's CPU, where the engine runs on it.",
)
@click.option(
    "--tp",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of GPUs in a tensor-parallel group.",
)
@click.option(
    "--pp",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of pipeline stages of the engine.",
)
@click.option(
    "--quantization", help="Weight format that the engine serves, e.g. fp8. Default: the checkpoint's own."
)
@click.option(
    "--max-num-seqs",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Sequences that the engine takes at once. Default: what the engine says, else its usual one.",
)
@click.option(
    "--max-num-batched-tokens",
    type=click.IntRange(16, 1_000_000),
    metavar="N",
    help="Tokens that the engine takes in one iteration. Default: the engine's usual one.",
)
@click.option(
    "--max-seconds",
    type=positive,
    default=120.0,
    show_default=True,
    metavar="S",
    help="Seconds that the measurement may take.",
)
@with_own_seed
@click.option("--out", type=Written(), help="JSON file to write the calibration to. Default: none.")
@click.option("--resume", is_flag=True, help="Go on from what --out keeps of an earlier run.")
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
    resume: bool,
    output: Output,
) -> None:
    """Measure an engine behind an OpenAI-compatible API, and fit the simulator to it.

    Sends made-up prompts for at most --max-seconds: warm-up, one at a time, more and more at once, then mixed ones.
    The engine should serve nobody else meanwhile. The file of --out goes into a spec as `calibration` of a stage. Where
    the time was too short for all of it, it holds what could be measured, and says what is missing; --resume goes on.
    """
    import asyncio

    import numpy as np

    from cascadia.cli.profile.latency_outputs import as_json, tables
    from cascadia.cli.profile.latency_setup import LatencyFlags, api_key, check_out, setup_of
    from cascadia.clients.engines.facts import engine_facts
    from cascadia.clients.engines.openai_engine import OpenAIEngine
    from cascadia.profile.latency.file import read_measurements, write_profile
    from cascadia.profile.latency.profile import Profile, profile_latency
    from cascadia_sim.calibration.catalogue import find_calibration

    asked = LatencyFlags(
        base_url,
        model,
        architecture_name,
        gpu=gpu_name,
        tp=tp,
        pp=pp,
        quantization=quantization,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
    )
    key = api_key(api_key_env)
    check_out(out)
    if resume and (out is None or not out.is_file()):
        raise BadInput("--resume", f"there is no {out or '--out'} to go on from", "name it with --out")

    async def run() -> Profile:
        async with OpenAIEngine(base_url, model, api_key=key) as client:
            facts = await engine_facts(client)
            setup = setup_of(asked, facts)
            start = find_calibration(setup.gpu, setup.config.engine, setup.precision)
            kept = read_measurements(out, setup) if resume and out is not None else {}
            return await profile_latency(
                client,
                facts,
                setup,
                start,
                max_seconds=max_seconds,
                draw=np.random.default_rng(seed),
                progress=step,
                kept=kept,
            )

    with output.progress("asking the engine") as step:
        found = asyncio.run(run())
    if out is not None:
        write_profile(found, out)
    for table in tables(found):
        output.show(table)
    for part in found.missing:
        output.note(f"note: not measured: {part}")
    if found.missing and out is not None:
        output.note(f"note: go on with the same command and --resume; until then plans take {out.name} to be")
    for note in found.notes:
        output.note(f"note: {note}")
    if out is not None:
        output.show(f"calibration in {out}; name it as `calibration` of a stage in the spec")
    output.document(as_json(found, out))
