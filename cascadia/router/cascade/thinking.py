"""Exits of a stage that thinks before it answers: at each point a trial answer on the same prefix, given where its
score is good enough (DEER, arXiv 2504.15895, section 3), else the stage thinks on. An exit may want more of the
question alone than it promises: then there is no trial, and the stage does not stop there.

Every call continues what the model has written, as the last message; its engine has that prefix in its cache. An
engine that parses the thinking out of its answers cannot be continued so: it is started without such a parser.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from cascadia.exits.length import trials as worth_a_trial
from cascadia.router.cascade.decision import NOTHING, Ask
from cascadia.router.cascade.scoring import READERS, Scoring
from cascadia.router.openai.answers import Choice, Usage, Written
from cascadia.router.openai.bounded import NOT_JSON, items_of, members_told_apart
from cascadia.router.openai.requests import OWN_FIELDS, messages_and
from cascadia.router.replicas.results import Reply
from cascadia.router.replicas.stage import Stage
from cascadia.router.telemetry.stage_record import Step

NOTHING_WRITTEN = Written((), NOTHING)
IN_PIECES = frozenset(
    (
        *("model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens"),
        *(
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "typical_p",
            "seed",
            "logit_bias",
            "stop",
            "stop_token_ids",
        ),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "repeat_penalty"),
        *(
            "user",
            "metadata",
            "store",
            "service_tier",
            "safety_identifier",
            "prompt_cache_key",
            "cache_prompt",
        ),
        *OWN_FIELDS,
    )
)
"""Members of a request whose answer may be written in several calls. Others may be about the answer as a whole: its
log-probabilities, a grammar, a least length, or that it has no thinking.
"""
NOT_ASKED = (b"null", b"false")
LIMITS = ("max_tokens", "max_completion_tokens")
NO_MORE: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True)
class Thought:
    """Answer of a stage that may have stopped to think early.

    `exit_tokens` is where it left, None at the end; `good`: since its score reached the exit's own `threshold`. `spent`
    has the trials too that were not good enough. Without a `body`, `reply` is an engine's refusal.
    """

    reply: Reply[Written]
    body: bytes = b""
    written: Written = NOTHING_WRITTEN
    spent: Usage = NOTHING
    score: float | None = None
    exit_tokens: int | None = None
    threshold: float | None = None
    good: bool = False


def may_leave(ask: Ask, stage: Stage, scoring: Scoring) -> bool:
    """Tells whether the request may leave early: one whole answer in plain text, by a client that did not decline.

    Without a gate it may where nobody thinks on behind the first exit.
    """
    fields = ask.fields
    whole = fields.given("tools") or fields.given("response_format")
    plain = not fields.stream and fields.n in (None, 1) and not whole
    told = stage.settings
    # A budget needs no verdict, unless evidence on it is gathered.
    unscored = told.promise is None if told.budget_field else bool(told.exits) and told.exits[0].last
    may = plain and ask.exits and ask.api == "chat" and bool(told.exits) and (unscored or bool(scoring.gate))
    # With a budget the engine writes the answer in one piece.
    return may and (bool(told.budget_field) or _in_pieces(ask))


def _in_pieces(ask: Ask) -> bool:
    """Tells whether several calls make the answer that one would: all that the request asks for is known not to be
    about an answer as a whole, and it is no answer's beginning that the model is to go on with.
    """
    members = ask.fields.all_members or members_told_apart(ask.body)
    if members is None:
        return False
    others = members.keys() - IN_PIECES
    return all(bytes(members[name]) in NOT_ASKED for name in others) and not _begun(ask)


def _begun(ask: Ask) -> bool:
    try:
        *_, last = items_of(ask.fields.given("messages"))
        return bytes((members_told_apart(last) or {}).get("role", b"")) == b'"assistant"'
    except (*NOT_JSON, ValueError):
        # The engine says what is wrong with it.
        return True


async def thought(ask: Ask, stage: Stage, step: Step, scoring: Scoring, *, gated: bool) -> Thought:
    """The stage's answer, from the first of its exits that is good enough. Raises `StageFailed`.

    A request that is drawn has a trial at every exit on its way and goes on from all, so that exits are certified. A
    verdict that decides nothing is not asked for: at the last exit, where nothing is `gated` behind it. Where an engine
    refuses what exits ask of it, the request goes on without them.
    """

    settings, so_far, used, spent, read = stage.settings, "", 0, NOTHING, 0
    exits, trials = stage.exits, dict[int, float]()
    # There is nothing to learn where all leave at the first.
    drawn = not settings.exits[0].last and exits.drawn()
    tried, ends = await _tried(ask, stage, scoring, drawn=drawn), _ending(ask, stage)

    async def asks(behind: str, most: int | None, ends: Mapping[str, Any] = NO_MORE) -> Reply[Written]:
        # Whatever comes may be the end, and then it is scored.
        call = scoring.call(ask, stage, step, gated=True, more={**_continued(ask, behind, most), **ends})
        reply = await stage.buffered(call, READERS[False, False])
        if reply.found is None:
            return reply
        # At once: what fails later on has cost what it took until then, and each call has a replica of its own.
        stage.counted(reply.found.usage, step)
        step.used(*Usage(step.input_tokens, step.output_tokens).plus(reply.found.usage))
        if settings.echoes:
            said = reply.found.choices[0]
            said.text = said.text.removeprefix(behind)
        return reply

    async def whole(found: Thought) -> Thought:
        return await _compared(ask, stage, step, scoring, trials, found) if drawn else found

    for at, exit_ in enumerate(settings.exits):
        if not (exit_.last or (at in tried and (drawn or exits.open(at)))):
            continue
        left = left_of_limit(ask, used)
        if left is not None and left <= exit_.thinking_tokens - used:
            # The request ends first: there is nothing left to answer with behind this exit.
            break
        if exit_.thinking_tokens:
            most = max(1, exit_.thinking_tokens - used)
            piece = await asks(so_far, most)
            if piece.found is None:
                # E.g. no room for so much more in the engine's context. What is asked for may have it.
                break
            said, spent = piece.found.choices[0], spent.plus(piece.found.usage)
            # The client's own prompt, read once; later pieces read the thinking too, which is no input of the
            # client's.
            read = read or piece.found.usage.input_tokens
            so_far += said.text
            used += piece.found.usage.output_tokens
            # An engine whose context is full writes less than it was asked for.
            if said.finish != "length" or 0 < piece.found.usage.output_tokens < most:
                return await whole(_whole(piece, so_far, Usage(read, used), spent))
        trial = await asks(so_far + settings.ends_thinking, left_of_limit(ask, used), ends)
        if trial.found is None:
            break
        spent = spent.plus(trial.found.usage)
        decides = gated or not exit_.last or (drawn and bool(trials))
        score = await scoring.score(ask, stage, trial.found, step) if decides else None
        good = score is not None and score >= ask.score_min and exits.leaves(at, score)
        if exit_.last or (good and not drawn):
            usage = Usage(read or trial.found.usage.input_tokens, used + trial.found.usage.output_tokens)
            found = _whole(trial, trial.found.choices[0].text, usage, spent, thinking=so_far)
            found.score, found.exit_tokens, found.threshold = score, exit_.thinking_tokens, exit_.threshold
            # At the last exit everybody leaves, good or not, so that the gate has yet to judge it.
            found.good = good and not exit_.last
            return await whole(found)
        if score is not None:
            trials[at] = score
    rest = await asks(so_far, left_of_limit(ask, used))
    if rest.found is None:
        return Thought(rest, spent=spent)
    used += rest.found.usage.output_tokens
    read = read or rest.found.usage.input_tokens
    text = so_far + rest.found.choices[0].text
    return await whole(_whole(rest, text, Usage(read, used), spent.plus(rest.found.usage)))


async def _tried(ask: Ask, stage: Stage, scoring: Scoring, *, drawn: bool) -> frozenset[int]:
    """Exits with a trial, should the request come there. Nobody looks at the question for those not in force."""
    least = [each.foreseen for each in stage.settings.exits]
    looks = any(bar is not None and (drawn or stage.exits.open(at)) for at, bar in enumerate(least))
    return worth_a_trial(least, await scoring.foreseen(ask, stage) if looks else {})


class Left(NamedTuple):
    """Exit at which one request left, as the metrics count it."""

    left: list[int]
    setting: int
    settings: int
    withdrawn: int


def left_at(stage: Stage, found: Thought) -> Left:
    """The place where a stage's answer left, and its exits' state."""
    points = [each.thinking_tokens for each in stage.settings.exits]
    places = [int(found.good and found.exit_tokens == at) for at in points]
    return Left([*places, 1 - sum(places)], *stage.exits.state)


async def _compared(
    ask: Ask, stage: Stage, step: Step, scoring: Scoring, trials: Mapping[int, float], found: Thought
) -> Thought:
    """`found`, scored, with what it says of the `trials` before it told to the certificate.

    Where nobody can score it nothing is learned.
    """
    if trials and found.score is None:
        found.score = await scoring.score(ask, stage, found.written, step)
    if not trials or found.score is not None:
        lost = stage.exits.feed(trials, found.score or 0.0, ask.fields.given("messages"))
        stage.metrics.thought_on(lost)
    return found


def left_of_limit(ask: Ask, used: int) -> int | None:
    """Tokens that the request's own limit leaves; None where it has none."""
    limit = ask.fields.output_limit
    return None if limit is None else max(1, limit - used)


