"""A move from its first step to its end, told in the history; whoever dies in the middle is followed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from cascadia.controller.memory.history import Entry, Kind
from cascadia.controller.memory.state import State, UnderWay
from cascadia.controller.move.backend import Backend, Moved, StepFailed, foreseen, move_or_return
from cascadia.controller.move.reconcile import Blocked
from cascadia.controller.move.state import Desired, Observed
from cascadia.controller.move.state import Kind as ReplicaKind
from cascadia.controller.move.steps import AwaitReady, Start, Step
from cascadia.controller.move.sustained import sustained_rps
from cascadia.files.plan_file import read_plan


class Fleet(Protocol):
    """The backend, and how a plan becomes what it is to run. Raises `BadInput` for a plan that it cannot."""

    @property
    def backend(self) -> Backend: ...

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired: ...


class Journal:
    """Journal of a move: what is noted is in the state, and told. What a full disk does not take is told alone: the
    fleet is looked after all the same. `clock` is Unix time; `steady_s`: seconds that pass, whoever sets that, by
    which durations are told; None: nobody does."""

    def __init__(
        self,
        state: State,
        tell: Callable[[Entry], None],
        clock: Callable[[], float],
        steady_s: Callable[[], float] | None = None,
    ) -> None:
        self.state = state
        self.clock = clock
        self.steady_s = steady_s or clock
        self._tell = tell

    def note(self, kind: Kind, what: str, facts: dict[str, Any]) -> Entry:
        entry = Entry(self.clock(), kind, what, facts)
        try:
            self.state.add(entry)
        except OSError as error:
            entry = replace(entry, what=f"{what} (not in the history: {error})")
        self._tell(entry)
        return entry


def towards(begun: UnderWay, fleet: Fleet) -> tuple[Desired, Desired]:
    """The state that a move leads to and the one it would return to, both with what replicas of either plan sustain.

    Of a kind that both have the later plan tells: it was made for the traffic of now.
    """
    to, back = fleet.desired(begun.to, begun.need_rps), fleet.desired(begun.back, begun.need_now_rps)
    sustained = {**_sustained(begun.back, back), **_sustained(begun.to, to)}
    return replace(to, capacity_rps=sustained), replace(back, capacity_rps=sustained)


def _sustained(plan: Path, desired: Desired) -> Mapping[ReplicaKind, float]:
    """Requests a second by kind; as the plan gives each to do, where its file has gone."""
    return sustained_rps(read_plan(plan), desired) if plan.exists() else desired.capacity_rps


async def foresee(begun: UnderWay, fleet: Fleet, *, at_once: int = 1) -> list[Step]:
    """The steps of `carry_out`, in its order, where each goes well. Nothing is done."""
    desired, _ = towards(begun, fleet)
    return await foreseen(
        await fleet.backend.observe(), desired, need_rps=begun.need_now_rps, at_once=at_once
    )


async def carry_out(
    begun: UnderWay, fleet: Fleet, journal: Journal, *, at_once: int = 1, last_good: Desired | None = None
) -> Entry:
    """Carries out a move to `to`, or back where a step fails; returns how it ended. The state says so from
    before the first step to after the last, so that whoever comes next ends what was begun. `last_good`: what
    `back` means, where that plan is now understood otherwise than when it was brought about.
    """
    state = journal.state
    desired, before = towards(begun, fleet)
    last_good = last_good or before
    # Who adopts a move does not begin it: it counts once.
    if state.under_way() != begun:
        state.put_under_way(begun)
        journal.note("begun", f"to {begun.to.parent.name}", {"to": str(begun.to), "from": str(begun.back)})
    backend = Timed(fleet.backend, journal)
    try:
        await move_or_return(backend, desired, last_good, need_rps=begun.need_now_rps, at_once=at_once)
    except Moved as error:
        end = journal.note("rolled-back", str(error), {})
    except (StepFailed, Blocked) as error:
        end = journal.note("failed", f"neither forward nor back: {error}", {})
    else:
        # Before the move is taken off: who dies between the two finds a move without steps left, not the old
        # plan in force.
        state.put_in_force(begun.to)
        end = journal.note("moved", f"{begun.to.parent.name} is in force", {"plan": str(begun.to)})
    state.put_under_way(None)
    return end


class Timed:
    """A backend whose steps are noted, with what each start took."""

    def __init__(self, backend: Backend, journal: Journal) -> None:
        self._backend = backend
        self._journal = journal
        self._begun: dict[str, tuple[Start, float]] = {}

    async def observe(self) -> Observed:
        return await self._backend.observe()

    async def take(self, step: Step) -> None:
        steady_s = self._journal.steady_s
        began_s = steady_s()
        await self._backend.take(step)
        facts: dict[str, Any] = {"took_s": round(steady_s() - began_s, 3)}
        if isinstance(step, Start):
            self._begun[step.name] = step, began_s
        elif isinstance(step, AwaitReady) and step.name in self._begun:
            start, at_s = self._begun.pop(step.name)
            facts |= {
                "startup_s": round(steady_s() - at_s, 3),
                "spec": start.kind.spec,
                "stage": start.kind.stage,
            }
        self._journal.note("step", str(step), facts)
