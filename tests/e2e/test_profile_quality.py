"""`cascadia profile quality` on a real engine: SmolLM2 answers, and judges, questions whose answers are known."""

import hashlib
import json
import random
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cascadia.planner.problem.quality_file import read_quality
from tests.e2e.commands import Cascadia
from tests.e2e.engine_packages import gguf_model
from tests.e2e.engine_servers import NAME, llama_cpp

MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LIMIT_S = 1800
STAGES = ("brief", "free")
SPEC = """\
stages:
  - {name: brief, model: meta-llama/Llama-3.1-8B-Instruct}
  - {name: free, model: meta-llama/Llama-3.1-70B-Instruct}
cluster: {pools: [{gpu: h100-sxm, nodes: 1, gpus_per_node: 8}]}
judge: {kind: llm, model: meta-llama/Llama-3.1-8B-Instruct}
workload: {trace: trace.csv}
quality: {table: quality.parquet}
objective: {minimize: latency, quality_min: 5}
"""


EXAMPLES = (
    ("What is 3 + 4?", "7"),
    ("What is the capital of Spain?", "Madrid"),
    ("Which day comes after Saturday?", "Sunday"),
    ("What is 2 times 6?", "12"),
)
"""Without them the model rambles."""


def questions() -> Iterator[dict[str, Any]]:
    """Twenty, each with a regular expression that finds the right answer and few wrong ones."""
    draw = random.Random(20)
    for number in range(8):
        a, b = draw.randint(2, 30), draw.randint(2, 30)
        yield question(f"sum{number}", f"What is {a} + {b}?", rf"\b{a + b}\b")
    for number in range(4):
        a, b = draw.randint(2, 9), draw.randint(2, 9)
        yield question(f"product{number}", f"What is {a} times {b}?", rf"\b{a * b}\b")
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
    for today, tomorrow in pairwise(days):
        yield question(today, f"Which day comes after {today}?", tomorrow)
    for country, capital in (("France", "Paris"), ("Italy", "Rome"), ("Japan", "Tokyo"), ("Peru", "Lima")):
        yield question(country, f"What is the capital of {country}?", f"(?i){capital}")


def question(name: str, asked: str, reference: str) -> dict[str, Any]:
    said = [text for example in EXAMPLES for text in example]
    messages = [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate([*said, asked])
    ]
    return {"prompt_id": name, "messages": messages, "reference": reference}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address. The model is the one whose answers were looked at when this was written."""
    assert hashlib.sha256(gguf_model().read_bytes()).hexdigest() == MODEL_SHA256
    with llama_cpp(slots=4, log=tmp_path_factory.mktemp("engine") / "log") as url:
        yield url


def test_a_table_measured_on_a_real_engine_survives_a_kill_and_can_be_planned_with(
    cascadia: Cascadia, engine: str
) -> None:
    asked = list(questions())
    assert len(asked) == 20
    folder = cascadia.folder
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    stages = [f"--stage={name}={engine}/v1#{NAME}" for name in STAGES]
    judge = [f"--judge={engine}/v1#{NAME}", "--judge=regex"]
    run = ["profile", "quality", "--prompts=prompts.jsonl", "--out=quality.parquet", *stages, *judge]
    run += ["--max-tokens=16", "--concurrency=1", "--keep-answers=answers.jsonl", "--json"]

    journal = folder / "quality.parquet.journal.jsonl"
    killed = cascadia.start(*run)
    while lines(journal) < 6:
        with pytest.raises(subprocess.TimeoutExpired):  # it runs
            killed.wait(0.2)
    killed.kill()
    killed.communicate(timeout=60)
    kept = lines(journal) - 1
    assert not (folder / "quality.parquet").exists()

    # A busy machine may need longer than commands are given elsewhere.
    going_on = cascadia.start(*run)
    said, remarks = going_on.communicate(timeout=LIMIT_S)
    assert going_on.returncode == 0, remarks
    assert f"going on: {kept} of 40 answers" in remarks
    table = read_quality(folder / "quality.parquet", STAGES)
    assert set(table.prompt_ids) == {row["prompt_id"] for row in asked}
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert len({(row["prompt_id"], row["stage"]) for row in answers}) == len(answers) == 40
    assert all(row["expected"] for row in answers)
    # One model twice, at temperature 0: right more than never, wrong more than never, much the same in both stages.
    right = table.quality.mean(axis=1)
    assert ((right >= 15) & (right <= 95)).all()
    assert abs(right[0] - right[1]) <= 15
    assert ((table.output_tokens >= 1) & (table.output_tokens <= 16)).all()
    agreement = json.loads(said)["agreement"]
    print(
        f"\nright {right.tolist()} %, AUC of the judge {agreement['auc']:.2f}, {kept} answers before the kill"
    )

    (folder / "trace.csv").write_text(
        "arrival_s,input_tokens,output_tokens\n" + "".join(f"{n * 0.5},200,100\n" for n in range(60))
    )
    (folder / "cascade.yaml").write_text(SPEC)
    plan = cascadia("plan", "cascade.yaml", "--json", "--no-report").document
    assert plan["plan"]["predicted"]["quality"]["questions"] == 20


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
