"""Batches as they go to a worker, and what comes back for each of its members, by the models' task.

Texts to classify go as one list. A ranking is a request of its own, of one query, so that a batch is a single one: its
texts are the engine's batch.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from cascadia.router.openai.answers import Usage
from cascadia.router.openai.one_pass import Exits, answer_of, batch_body, inputs_of, parts_in, ranked_in
from cascadia.router.openai.requests import Fields, rewritten

Parts = tuple[Usage, list[bytes], Exits | None]


class Wire(NamedTuple):
    """`members` of a request's body and fields, which raises `ApiError`; `body` of a model's name, its members and what
    these ask of long texts; `parts` of an answer's content type, content and number of members, which raises
    `UpstreamError`; `answer` of a request's id, a model's name, its parts and tokens. `most`: members of a batch; None,
    as many as one likes."""

    path: bytes
    members: Callable[[bytes, Fields], list[bytes]]
    body: Callable[[str, Sequence[bytes], bytes], bytes]
    parts: Callable[[bytes, bytes, int], Parts]
    answer: Callable[[bytes, str, Sequence[bytes], int], bytes]
    most: int | None


def _texts(_: bytes, fields: Fields) -> list[bytes]:
    return inputs_of(fields)


def _request(body: bytes, _: Fields) -> list[bytes]:
    # Read here, so that one that cannot be read is told at once.
    return [rewritten(body, "", {}, "rerank")]


def _ranking(model: str, members: Sequence[bytes], _: bytes) -> bytes:
    (body,) = members
    return rewritten(body, model, {}, "rerank")


def _ranked(content_type: bytes, content: bytes, count: int) -> Parts:
    assert count == 1
    return ranked_in(content_type, content).usage, [content], None


def _own(_id: bytes, _model: str, parts: Sequence[bytes], _tokens: int) -> bytes:
    (content,) = parts
    return content


WIRES: Mapping[str, Wire] = MappingProxyType(
    {
        "classify": Wire(b"/v1/classify", _texts, batch_body, parts_in, answer_of, None),
        "rerank": Wire(b"/v1/rerank", _request, _ranking, _ranked, _own, 1),
    }
)
