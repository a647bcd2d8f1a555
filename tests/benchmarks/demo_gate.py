"""What the demo's gate and plan rest on, made again: `python -m tests.benchmarks.demo_gate rows|train FOLDER`.

`rows` asks both models the training questions (an hour on two cores; it goes on where it stopped), `train` makes of
them the judge's head and the quality table that the demo ships. None of the demo's 60 questions is among them.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import httpx
import numpy as np

from cascadia.clients.model_catalogue import model_named
from cascadia.clients.model_catalogue_fetch import fetch
from cascadia.demo.children import Children, free_port
from cascadia.demo.questions import FACT_KINDS, FACT_SHARE, training_questions
from cascadia.demo.rows import append_rows
from cascadia.demo.stages import ENCODER, LARGE, SMALL, STAGES, cascadia_command, engine_command, free_cores
from cascadia.domain.quality import QualityTable
from cascadia.planner.quality_file import read_quality, write_quality

QUESTIONS = 1300
HERE = Path(__file__).parents[2]
HEAD = HERE / "judge" / "cascadia_judge" / "data" / "demo_head.json"
TABLE = HERE / "cascadia" / "demo" / "data" / "quality.parquet"
JUDGES_KEYS = ("prompt_id", "question", "stage", "answer", "quality", "certainty")
MIX_SEED = 3


def rows(folder: Path, limit_s: float) -> None:
    questions = training_questions(QUESTIONS)

    async def all_of(children: Children) -> None:
        async with httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0)) as client:
            engines = {child.name: child.url for child in children}
            asked = (
                append_rows(folder / f"{name}.jsonl", client, url, name, questions)
                for name, url in engines.items()
            )
            await asyncio.wait_for(asyncio.gather(*asked), limit_s)

    with Children(folder / "logs") as children:
        for stage in STAGES:
            port = free_port()
            command = engine_command(stage, fetch(stage.model), port)
            children.start(stage.name, command, port, free_cores()[stage.name])
        children.wait()
        try:
            asyncio.run(all_of(children))
        except TimeoutError:
            print("not done yet: the same command goes on")


def train(folder: Path) -> None:
    known = {question["prompt_id"]: question for question in _read(folder / f"{SMALL.name}.jsonl")}
    with tempfile.TemporaryDirectory() as scratch:
        answers, scored = Path(scratch) / "answers.jsonl", Path(scratch) / "scored.parquet"
        answers.write_text(
            "".join(json.dumps({key: row[key] for key in JUDGES_KEYS}) + "\n" for row in known.values())
        )
        encoder = fetch(model_named(ENCODER))
        command = ["judge", "train", str(answers), "--out", str(HEAD), "--table", str(scored)]
        subprocess.run([*cascadia_command(*command), "--encoder", str(encoder)], check=True)
        small = read_quality(scored, (SMALL.name,))
    large = {row["prompt_id"]: row for row in _read(folder / f"{LARGE.name}.jsonl")}
    chosen = _mix([known[each] for each in small.prompt_ids if each in large])
    at = {name: i for i, name in enumerate(small.prompt_ids)}
    of_small = [at[each] for each in chosen]

    def both(key: str) -> Any:
        return np.array([[float(rows_of[each][key]) for each in chosen] for rows_of in (known, large)])

    # Nobody scores the last stage's answers: 50 is any value.
    score = np.vstack([small.score[0][of_small], np.full(len(chosen), 50.0)])
    table = QualityTable(
        tuple(chosen),
        (SMALL.name, LARGE.name),
        score,
        both("quality"),
        both("input_tokens"),
        both("output_tokens"),
    )
    write_quality(table, TABLE)
    shares = table.quality.mean(axis=1)
    print(f"{len(chosen)} questions: small {shares[0]:.1f} %, large {shares[1]:.1f} % right")


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _mix(questions: list[dict[str, Any]]) -> list[str]:
    """As many as there are with the demo's share of facts, both shares drawn without regard to answers."""
    facts = [each["prompt_id"] for each in questions if each["kind"] in FACT_KINDS]
    others = [each["prompt_id"] for each in questions if each["kind"] not in FACT_KINDS]
    count = int(min(len(facts) / FACT_SHARE, len(others) / (1 - FACT_SHARE)))
    random = Random(MIX_SEED)
    wanted = round(count * FACT_SHARE)
    return random.sample(facts, wanted) + random.sample(others, count - wanted)


if __name__ == "__main__":
    place = Path(sys.argv[2])
    place.mkdir(parents=True, exist_ok=True)
    if sys.argv[1] == "rows":
        rows(place, float(sys.argv[3]) if len(sys.argv) > 3 else 3600.0)
    else:
        train(place)
