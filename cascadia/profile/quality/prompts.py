"""Prompts to measure quality with: JSON lines, CSV or Parquet, one prompt a row.

`prompt_id` and either `prompt` (text) or `messages` (OpenAI's form); for a check also `reference` and, where prompts
differ in how they are checked, `check`. Other columns are left aside.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.profile.quality.prompt_rows import FORM, prompt_rows
from cascadia_judge.errors import BadVerdict
from cascadia_judge.scores.checks import CHECKS, Check, refuse_reference

_ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Prompt:
    """`check` is None where there is nothing to check an answer with; then `reference` means nothing."""

    id: str
    messages: tuple[Mapping[str, Any], ...]
    check: Check | None = None
    reference: object = None

    @property
    def question(self) -> str:
        """The conversation as the judge reads it: a lone question as it is, else who says what."""
        if len(self.messages) == 1:
            return _text(self.messages[0])
        return "\n\n".join(f"{message['role']}: {_text(message)}" for message in self.messages)


def digest(prompts: tuple[Prompt, ...]) -> str:
    """Digest of everything that answers, checks and identities depend on, order left aside."""
    hasher = hashlib.sha256()
    for prompt in sorted(prompts, key=lambda one: one.id):
        line = [prompt.id, list(prompt.messages), prompt.check, prompt.reference]
        hasher.update(json.dumps(line, sort_keys=True).encode() + b"\n")
    return hasher.hexdigest()


def read_prompts(path: str | Path, check: Check | None, *, all_checked: bool = False) -> tuple[Prompt, ...]:
    """The prompts in `path`; `check` is for those with a reference that do not name their own.

    With `all_checked`, a prompt without a reference is an error: there is no judge to score its answers.

    Raises `BadInput` with the line (in Parquet, the row) of whatever is no prompt.
    """
    path = Path(path)
    seen: dict[str, str] = {}
    prompts = []
    for where, row in prompt_rows(path):
        prompt = _prompt(where, row, check)
        if all_checked and prompt.check is None:
            raise BadInput(
                where, "has no reference to check answers with", "add one, or an LLM --judge URL#MODEL"
            )
        if prompt.id in seen:
            raise BadInput(
                where, f"prompt_id {prompt.id!r} is in {seen[prompt.id]} too", "name each prompt once"
            )
        seen[prompt.id] = where.removeprefix(f"{path} ")
        prompts.append(prompt)
    if not prompts:
        raise BadInput(str(path), "holds no prompts", FORM)
    return tuple(prompts)


def _prompt(where: str, row: Mapping[str, Any], default: Check | None) -> Prompt:
    name = row.get("prompt_id")
    if isinstance(name, bool) or not isinstance(name, str | int) or not str(name).strip():
        raise BadInput(where, "prompt_id is missing" if name in (None, "") else "prompt_id is no name", FORM)
    check = row.get("check", default)
    if check is not None and check not in CHECKS:
        raise BadInput(where, f"check is {check!r}", f"write one of {', '.join(CHECKS)}")
    if "reference" not in row or row["reference"] is None:
        if "check" in row:
            raise BadInput(
                where, f"check is {check} without a reference", "add `reference`, or leave out `check`"
            )
        return Prompt(str(name), _messages(where, row))
    if check is None:
        raise BadInput(
            where,
            "has a reference, and nothing says how to compare answers with it",
            f"add `check` to it or --judge {'|'.join(CHECKS)}",
        )
    try:
        refuse_reference(check, row["reference"], where)
    except BadVerdict as error:
        raise BadInput(error.where, error.what, error.instead) from None
    return Prompt(str(name), _messages(where, row), check, row["reference"])


def _messages(where: str, row: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    if ("prompt" in row) == ("messages" in row):
        said = "has both prompt and messages" if "prompt" in row else "has neither prompt nor messages"
        raise BadInput(where, said, "write one of them")
    if "prompt" in row:
        if not isinstance(row["prompt"], str) or not row["prompt"].strip():
            raise BadInput(where, "prompt is no text", FORM)
        return ({"role": "user", "content": row["prompt"]},)
    messages = row["messages"]
    if not isinstance(messages, list) or not messages:
        raise BadInput(where, "messages is no list", 'write [{"role": "user", "content": "..."}]')
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise BadInput(where, f"message {number} has no known role", f"write one of {', '.join(_ROLES)}")
        if not isinstance(message.get("content"), str | list):
            raise BadInput(where, f"message {number} has no content", "write text, or a list of parts")
    return tuple(messages)


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
