"""Gates beside the judge, on answers of the demo's two models: agreement, verifiers, the question alone.

    python -m tests.benchmarks.bench_gates ask FOLDER     the models; goes on where it stopped
    python -m tests.benchmarks.bench_gates tell FOLDER    the tables
    python -m tests.benchmarks.bench_gates public FILE    on public answers; FILE as `bench_judge --vectors` writes it

`FOLDER` has `small.jsonl`, `large.jsonl` and `scored.json` of `tests.benchmarks.demo_gate`, whose questions these
are. It gets `again.jsonl`, the small model's `SAMPLES` further answers as a gate of kind `agreement` asks for them, and
`forms-STAGE.jsonl`, answers to `FORMS` questions that ask for JSON (`gate_forms.py`).
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from openai import AsyncOpenAI

from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.measuring.asking import engine
from cascadia.demo.measuring.rows import prompt_id
from cascadia.demo.questions.prompt import request
from cascadia.demo.questions.questions import training_questions
from cascadia.demo.stages import LARGE, SMALL, STAGES, engine_command, free_cores
from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.problem.quality_file import read_quality
from cascadia.router.examiner.examinations import said
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.head.training import Course, cross
from cascadia_judge.scores.verifiers import Verifier
from tests.benchmarks.bench_judge import report
from tests.benchmarks.demo_gate import QUESTIONS, TABLE, read
from tests.benchmarks.gate_curves import every, unscored, whole
from tests.benchmarks.gate_curves import report as curves
from tests.benchmarks.gate_forms import SCHEMA, forms
from tests.benchmarks.judge_sets import gsm8k, wildbench
from tests.benchmarks.judge_vectors import encoder_folder, vectors
from tests.data import data_dir

SAMPLES = 4
TEMPERATURE = 0.7
"""Those of the router's default, but for more samples, to see what fewer are worth."""
FORMS = 200
FEWEST = 100
VERIFIERS = {
    "regex: an object in braces": Verifier("regex", r"^\{.*\}$"),
    "json-schema: the four members": Verifier("json-schema", SCHEMA),
}

SIZES = {
    "gemma-2b-it": 2.5,
    "Phi-3-mini-128k-instruct": 3.8,
    "reka-edge": 7.0,
    "gemma-7b-it": 8.5,
    "Qwen1.5-72B-Chat-greedy": 72.3,
}
"""Billions of parameters: the work of a token."""

Rows = Mapping[str, dict[str, Any]]


def ask(folder: Path) -> None:
    """Both models, one after the other's answers are there."""

    async def all_of(children: Children) -> None:
        async with AsyncExitStack() as stack:
            clients = {child.name: await stack.enter_async_context(engine(child.url)) for child in children}
            await asyncio.gather(
                _journal(folder / "again.jsonl", _again_keys(), lambda key: _again(clients[SMALL.name], key)),
                *(
                    _journal(
                        folder / f"forms-{stage.name}.jsonl",
                        [[form.key] for form in forms(FORMS)],
                        lambda key, stage=stage: _form(clients[stage.name], stage.name, key),
                    )
                    for stage in STAGES
                ),
            )

    with Children(folder / "logs") as children:
        for stage in STAGES:
            port = free_port()
            children.start(
                stage.name, engine_command(stage, fetch(stage.model), port), port, free_cores()[stage.name]
            )
        children.wait(limit_s=300)
        asyncio.run(all_of(children))


def _again_keys() -> list[list[Any]]:
    wanted = set(read_quality(TABLE, (SMALL.name, LARGE.name)).prompt_ids)
    ids = [prompt_id(question) for question in training_questions(QUESTIONS)]
    return [[each, sample] for sample in range(SAMPLES) for each in ids if each in wanted]


async def _again(client: AsyncOpenAI, key: list[Any]) -> str:
    question = next(q for q in training_questions(QUESTIONS) if prompt_id(q) == key[0])
    body = request(SMALL.name, question.text) | {"temperature": TEMPERATURE, "seed": key[1] + 1}
    return await _said(client, body)


async def _form(client: AsyncOpenAI, stage: str, key: list[Any]) -> str:
    form = next(form for form in forms(FORMS) if form.key == key[0])
    return await _said(client, form.request(stage))


async def _said(client: AsyncOpenAI, body: dict[str, Any]) -> str:
    reply = await client.chat.completions.create(**body)
    return str(reply.choices[0].message.content or "")


async def _journal(path: Path, keys: list[list[Any]], asked: Callable[[list[Any]], Awaitable[str]]) -> None:
    """One line an answer, written as it comes."""
    known = {json.dumps(row["key"]) for row in read(path)} if path.exists() else set()
    with path.open("a", encoding="utf-8") as out:
        for key in keys:
            if json.dumps(key) not in known:
                out.write(json.dumps({"key": key, "answer": await asked(key)}) + "\n")
                out.flush()


def tell(folder: Path) -> None:
    small, large = ({row["prompt_id"]: row for row in read(folder / f"{s.name}.jsonl")} for s in STAGES)
    scored = json.loads((folder / "scored.json").read_text())
    _tell_agreement(folder, small, large, scored)
    _tell_forms(folder)
    _tell_skipping()


