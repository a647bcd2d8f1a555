"""OpenAPI description in `/openapi.json` of the paths that FastAPI does not serve."""

from typing import Any

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
_OWN: dict[str, Any] = {
    "model": {"type": "string", "description": "`cascadia`, or a stage's own name."},
    "stream": {"type": ["boolean", "null"]},
    "n": {"type": ["integer", "null"]},
    "max_tokens": {"type": ["integer", "null"]},
    "max_stage": {"type": ["string", "null"], "description": "The largest stage that may be asked."},
    "min_stage": {"type": ["string", "null"], "description": "The smallest stage that may be asked."},
    "deadline_ms": {"type": ["number", "null"], "description": "From arrival; no further stage after it."},
    "score_min": {
        "type": ["number", "null"],
        "description": "Raises every threshold to at least this score, 0-100.",
    },
    "quality_min": {"type": ["number", "null"], "deprecated": True, "description": "Write `score_min`."},
    "priority": {"type": ["integer", "null"], "description": "Lower is served first, where requests wait."},
}
_FAILURES = {
    "400": "The request cannot be read, or the engine refused it.",
    "404": "No such model.",
    "413": "The body is too large.",
    "429": "The stage's queue is full; see Retry-After.",
    "502": "The stage failed.",
    "503": "No replica is ready.",
    "504": "The deadline passed without an answer.",
}


def completion_paths() -> dict[str, Any]:
    chat = {"messages": {"type": "array", "items": {"type": "object"}}}
    prompt = {"prompt": {"type": ["string", "array"]}}
    given = {"input": {"type": ["string", "array"]}}
    ranked = {
        "query": {"type": "string"},
        "documents": {"type": "array"},
        "top_n": {"type": ["integer", "null"]},
    }
    return {
        "/v1/chat/completions": {"post": _post("Answer a conversation.", chat)},
        "/v1/completions": {"post": _post("Continue a text.", prompt)},
        "/v1/embeddings": {"post": _post("Embed texts; of a stage only.", given)},
        "/v1/classify": {"post": _post("Classify texts.", given)},
        "/v1/rerank": {"post": _post("Rank documents by what they say of a query.", ranked)},
        "/v1/score": {"post": _post("Score pairs of texts, as vLLM and SGLang do; of a stage only.", {})},
        "/pooling": {"post": _post("Vectors of texts, as vLLM has them; of a stage only.", {})},
        "/tokenize": {
            "post": _post("Tokens of a text or chat, as its engine has them; of a stage only.", {})
        },
        "/detokenize": {"post": _post("The text of tokens, as its engine has them; of a stage only.", {})},
        "/v1/responses": {"post": _post("Answer with OpenAI's responses.", given)},
    }


def _post(summary: str, fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "required": ["model", *fields], "properties": _OWN | fields}
    failures = {
        status: {"description": why, "content": {"application/json": {"schema": _ERROR}}}
        for status, why in _FAILURES.items()
    }
    answer = {
        "description": "The engine's answer.",
        "content": {"application/json": {"schema": {"type": "object"}}, "text/event-stream": {}},
    }
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {"200": answer} | failures,
    }