def _ending(ask: Ask, stage: Stage) -> Mapping[str, Any]:
    """Change to the request by which an answer ends where the stage's trials do, beside where the client has it end."""
    ends = stage.settings.ends_answer
    if ends is None:
        return NO_MORE
    members = ask.fields.all_members or members_told_apart(ask.body) or {}
    given: Any = msgspec.json.decode(bytes(members.get("stop", b"null")))
    return {"stop": [*(given if isinstance(given, list) else [] if given is None else [given]), ends]}


def _continued(ask: Ask, so_far: str, most: int | None) -> dict[str, Any]:
    """Changes to the request by which its stage goes on from `so_far`, for so many tokens."""
    changes: dict[str, Any] = {}
    if so_far:
        changes["messages"] = messages_and(ask.fields, {"role": "assistant", "content": so_far})
        # vLLM and SGLang want to be told; llama.cpp always goes on with an assistant's last message.
        changes |= {"continue_final_message": True, "add_generation_prompt": False}
    if most is not None:
        given = [name for name in LIMITS if getattr(ask.fields, name) is not None]
        changes |= dict.fromkeys(given or LIMITS[:1], most)
    return changes


def _whole(
    reply: Reply[Written], text: str, usage: Usage, spent: Usage, thinking: str | None = None
) -> Thought:
    """The document of the last call with the whole answer in it, and what all that led to it took."""
    assert reply.found is not None
    # An answer with log-probabilities may hold megabytes: only what changes is taken apart.
    document = members_told_apart(reply.body) or {}
    try:
        choices: list[Any] = [Raw(each) for each in items_of(document.get("choices", b"[{}]"))]
    except NOT_JSON:
        # One was asked for, and more came than are read.
        choices = [Raw(b"{}")]
    first = members_told_apart(choices[0]) or {}
    message = members_told_apart(first.get("message", b"{}")) or {}
    message["content"] = text
    if thinking is not None:
        message["reasoning_content"] = thinking
    choices[0] = first | {"message": message}
    document["choices"] = choices
    document["usage"] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": sum(usage),
    }
    last = reply.found.choices[0]
    choice = Choice(text, finish=last.finish, logprobs=last.logprobs, probed=last.probed)
    return Thought(reply, msgspec.json.encode(document), Written((choice,), usage), spent)
