"""A workload trace: when requests come and how long they are."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cascadia_traces.checks import Floats, Ints, first_fault
from cascadia_traces.errors import BadInput

__all__ = ["BadInput", "Trace", "join"]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """n >= 1 requests in order of arrival; raises BadInput naming the first request that is not valid.

    `arrival_s` (float64, n) is >= 0 and does not decrease; `input_tokens` and `output_tokens` (int64, n) are
    >= 1. `prefix_tokens` (int64, n) counts the leading input tokens that earlier requests shared, below
    `input_tokens`. `hash_ids` names the prompt's blocks of 512 tokens, with blanks between them, such that equal names
    mean equal prompts up to the block's end (Mooncake's). An id that a request lacks is the empty string.
    """

    arrival_s: Floats
    input_tokens: Ints
    output_tokens: Ints
    _: KW_ONLY
    prompt_id: tuple[str, ...] | None = None
    session_id: tuple[str, ...] | None = None
    prefix_tokens: Ints | None = None
    hash_ids: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        # Whole seconds may come as integers; anything lossy is a TypeError.
        object.__setattr__(self, "arrival_s", self.arrival_s.astype(np.float64, casting="safe", copy=False))
        for tokens in (self.input_tokens, self.output_tokens, self.prefix_tokens):
            if tokens is not None and tokens.dtype != np.int64:
                raise TypeError(f"token counts are int64, not {tokens.dtype}")
        columns = (
            *(self.input_tokens, self.output_tokens, self.prompt_id, self.session_id),
            *(self.prefix_tokens, self.hash_ids),
        )
        if any(column is not None and len(column) != len(self) for column in columns):
            raise ValueError("the columns of a trace are equally long")
        if len(self) == 0:
            raise BadInput("trace", "it holds no requests", "give at least one request")
        fault = first_fault(self.arrival_s, self.input_tokens, self.output_tokens, self.prefix_tokens)
        if fault is not None:
            raise BadInput(f"trace, request {fault.row + 1}", fault.what, fault.instead)

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def duration_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0])

    @property
    def rate_rps(self) -> float:
        """Requests over `duration_s`; 0 where all come at once."""
        return len(self) / self.duration_s if self.duration_s > 0 else 0.0

    def scaled(self, rate_rps: float) -> "Trace":
        """The same requests with arrival times stretched, from the first on, so that `rate_rps` is their mean rate."""
        if not 0 < rate_rps < float("inf"):
            raise BadInput("rate_rps", f"{rate_rps:g} is not a rate", "write a finite number above 0")
        if self.rate_rps == 0:
            raise BadInput(
                "trace", "all requests arrive at once, so there is no rate to scale", "give times that differ"
            )
        return self.stretched(self.rate_rps / rate_rps, float(self.arrival_s[0]))

    def stretched(self, factor: float, from_s: float = 0.0) -> "Trace":
        """The same requests with the time of each arrival since `from_s` multiplied by `factor`."""
        return replace(self, arrival_s=from_s + (self.arrival_s - from_s) * factor)

    def starting_at_zero(self) -> "Trace":
        """The same requests, shifted so that the first arrives at 0."""
        return replace(self, arrival_s=self.arrival_s - self.arrival_s[0])

    def rows(self, first: int, stop: int) -> "Trace":
        """Requests `first` to `stop` - 1, sharing memory with this trace."""
        part = slice(first, stop)
        return Trace(
            self.arrival_s[part],
            self.input_tokens[part],
            self.output_tokens[part],
            prompt_id=None if self.prompt_id is None else self.prompt_id[part],
            session_id=None if self.session_id is None else self.session_id[part],
            prefix_tokens=None if self.prefix_tokens is None else self.prefix_tokens[part],
            hash_ids=None if self.hash_ids is None else self.hash_ids[part],
        )


def join(parts: Sequence[Trace]) -> Trace:
    """Consecutive parts of one trace as one; an optional column stays where every part has it."""
    if len(parts) == 1:
        return parts[0]
    return Trace(
        np.concatenate([part.arrival_s for part in parts]),
        np.concatenate([part.input_tokens for part in parts]),
        np.concatenate([part.output_tokens for part in parts]),
        prompt_id=_join_ids([part.prompt_id for part in parts]),
        session_id=_join_ids([part.session_id for part in parts]),
        prefix_tokens=_join_prefixes([part.prefix_tokens for part in parts]),
        hash_ids=_join_ids([part.hash_ids for part in parts]),
    )


def _join_ids(parts: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    given = [part for part in parts if part is not None]
    return tuple(value for part in given for value in part) if len(given) == len(parts) else None


def _join_prefixes(parts: Sequence[Ints | None]) -> NDArray[np.int64] | None:
    given = [part for part in parts if part is not None]
    return np.concatenate(given) if len(given) == len(parts) else None
