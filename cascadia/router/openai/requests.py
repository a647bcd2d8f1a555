"""Reading of a request, and its writing for an engine. Everything else passes as it came.

Only fields that decide something are decoded; the rest stays bytes (`msgspec.Raw`), so that nested tool schemas, images
and unknown fields reach the engine unchanged.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cascadia.dispatch.prefix_affinity import point_of
from cascadia.router.openai.bounded import (
    FEW,
    LONG_BYTES,
    MOST_TOKENS,
    MOST_VALUES,
    NOT_JSON,
    SMALL_BYTES,
    items_of,
    members_of,
)
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.texts import prompt_tokens_of

Api = Literal[
    "chat", "completions", "embeddings", "responses", "classify", "rerank", "score", "pooling", "tokens"
]
MOST_ANSWERS = 1024
LIMITED_BY = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Members that bound an answer."""
WRITTEN: tuple[Api, ...] = ("chat", "completions", "responses")
"""Whose answers a model writes, token by token; all others are answered in one pass."""
STREAMED: tuple[Api, ...] = ("chat", "completions")
"""Whose streams tell their usage where that is asked for; those of responses always do."""

APIS: dict[str, Api] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/responses": "responses",
    "/v1/classify": "classify",
    "/classify": "classify",
    "/v1/rerank": "rerank",
    "/rerank": "rerank",
    "/v2/rerank": "rerank",
    "/v1/score": "score",
    "/score": "score",
    "/pooling": "pooling",
    "/tokenize": "tokens",
    "/detokenize": "tokens",
}
TOKENIZERS = frozenset(path.encode() for path, api in APIS.items() if api == "tokens")
"""Paths at which no model reads or writes anything."""

