"""Backend: whatever runs the replicas, as a move needs it, and the move itself, step by step."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from cascadia.controller.move.reconcile import reconcile
from cascadia.controller.move.state import Desired, Observed, reached
from cascadia.controller.move.steps import Start, Step, apply
from cascadia.domain.errors import CascadiaError

MOST_STEPS = 10_000


class StepFailed(CascadiaError):
    """A step could not be taken; the message says why."""


class Backend(Protocol):
    """`take` returns when the step is done, and raises `StepFailed`; what is done may be taken again."""

    async def observe(self) -> Observed: ...

    async def take(self, step: Step) -> None: ...


class Moved(CascadiaError):
    """A move failed and the last good plan is back in force."""


async def move(
    backend: Backend,
    desired: Desired,
    *,
    need_rps: Mapping[str, float] | None = None,
    note: Callable[[Step], None] = lambda _: None,
    at_once: int = 1,
) -> int:
    """Carries out steps until what is observed is what is desired; returns their number.

    What there is to do is decided anew after each batch, from what is seen then: it does not matter who began the move,
    nor what has broken meanwhile. Raises `StepFailed` and `Blocked`.
    """
    taken = 0
    while taken < MOST_STEPS:
        observed = _with_need(await backend.observe(), need_rps)
        leaving = any(map(observed.leaves_machine, observed.replicas))
        if reached(observed, desired) and not leaving:
            return taken
        # Beside the event loop: a search may take long, and whoever leads has a lease to renew.
        steps = await asyncio.to_thread(reconcile, observed, desired, at_once=at_once)
        if not steps:
            return taken  # who has to leave a machine finds no other
        for step in steps[: _batch(steps)]:
            note(step)
            await backend.take(step)
            taken += 1
    raise StepFailed(f"not done after {MOST_STEPS} steps")


class _WouldBe:
    """A backend whose steps go well, at once, and are kept."""

    def __init__(self, observed: Observed) -> None:
        self.now = observed
        self.steps: list[Step] = []

    async def observe(self) -> Observed:
        return self.now

    async def take(self, step: Step) -> None:
        self.now = apply(self.now, step)
        self.steps.append(step)


async def foreseen(
    observed: Observed, desired: Desired, *, need_rps: Mapping[str, float] | None = None, at_once: int = 1
) -> list[Step]:
    """Steps of a `move` in which each goes well: its own, on what would be observed. Raises `Blocked`."""
    would_be = _WouldBe(observed)
    await move(would_be, desired, need_rps=need_rps, at_once=at_once)
    return would_be.steps


async def move_or_return(
    backend: Backend,
    desired: Desired,
    last_good: Desired,
    *,
    need_rps: Mapping[str, float] | None = None,
    note: Callable[[Step], None] = lambda _: None,
    at_once: int = 1,
) -> int:
    """`move`; where a step fails, back to `last_good`, and `Moved` says why."""
    try:
        return await move(backend, desired, need_rps=need_rps, note=note, at_once=at_once)
    except StepFailed as error:
        await move(backend, last_good, need_rps=need_rps, note=note, at_once=at_once)
        raise Moved(f"rolled back: {error}") from error


def _batch(steps: list[Step]) -> int:
    """Steps of one sort that stand together, so that many may load or drain at a time; what waits for them is next.
    Who is started for another to leave a machine is not wanted beside it: that is one batch, from start to drain."""
    if _empties(steps[0]):
        return 3
    ends = (i for i, step in enumerate(steps) if type(step) is not type(steps[0]) or _empties(step))
    return next(ends, len(steps))


def _empties(step: Step) -> bool:
    return isinstance(step, Start) and step.empties != ""


def _with_need(observed: Observed, need_rps: Mapping[str, float] | None) -> Observed:
    if need_rps is None:
        return observed
    return replace(observed, need_rps=need_rps)
