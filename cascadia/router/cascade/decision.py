"""Question to the cascade, and its decision."""

from dataclasses import dataclass, field
from typing import Any

from cascadia.clients.engines.held_bytes import Holding
from cascadia.router.cascade.sessions import Session
from cascadia.router.openai.answers import Usage, Written
from cascadia.router.openai.logprobs import ALL
from cascadia.router.openai.requests import Api, Fields
from cascadia.router.replicas.results import Live, Reply
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import GearSettings
from cascadia.router.telemetry.stage_record import Step
from cascadia.router.telemetry.trace_context import Trace

NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the cascade. `first` and `last` bound the stages it may reach; `deadline_s` in the loop's time."""

    api: Api
    path: bytes
    body: bytes
    fields: Fields
    headers: bytes
    tokens: int
    prefix: int | None
    deadline_s: float
    first: int
    last: int
    holding: Holding
    """Of the bytes of answers that wait for a decision."""
    score_min: float = 0.0
    explain: bool = False
    """Whether its client wants each stage's answer too."""
    other: bool = False
    """Whether it goes by the mixture's thresholds."""
    exits: bool = True
    """Whether a stage may answer before it has thought to the end."""
    priority: int = 0
    gear: GearSettings | None = None
    """Gear that it met at its arrival, and keeps; None: the stages' own setting serves any load."""
    session: Session | None = None
    steps: list[Step] = field(default_factory=list)
    """Filled as it goes."""
    trace: Trace | None = None
    """None: no spans are wanted."""


@dataclass(frozen=True, slots=True)
class Held:
    """An answer that no client has seen yet. `score` is None where nobody scored it. `exit_tokens`: after so many its
    stage stopped to think; `good`: by the exit's own threshold, so that the stage's is not asked. `alternatives` of
    each token's log-probabilities are what the client gets; None: none at all."""

    stage: Stage
    body: bytes
    written: Written
    score: float | None
    exit_tokens: int | None = None
    good: bool = False
    alternatives: int | None = ALL


@dataclass(slots=True)
class Decision:
    """One of `held` (an accepted answer), `live` (a stream under way) and `refused` (the client's own mistake)."""

    stage: Stage | None = None
    held: Held | None = None
    live: Live | None = None
    refused: Reply[Any] | None = None
    stopped: str | None = None
    """Why a better answer was not sought: `deadline`, `overloaded`, `failed`."""
    total: Usage = NOTHING
    steps: list[Step] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return len(self.steps)
