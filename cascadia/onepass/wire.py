"""JSON of the engine, in the shapes of vLLM's and SGLang's servers: docs/reference/onepass.md says which and where."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
import numpy as np
from msgspec import Struct

from cascadia.onepass.model import OnePassModel
from cascadia.onepass.runner import BadText, Forwarded, Input

T = TypeVar("T")
INPUTS_MAX = 1024
"""Texts or documents of one request."""


class BadRequest(Exception):
    """The message says what to send instead; `param` names the field."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class _Common(Struct):
    model: str = ""
    truncate_prompt_tokens: int | None = None

    def truncate(self, model: OnePassModel) -> int | None:
        """Tokens to read of a text, -1 for as many as `model` does; None: a longer one is refused. Raises
        `BadRequest`, as vLLM does, for more than the model reads."""
        asked = self.truncate_prompt_tokens
        if asked is not None and not (asked == -1 or 1 <= asked <= model.tokens_max):
            message = f"truncate_prompt_tokens is {asked}; give 1 to {model.tokens_max}, or -1 for as many."
            raise BadRequest(message, "truncate_prompt_tokens")
        return model.tokens_max if asked == -1 else asked


class ClassifyBody(_Common):
    input: str | list[str | int | list[int]] = ""

    @property
    def inputs(self) -> list[Input]:
        """Raises `BadRequest`, as SGLang does, for what holds no text."""
        found: list[Any] = self.input if isinstance(self.input, list) else [self.input]
        if found and all(isinstance(one, int) for one in found):
            return [found]
        if any(isinstance(one, int) for one in found):
            raise BadRequest(
                "A list of inputs holds texts, or lists of token ids, or is one list of ids.", "input"
            )
        return _filled(found, "input")

    def place(self, at: int) -> str:
        """Place of input number `at` in what the client wrote."""
        return f"input[{at}]" if isinstance(self.input, list) and len(self.inputs) > 1 else "input"


class _Document(Struct):
    text: str


class RerankBody(_Common):
    query: str = ""
    documents: str | list[str | _Document] = []
    top_n: int | None = None

    @property
    def inputs(self) -> list[Input]:
        """The query, then the documents. Raises `BadRequest`."""
        given = self.documents if isinstance(self.documents, list) else [self.documents]
        texts = [one if isinstance(one, str) else one.text for one in given]
        return [*_filled([self.query], "query"), *_filled(texts, "documents")]

    def place(self, at: int) -> str:
        """Place of input number `at` in what the client wrote."""
        return f"documents[{at - 1}]" if at else "query"


def _filled(texts: Sequence[Input], param: str) -> list[Input]:
    if not texts:
        raise BadRequest(f"{param} is empty: give at least one text.", param)
    if len(texts) > INPUTS_MAX:
        raise BadRequest(f"{param} has {len(texts)} texts; send at most {INPUTS_MAX}.", param)
    for at, one in enumerate(texts):
        if not (one.strip() if isinstance(one, str) else one):
            place = param if len(texts) == 1 else f"{param}[{at}]"
            raise BadRequest(
                f"{place}: The text is empty, or white space alone: write at least a word.", place
            )
    return list(texts)


_classify = msgspec.json.Decoder(ClassifyBody)
_rerank = msgspec.json.Decoder(RerankBody)
_encode = msgspec.json.Encoder(decimal_format="number").encode


def read_classify(body: bytes) -> ClassifyBody:
    """Raises `BadRequest`."""
    return _read(_classify, body)


def read_rerank(body: bytes) -> RerankBody:
    """Raises `BadRequest`."""
    return _read(_rerank, body)


def _read(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"The body cannot be read: {str(error)[:200]}.") from None


def bad_text(error: BadText, asked: ClassifyBody | RerankBody) -> BadRequest:
    """The fault of a text, its place told as the client wrote it."""
    place = asked.place(error.at)
    return BadRequest(f"{place}: {error}", place)


def classified(model: OnePassModel, found: Forwarded, exits: Mapping[str, Any] | None = None) -> bytes:
    """The answer of /classify; `exits` is what its usage says of them. Each part then says where its input left: the
    ramp counted from 1, or 0, at none.
    """
    best = found.values.argmax(axis=1).tolist()
    data = [
        {"index": at, "label": model.labels[top], "probs": probs, "num_classes": len(probs)}
        for at, (top, probs) in enumerate(zip(best, found.values.tolist(), strict=True))
    ]
    tokens = int(found.tokens.sum())
    usage: dict[str, Any] = {
        "prompt_tokens": tokens,
        "total_tokens": tokens,
        "completion_tokens": 0,
        "prompt_tokens_details": None,
    }
    if exits is not None:
        usage["exits"] = exits
        ends = len(exits["left"])
        for part, at in zip(data, () if found.exit_at is None else found.exit_at.tolist(), strict=False):
            part["exit"] = (at + 1) % ends
    answer = {
        "id": f"classify-{uuid4().hex}",
        "object": "list",
        "created": int(time.time()),
        "model": model.name,
        "data": data,
        "usage": usage,
    }
    return _encode(answer)


def reranked(model: OnePassModel, body: RerankBody, found: Forwarded) -> bytes:
    """The answer of /rerank: the best `top_n` first; a score is the cosine of query and document, as 0-1."""
    query, *documents = found.values
    scores = (1.0 + np.clip(np.array(documents) @ query, -1.0, 1.0)) / 2.0
    order = np.argsort(-scores, kind="stable")
    # As in vLLM: none, 0 and less are all.
    kept = order[: body.top_n] if body.top_n and body.top_n > 0 else order
    texts = body.inputs[1:]
    results = [
        {"index": int(at), "document": {"text": texts[at]}, "relevance_score": float(scores[at])}
        for at in kept
    ]
    tokens = int(found.tokens.sum())
    answer = {
        "id": f"rerank-{uuid4().hex}",
        "model": model.name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "results": results,
    }
    return _encode(answer)
