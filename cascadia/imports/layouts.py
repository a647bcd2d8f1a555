"""Formats of other programs: what each calls our columns, and by what its rows are told.

Sources: LiteLLM's `schema.prisma` (table LiteLLM_SpendLogs); Langfuse's blob storage export fields, and the same
observation as its API and its page export it; OpenAI's chat-completion, completion, response and batch objects;
GuideLLM's `GenerativeRequestStats`; AIPerf's `profile_export.jsonl` and `inputs.json`; vLLM's `vllm bench serve
--save-detailed` and its server's log with `--enable-log-requests --enable-log-outputs`; ShareGPT's conversations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cascadia.imports.fields import at
from cascadia_traces.formats.names import MILLISECONDS, ROLES, Unit, plain

COLUMNS = (
    "arrival_s",
    "input_tokens",
    "output_tokens",
    "prefix_tokens",
    "prompt_id",
    "session_id",
    "prompt",
    "answer",
    "reference",
    "model",
    "score",
    "quality",
)
"""What an imported row may have, by our names; `--map` takes these."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A format: `told_by` are paths that each of its rows has, `paths` where our columns stand (the first that is there
    counts), `kept` the values that a row has to have to be a request, `failed` those that mark a failed one. `unit` of
    its times is None where they are seconds, or tell it themselves."""

    name: str
    told_by: tuple[tuple[str, ...], ...]
    paths: Mapping[str, tuple[str, ...]]
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: Unit | None = None
    failed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


OPENAI_BODIES = ("", "response.", "response.body.")

_LENGTHS = {
    "arrival_s": ("timestamp",),
    "input_tokens": ("input_length",),
    "output_tokens": ("output_length",),
    "prompt_id": ("prompt_id",),
    "session_id": ("session_id",),
}

LAYOUTS = (
    # Its files' and folders' names tell it, and the reader gives the columns.
    Layout(
        "lm-eval",
        (),
        {ours: (ours,) for ours in ("prompt_id", "prompt", "answer", "reference", "model", "score")},
    ),
    Layout("qwen", (("timestamp", "input_length", "output_length", "parent_chat_id"),), _LENGTHS),
    Layout("mooncake", (("timestamp", "input_length", "output_length"),), _LENGTHS, unit=MILLISECONDS),
    Layout(
        "litellm",
        (("startTime", "completion_tokens"), ("startTime", "call_type")),
        {
            "arrival_s": ("startTime",),
            "input_tokens": ("prompt_tokens",),
            "output_tokens": ("completion_tokens",),
            "prompt_id": ("request_id",),
            "session_id": ("session_id",),
            "prompt": ("messages", "proxy_server_request.messages", "proxy_server_request.prompt"),
            "answer": ("response.choices.0.message.content", "response.choices.0.text"),
            "model": ("model_group", "model"),
        },
        failed={"status": ("failure",)},
    ),
    Layout(
        "langfuse",
        (("start_time", "trace_id", "type"), ("startTime", "traceId", "type"), ("startTime", "usageDetails")),
        {
            "arrival_s": ("start_time", "startTime"),
            "input_tokens": ("usage_details:input", "usageDetails:input", "promptTokens", "usage.input"),
            "output_tokens": (
                "usage_details:output",
                "usageDetails:output",
                "completionTokens",
                "usage.output",
            ),
            "prefix_tokens": ("usage_details.input_cached_tokens", "usageDetails.input_cached_tokens"),
            "prompt_id": ("id",),
            "session_id": ("session_id", "sessionId", "trace_id", "traceId"),
            "prompt": ("input",),
            "answer": ("output.content", "output"),
            "model": ("provided_model_name", "providedModelName", "model"),
        },
        kept={"type": ("GENERATION",)},
        failed={"level": ("ERROR",)},
    ),
    Layout(
        "guidellm",
        (("request_start_time", "prompt_tokens"), ("start_time", "prompt_tokens", "request_id")),
        {
            "arrival_s": ("request_start_time", "start_time"),
            "input_tokens": ("prompt_tokens",),
            "output_tokens": ("output_tokens",),
            "prefix_tokens": ("cached_tokens",),
            "prompt_id": ("request_id",),
            "prompt": ("prompt", "request_args.body.messages", "request_args.body.prompt"),
            "answer": ("output",),
        },
    ),
    Layout(
        "aiperf",
        (("metadata.request_start_ns", "metrics"),),
        {
            "arrival_s": ("metadata.request_start_ns",),
            "input_tokens": ("metrics.input_sequence_length.value",),
            "output_tokens": ("metrics.output_sequence_length.value", "metrics.output_token_count.value"),
            "prompt_id": ("metadata.x_request_id",),
            "session_id": ("metadata.conversation_id", "metadata.x_correlation_id"),
        },
    ),
    Layout(
        "openai",
        (
            ("choices",),
            ("usage.prompt_tokens",),
            ("usage.input_tokens",),
            ("response.usage",),
            ("response.choices",),
            ("response.body",),
            ("custom_id", "body"),
        ),
        {
            "arrival_s": (
                *("timestamp", "arrival_time", "start_time"),
                *(f"{body}{name}" for body in OPENAI_BODIES for name in ("created", "created_at")),
            ),
            "input_tokens": tuple(
                f"{body}usage.{name}" for body in OPENAI_BODIES for name in ("prompt_tokens", "input_tokens")
            ),
            "output_tokens": tuple(
                f"{body}usage.{name}"
                for body in OPENAI_BODIES
                for name in ("completion_tokens", "output_tokens")
            ),
            "prefix_tokens": tuple(
                f"{body}usage.prompt_tokens_details.cached_tokens" for body in OPENAI_BODIES
            ),
            "prompt_id": ("prompt_id", "custom_id", *(f"{body}id" for body in OPENAI_BODIES)),
            "session_id": ("session_id", "conversation_id"),
            "prompt": tuple(
                f"{asked}{name}"
                for asked in ("", "request.", "body.", "request.body.")
                for name in ("messages", "prompt", "input")
            ),
            "answer": tuple(
                f"{body}{name}"
                for body in OPENAI_BODIES
                for name in ("choices.0.message.content", "choices.0.text", "output")
            ),
            "model": ("model", "body.model", "request.model", "response.model", "response.body.model"),
        },
    ),
)

ALIASES: dict[str, tuple[str, ...]] = {
    **{role: (*names, "start time") if role == "arrival_s" else names for role, names in ROLES.items()},
    "prefix_tokens": ("prefix_tokens", "cached_tokens"),
    "prompt_id": ("prompt_id", "question_id", "sample_id", "request_id", "id", "qid", "uid", "idx", "index"),
    "session_id": ("session_id", "conversation_id"),
    "prompt": ("prompt", "messages", "question", "instruction", "query", "problem", "input"),
    "answer": (
        "response",
        "model_response",
        "completion",
        "generated_text",
        "model_answer",
        "prediction",
        "output",
        "answer",
    ),
    "reference": ("reference", "answer", "target", "solution", "gold", "ground_truth"),
    "model": ("stage", "model", "model_name", "model_id"),
    "score": ("score", "judge_score", "rating", "grade", "judge_rating"),
    "quality": ("quality", "correct", "is_correct", "passed", "accuracy", "exact_match", "right"),
}
"""What tables that nobody's program fixed call our columns, the likeliest first."""


def layout_of(rows: Sequence[Mapping[str, Any]], kind: str) -> Layout:
    """The format that the first rows are in, by name where a reader told it (`kind`), else by their columns."""
    for layout in LAYOUTS:
        if layout.name == kind or (
            kind == "table" and any(all(_has(rows, path) for path in together) for together in layout.told_by)
        ):
            return layout
    names = {plain(name): name for row in rows for name in reversed(list(row))}
    found = {
        ours: tuple(names[plain(alias)] for alias in aliases if plain(alias) in names)
        for ours, aliases in ALIASES.items()
    }
    return Layout(kind, (), {ours: paths for ours, paths in found.items() if paths})


def _has(rows: Sequence[Mapping[str, Any]], path: str) -> bool:
    head = path.partition(".")[0]
    return any(path in row or (head in row and at(row, path) is not None) for row in rows)