def _tell_agreement(folder: Path, small: Rows, large: Rows, scored: Rows) -> None:
    again: dict[str, list[str]] = {}
    for row in read(folder / "again.jsonl"):
        again.setdefault(row["key"][0], []).append(row["answer"])
    for samples in range(1, SAMPLES + 1):
        ids = [
            each for each, said in again.items() if len(said) >= samples and each in large and each in scored
        ]
        if len(ids) < FEWEST:
            break
        first = [said(small[each]["answer"]) for each in ids]
        agreeing = np.array(
            [
                np.mean([said(other) == mine for other in again[each][:samples]]) if mine else 0.0
                for each, mine in zip(ids, first, strict=True)
            ]
        )
        quality, better = (np.array([of[each]["quality"] for each in ids]) for of in (small, large))
        found = {
            "the judge (question, log-probabilities)": np.array([scored[each]["score"] for each in ids]),
            "the question alone": np.array([scored[each]["foreseen"] for each in ids]),
            "mean logprob": np.array([small[each]["certainty"]["mean_logprob"] for each in ids]),
            f"agreement of {samples} more": agreeing,
        }
        report(f"{samples} more answers", {name: (s, None) for name, s in found.items()}, quality, better)
        _told(f"accepted where all {samples + 1} agree", agreeing >= 1.0, quality, better)


def _tell_forms(folder: Path) -> None:
    made = {form.key: form for form in forms(FORMS)}
    said = {
        stage.name: {row["key"][0]: row["answer"] for row in read(folder / f"forms-{stage.name}.jsonl")}
        for stage in STAGES
    }
    ids = [key for key in made if all(key in of for of in said.values())]
    quality, better = (
        np.array([100.0 * made[key].is_right(said[s.name][key]) for key in ids]) for s in STAGES
    )
    print(
        f"\n### JSON objects, {len(ids)} questions: small {quality.mean():.1f}, large {better.mean():.1f} % right\n"
    )
    for name, verifier in VERIFIERS.items():
        _told(name, np.array([verifier.passes(said[SMALL.name][key]) for key in ids]), quality, better)


def _told(name: str, accepted: np.ndarray, small: Floats, large: Floats) -> None:
    """`accepted` answers of the small model stand, the large one's replace the others."""

    def mean(of: Floats, where: np.ndarray) -> str:
        return f"{of[where].mean():.1f}" if where.any() else "-"

    cascade = np.where(accepted, small, large).mean()
    print(
        f"{name}: {accepted.mean():.0%} accepted, of these {mean(small, accepted)} % right, of the others "
        f"{mean(small, ~accepted)} %; the cascade {cascade:.1f} (small {small.mean():.1f}, large {large.mean():.1f})"
    )


def _tell_skipping() -> None:
    table = read_quality(TABLE, (SMALL.name, LARGE.name))
    work = (SMALL.parameters, LARGE.parameters)
    kinds = {
        "the judge's score": (replace(table, foreseen=None), every),
        "the question alone": (unscored(table), every),
        "both": (table, every),
    }
    targets = (52.0, 56.0, 60.0, 64.0, 68.0)
    curves(f"Work for a quality, own models ({len(table)} questions)", work, kinds, targets)


def public(kept_file: Path) -> None:
    encoder = Encoder.read(encoder_folder(None))

    def kept(texts: Sequence[str], tokens_max: int) -> np.ndarray:
        return vectors(encoder, list(texts), tokens_max, kept_file)

    course = Course()
    rows, better = gsm8k(data_dir(), kept)
    score, foreseen = (
        cross(rows.seen, rows.quality, rows.questions, groups, course).quality
        for groups in (("question", "answer"), ("question",))
    )
    table = _table(("mixtral", "gpt-4"), [score, score], [rows.quality, better], [foreseen, foreseen])
    kinds = {
        "the judge's score": (replace(table, foreseen=None), every),
        "the question alone": (unscored(table), every),
        "both": (table, every),
    }
    curves(
        "Work for a quality, GSM8K, Mixtral to GPT-4 as 1 to 10", (1.0, 10.0), kinds, (66.0, 70.0, 74.0, 78.0)
    )

    wild = wildbench(data_dir(), kept)
    seen = cross(wild.seen, wild.quality, wild.questions, ("answer",), course).quality
    at = {
        (model, question): i
        for i, (model, question) in enumerate(zip(wild.models, wild.questions, strict=True))
    }
    asked = [q for q in dict.fromkeys(wild.questions) if all((model, q) in at for model in SIZES)]
    order = np.array([[at[model, question] for question in asked] for model in SIZES])
    table = _table(tuple(SIZES), list(seen[order]), list(wild.quality[order]), None)
    some = {"all stages, or the last alone": (table, whole), "the best subset": (table, every)}
    title = f"Work for a quality, WildBench, {', '.join(SIZES)} ({len(asked)} questions)"
    curves(title, tuple(SIZES.values()), some, (52.0, 56.0, 60.0, 64.0))


def _table(
    stages: tuple[str, ...], score: list[Floats], quality: list[Floats], foreseen: list[Floats] | None
) -> QualityTable:
    ids = tuple(str(i) for i in range(len(score[0])))
    ones = np.ones((len(stages), len(ids)))
    told = None if foreseen is None else np.stack(foreseen)
    return QualityTable(
        ids,
        stages,
        np.stack(score),
        quality=np.stack(quality),
        input_tokens=ones,
        output_tokens=ones,
        foreseen=told,
    )


if __name__ == "__main__":
    steps = {"ask": ask, "tell": tell, "public": public}
    parser = argparse.ArgumentParser(description="gates beside the judge")
    parser.add_argument("step", choices=steps)
    parser.add_argument("place", type=Path)
    asked = parser.parse_args()
    steps[asked.step](asked.place)
