"""The conversation that a question is sent in: four examples first, so that small models answer in a word.

Every request begins alike, and engines keep that beginning in their prefix cache.
"""

from typing import Any, Final

EXAMPLES: Final = (
    ("What is 3 + 4?", "7"),
    ("What is the capital of Spain?", "Madrid"),
    ("If today is Sunday, what day is tomorrow?", "Monday"),
    ('What is the opposite of "big"?', "small"),
)
MAX_TOKENS: Final = 16


def messages(question: str) -> list[dict[str, str]]:
    asked = [
        {"role": role, "content": text}
        for pair in EXAMPLES
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]
    return [*asked, {"role": "user", "content": question}]


def request(model: str, question: str) -> dict[str, Any]:
    """Body of `/v1/chat/completions`."""
    return {
        "model": model,
        "messages": messages(question),
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stop": ["\n"],
    }
