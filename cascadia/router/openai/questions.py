"""The question and the answer as a judge reads them."""

from typing import NamedTuple

import msgspec

from cascadia.router.openai.answers import Choice
from cascadia.router.openai.bounded import NOT_JSON, decoded, turn_after
from cascadia.router.openai.requests import Fields, each_prompt
from cascadia.router.openai.responses import turns_of
from cascadia.router.openai.texts import Turn, text_of


class Question(NamedTuple):
    """`question`: a single user message as it is, a conversation line by line, each with who said it; empty where it
    cannot be read. `said`: what the user said last; None where there are no messages, or none of a user.
    """

    question: str = ""
    said: str | None = None


_messages = msgspec.json.Decoder(list[Turn])


async def asked_of(fields: Fields) -> Question:
    """Question that a request asks; nothing of one with more messages than can be read at once. Others have their
    turn while a long one is read."""
    try:
        if prompt := fields.given("prompt"):
            return Question("\n".join(_prompts(prompt)), None)
        turns = await _turns(fields)
    except NOT_JSON:
        return Question()
    said = next((text for role, text in reversed(turns) if role == "user"), None)
    if len(turns) == 1:
        return Question(turns[0][1], said)
    return Question("\n".join(f"{role}: {text}" for role, text in turns), said)


def questions_of(fields: Fields, asked: Question, answers: int) -> list[str]:
    """The question of each of so many answers, in their order: of several prompts each is answered as often."""
    prompts = fields.prompts
    if prompts == 1 or answers % prompts:
        return [asked.question] * answers
    try:
        each = _prompts(fields.given("prompt"))
    except NOT_JSON:
        each = [""] * prompts
    return [question for question in each for _ in range(answers // prompts)]


def _prompts(prompt: bytes) -> list[str]:
    """Text of each prompt; of one of tokens nobody but its model knows any."""
    return [text_of(each) if each[:1] == b'"' else "" for each in each_prompt(prompt)]


async def _turns(fields: Fields) -> list[tuple[str, str]]:
    """Role and text of each message, or of each item of a response's input. Raises `MsgspecError`."""
    if fields.given("input"):
        return await turns_of(fields)
    given = fields.given("messages") or b"[]"
    messages = decoded(_messages, given)
    await turn_after(given)
    return [(message.role, text_of(bytes(message.content))) for message in messages]


def answer(choice: Choice) -> str:
    """Text of the answer; calls of tools are written out."""
    calls = "\n".join(f"[calls {call.name} with {call.arguments}]" for call in choice.calls)
    return "\n".join(part for part in (choice.text, calls) if part)
