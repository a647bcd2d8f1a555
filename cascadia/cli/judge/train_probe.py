"""`cascadia judge train --probe`: a ramp on the hidden states of the engine that wrote the answers."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cascadia.cli.judge.common import quality_table
from cascadia.cli.judge.probe_engine import ProbeEngine, client_of
from cascadia.cli.judge.train_outputs import heads_table
from cascadia.cli.shared.output import Output, write

if TYPE_CHECKING:
    from cascadia_judge.head.rows import Row
    from cascadia_judge.probe.reading import Readings
    from cascadia_judge.probe.training import Place


def train_probe_file(
    rows: "Sequence[Row]",
    engine: ProbeEngine,
    out: Path,
    *,
    table_file: Path | None,
    folds: int,
    seed: int,
    output: Output,
) -> None:
    import numpy as np

    from cascadia.files.atomic import atomic_write
    from cascadia.planner.problem.quality_file import write_quality
    from cascadia_judge.probe.file import dump_probe
    from cascadia_judge.probe.training import train_probe

    with output.progress(f"reading {len(rows):,} answers") as step:
        seen, place = asyncio.run(read_rows_again(rows, engine, step))
    quality = np.array([row.quality for row in rows])
    questions = [row.prompt_id for row in rows]
    about = {"rows": len(rows), "questions": len(set(questions)), "folds": folds, "seed": seed}
    with output.progress("learning"):
        probed = train_probe(seen, quality, questions, place, about=about, folds=folds, seed=seed)
    with atomic_write(out) as part:
        part.write_text(dump_probe(probed.probe), encoding="utf-8")
    if table_file is not None:
        table = quality_table(rows, probed.served, probed.foreseen * np.nan, output.note, kind="probe")
        write_quality(table, table_file)
    heads = [
        {"stage": "", "looks_at": looks, **head.measured}
        for looks, head in (
            (["question"], probed.probe.question),
            (["question", "answer"], probed.probe.answer),
        )
    ]
    output.document({"judge": str(out), "about": about, "layer": place.layer, "heads": heads})
    output.show(
        heads_table(heads, f"{len(rows):,} answers, hidden states of layer {place.layer} of {place.layers}")
    )
    if not output.json and not output.quiet:
        write(f"wrote {out}" + (f" and {table_file}" if table_file else ""))


async def read_rows_again(
    rows: "Sequence[Row]", engine: ProbeEngine, told: Callable[[float], None]
) -> "tuple[Readings, Place]":
    """Has the engine read each question, by its own chat template, with its answer behind. Raises `CascadiaError` and
    `BadVerdict`."""
    from cascadia.clients.engines.llama_slots import LlamaSlots
    from cascadia_judge.errors import BadVerdict
    from cascadia_judge.probe.kv_state import read_kv_state
    from cascadia_judge.probe.reading import layer_of, read, stacked
    from cascadia_judge.probe.training import Place

    readings, place = [], None
    async with client_of(engine) as client:
        slots = LlamaSlots(client, engine.slot_folder)
        for done, row in enumerate(rows):
            chat = {"messages": [{"role": "user", "content": row.question}]}
            prompt = await slots.prefilled(0, chat, row.answer, {})
            with await slots.saved(0, {}) as content:
                state = read_kv_state(content)
                place = place or Place(layer_of(state.layers), state.layers)
                reading = read(state, place.layer, prompt)
            if reading.answer is None:
                where = f"row {done + 1}, of {row.prompt_id}"
                raise BadVerdict(where, "has no answer", "leave it out: empty answers need no judge")
            readings.append(reading)
            told((done + 1) / len(rows))
    if place is None:
        raise BadVerdict("rows", "there are none", "give graded answers")
    return stacked(readings), place
