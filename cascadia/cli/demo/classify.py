"""`cascadia demo --classify`: a cascade of classifiers on this machine, beside its largest model alone."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from rich.table import Table

from cascadia.cli.demo.plan import refuse_strangers
from cascadia.cli.demo.run import ended_by_signals, stay_up
from cascadia.cli.judge.common import encoder_folder_of
from cascadia.cli.shared.linux import needs_linux
from cascadia.cli.shared.output import Output, write
from cascadia.demo.children import Children

if TYPE_CHECKING:
    from cascadia.demo.measuring.one_pass import OnePassRun

TEXTS, WARM_UP, SEED = 800, 64, 0
LOGS, ANSWERS, ROUTER = "logs", "classified.json", "router.yaml"


def classify(out: Path, output: Output, *, keep: bool, port: int) -> None:
    needs_linux("cascadia demo --classify")
    refuse_strangers(out, (LOGS, ANSWERS, ROUTER))
    from cascadia.clients.hub.catalogue import model_named, models_folder
    from cascadia.clients.hub.fetch import fetch
    from cascadia.demo.measuring.one_pass import asked
    from cascadia.demo.one_pass import (
        BATCHES,
        EARLIER_WEIGHT,
        THRESHOLDS,
        made_models,
        start_one_pass,
    )
    from cascadia.onepass.family import SHA256
    from cascadia.onepass.questions import SOURCE, questions

    with ended_by_signals():
        encoder = encoder_folder_of(None, output)
        with output.progress("getting the texts"):
            texts = [one for one in questions(fetch(model_named(SOURCE))) if one.test]
            Random(SEED).shuffle(texts)
            texts = texts[: TEXTS + WARM_UP]
        with output.progress("making the models"):
            models = made_models(encoder, models_folder() / f"one-pass-{SHA256[:8]}")
        out.mkdir(parents=True, exist_ok=True)
        largest = list(THRESHOLDS)[-1]
        runs = []
        with Children(out / LOGS) as children:
            with output.progress("starting engines and router") as step:
                fleet = start_one_pass(
                    children, models, THRESHOLDS, out, port=port, group=BATCHES, earlier_weight=EARLIER_WEIGHT
                )
                children.wait(lambda text: step(None, text))
            with output.progress(f"{TEXTS} texts, twice"):
                for model in ("cascadia", largest):
                    for some in (texts[:WARM_UP], texts[WARM_UP:]):
                        run = asyncio.run(asked(fleet.router.url, model, some, lambda: fleet.engines_cpu_s))
                    runs.append(run)
            _report(runs, out, output)
            if keep:
                if not output.json and not output.quiet:
                    write(f"""
The endpoint stays up until ^C. In another terminal:

  curl {fleet.router.url}/v1/classify -H 'content-type: application/json' \\
    -d '{{"model": "cascadia", "input": "Deletes the bucket and all objects in it."}}'
""")
                sys.stdout.flush()
                stay_up(children, output)


def _report(runs: "list[OnePassRun]", out: Path, output: Output) -> None:
    cascade, alone = runs
    document = {"runs": [asdict(run) for run in runs], "compute": cascade.cpu_ms / alone.cpu_ms}
    (out / ANSWERS).write_text(json.dumps(document, indent=1) + "\n")
    table = Table("", "right", "p50 ms", "p95 ms", "engines' CPU ms a text", "texts/s", box=None)
    for run in runs:
        name = "cascade" if run is cascade else f"{run.model} alone"
        figures = (run.p50_ms, run.p95_ms, run.cpu_ms, run.texts_per_s)
        table.add_row(name, f"{run.accuracy:.1f} %", *(f"{figure:.1f}" for figure in figures))
    output.show(table)
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in cascade.by_stage.items())
    output.show(f"Whose answers the cascade's are: {shares}.")
    output.show(f"It takes {cascade.cpu_ms / alone.cpu_ms:.2f} times the compute of its largest model alone.")
    output.document(document | {"out": str(out)})
