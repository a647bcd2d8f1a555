"""ShareGPT's conversations, one row a turn: what was said before is the prompt, what the model said the answer.

`conversations` (or `conversation`) is a list of `{from: human | gpt, value}`; OpenAI's `{role, content}` counts too.
"""

from collections.abc import Iterator, Mapping
from typing import Any

KEYS = ("conversations", "conversation")
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "assistant": "assistant",
         "bing": "assistant", "bard": "assistant", "system": "system"}  # fmt: skip


def is_conversation(row: Mapping[str, Any]) -> bool:
    return any(isinstance(row.get(key), list) for key in KEYS)


def turns(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each answer: `session_id` is the conversation's, `prompt_id` counts its turns."""
    said = next(row[key] for key in KEYS if isinstance(row.get(key), list))
    name = next((row[key] for key in ("id", "conversation_id") if row.get(key) is not None), "")
    before: list[dict[str, str]] = []
    number = 0
    for message in said:
        if not isinstance(message, Mapping):
            continue
        role = ROLES.get(str(message.get("from", message.get("role"))).lower())
        content = message.get("value", message.get("content"))
        if role is None or not isinstance(content, str) or not content.strip():
            continue
        if role == "assistant" and before and before[-1]["role"] == "user":
            number += 1
            turn = {"prompt_id": f"{name}#{number}" if name != "" else None, "messages": list(before)}
            yield {**turn, "response": content, "session_id": name}
        before.append({"role": role, "content": content})
