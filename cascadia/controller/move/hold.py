"""The plan in force, made so again wherever what runs is other than it says."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from math import inf

from cascadia.controller.move.backend import StepFailed, move
from cascadia.controller.move.carry_out import Journal, Timed
from cascadia.controller.move.evacuate import evacuation
from cascadia.controller.move.reconcile import Blocked, Names, reconcile
from cascadia.controller.move.state import Desired, Observed
from cascadia.controller.move.steps import Drain, Route, Start, Stop

AGAIN_S = 60.0
"""After a plan in force could not be made so, before it is tried again."""


@dataclass(slots=True)
class Holder:
    """`began` is called before the first step of each time. What is on its way by itself is waited for by nobody."""

    backend: Timed
    journal: Journal
    at_once: int
    began: Callable[[], Awaitable[None]]
    _after_s: float = field(default=-inf, init=False)
    _lacks: str = field(default="", init=False)

    async def hold(self, desired: Desired, observed: Observed, name: str) -> bool:
        """`name` is the plan's. False where that was tried in vain."""
        if self.journal.steady_s() < self._after_s:
            return True
        observed = replace(observed, need_rps=desired.need_rps)
        first = observed.routing is None
        at_once = sum(desired.counts.values()) if first else self.at_once
        try:
            pools = lost(desired, observed)
            self._tell_lack(desired, observed, pools, name)
            if pools:
                await self._save_the_last(observed)
                return True
            steps = reconcile(observed, desired)
            if any(isinstance(step, Start | Drain | Stop | Route) for step in steps):
                told = "for the first time" if first else "what runs differs from it"
                await self.began()
                self.journal.note("holding", f"{name}: {told}", {})
                await move(self.backend, desired, need_rps=desired.need_rps, at_once=at_once)
                self.journal.note("held", f"{name} is in force", {})
        except (StepFailed, Blocked) as error:
            self._after_s = self.journal.steady_s() + AGAIN_S
            self.journal.note("failed", f"{name} cannot be made so: {error}", {})
            return False
        return True

    def _tell_lack(self, desired: Desired, observed: Observed, pools: list[str], name: str) -> None:
        """Says once what there are too few GPUs for: without traffic to plan for nobody else would."""
        told = (f"{desired.gpus(p)} GPUs of {p}, and there are {observed.gpus.get(p, 0)}" for p in pools)
        lacks = "; ".join(told)
        if lacks and lacks != self._lacks:
            self.journal.note("holding", f"{name} is not made so: it takes {lacks}", {})
        self._lacks = lacks

    async def _save_the_last(self, observed: Observed) -> None:
        """Starts elsewhere, if there is room, what has to leave a machine and is the last of its stage."""
        names = Names({replica.name for replica in observed.replicas})
        steps = evacuation(observed, names, last_only=True)
        if steps:
            stages = ", ".join(dict.fromkeys(s.kind.stage for s in steps if isinstance(s, Start)))
            await self.began()
            self.journal.note("holding", f"the last of {stages} leaves a machine that takes no pods", {})
        for step in steps:
            await self.backend.take(step)


def lost(wanted: Desired, observed: Observed) -> list[str]:
    """Pools that have fewer GPUs than the plan takes."""
    pools = sorted({kind.pool for kind in wanted.counts})
    return [pool for pool in pools if wanted.gpus(pool) > observed.gpus.get(pool, 0)]
