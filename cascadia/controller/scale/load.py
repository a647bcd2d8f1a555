"""Load, read from the `/metrics` of routers: how many requests came, how many each stage has in hand, and how many it
turned away."""

from collections.abc import Mapping
from typing import Protocol

from cascadia.clients.engines.facts import samples
from cascadia.controller.scale.size import QUEUE_S, Load

DONE, UNDER_WAY = "cascadia_requests_total", "cascadia_in_flight"
HELD, WAITING = "cascadia_stage_in_flight", "cascadia_stage_queue_length"
LEFT, TURNED_AWAY = "cascadia_stage_escalated_total", "overloaded"
WAITS = "cascadia_queue_limit_seconds"


class LoadSource(Protocol):
    async def load(self) -> Load | None:
        """Reads it as it is now; None where no router tells."""
        ...


class RoutersLoad:
    """Load of all routers together, from look to look. Of each, what it counted since it was last heard counts as come
    or turned away: one that begins anew, is heard for the first time, or again after a while brings nothing from
    before."""

    def __init__(self) -> None:
        self._came = 0.0
        self._away: dict[str, float] = {}
        self._counts: dict[tuple[str, str], float] = {}

    def load(self, texts: Mapping[str, str]) -> Load | None:
        """Reads what the `/metrics` of each router say, by its name; None where none tells."""
        in_hand, told, waits_s = dict[str, float](), False, 0.0
        for router, text in texts.items():
            found, new = samples(text), (router, "") not in self._counts
            told |= UNDER_WAY in found
            waits_s = max([waits_s, *(value for _, value in found.get(WAITS, ()))])
            count = sum(value for name in (DONE, UNDER_WAY) for _, value in found.get(name, ()))
            self._came += self._since((router, ""), count, new)
            for name in (HELD, WAITING):
                for labels, value in found.get(name, ()):
                    in_hand[labels["stage"]] = in_hand.get(labels["stage"], 0.0) + value
            for labels, value in found.get(LEFT, ()):
                if labels["reason"] == TURNED_AWAY:
                    stage = labels["stage"]
                    self._away[stage] = self._away.get(stage, 0.0) + self._since((router, stage), value, new)
        return Load(self._came, in_hand, dict(self._away), waits_s or QUEUE_S) if told else None

    def _since(self, what: tuple[str, str], count: float, new: bool) -> float:
        """A count that a known router did not tell before began at 0."""
        before = self._counts.get(what, count if new else 0.0)
        self._counts[what] = count
        return max(0.0, count - before)
