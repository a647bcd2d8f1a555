"""Prompt of a question: the question alone. The way that a model is to answer, with examples, is its stage's
chat template.

So each stage has the prompt that suits it: the small model answers in a word, the large one thinks step by step. Every
request of a stage begins alike, and engines keep that beginning in their prefix cache.
"""

from typing import Any, Final

MAX_TOKENS: Final = 48


def request(model: str, question: str) -> dict[str, Any]:
    """Body of `/v1/chat/completions`."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stop": ["\n"],
    }
