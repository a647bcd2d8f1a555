"""The requests that a replica is given, checked once, before anything is simulated."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cascadia_sim.errors import BadInput
from cascadia_sim.iteration.timing import PS_PER_S, TIMINGS_KEPT, Ints, ReplicaTiming


class RequestArrays(NamedTuple):
    """Contiguous, writeable int64 arrays [n]: one type for the compiled kernel, so that it compiles once."""

    arrival_ps: Ints
    input_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints


class BadRequests(BadInput):
    """Requests that no engine could serve."""


class PastTheClock(BadInput, OverflowError):
    """Simulated time beyond what int64 picoseconds hold."""

    def __init__(self) -> None:
        super().__init__(
            "simulated time",
            "exceeds 106 days, which is all that the simulator's clock holds",
            "give a shorter stretch of the trace, a higher rate, or more replicas where queues outgrow them",
        )

    def __reduce__(self) -> tuple[type["PastTheClock"], tuple[()]]:
        return PastTheClock, ()


def picoseconds(seconds: NDArray[np.float64]) -> Ints:
    """Times as the simulator counts them. Raises `PastTheClock`."""
    if seconds.size and not seconds.max() * PS_PER_S < np.iinfo(np.int64).max:
        raise PastTheClock
    return np.rint(seconds * PS_PER_S).astype(np.int64)


def _ints(where: str, values: ArrayLike) -> Ints:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise BadRequests(where, f"holds {array.dtype}, not whole numbers", "round them to int64 first")
    array = np.ascontiguousarray(array, dtype=np.int64)
    return array if array.flags.writeable else array.copy()


def _refuse(where: str, bad: np.ndarray[tuple[int], np.dtype[np.bool_]], what: str, instead: str) -> None:
    if bad.any():
        raise BadRequests(f"{where}[{int(bad.argmax())}]", what, instead)


def request_arrays(
    arrival_ps: ArrayLike, input_tokens: ArrayLike, output_tokens: ArrayLike, cached_tokens: ArrayLike
) -> RequestArrays:
    """Raises `BadRequests` for lengths that differ, arrivals below 0, and tokens that make no request."""
    r = RequestArrays(
        _ints("arrival_ps", arrival_ps),
        _ints("input_tokens", input_tokens),
        _ints("output_tokens", output_tokens),
        _ints("cached_tokens", cached_tokens),
    )
    sizes = {name: array.shape for name, array in r._asdict().items()}
    if len(set(sizes.values())) != 1 or r.arrival_ps.ndim != 1:
        raise BadRequests("requests", f"arrays differ in shape: {sizes}", "give four arrays of one length")
    _refuse("arrival_ps", r.arrival_ps < 0, "a time below 0", "count from the start of the trace")
    _refuse("input_tokens", r.input_tokens < 1, "no token to prefill", "write at least 1")
    _refuse("output_tokens", r.output_tokens < 1, "no token to write", "write at least 1")
    outside = (r.cached_tokens < 0) | (r.cached_tokens >= r.input_tokens)
    _refuse("cached_tokens", outside, "not within the prompt", "write 0 to input_tokens - 1")
    return r


def check_fit(requests: RequestArrays, timings: Sequence[ReplicaTiming]) -> None:
    """Raises `BadRequests` where a request's prompt and answer together exceed some replica's KV cache."""
    if not requests.arrival_ps.size:
        return
    smallest = min(t.kv_tokens // t.block_size * t.block_size * t.lanes for t in timings)
    tokens = requests.input_tokens + requests.output_tokens + max(t.most_drafts for t in timings)
    _refuse(
        "input_tokens + output_tokens",
        tokens > smallest,
        f"a request of {int(tokens.max())} tokens can never fit a KV cache of {smallest} tokens",
        "drop it, or give the replica more memory (more GPUs, a smaller weight or KV format)",
    )


def check_ran(arrival_ps: Ints, finish_ps: Ints) -> None:
    """Raises `PastTheClock` where time ran past int64."""
    if (finish_ps < arrival_ps).any():
        raise PastTheClock


@lru_cache(TIMINGS_KEPT)
def check_timing(timing: ReplicaTiming) -> None:
    """Raises `BadInput` for tables and limits at which the engine would stand still or read past an end."""
    t = timing
    wrong = {
        "token_ps": (
            t.token_ps.size < 2 or int(t.token_ps[1:].min()) < 1 or bool(t.token_ps[-1] < t.token_ps[-2]),
            "needs entries for 0, 1, ... tokens, above 0 and not falling at the end",
        ),
        "sequence_ps": (
            t.sequence_ps.size <= t.max_num_seqs or int(t.sequence_ps.min()) < 0,
            "needs max_num_seqs + 1 entries, none below 0",
        ),
        "context_ps": (t.context_ps < 0, "is below 0"),
        "pair_ps": (not 0 <= t.pair_ps < np.inf, "is below 0 or not finite"),
        "draft_tokens": (
            bool(t.draft_tokens.size) and t.draft_tokens.size <= t.max_num_seqs,
            "needs max_num_seqs + 1 entries",
        ),
        "draft_ps": (
            t.draft_ps.size != t.draft_tokens.size or int(t.draft_ps.min(initial=0)) < 0,
            "needs as many entries as draft_tokens, none below 0",
        ),
        "acceptance": (not 0 <= t.acceptance < 1, "is not from 0 to below 1"),
        "block_size": (t.block_size < 1, "is below 1"),
        "kv_tokens": (t.kv_tokens < 1, "is below 1"),
        "lanes": (t.lanes < 1, "is below 1"),
        "scheduling.watermark_blocks": (t.scheduling.watermark_blocks < 0, "is below 0"),
        "scheduling.batch_seqs": ((t.scheduling.batch_seqs or 1) < 1, "is below 1"),
        "max_num_seqs": (t.max_num_seqs < 1, "is below 1"),
        "max_num_batched_tokens": (
            t.max_num_batched_tokens < (t.max_num_seqs if t.chunked_prefill else 1),
            "is below max_num_seqs, as vLLM refuses too",
        ),
    }
    for name, (bad, what) in wrong.items():
        if bad:
            raise BadInput(
                f"timing.{name}", what, "build it with cascadia_sim.iteration.build.replica_timing"
            )
