"""Coverage of a profile: the engine constants that its measurements tell of, and those that it leaves as they
were.

Each part of `PARTS` is a kind of measurement and the constants that only it tells apart. Without it a fit would move
them to mend what is nothing to do with them, so that they stay at the catalogue's values.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

PROMPT, LONG_PROMPT, BATCH, CONTEXT = 48, 384, 4, 384
"""Tokens of a prompt whose matrices are multiplied rather than read, and of one in which attention shows; sequences of
a batch; tokens of context that a sequence reads."""


class Observed(Protocol):
    """Part of `profile_fit.Observation` that coverage looks at."""

    @property
    def decodes(self) -> bool: ...
    @property
    def sequences(self) -> int: ...
    @property
    def prompt_tokens(self) -> float: ...
    @property
    def context(self) -> float: ...


class Part(NamedTuple):
    """`name` says what is measured; `constants` stay where nothing `shows` it."""

    name: str
    constants: frozenset[str]
    shows: Callable[[Observed], bool]


PARTS = (
    Part(
        "decoding",
        frozenset({"gemm_hbm", "kernel_s", "iteration_s"}),
        lambda o: o.decodes,
    ),
    Part(
        "prompts",
        frozenset({"gemm_compute", "expert_compute", "ridge"}),
        lambda o: not o.decodes and o.prompt_tokens >= PROMPT,
    ),
    Part(
        "long prompts",
        frozenset({"attention_compute"}),
        lambda o: not o.decodes and o.prompt_tokens >= LONG_PROMPT,
    ),
    Part(
        "several sequences at once",
        frozenset({"sequence_s", "attention_sequence_s"}),
        lambda o: o.decodes and o.sequences >= BATCH,
    ),
    Part(
        "long contexts",
        frozenset({"kv_hbm"}),
        lambda o: o.decodes and o.context >= CONTEXT * o.sequences,
    ),
)


def missing(seen: Sequence[Observed], *, longest: int, most_sequences: int) -> tuple[Part, ...]:
    """Parts that nothing was measured of, less those that this engine cannot do.

    `longest`: of its requests, in tokens; `most_sequences`: that it works on at once.
    """
    return tuple(
        part
        for part in PARTS
        if _possible(part.name, longest, most_sequences) and not any(part.shows(o) for o in seen)
    )


def _possible(name: str, longest: int, most_sequences: int) -> bool:
    """A short engine is wholly told of by short prompts."""
    least = {"long prompts": LONG_PROMPT, "long contexts": CONTEXT, "prompts": PROMPT}.get(name, 0)
    # A decoding sequence has its prompt and half of its answer as context: twice of it fits surely.
    return longest >= 2 * least and (name != "several sequences at once" or most_sequences >= BATCH)


def told(parts: Sequence[Part]) -> tuple[str, ...]:
    """Names each kind of measurement that is missing, with the constants that stay."""
    return tuple(f"{part.name} ({', '.join(sorted(part.constants))} stay as assumed)" for part in parts)
