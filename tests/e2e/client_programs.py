"""What users of LiteLLM and LangChain write, run by an interpreter that has both: CLIENT URL; prints JSON."""

import asyncio
import json
import sys
from typing import Any

QUESTION = [{"role": "user", "content": "easy question"}]
HARD = [{"role": "user", "content": "hard question"}]


def litellm_says(url: str) -> dict[str, Any]:
    import litellm

    more: dict[str, Any] = {"api_base": url, "api_key": "none", "num_retries": 0}
    whole = litellm.completion(model="openai/cascadia", messages=QUESTION, **more)
    parts = litellm.completion(model="openai/cascadia", messages=HARD, stream=True, **more)
    streamed = "".join(part.choices[0].delta.content or "" for part in parts)
    later = asyncio.run(litellm.acompletion(model="openai/small", messages=QUESTION, **more))
    try:
        litellm.completion(model="openai/nobody", messages=QUESTION, **more)
        error = "none"
    except litellm.NotFoundError as raised:
        error = type(raised).__name__
    return {
        "whole": whole.choices[0].message.content,
        "tokens": whole.usage.total_tokens,
        "streamed": streamed,
        "async": later.choices[0].message.content,
        "error": error,
    }


def langchain_says(url: str) -> dict[str, Any]:
    import openai
    from langchain_openai import ChatOpenAI

    def chat(model: str) -> Any:
        return ChatOpenAI(model=model, base_url=url, api_key="none", max_retries=0)

    whole = chat("cascadia").invoke("easy question")
    streamed = "".join(str(part.content) for part in chat("cascadia").stream("hard question"))
    later = asyncio.run(chat("small").ainvoke("easy question"))
    batch = chat("cascadia").batch(["easy 1", "hard 2", "easy 3"])
    try:
        chat("nobody").invoke("easy question")
        error = "none"
    except openai.NotFoundError as raised:
        error = type(raised).__name__
    return {
        "whole": whole.content,
        "tokens": whole.usage_metadata["total_tokens"],
        "streamed": streamed,
        "async": later.content,
        "batch": [answer.content for answer in batch],
        "error": error,
    }


if __name__ == "__main__":
    says = {"litellm": litellm_says, "langchain": langchain_says}[sys.argv[1]]
    print(json.dumps(says(sys.argv[2])))
