"""Judges and probes that gave a gate's scores, as they name themselves: trained anew, one has another name."""

from collections.abc import Iterator

from cascadia.router.gates.base import Gate
from cascadia.router.gates.cache import CachedGate
from cascadia.router.gates.embedding import EmbeddingGate
from cascadia.router.gates.ensemble import EnsembleGate
from cascadia.router.gates.probe import ProbeGate


def heard(gate: Gate | None) -> tuple[str, ...] | None:
    """Names, empty where nobody is asked who has one; None as long as one of them has said nothing."""
    if isinstance(gate, CachedGate):
        return heard(gate.gate)
    if isinstance(gate, EmbeddingGate | ProbeGate):
        return None if gate.heard is None else (gate.heard,)
    if isinstance(gate, EnsembleGate):
        all_heard = [heard(each) for each in gate.gates]
        known = [each for each in all_heard if each is not None]
        return sum(known, ()) if len(known) == len(all_heard) else None
    return ()


def caches(gate: Gate | None) -> Iterator[CachedGate]:
    """Kept verdicts of a gate and of those that it asks."""
    if isinstance(gate, CachedGate):
        yield gate
    if isinstance(gate, EnsembleGate):
        for each in gate.gates:
            yield from caches(each)
