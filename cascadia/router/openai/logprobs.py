"""The log-probabilities that an engine writes beside its answer, in whichever of its forms: how many are asked for,
what they say, and what of them the client gets.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from cascadia.router.openai.bounded import FEW, NOT_JSON, items_of, members_of
from cascadia.router.openai.requests import Api, Fields
from cascadia_judge.errors import BadVerdict
from cascadia_judge.scores.certainty import Certainty

NONE, UNREADABLE = KINDS = ("no-logprobs", "unreadable-logprobs")


ALL = FEW
"""Alternatives of a token, as many as there are."""


def alternatives_of(fields: Fields, api: Api) -> int | None:
    """Alternatives of each token that a client asks for; None where it wants no log-probabilities. `ALL` also where the
    engine alone knows what is meant.
    """
    given = fields.given("logprobs")
    if given in (b"", b"false"):
        return None
    if api == "chat":
        most = fields.top_logprobs or 0
        return most if given == b"true" and 0 <= most <= ALL else ALL
    return int(given) if given.isdigit() and len(given) <= 3 else ALL


def beside(fields: Fields, api: Api, wants: Mapping[str, Any]) -> dict[str, Any]:
    """Changes to a request by which its answer has what a gate `wants`, and no less than the client asks for."""
    asked = alternatives_of(fields, api)
    name = "top_logprobs" if api == "chat" else "logprobs"
    return {} if asked is not None and asked >= int(wants.get(name, 0)) else dict(wants)


def with_fewer(logprobs: Raw, most: int) -> Raw:
    """The log-probabilities with `most` alternatives of each token; as they are where those cannot be told apart at
    once.
    """
    try:
        members = members_of(bytes(logprobs))
        if "content" in members:
            tokens = [members_of(token) for token in items_of(bytes(members["content"]))]
            for token in tokens:
                if "top_logprobs" in token:
                    token["top_logprobs"] = [
                        Raw(each) for each in items_of(bytes(token["top_logprobs"]))[:most]
                    ]
            members["content"] = tokens
        elif "top_logprobs" in members:
            own = _strings.decode(members["tokens"])
            tops = _tops.decode(members["top_logprobs"])
            members["top_logprobs"] = [
                _likeliest(top, most, token) for top, token in zip(tops, own, strict=True)
            ]
    except (*NOT_JSON, KeyError, ValueError):
        return logprobs
    return Raw(msgspec.json.encode(members))


def _likeliest(top: dict[str, float] | None, most: int, token: str) -> dict[str, float] | None:
    """`most` of the alternatives, and beside them the token that was written."""
    if top is None:
        return None
    kept = {*sorted(top, key=lambda name: -top[name])[:most], token}
    return {name: logprob for name, logprob in top.items() if name in kept}


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
_strings = msgspec.json.Decoder(list[str])
_tops = msgspec.json.Decoder(list[dict[str, float] | None])


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
