"""Bytes of /classify and /rerank, as vLLM's and SGLang's servers have them: what is asked, and what came back.

An answer is taken apart into its parts, which stay as the engine wrote them, and put together anew.
"""

import asyncio
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from cascadia.router.openai.answers import Usage, refuse_other_than_json
from cascadia.router.openai.bounded import (
    FEW,
    NOT_JSON,
    SMALL_BYTES,
    Few,
    few_in,
    items_of,
    members_told_apart,
    tokens_said,
    turn_after,
)
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.requests import Fields
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.told_failure import told_failure

_PLACE = re.compile(r"input(?:\[(\d{1,4})\])?: ")
_INDEX = re.compile(rb'\{"index":\d+(?=,)')
INPUTS_MAX = FEW
"""Of one request: an answer has a part for each."""
CLASSES_MAX = 1 << 15
"""Of one input: half a million, which fit into a megabyte, would keep the event loop for 30 ms."""


class Part(NamedTuple):
    """An engine's answer on one input. `margin`, 0-100, is the difference of its two greatest probabilities
    (CascadeServe, app. B eq. 5)."""

    raw: bytes
    margin: float
    probs: tuple[float, ...] = ()


_Number = Annotated[int, Meta(ge=0, le=2**53)]


class Exits(Struct):
    """Exits of an engine's pass: how many inputs `left` at each ramp and, last, at none; the `setting` in force of so
    many `settings`, 0 for none, and how often settings were `withdrawn`.
    """

    left: Annotated[list[_Number], Meta(max_length=64)]
    setting: _Number = 0
    settings: _Number = 0
    withdrawn: _Number = 0


class Classified(NamedTuple):
    """`parts` are in the order of the inputs; `body` is the whole answer. `exits`: None where the engine has none."""

    parts: tuple[Part, ...]
    usage: Usage
    body: bytes
    exits: Exits | None = None


class Ranked(NamedTuple):
    """`results` from the best on, with `scores`; `body` is the whole answer."""

    results: tuple[bytes, ...]
    scores: tuple[float, ...]
    usage: Usage
    body: bytes


class _Usage(Struct):
    """Some rankings have no other count than that of all tokens."""

    prompt_tokens: int | float | None = None
    total_tokens: int | float | None = None
    exits: Exits | None = None


class _Classification(Struct):
    data: Raw
    usage: _Usage | None = None


class _LongClassification(Struct):
    data: Few
    usage: _Usage | None = None


class _Probabilities(Struct):
    probs: list[float]


class _Ranking(Struct):
    results: Raw
    usage: _Usage | None = None


class _Score(Struct):
    relevance_score: float | None = None
    score: float | None = None
    """As SGLang calls it."""


_TOKENS = re.compile(rb"\[\s*[-\d]").match
_OF_INTEGERS = b"-0123456789, \t\r\n"
"""What a list of them is made of, but for its brackets."""
_classification = msgspec.json.Decoder(_Classification)
_long_classification = msgspec.json.Decoder(_LongClassification)
_probabilities = msgspec.json.Decoder(_Probabilities)
_ranking = msgspec.json.Decoder(_Ranking)
_score = msgspec.json.Decoder(_Score)
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


def inputs_of(fields: Fields) -> list[bytes]:
    """Each input of a request to classify: a text, or a list of token ids, as it was written. Empty where it has
    messages instead, which are one input. Raises `ApiError`."""
    given = fields.given("input").strip()
    if not given:
        if fields.given("messages"):
            return []
        raise ApiError(
            400, "missing_input", "Give the field `input`: a text, or a list of texts.", param="input"
        )
    if given[:1] == b'"':
        return [given]
    # None of this makes a value for each token: a body may hold millions. One that no engine takes would have the batch
    # refused in which others' inputs are.
    brackets = b""
    if _TOKENS(given):
        items, brackets, fits = [given], given.translate(None, _OF_INTEGERS), b"[]"
    else:
        try:
            items = items_of(given)
        except msgspec.ValidationError as error:
            code = "invalid_value" if given.startswith(b"[") else "invalid_type"
            message = f"`input` is a text, or a list of 1 to {INPUTS_MAX} texts ({error})."
            raise ApiError(400, code, message, param="input") from None
        if not items:
            message = f"`input` has no texts; give 1 to {INPUTS_MAX}."
            raise ApiError(400, "invalid_value", message, param="input")
        if all(item.startswith(b'"') for item in items):
            return items
        if items[0].startswith(b"["):
            brackets = given.translate(None, _OF_INTEGERS)
        fits = b"[%b]" % (b"[]" * len(items))
    if brackets != fits:
        message = "`input` is a text, a list of texts, or lists of token ids."
        raise ApiError(400, "invalid_type", message, param="input")
    return items


