"""Headroom of a deployment: the multiple of the rate that it carries, by bisection over the certificate of
stability.
"""

from collections.abc import Mapping
from concurrent.futures import Executor

from cascadia.domain.deadline import Deadline
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.stability.ahead import Test, asked_ahead
from cascadia.planner.stability.certificate import OVERLOADED, Settled, certify, seems_to_hold
from cascadia_sim.engine.requests import PastTheClock

PRECISION = 0.02
"""Bisection ends when the factor is known to this part of it."""

MOST = 1000.0
"""No factor above this is looked for."""

STEP, WIDEST = 1.06, 16.0
"""Factors between what is asked for one after the other, at first and at most."""

FEWEST = 1e-4
"""Nor below this, where nothing holds."""

LIKELY = 0.92
"""Of what capacity allows, what is asked for first: bursts take the rest."""


def headroom(
    simulator: Simulator,
    deployment: Deployment,
    decided: Decisions,
    shares: Mapping[int, float],
    *,
    at_least: float = 0.0,
    bounded: bool = False,
    deadline: Deadline | None = None,
    threads: Executor | None = None,
) -> float:
    """The largest factor of the rate that holds, rounded down to `PRECISION`; 0 where none was found.

    `shares` of capacity are by stage. `at_least` is known to hold. Bounds on latency are left aside, unless it is
    `bounded` by them. What a few rounds of the trace let through is looked for first, which costs a quarter of a
    certificate; that is then certified, or else what is below it. Past the `deadline` no larger factor is looked for.
    On `threads` two factors are tried at once: mostly few rounds let all through that is looked for, and all rounds
    all but the last.
    """

    seemed: dict[float, Settled] = {}

    def seems(factor: float) -> bool:
        if late() or factor < FEWEST:
            return False
        found = seems_to_hold(simulator, deployment, decided, shares, factor=factor, bounded=bounded)
        if found is not None:
            seemed[factor] = found
        return found is not None

    def holds(factor: float) -> bool:
        if late():
            return False
        try:
            found = certify(simulator, deployment, decided, shares, factor=factor, seemed=seemed.get(factor))
        except PastTheClock:
            return False
        return found.holds and not (bounded and found.held > 1.0)

    def late() -> bool:
        return deadline is not None and deadline.leaves_out("how much more traffic the plan carries")

    # Nothing is shared out where APIs without limits answer all.
    most = min(OVERLOADED / max(max(shares.values(), default=0.0), 1.0 / MOST), MOST)

    def promised(test: Test) -> float:
        return largest(test, at_least, max(most, at_least), LIKELY * most)

    found = asked_ahead(promised, seems, lambda _: True, threads)

    def certified(test: Test) -> float:
        if found <= at_least or test(found):
            return found
        return largest(test, at_least, found, found / (1 + 2 * PRECISION))

    return asked_ahead(certified, holds, lambda factor: factor < found, threads)


def largest(holds: Test, low: float, high: float, guess: float, *, least: float = 0.0) -> float:
    """The largest value between `low` (which holds) and `high` that holds, to `PRECISION`, if smaller ones hold too.

    Where a `least` is given nothing below it is looked for, `low` is the answer there, and steps widen as they go.
    """
    at, step = guess, STEP
    while high - low > PRECISION * high and high > least:
        if not low < at < high:
            at = (low + high) / 2
        if holds(at):
            low = at
            # Near what held: a run far beyond what is carried queues without end, and costs the most of all.
            at = min((low + high) / 2, low * step)
        else:
            high = at
            at = max((low + high) / 2 if low else least, high / step)
        step = min(step**2, WIDEST) if least else step
    return low
