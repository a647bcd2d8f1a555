"""Context of a gate's call: what some gates must know beside question and answer, told as spending is."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from cascadia.router.openai.answers import Choice

Again = Callable[[Mapping[str, Any], int], Awaitable[Choice]]


@dataclass(frozen=True, slots=True)
class GateContext:
    """`stage` wrote the answer. `said` is what the user said last; `again` asks that stage once more, with
    changes to the request and for an answer of this number, and raises `JudgeFailed` where it has none.
    """

    stage: str = ""
    said: str | None = None
    again: Again | None = None


ASKED: ContextVar[GateContext] = ContextVar("asked", default=GateContext())  # noqa: B039 (it is frozen)
