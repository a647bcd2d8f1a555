"""What the demo's gate and plan rest on, made again: `python -m tests.benchmarks.demo_gate STEP FOLDER [SECONDS]`.

`rows` asks both models the training questions (it goes on where it stopped), `judge` trains the head on the small
model's answers, `table` makes the quality table. None of the demo's questions is among them.
"""

import argparse
import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.measuring.asking import engine
from cascadia.demo.measuring.rows import append_rows, prompt_id
from cascadia.demo.questions.questions import FACT_KINDS, FACT_SHARE, training_questions
from cascadia.demo.stages import (
    ENCODER,
    LARGE,
    SLOTS,
    SMALL,
    STAGES,
    engine_command,
    free_cores,
)
from cascadia.domain.quality import Floats, QualityTable, ScoredBy
from cascadia.planner.problem.quality_file import write_quality
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.head.features import Seen
from cascadia_judge.head.file import dump
from cascadia_judge.head.model_selection import see, see_nulls, teach
from cascadia_judge.head.rows import Row, read_rows
from cascadia_judge.head.training import Course, cross, measures

QUESTIONS = 480
HERE = Path(__file__).parents[2]
HEAD = HERE / "judge" / "cascadia_judge" / "data" / "demo_head.json"
TABLE = HERE / "cascadia" / "demo" / "data" / "quality.parquet"
JUDGES_KEYS = ("prompt_id", "question", "stage", "answer", "quality", "certainty")
MIX_SEED = 3
HEAD_SEED = 0
DECOYS = 0.5
"""Heads that read the answer's text learn that another question's answer is worth nothing."""


def rows(folder: Path, limit_s: float) -> None:
    questions = training_questions(QUESTIONS)

    async def all_of(children: Children) -> None:
        async with AsyncExitStack() as stack:
            engines = {child.name: await stack.enter_async_context(engine(child.url)) for child in children}
            asked = (
                append_rows(folder / f"{name}.jsonl", client, name, questions[slot::SLOTS])
                for name, client in engines.items()
                for slot in range(SLOTS)
            )
            await asyncio.wait_for(asyncio.gather(*asked), limit_s)

    with Children(folder / "logs") as children:
        for stage in STAGES:
            port = free_port()
            command = engine_command(stage, fetch(stage.model), port)
            children.start(stage.name, command, port, free_cores()[stage.name])
        children.wait(limit_s=300)
        try:
            asyncio.run(all_of(children))
        except TimeoutError:
            print("not done yet: the same command goes on")


def judge(folder: Path) -> None:
    """Trains the head on the small model's answers; writes beside it what folds that did not see them say of them."""
    wanted = {prompt_id(question) for question in training_questions(QUESTIONS)}
    known = [row for row in read(folder / f"{SMALL.name}.jsonl") if row["prompt_id"] in wanted]
    lines = [json.dumps({key: row[key] for key in JUDGES_KEYS}) for row in known]
    rows = read_rows(lines, SMALL.name)
    encoder = Encoder.read(fetch(model_named(ENCODER)))
    seen = _seen(encoder, rows, folder / "seen.npz")
    course = Course(seed=HEAD_SEED, decoys=DECOYS, nulls=see_nulls(encoder), reads=True)
    taught = teach(rows, seen, course, lambda share: None)
    about = {
        "rows": len(rows),
        "questions": len(rows),
        "stages": {SMALL.name: len(rows)},
        "with_certainty": len(rows),
        "encoder": model_named(ENCODER).files[0].sha256,
        "folds": course.folds,
        "decoys": course.decoys,
        "seed": course.seed,
    }
    HEAD.parent.mkdir(exist_ok=True)
    HEAD.write_text(dump(taught.heads, about), encoding="utf-8")
    scored = {
        row.prompt_id: {"score": float(score), "foreseen": float(before)}
        for row, score, before in zip(rows, taught.scores, taught.foreseen, strict=True)
    }
    (folder / "scored.json").write_text(json.dumps(scored))
    quality = np.array([row.quality for row in rows])
    unread = cross(seen, quality, [row.prompt_id for row in rows], ("question", "certainty"), course)
    print("without reading", measures(unread.quality, quality))
    for head in taught.heads:
        print(head.groups, {k: v for k, v in head.measured.items() if not isinstance(v, list | dict)})


def table(folder: Path) -> None:
    """The quality table that the demo plans from, of both models' rows and the scores that `judge` wrote."""
    scored = json.loads((folder / "scored.json").read_text())
    small, large = (
        {row["prompt_id"]: row for row in read(folder / f"{stage.name}.jsonl")} for stage in STAGES
    )
    chosen = _mix([small[each] for each in scored if each in large])

    def both(key: str) -> Floats:
        return np.array([[float(of[each][key]) for each in chosen] for of in (small, large)])

    def judged(key: str) -> Floats:
        # Nobody judges the last stage's answers: 50 is any value.
        return np.vstack([[scored[each][key] for each in chosen], np.full(len(chosen), 50.0)])

    found = QualityTable(
        prompt_ids=tuple(chosen),
        stages=(SMALL.name, LARGE.name),
        score=judged("score"),
        quality=both("quality"),
        input_tokens=both("input_tokens"),
        output_tokens=both("output_tokens"),
        foreseen=judged("foreseen"),
        scored_by=ScoredBy("embedding"),
    )
    TABLE.parent.mkdir(exist_ok=True)
    write_quality(found, TABLE)
    shares = found.quality.mean(axis=1)
    print(f"{len(chosen)} questions: small {shares[0]:.1f} %, large {shares[1]:.1f} % right")


def _seen(encoder: Encoder, rows: list[Row], kept: Path) -> Seen:
    """Takes minutes; kept for the next time."""
    ids = np.array([row.prompt_id for row in rows])
    if kept.exists():
        with np.load(kept) as arrays:
            if np.array_equal(arrays["ids"], ids):
                return Seen(*(arrays[name] for name in Seen.__slots__))
    seen = see(encoder, rows, lambda share: None)
    np.savez(kept, ids=ids, **{name: getattr(seen, name) for name in Seen.__slots__})
    return seen


def read(path: Path) -> list[dict[str, Any]]:
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
    parser = argparse.ArgumentParser(description="makes what the demo rests on")
    parser.add_argument("step", choices=("rows", "judge", "table"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("seconds", type=float, nargs="?", default=3600.0, help="that `rows` asks for")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.step == "rows":
        rows(asked.folder, asked.seconds)
    else:
        {"judge": judge, "table": table}[asked.step](asked.folder)