def listed(items: Sequence[bytes]) -> Raw:
    """`items`, which are JSON, as a JSON list."""
    return Raw(b"[" + b",".join(items) + b"]")


def margin(probabilities: Sequence[float]) -> float:
    """0-100. One class is certain; what is no probability is cut off."""
    if len(probabilities) < 2:
        return 100.0
    first = max(probabilities)
    at = probabilities.index(first)
    second = max([*probabilities[:at], *probabilities[at + 1 :]])
    return min(100.0, max(0.0, 100.0 * (first - second)))


async def classified_in(content_type: bytes, body: bytes, count: int) -> Classified:
    """Reads a 200 with a part for each of `count` inputs. Raises `UpstreamError`."""
    items, usage = _listed(content_type, body, count)
    await turn_after(body)
    parts = await parts_of(items)
    return Classified(parts, _counted(usage), body, _exits(usage))


def _listed(content_type: bytes, body: bytes, count: int) -> tuple[list[bytes], _Usage | None]:
    refuse_other_than_json(content_type)
    try:
        if len(body) <= SMALL_BYTES:
            short = _classification.decode(body)
            items, usage = items_of(short.data), short.usage
        else:
            # In one go: each takes up to 5 ms a megabyte.
            long = _long_classification.decode(body)
            items, usage = few_in(long.data), long.usage
    except NOT_JSON:
        raise told_failure(body) or UpstreamError("unreadable", "no classification in JSON") from None
    if len(items) != count:
        raise UpstreamError("unreadable", f"{len(items)} parts for {count} inputs")
    return items, usage


async def parts_of(items: Iterable[bytes]) -> tuple[Part, ...]:
    """Reads parts, a few kilobytes in a turn of the event loop: each number takes a tenth of a microsecond. Raises
    `UpstreamError`."""
    parts, read_bytes = [], 0
    for raw in items:
        parts.append(part_of(raw))
        read_bytes += len(raw)
        if read_bytes > SMALL_BYTES:
            read_bytes = 0
            await asyncio.sleep(0)
    return tuple(parts)


def parts_in(content_type: bytes, body: bytes, count: int) -> tuple[Usage, list[bytes], Exits | None]:
    """Usage, parts and exits of a 200 as `classified_in` reads it, but for the probabilities: a batch has no gate."""
    parts, usage = _listed(content_type, body, count)
    if not all(part.startswith(b"{") for part in parts):
        raise UpstreamError("unreadable", "a part that is no object")
    return _counted(usage), parts, _exits(usage)


def batch_body(model: str, items: Sequence[bytes], truncate: bytes = b"") -> bytes:
    """The request of a batch; of one member it is a list too. `truncate`: what all its members ask of long texts."""
    told = b',"truncate_prompt_tokens":%b' % truncate if truncate else b""
    return b'{"model":%b,"input":[%b]%b}' % (_encode(model), b",".join(items), told)


def refused_at(body: bytes, places: Sequence[int]) -> bytes:
    """An engine's refusal of a client's inputs, which were sent from these `places` of its list, with the place of the
    one that is to blame; as it is where it does not say which that is, or is longer than any that does."""
    if len(body) > SMALL_BYTES:
        return body
    try:
        document = _any.decode(body)
        error = document.get("error", document)
        said = error["message"]
        place = _PLACE.match(said)
    except (*NOT_JSON, AttributeError, KeyError, TypeError):
        return body
    number = 0 if len(places) == 1 else int(place[1]) if place and place[1] else None
    if number is None or number >= len(places):
        return body
    told = f"input[{places[number]}]"
    error |= {"message": f"{told}: {said[place.end() :] if place else said}", "param": told}
    return _encode(document)


