"""Requests sent to replicas by a rule that is no part of the simulator: the code that a router runs, say."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from cascadia_sim.engine.arrays import Fleet, Requests
from cascadia_sim.engine.client import delays_ps
from cascadia_sim.errors import BadInput
from cascadia_sim.iteration.timing import PS_PER_S, Ints, ReplicaTiming


class Rule(Protocol):
    """Chooses among replicas [R]; requests are numbered in order of arrival. Of one run: it may learn."""

    def choose(self, request: int, input_tokens: int, now_s: float) -> int: ...

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        """Tells of a request that its client has its answer since `now_s`, which is not after the next arrival."""
        ...


@runtime_checkable
class QueueingRule(Protocol):
    """Keeps requests until it gives them to replicas [R]; else as `Rule`."""

    @property
    def waits(self) -> bool:
        """Tells whether it keeps any."""
        ...

    @property
    def again_s(self) -> float:
        """The time at which it wants to look again at those whom it keeps, whatever ends by then."""
        ...

    def came(self, request: int, input_tokens: int, now_s: float) -> None: ...

    def placed(self, now_s: float) -> Sequence[tuple[int, int]]:
        """Requests that begin now, each with its replica."""
        ...

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None: ...


def serve(
    fleet: Fleet, requests: Requests, timings: Sequence[ReplicaTiming], rule: Rule, replica: Ints
) -> None:
    """Sends each request as `rule` has it, writes that to `replica` [n], and runs all out.

    What the rule is told of ends at an arrival, as a router looks at its replicas when a request comes.
    """
    from cascadia_sim.engine import kernel

    wake = fleet.state[:, kernel.WAKE]
    in_hand: list[list[int]] = [[] for _ in timings]
    read, wrote = requests.input_tokens.tolist(), requests.output_tokens.tolist()
    for request, now_ps in enumerate(requests.arrival_ps.tolist()):
        for lane in np.flatnonzero(wake <= now_ps).tolist():
            kernel.advance(fleet, requests, lane, now_ps)
            in_hand[lane] = _told(requests, timings, lane, in_hand[lane], rule, wrote)
        lane = rule.choose(request, read[request], now_ps / PS_PER_S)
        replica[request] = lane
        in_hand[lane].append(request)
        kernel.append(fleet, requests, lane, request, 0)
    for lane in range(len(timings)):
        kernel.advance(fleet, requests, lane, kernel.NEVER)


def serve_from_queue(
    fleet: Fleet, requests: Requests, timings: Sequence[ReplicaTiming], rule: QueueingRule, replica: Ints
) -> None:
    """Serves like `serve`; while requests wait, the rule looks whenever something ends."""
    from cascadia_sim.engine import kernel

    # A replica has a request from the moment at which it was given it.
    requests = requests._replace(arrival_ps=requests.arrival_ps.copy())
    wake = fleet.state[:, kernel.WAKE]
    in_hand: list[list[int]] = [[] for _ in timings]
    read, wrote, arrivals = (
        column.tolist() for column in (requests.input_tokens, requests.output_tokens, requests.arrival_ps)
    )
    n, came, now_ps = len(arrivals), 0, 0
    while came < n or rule.waits:
        next_ps = arrivals[came] if came < n else kernel.NEVER
        if rule.waits:
            again_ps = rule.again_s * PS_PER_S
            # One picosecond later than asked: truncated, the instant may lie before it, and the rule would
            # ask for the same again for ever.
            next_ps = min(next_ps, int(wake.min()), int(again_ps) + 1 if again_ps < next_ps else next_ps)
        if next_ps == kernel.NEVER:
            raise BadInput("rule", "keeps requests although all replicas are idle", "let it give them away")
        now_ps = max(now_ps, next_ps)
        for lane in np.flatnonzero(wake <= now_ps).tolist():
            kernel.advance(fleet, requests, lane, now_ps)
            in_hand[lane] = _told(requests, timings, lane, in_hand[lane], rule, wrote)
        while came < n and arrivals[came] <= now_ps:
            rule.came(came, read[came], now_ps / PS_PER_S)
            came += 1
        for request, lane in rule.placed(now_ps / PS_PER_S):
            replica[request] = lane
            requests.arrival_ps[request] = now_ps
            in_hand[lane].append(request)
            kernel.append(fleet, requests, lane, request, 0)
        if rule.waits:
            for lane in np.flatnonzero(wake <= now_ps).tolist():
                # Starts what was just placed: its lane would wake at this very instant for ever, and time
                # stand still.
                kernel.advance(fleet, requests, lane, now_ps + 1)
    for lane in range(len(timings)):
        kernel.advance(fleet, requests, lane, kernel.NEVER)


def _told(
    requests: Requests, timings: Sequence[ReplicaTiming], lane: int, in_hand: list[int],
    rule: Rule | QueueingRule, wrote: list[int],
) -> list[int]:  # fmt: skip
    """Tells the rule what has ended at a lane, and returns what is still in hand."""
    still, ended = _parted(requests, in_hand)
    if ended:
        finish_ps = _at_client(requests, timings, lane, np.array(ended))
        for one, at_ps in zip(ended, finish_ps.tolist(), strict=True):
            rule.ended(one, lane, wrote[one], at_ps / PS_PER_S)
    return still


def _parted(requests: Requests, in_hand: list[int]) -> tuple[list[int], list[int]]:
    """Requests that are still in hand, and those that have ended since."""
    ended = requests.finish_ps[in_hand] >= 0
    if not ended.any():
        return in_hand, []
    which = np.array(in_hand)
    return which[~ended].tolist(), which[ended].tolist()


def _at_client(requests: Requests, timings: Sequence[ReplicaTiming], lane: int, which: Ints) -> Ints:
    first_ps, finish_ps = requests.first_token_ps[which], requests.finish_ps[which]
    late_ps = delays_ps(
        timings, np.full(which.size, lane), first_ps, finish_ps, requests.output_tokens[which]
    )
    found: Ints = finish_ps + late_ps
    return found
