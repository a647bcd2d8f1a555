"""All that is seen of one request: what log, metrics, samples, spans and page are made from when it is over."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from cascadia.router.cascade.decision import Ask
from cascadia.router.openai.requests import Fields
from cascadia.router.openai.texts import prompt_tokens_of
from cascadia.router.telemetry.stage_record import Step
from cascadia.router.telemetry.trace_context import Trace

LEFT = "left"
_READ = frozenset({LEFT, "deadline", "accepted", "score", "threshold", "judge"})
"""How a turn ends whose engine has read the prompt: it has answered, or its client gave it up, or had set its time."""


class Record(Struct):
    """`entry` is the line of the log. Times are the event loop's. `ask` None: the request went straight to a stage, or
    nowhere. What the client wrote (`body`, `fields`) is here for whoever hashes it; nobody keeps it."""

    entry: dict[str, Any]
    started_at_s: float
    first_at_s: float | None = None
    ended_at_s: float = 0.0
    steps: list[Step] = []
    trace: Trace | None = None
    body: bytes = b""
    fields: Fields | None = None
    tokens: int = 0
    """An estimate of prompt and answer together."""
    ask: Ask | None = None

    @property
    def answered(self) -> Step | None:
        """The turn whose answer the client got."""
        stage = self.entry.get("stage")
        if self.entry.get("error") is not None or self.entry["status"] != 200:
            return None
        for step in reversed(self.steps):
            if step.stage == stage:
                return step
        return None

    @property
    def all_tokens(self) -> int:
        """Tokens that all turns took, as the log has them once the request is over."""
        return sum(step.all_tokens for step in self.steps)

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_at_s is None else self.first_at_s - self.started_at_s

    @property
    def seconds(self) -> float:
        return self.ended_at_s - self.started_at_s

    def close(self, status: int, first_at_s: float | None, ended_at_s: float) -> None:
        """The request is over. Turns that were cut off are said to be; tokens nobody counted are estimated."""
        self.first_at_s = first_at_s
        self.ended_at_s = ended_at_s
        entry = self.entry
        entry["status"] = status
        entry["seconds"] = int((ended_at_s - self.started_at_s) * 1e6) / 1e6
        read = 0
        # What a ledger shares the bill by: tokens read and written, of all that was asked of each stage. An API's price
        # of those it wrote is another.
        spent: dict[str, int] = {}
        written: dict[str, int] = {}
        for step in self.steps:
            if not step.outcome:
                step.outcome = entry.get("error") or LEFT
                step.ended_at_s = ended_at_s
            asked = step.tries and step.outcome in _READ and entry.get("api") != "tokens"
            if not step.input_tokens and (step.output_tokens or asked):
                step.input_tokens = read or max(1, prompt_tokens_of(self.body))
            read = step.input_tokens
            spent[step.stage] = spent.get(step.stage, 0) + step.all_tokens
            written[step.stage] = written.get(step.stage, 0) + step.all_output_tokens
        if spent:
            entry["tokens"], entry["written"] = spent, written
        if self.ask is not None:
            entry["steps"] = [step.line() for step in self.steps]
        else:
            entry.update(("said", step.said) for step in self.steps if step.said is not None)


Observer = Callable[[Record], None]
"""Told of each request when it is over. It must be quick, must not raise, and must not keep what the client wrote."""
