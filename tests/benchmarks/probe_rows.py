"""Rows for `bench_probe`: the demo's small model asked questions, with what its cache held of each answer.

`readings` (rows, layers, 3, width) are values where the question ends, in the mean of the answer, at its last token.
"""

import asyncio
import json
from itertools import islice
from pathlib import Path
from random import Random

import httpx
import numpy as np

from cascadia.clients.engines.llama_slots import LlamaSlots
from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.measuring.asking import ask, engine
from cascadia.demo.measuring.rows import row
from cascadia.demo.questions.kinds import KINDS, drawn
from cascadia.demo.questions.question import Question
from cascadia.demo.questions.questions import ASKED, demo_questions, side, training_questions
from cascadia.demo.stages import SMALL, engine_command, free_cores
from cascadia_judge.probe.kv_state import KvState, read_kv_state
from cascadia_judge.probe.reading import read

TRAINING = 480
OF_A_KIND = 30
MEMORY = Path("/dev/shm")


def questions() -> list[tuple[str, Question]]:
    """Those that the probe is trained on, the demo's, and some of kinds that are neither's."""
    other = [kind for kind in KINDS if kind not in ASKED]
    found = [("training", each) for each in training_questions(TRAINING)]
    found += [("demo", each) for each in demo_questions()]
    for kind in other:
        drawn_ones = (each for each in drawn(kind, Random(kind)) if side(each) == "training")
        some = {each.text: each for each in islice(drawn_ones, 10 * OF_A_KIND)}
        found += [("unseen", each) for each in list(some.values())[:OF_A_KIND]]
    return found


def collect(folder: Path) -> None:
    slots = MEMORY / "cascadia-bench-probe"
    slots.mkdir(exist_ok=True)
    with Children(folder / "logs") as children:
        port = free_port()
        command = [*engine_command(SMALL, fetch(SMALL.model), port), "--slot-save-path", str(slots)]
        child = children.start(SMALL.name, command, port, free_cores()[SMALL.name])
        children.wait(limit_s=300)
        asyncio.run(_asked(child.url, slots, folder))


async def _asked(url: str, slots: Path, folder: Path) -> None:
    rows, readings = [], []
    async with engine(url) as client, httpx.AsyncClient(base_url=url, timeout=60) as http:
        states = LlamaSlots(http, slots)
        for place, question in questions():
            answer = await ask(client, SMALL.name, question, certainty=True)
            chat = {"messages": [{"role": "user", "content": question.text}]}
            prompt = await states.prefilled(0, chat, answer.text, {})
            with await states.saved(0, {}) as content:
                state = read_kv_state(content)
                if prompt < state.tokens:
                    rows.append(row(answer, SMALL.name) | {"place": place})
                    readings.append(_layers(state, prompt))
    (folder / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    np.save(folder / "readings.npy", np.array(readings))


def _layers(state: KvState, prompt: int) -> np.ndarray:
    found = []
    for layer in range(state.layers):
        reading = read(state, layer, prompt)
        assert reading.answer is not None
        found.append([reading.question, *reading.answer.reshape(2, -1)])
    return np.array(found, np.float16)