def part_of(raw: bytes) -> Part:
    """Reads a part. Raises `UpstreamError`."""
    if raw.count(b",") > CLASSES_MAX:
        raise UpstreamError("unreadable", f"more than {CLASSES_MAX:,} probabilities")
    try:
        probs = _probabilities.decode(raw).probs
    except NOT_JSON:
        raise UpstreamError("unreadable", "a part without probabilities") from None
    return Part(raw, margin(probs), tuple(probs))


def answer_of(request_id: bytes, model: str, parts: Sequence[bytes], tokens: int) -> bytes:
    """A whole answer of `parts`, for whom no engine wrote one."""
    data = b",".join(_numbered(raw, at) for at, raw in enumerate(parts))
    head = b'{"id":"classify-%b","object":"list","created":%d,"model":%b,"data":[%b],' % (
        request_id,
        time.time(),
        _encode(model),
        data,
    )
    usage = b'"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":0}}' % (tokens, tokens)
    return head + usage


def ranked_in(content_type: bytes, body: bytes) -> Ranked:
    """Reads a 200 with a ranking, an object as vLLM's or a list as SGLang's. Raises `UpstreamError`."""
    refuse_other_than_json(content_type)
    try:
        if body[:1] == b"[":
            results, usage = items_of(body), Usage()
        else:
            found = _ranking.decode(body)
            results, usage = items_of(found.results), _counted(found.usage)
        scores = [_score_of(raw) for raw in results]
    except NOT_JSON:
        raise told_failure(body) or UpstreamError("unreadable", "no ranking in JSON") from None
    if not results:
        raise UpstreamError("unreadable", "a ranking of nothing")
    order = sorted(range(len(scores)), key=lambda at: -scores[at])
    return Ranked(tuple(results[at] for at in order), tuple(scores[at] for at in order), usage, body)


def _score_of(raw: bytes) -> float:
    found = _score.decode(raw)
    score = found.relevance_score if found.relevance_score is not None else found.score
    if score is None:
        raise UpstreamError("unreadable", "a result without a score")
    return score


def margin_at(scores: Sequence[float], cut: int) -> float:
    """The margin, 0-100, between the last of the best `cut` and the next; where none is next all are wanted in their
    order, and it is that of the first. One document is certain."""
    if len(scores) <= 1:
        return 100.0
    if cut >= len(scores):
        cut = 1
    return min(100.0, max(0.0, 100.0 * (scores[cut - 1] - scores[cut])))


def _counted(usage: _Usage | None) -> Usage:
    return Usage(tokens_said(usage.prompt_tokens or usage.total_tokens) if usage else 0, 0)


def _exits(usage: _Usage | None) -> Exits | None:
    return None if usage is None else usage.exits


def put_together(body: bytes, parts: Sequence[bytes], usage: Usage, note: Mapping[str, Any]) -> bytes:
    """`body`, an engine's answer, with `parts` for its own, numbered anew, and `usage`; `note` as `cascadia`. Where it
    has more members than are told apart, no others are passed on.
    """
    members = members_told_apart(body) or {}
    members["data"] = listed([_numbered(raw, at) for at, raw in enumerate(parts)])
    tokens = usage.input_tokens
    members["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
    return _encode(members | {"cascadia": note} if note else members)


def _numbered(raw: bytes, index: int) -> bytes:
    """`raw` with its `index`; as it is where that is its own already, or cannot be told from all else in it."""
    found = _INDEX.match(raw)
    if found is not None:
        # As engines write it, and we: nothing need be decoded.
        return b'{"index":%d' % index + raw[found.end() :]
    members = members_told_apart(raw)
    return raw if members is None else _encode(members | {"index": index})


def first_of(ranked: Ranked, cut: int | None, note: Mapping[str, Any]) -> bytes:
    """The ranking with its best `cut` results, all where that is None. SGLang's list has no place for `note`."""
    results = listed(ranked.results[:cut])
    if ranked.body[:1] == b"[":
        return bytes(results)
    members = members_told_apart(ranked.body) or {}
    return _encode(members | {"results": results, "cascadia": note})


def shares(total: int, sizes: Sequence[int]) -> Iterator[int]:
    """`total` tokens, divided among inputs by their `sizes` in bytes; the parts add up to it."""
    whole, before = sum(sizes) or 1, 0
    done = 0
    for size in sizes:
        before += size
        upto = total * before // whole
        yield upto - done
        done = upto
