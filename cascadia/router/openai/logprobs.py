"""The log-probabilities that an engine wrote beside its answer, in whichever of its forms."""

import math
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from cascadia.router.openai.bounded import NOT_JSON
from cascadia_judge.errors import BadVerdict
from cascadia_judge.scores.certainty import Certainty

NONE, UNREADABLE = KINDS = ("no-logprobs", "unreadable-logprobs")


class Unreadable(Exception):
    """`kind` is one of `KINDS`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class _Entry(Struct):
    logprob: float
    top_logprobs: list["_Entry"] = []


class _Written(Struct):
    """`content` of chat completions; the others of `/v1/completions`, where llama.cpp writes the chat
    form."""

    content: list[_Entry] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


_written = msgspec.json.Decoder(_Written)


def certainty_in(parts: Sequence[bytes]) -> Certainty:
    """Raises `Unreadable`."""
    logprobs: list[float] = []
    margins: list[float] = []
    for part in parts:
        try:
            found = _written.decode(part)
        except NOT_JSON:
            raise Unreadable(UNREADABLE) from None
        if found.content is not None:
            for entry in found.content:
                logprobs.append(entry.logprob)
                margins.append(_margin([top.logprob for top in entry.top_logprobs] or [entry.logprob]))
            continue
        own = found.token_logprobs or []
        for at, tops in enumerate(found.top_logprobs or ()):
            if tops:
                best = max(tops.values())
                # Of a prompt's first token there is none.
                given = own[at] if at < len(own) else best
                logprobs.append(best if given is None else given)
                margins.append(_margin(list(tops.values())))
    if not logprobs:
        raise Unreadable(NONE)
    try:
        return Certainty.of(logprobs, margins)
    except BadVerdict:
        raise Unreadable(UNREADABLE) from None


def _margin(logprobs: list[float]) -> float:
    """A token without an alternative was certain."""
    first, *others = sorted((math.exp(min(0.0, p)) for p in logprobs), reverse=True)
    return first - others[0] if others else first
