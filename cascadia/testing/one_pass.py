"""Engines that classify: fakes of one-pass models for tests of routers, by script."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from cascadia.testing.engines import FakeEngine, send


def classifier(probabilities: Callable[[str], list[float]], poison: str = "poison") -> FakeEngine:
    """An engine that answers /v1/classify by `probabilities` of a text; a list with `poison` in it gets a 400, as
    vLLM's would."""

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        if poison in texts:
            send(writer, 400, b'{"error":{"message":"cannot be read","code":"bad"}}')
        else:
            send(writer, 200, classification([probabilities(text) for text in texts]))

    return FakeEngine(answer=answer)


def classification(rows: list[list[float]], exits: dict[str, Any] | None = None) -> bytes:
    """The body of an answer with a part for each of `rows`, whose inputs had 5 tokens each; `exits` as engines tell."""
    data = [
        {"index": at, "label": str(probs.index(max(probs))), "probs": probs, "num_classes": len(probs)}
        for at, probs in enumerate(rows)
    ]
    usage: dict[str, Any] = {
        "prompt_tokens": 5 * len(rows),
        "total_tokens": 5 * len(rows),
        "completion_tokens": 0,
    }
    usage |= {} if exits is None else {"exits": exits}
    return json.dumps(
        {"id": "c", "object": "list", "created": 1, "model": "m", "data": data, "usage": usage}
    ).encode()
