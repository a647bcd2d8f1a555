"""The formats that traces come in: what each calls its columns, and how its times are to be read.

Sources: Azure LLM inference traces 2023 and 2024 (Azure/AzurePublicDataset), Mooncake (kvcache-ai/Mooncake,
FAST'25 release), Qwen's (alibaba-edu/qwen-bailian-usagetraces-anon, ATC'25), BurstGPT 1 to 3 (HPMLL/BurstGPT; the
third inserts Session ID and Elapsed time, so columns go by name, never by position), Splitwise and Vidur (inputs of
their simulators), OpenAI chat-completion, completion and response objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cascadia_traces.formats.names import OPENAI_NESTED, OPENAI_PAIRS, OPENAI_SESSIONS, OPENAI_TIMES, plain


@dataclass(frozen=True, slots=True)
class Layout:
    """A format.

    `public` ones count time from anywhere, so it is shifted to start at 0, and their rows without input or
    output are failed requests; in our own format such rows are errors. `dated` times are dates, not numbers;
    `epoch` ones are either, and numbers in s, ms, us or ns by their size. `tick_s` is the step that the format
    is known to round its times to. A second has `per_s` of its numbers of time, a block of
    `hash_ids` `block_tokens`.
    """

    name: str
    kind: str  # "csv", "jsonl" or "parquet"
    arrival: str
    input_tokens: str
    output_tokens: str
    prompt_id: str | None = None
    session_id: str | None = None
    prefix_tokens: str | None = None
    hash_ids: str | None = None
    public: bool = True
    dated: bool = False
    epoch: bool = False
    tick_s: float | None = None
    per_s: float = 1.0
    block_tokens: int = 512

    @property
    def required(self) -> tuple[str, str, str]:
        return (self.arrival, self.input_tokens, self.output_tokens)

    @property
    def columns(self) -> dict[str, str]:
        """The format's name of each column, by ours."""
        named = {
            "arrival_s": self.arrival,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "prompt_id": self.prompt_id,
            "session_id": self.session_id,
            "prefix_tokens": self.prefix_tokens,
            "hash_ids": self.hash_ids,
        }
        return {ours: theirs for ours, theirs in named.items() if theirs is not None}


def _own(kind: str) -> Layout:
    counted = ("arrival_s", "input_tokens", "output_tokens")
    names = (*counted, "prompt_id", "session_id", "prefix_tokens", "hash_ids")
    return Layout(kind, kind, *names, public=False)


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("azure", "csv", "TIMESTAMP", "ContextTokens", "GeneratedTokens", dated=True),
        Layout(
            "burstgpt",
            "csv",
            "Timestamp",
            "Request tokens",
            "Response tokens",
            session_id="Session ID",
            tick_s=1.0,
        ),
        Layout("mooncake", "jsonl", "timestamp", "input_length", "output_length", tick_s=3.0, per_s=1000.0),
        Layout("qwen", "jsonl", "timestamp", "input_length", "output_length", block_tokens=16),
        Layout("splitwise", "csv", "arrival_timestamp", "prompt_size", "token_size"),
        Layout("vidur", "csv", "arrived_at", "num_prefill_tokens", "num_decode_tokens"),
        Layout("openai", "jsonl", "created", "prompt_tokens", "completion_tokens", tick_s=1.0),
        _own("csv"),
        _own("jsonl"),
        _own("parquet"),
    )
}


def csv_layouts(names: Sequence[str]) -> list[Layout]:
    """The formats that a CSV with the columns `names` may be in, at least each once; ours before others."""
    return [
        *(LAYOUTS[name] for name in ("csv", "azure", "burstgpt", "splitwise", "vidur")),
        *_openai_csv(names),
    ]


def _openai_csv(names: Sequence[str]) -> list[Layout]:
    """OpenAI's names as columns: for each pair of counts that is there whole, with the first of the times.

    Responses count as our own format does, so `arrival_s` beside these counts is ours.
    """
    have = {plain(name): name for name in names}
    times = [have[plain(time)] for time in OPENAI_TIMES if plain(time) in have]
    session = next((have[plain(name)] for name in OPENAI_SESSIONS if plain(name) in have), None)
    pairs = [
        (nested + ours, nested + theirs)
        for ours, theirs in OPENAI_PAIRS
        for nested in OPENAI_NESTED
        if {plain(nested + ours), plain(nested + theirs)} <= set(have)
        and not (ours == "input_tokens" and plain("arrival_s") in have)
    ]
    return [
        replace(
            LAYOUTS["openai"],
            kind="csv",
            arrival=(times or OPENAI_TIMES)[0],
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            prompt_id="prompt_id",
            session_id=session,
            epoch=True,
        )
        for input_tokens, output_tokens in pairs or OPENAI_PAIRS[:1]
    ]