OTHER_NAMES = {
    b"/classify": b"/v1/classify",
    b"/rerank": b"/v1/rerank",
    b"/v2/rerank": b"/v1/rerank",
    b"/score": b"/v1/score",
}
"""Paths under which vLLM serves the same, with the one that other engines have."""
OWN_FIELDS = ("max_stage", "min_stage", "deadline_ms", "score_min", "quality_min", "priority", "exits")
"""Of the cascade, not of OpenAI's API: no engine sees them."""
WRITING_FIELDS = (
    *("stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "max_output_tokens"),
    *("logprobs", "top_logprobs", "tools", "response_format"),
    *("previous_response_id", "conversation", "background"),
)
"""Of answers that a model writes: what answers in one pass has none of them, and its engine sees none."""
OTHERS: dict[Api, tuple[str, ...]] = {
    "chat": ("prompt", "input", "text", "echo"),
    "completions": ("messages", "input", "text", "tools", "tool_choice"),
    "responses": ("messages", "response_format", "echo"),
}
"""Fields that other endpoints know, by the one that does not."""
_WITH_WRITING = (*WRITTEN, "tokens")
"""A chat's tokens are counted with its tools."""
OUTPUT_TOKENS = 256
"""Assumed where the request sets no limit."""
PREFIX_BYTES = 4096
PREFIX_ITEMS = 64


class _StreamOptions(Struct):
    include_usage: bool | None = None


class Fields(Struct, gc=False):
    """`n` and the like may be null, as OpenAI's clients write them."""

    model: str
    stream: bool | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    messages: Raw | UnsetType = UNSET
    prompt: Raw | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    tool_choice: Raw | UnsetType = UNSET
    parallel_tool_calls: Raw | UnsetType = UNSET
    response_format: Raw | UnsetType = UNSET
    structured_outputs: Raw | UnsetType = UNSET
    """vLLM's own form of `response_format`."""
    echo: Raw | UnsetType = UNSET
    seed: Raw | UnsetType = UNSET
    logprobs: Raw | UnsetType = UNSET
    stream_options: Raw | UnsetType = UNSET
    top_logprobs: int | None = None
    max_stage: str | UnsetType | None = UNSET
    min_stage: str | UnsetType | None = UNSET
    deadline_ms: float | UnsetType | None = UNSET
    score_min: float | UnsetType | None = UNSET
    quality_min: float | UnsetType | None = UNSET
    """The former name of `score_min`."""
    priority: int | UnsetType | None = UNSET
    exits: bool | UnsetType | None = UNSET
    """Whether a stage may answer before it has thought to the end."""
    user: Raw | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    documents: Raw | UnsetType = UNSET
    encoding_format: Raw | UnsetType = UNSET
    top_n: int | None = None
    truncate_prompt_tokens: int | None = None
    instructions: Raw | UnsetType = UNSET
    text: Raw | UnsetType = UNSET
    max_output_tokens: int | None = None
    previous_response_id: Raw | UnsetType = UNSET
    conversation: Raw | UnsetType = UNSET
    background: Raw | UnsetType = UNSET

    @property
    def all_members(self) -> Mapping[str, Any]:
        """Members of a long body, which is not read through again for them; empty of another."""
        return {}

    @property
    def has_own(self) -> bool:
        """Tells whether a field of the cascade's own is there, be it null."""
        limits = self.max_stage is self.min_stage is self.deadline_ms is self.priority is UNSET
        return not (limits and self.score_min is self.quality_min is self.exits is UNSET)

    def misplaced(self, api: Api) -> bool:
        """Tells whether a field has a value that no endpoint of this kind knows."""
        return api not in _WITH_WRITING and any(
            getattr(self, name) not in (None, UNSET) for name in WRITING_FIELDS
        )

    def forget_others(self, api: Api) -> None:
        """Forgets what endpoints other than `api` know: its engine looks at none of that, and it decides nothing."""
        for name in OTHERS.get(api, ()):
            if getattr(self, name) is not UNSET:
                setattr(self, name, UNSET)

    @property
    def unwritten(self) -> bool:
        """Tells whether the client wants its own text back, be it with its log-probabilities, or no text at all: there
        is nothing to judge, or it stands behind what nobody wrote."""
        return self.given("echo") not in (b"", b"false", b"0") or self.output_limit == 0

    @property
    def prompts(self) -> int:
        """Prompts of a completion, which has an answer to each: of a list of texts, or of lists of tokens, as many as
        there are; more than `FEW` are not counted."""
        return 1 if self.prompt is UNSET else prompts_in(self.given("prompt"))

    @property
    def choices(self) -> int:
        """Answers that are asked for, at least one."""
        return self.prompts * max(1, self.n or 1)

    @property
    def answers(self) -> int:
        """As `choices`, as far as a choice between replicas looks at how many they are."""
        return min(MOST_ANSWERS, self.choices)

    @property
    def asks_usage(self) -> bool:
        """Tells whether a stream is to end with its usage."""
        try:
            return bool(_stream_options.decode(self.given("stream_options") or b"{}").include_usage)
        except NOT_JSON:
            return False

    def hides_usage(self, api: Api) -> bool:
        """Tells whether the engine is to end a stream with its usage though the client does not ask for that: all that
        is charged, limited or learnt goes by what was counted."""
        return bool(self.stream) and api in STREAMED and not self.asks_usage

    def adds_usage(self, api: Api) -> bool:
        """Tells whether `stream_options` are the router's own alone."""
        return self.hides_usage(api) and not self.given("stream_options")

    def telling_usage(self, api: Api, *, refused: bool) -> dict[str, Any]:
        """Changes by which a stream ends with its usage, whether its client asks for that or not. `refused`: not by
        engines that know no `stream_options`."""
        if not self.hides_usage(api) or (refused and self.adds_usage(api)):
            return {}
        try:
            options: dict[str, Any] = members_of(self.given("stream_options") or b"{}")
        except NOT_JSON:
            options = {}
        # Of engines that tell it in each event, once they are to tell it.
        options.pop("continuous_usage_stats", None)
        return {"stream_options": options | {"include_usage": True}}

    @property
    def output_tokens(self) -> int:
        most = self.most_output
        if most is not None:
            return most
        return min(MOST_TOKENS, OUTPUT_TOKENS * self.choices)

    @property
    def output_limit(self) -> int | None:
        """Tokens that one answer may have, where the request says so: none at all for who wants its prompt's
        log-probabilities alone. Below 0 it says that there is no limit, as llama.cpp has it.
        """
        limit = self.max_completion_tokens
        limit = self.max_tokens if limit is None else limit
        limit = self.max_output_tokens if limit is None else limit
        if limit is None:
            return None
        return min(limit, MOST_TOKENS) if limit >= 0 else None

    @property
    def truncate(self) -> bytes:
        """Tokens of a text that are kept where it is longer than a model reads; empty where nothing is asked."""
        return b"" if self.truncate_prompt_tokens is None else b"%d" % self.truncate_prompt_tokens

    @property
    def most_output(self) -> int | None:
        """Output limit, as `output_limit`, of all answers that are asked for."""
        if self.max_completion_tokens is self.max_tokens is self.max_output_tokens is None:
            return None
        limit = self.output_limit
        return None if limit is None else min(MOST_TOKENS, limit * self.choices)

    def beginning(self, name: str) -> bytes:
        """Value as `given`, of a long field no more than is looked at: its bytes are not copied."""
        value = getattr(self, name)
        if value is UNSET or len(memoryview(value)) <= SMALL_BYTES:
            return self.given(name)
        return bytes(memoryview(value)[: SMALL_BYTES + 2 * PREFIX_BYTES])

    def given(self, name: str) -> bytes:
        """The field's bytes; empty where it is absent or null."""
        value = getattr(self, name)
        content = b"" if value is UNSET else bytes(value)
        return b"" if content == b"null" else content


class LongFields(Fields, gc=False):
    """Fields of a long body."""

    members: dict[str, Any] = {}

    @property
    def all_members(self) -> Mapping[str, Any]:
        return self.members


_RAW_FIELDS = {field.name for field in msgspec.structs.fields(Fields) if Raw in get_args(field.type)}
# Not strict, as engines are not: `12.0` tokens are 12. What is neither is for the engine to refuse.
_fields = msgspec.json.Decoder(Fields, strict=False)
_long_fields = msgspec.json.Decoder(LongFields, strict=False)
_messages = msgspec.json.Decoder(list[Raw])
_stream_options = msgspec.json.Decoder(_StreamOptions, strict=False)
_encoder = msgspec.json.Encoder()
_SEED = re.compile(rb"-?\d{1,19}")
# Possessive (`++`): a string without end must not be tried again from each of its places.
_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
"""Of JSON, with its strings, in which a bracket is none."""


def read_fields(body: bytes, api: Api | None = None) -> Fields:
    """Fields that `api` knows, or all. Raises `ApiError` for what is no JSON object with a model, or has a deciding
    field of the wrong type."""
    try:
        if not body.isascii():
            # The decoder looks at what it decodes only; an engine would look at all of it.
            body.decode("utf-8")
        fields = _fields.decode(body) if len(body) <= LONG_BYTES else _fields_of(members_of(body))
    except msgspec.ValidationError as error:
        said = str(error)
        param = said.rpartition("`$.")[2].rstrip("`") if "`$." in said else None
        if "missing required field `model`" in said:
            raise ApiError(
                400, "missing_model", "Say which model: the field `model` is missing.", param="model"
            ) from None
        raise ApiError(400, "invalid_type", f"{said[:200]}.", param=param) from None
    except NOT_JSON as error:
        raise ApiError(400, "invalid_json", f"The body is not JSON: {str(error)[:200]}.") from None
    if api is not None:
        fields.forget_others(api)
    return fields


def _fields_of(members: Mapping[str, Any]) -> Fields:
    """Fields of a long body, whose members were counted: the decoder compares the name of each with all of its own, and
    of two hundred thousand that takes as long as all else.
    """
    told = {name: members[name] for name in Fields.__struct_fields__ if name in members}
    raw = {name: told.pop(name) for name in _RAW_FIELDS & told.keys()}
    for name, value in told.items():
        if len(memoryview(value)) > SMALL_BYTES:
            raise ApiError(400, "invalid_value", f"`{name}` is too long.", param=name)
    fields = _long_fields.decode(_encoder.encode(told))
    fields.members = dict(members)
    for name, value in raw.items():
        setattr(fields, name, value)
    return fields


def each_prompt(prompt: bytes) -> list[bytes]:
    """Each of the prompts, as it is: a text, or a list of tokens. Raises `msgspec.DecodeError`, also for more than
    `FEW`."""
    lists = prompt.startswith(b"[") and prompt[1:64].lstrip()[:1] in (b'"', b"[")
    return items_of(prompt) if lists else [prompt]


def most_written(fields: Fields, changes: Mapping[str, Any]) -> int | None:
    """Tokens of each answer at most, where the request is sent on with `changes`; None where it is not known."""
    told = [changes[name] for name in LIMITED_BY if name in changes]
    return min(told) if told else fields.output_limit


def prompts_in(prompt: bytes) -> int:
    """See `Fields.prompts`."""
    try:
        return len(each_prompt(prompt))
    except NOT_JSON:
        return FEW + 1


def rewritten(
    body: bytes,
    model: str,
    changes: Mapping[str, Any],
    api: Api,
    known: Mapping[str, Any] = MappingProxyType({}),
) -> bytes:
    """`body` with its `model` replaced, the fields that no engine of `api` knows left out (the cascade's own, and
    another endpoint's), and `changes` made (`UNSET` leaves out); the rest unchanged. `known`: its members, where they
    were read.

    Raises `ApiError` for a body whose members' names cannot be read, or are too many.
    """
    try:
        members = dict(known) or members_of(body)
    except NOT_JSON as error:
        raise ApiError(400, "invalid_json", f"The body is not JSON: {str(error)[:200]}.") from None
    members["model"] = model
    for name in OWN_FIELDS if api in _WITH_WRITING else (*OWN_FIELDS, *WRITING_FIELDS):
        members.pop(name, None)
    for name, value in changes.items():
        if value is UNSET:
            members.pop(name, None)
        else:
            members[name] = value
    return _encoder.encode(members)


def without_usage(body: bytes) -> bytes:
    """An engine's request without `stream_options`."""
    return _encoder.encode(
        {name: value for name, value in members_of(body).items() if name != "stream_options"}
    )


def drawn_anew(fields: Fields, number: int) -> dict[str, Any]:
    """Changes by which answer `number` >= 1 to the same request is drawn by itself: with the client's own seed each is
    the first once more. Another number gives another seed of its range, the same each time."""
    seed = fields.given("seed")
    return {"seed": int(seed) ^ number} if _SEED.fullmatch(seed) else {}


def messages_and(fields: Fields, message: Mapping[str, Any]) -> Raw:
    """Messages of a chat as they came, and `message` behind them: of a long one not each is made. Raises `ApiError`."""
    given = fields.given("messages").strip() or b"[]"
    if not given.startswith(b"["):
        raise ApiError(400, "invalid_type", "`messages` is a list.", param="messages")
    before = given[:-1].rstrip()
    return Raw(b"%b%b%b]" % (before, b"" if before == b"[" else b",", _encoder.encode(message)))


def prefix_of(fields: Fields) -> int | None:
    """A hash of how the request begins: all turns of a conversation share it."""
    leading = leading_of(fields)
    return point_of(leading) if leading else None


def leading_of(fields: Fields) -> bytes:
    """The leading messages, up to the first that a user wrote; empty where there is none."""
    content = fields.beginning("prompt")
    if content:
        return content[:PREFIX_BYTES]
    content = fields.beginning("messages") or fields.beginning("input")
    if content.lstrip()[:1] == b'"':
        return content[:PREFIX_BYTES]
    leading = b""
    for raw in islice(_first_items(content), PREFIX_ITEMS):
        leading += raw
        if b'"user"' in raw or len(leading) > PREFIX_BYTES:
            break
    return leading[:PREFIX_BYTES]


def _first_items(content: bytes) -> Iterator[bytes]:
    """Items of a JSON list, those within its first bytes where it is long."""
    if len(content) <= SMALL_BYTES:
        try:
            yield from map(bytes, _messages.decode(content) if content else ())
        except NOT_JSON:
            return
        return
    begin = depth = 0
    start = content[: 2 * PREFIX_BYTES]
    # Beyond, the beginning is made of brackets, and each takes as long as a message.
    for token in islice(_BRACKETS.finditer(start), MOST_VALUES):
        mark = token[0]
        if mark in (b"[", b"{"):
            depth += 1
            begin = token.end() if depth == 1 else begin
        elif depth == 1 and mark in (b",", b"]"):
            yield start[begin : token.start()].strip()
            begin = token.end()
        if mark in (b"]", b"}"):
            depth -= 1
            if not depth:
                return
    yield start[begin:].strip()


def tokens_of(body: bytes, fields: Fields, api: Api) -> int:
    """The most that prompt and answers may have, or a guess of it where the request sets no limit."""
    return prompt_tokens_of(body) + (fields.output_tokens if api in WRITTEN else 0)
