"""Readings of a model that thinks step by step, by llama.cpp: its whole answer, and a trial answer at each budget.

A trial answer continues the same prefix, which its slot has in its cache. Its doubt is one less the geometric mean of
its tokens' probabilities (DEER, arXiv 2504.15895, section 3.2).
"""

import asyncio
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes import llama_server
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.questions.question import Question
from cascadia.demo.stages import Stage

BUDGETS = (0, 16, 32, 48)
"""As many exits as a stage may have."""
MOST, TRIAL = 160, 10
SLOTS = 4
SAY = "Answer:"
PROMPT = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{question}\nThink step by step and "
    f"check your result. Only then write the answer on a last line that begins with {SAY}<|im_end|>\n"
    "<|im_start|>assistant\n"
)
BEGINS = "Step 1:"


async def record(
    questions: Sequence[Question], stage: Stage, file: Path, budgets: Sequence[int] = BUDGETS
) -> None:
    """Adds a line for each question to `file`, which may have some already."""
    done = {json.loads(line)["text"] for line in file.read_text().splitlines()} if file.exists() else set()
    port = free_port()
    weights = fetch(stage.model)
    command = [sys.executable, llama_server.__file__, "--model", str(stage.file(weights)), "--alias", "m"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--parallel", str(SLOTS), "--ctx-size"]
    command += [str(SLOTS * 512), "--batch-size", "512", "--threads", "1", "--cache-ram", "0"]
    with Children(file.parent / "logs") as children:
        child = children.start("thinker", command, port)
        async with httpx.AsyncClient(base_url=child.url, timeout=600.0) as client:
            await _ready(client)
            left = iter([q for q in questions if q.text not in done])

            async def work(slot: int) -> None:
                for question in left:
                    row = await _reading(client, question, slot, budgets)
                    with file.open("a") as out:
                        out.write(json.dumps(row) + "\n")

            await asyncio.gather(*(work(slot) for slot in range(SLOTS)))


async def _ready(client: httpx.AsyncClient) -> None:
    for _ in range(600):
        try:
            if (await client.get("/health")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.2)
    raise TimeoutError("the engine did not start")


async def _reading(
    client: httpx.AsyncClient, question: Question, slot: int, budgets: Sequence[int]
) -> dict[str, Any]:
    prompt = PROMPT.format(question=question.text)
    whole = await _complete(client, prompt + BEGINS, MOST, slot)
    thought, said = whole["tokens"], whole["content"]

    async def trial(at: int) -> dict[str, Any]:
        # Its thought is begun, as by a template that opens one: also where nothing of it is written.
        begun = prompt + BEGINS
        prefix = [begun, *thought[:at], f"\n{SAY}"] if at else f"{begun}\n{SAY}"
        found = await _complete(client, prefix, TRIAL, slot, stop=["\n"])
        probabilities = [each["logprob"] for each in found["completion_probabilities"]]
        mean = sum(probabilities) / max(len(probabilities), 1)
        answer = found["content"].strip()
        return {
            "at": at,
            "answer": answer,
            "tokens": len(found["tokens"]) + 2,
            "doubt": 1.0 - math.exp(mean),
            "right": question.check.passes(answer),
        }

    ended = SAY in said
    end = {} if ended else await trial(len(thought))
    answer = said.rpartition(SAY)[2].strip().split("\n")[0] if ended else end["answer"]
    return {
        "text": question.text,
        "kind": question.kind,
        "tokens": len(thought) + end.get("tokens", 0),
        "answer": answer,
        "right": question.check.passes(answer),
        "trials": [await trial(at) for at in budgets if at < len(thought)],
    }


async def _complete(
    client: httpx.AsyncClient, prompt: str | list[Any], most: int, slot: int, stop: Sequence[str] = ()
) -> dict[str, Any]:
    """`prompt`: a text, or texts and tokens in order."""
    asked = {
        "prompt": prompt,
        "n_predict": most,
        "temperature": 0.0,
        "n_probs": 1,
        "return_tokens": True,
        "cache_prompt": True,
        "id_slot": slot,
        "stop": list(stop),
    }
    answer = await client.post("/completion", json=asked)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found
