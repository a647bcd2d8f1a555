"""Admission to a stage's replicas: at once, in its turn where all are busy, or not at all.

The queue is bounded three ways: in length, in time, and by what can be expected: who would wait longer than it may is
refused at the door, since a queue full of requests that end unserved is how overload becomes collapse.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, cast

from cascadia.dispatch.answer_length import AnswerLength
from cascadia.dispatch.candidate import Asked, Balancer
from cascadia.dispatch.earliest_finish import EarliestFinish
from cascadia.router.openai.errors import Overloaded, StageFailed
from cascadia.router.replicas.pace import AnswerTimes, Pace
from cascadia.router.replicas.replica import Call, Replica
from cascadia.router.replicas.wait_queue import Rank, Waiter, WaitQueue
from cascadia.router.settings.model import Limits
from cascadia.router.upstream.deadlines import TICK_S

if TYPE_CHECKING:
    # SciPy comes with it, which takes its time and memory: routers that match have it, others have not.
    from cascadia.dispatch.matching import Matching

MARGIN = 2.0
"""Who must wait is let in where its deadline leaves this many times what answers take beside the wait."""


class Admission:
    """`replicas` may change; `times` is what is known of how long answers take."""

    def __init__(
        self, stage: str, replicas: list[Replica], balancer: Balancer | EarliestFinish, limits: Limits
    ) -> None:
        self.stage = stage
        self.latency_max_s: float | None = None
        """Within it answers are wanted."""
        self.replicas = replicas
        self.limits = limits
        self.wait_queue = WaitQueue()
        self.wait_queue.returned = self._returned
        self.balanced_by(balancer)
        self.length = AnswerLength()
        self.times = AnswerTimes()
        self.when_crowded: Callable[[], None] | None = None
        """Called when a request has to wait."""
        self._pace = Pace()
        self._again: asyncio.TimerHandle | None = None

    def balanced_by(self, balancer: Balancer | EarliestFinish) -> None:
        """Chooses replicas by `balancer` from now on."""
        self.timed = balancer if isinstance(balancer, EarliestFinish) else None
        self.matching = (
            cast("Matching", balancer) if self.timed is not None and self.timed.binds_late else None
        )
        self.wait_queue.matches = None if self.matching is None else self._match
        self.balancer = balancer.least if isinstance(balancer, EarliestFinish) else balancer

    async def replica(self, call: Call, tried: list[Replica], give_up_s: float) -> Replica:
        """The one to send to, not among `tried` unless it was waited for. Raises `StageFailed`."""
        chosen = None if self.wait_queue else self.free(call, tried)
        if chosen is not None:
            return chosen
        if self.when_crowded is not None:
            self.when_crowded()
        give_up_s = min(call.deadline_s, give_up_s)
        rank: Rank | None = None
        waiter: Waiter | None = None
        while True:
            if not self._hope(tried, monotonic(), give_up_s):
                self.wait_queue.wake()
                resting = any(monotonic() < r.rests_until_s for r in self.replicas if r.state == "ready")
                # 429 and not 503: engines that ask to be left alone will be back.
                raise self.overloaded if resting else StageFailed(self.stage, "no-replica")
            if rank is None:
                now_s = monotonic()
                # Where deadlines order, it is by when a request must begin, not by when it must end.
                slack_s = call.deadline_s - now_s - self.times.typical_s
                rank = self.wait_queue.rank(call.priority, now_s, slack_s)
                self._admit(rank, give_up_s, call.deadline_s)
                waiter = None if self.matching is None else Waiter(self.asked(call), now_s)
            outcome = await self.wait_queue.wait(give_up_s, rank, waiter)
            if outcome == "displaced":
                raise self.overloaded
            # Who has waited takes what there is: a replica that failed a moment ago may be the one with room.
            chosen = self._taken(waiter) or self.free(call, [])
            if chosen is not None:
                # The next may look too, whether or not this one goes; where places are given, once it is counted.
                if self.matching is None:
                    self.wait_queue.wake()
                else:
                    asyncio.get_running_loop().call_soon(self.wait_queue.wake)
                if call.deadline_s - monotonic() < self.times.typical_s:
                    raise StageFailed(self.stage, "deadline")
                return chosen
            if outcome == "late":
                late = monotonic() + TICK_S >= call.deadline_s
                raise StageFailed(self.stage, "deadline") if late else self.overloaded

    def free(self, call: Call, tried: Sequence[Replica]) -> Replica | None:
        """One that has room now."""
        now_s = monotonic()
        if self.matching is not None:
            usable = [r for r in self.replicas if r.usable(now_s) and r not in tried]
            at = self.matching.place(self.asked(call), usable, now_s) if usable else None
            return None if at is None else usable[at]
        if len(self.replicas) == 1:
            only = self.replicas[0]
            has_room = only.running < only.max_concurrency and only.usable(now_s) and only not in tried
            return only if has_room else None
        candidates = [
            r for r in self.replicas if r.running < r.max_concurrency and r.usable(now_s) and r not in tried
        ]
        if not candidates:
            return None
        if self.timed is not None:
            return candidates[self.timed.choose(candidates, self.asked(call))]
        return candidates[self.balancer.choose(candidates, self.tokens(call), call.prefix)]

    def _match(self) -> bool:
        """Gives places to those who wait; False where the first of them is to look for itself."""
        rule, now_s = self.matching, monotonic()
        usable = [r for r in self.replicas if r.usable(now_s)]
        if rule is None or not usable or not rule.looks(usable):
            return False
        waiting = self.wait_queue.first(rule.window)
        began_s = perf_counter()
        matched = rule.match(waiting, usable, now_s)
        rule.took(perf_counter() - began_s)
        for _, at in matched.given:
            _reserve(usable[at], 1)
        self.wait_queue.give([(waiting[one], usable[at]) for one, at in matched.given])
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if matched.again_s < inf:
            # A tick later: a timer may ring early.
            self._again = asyncio.get_running_loop().call_at(matched.again_s + TICK_S, self.wait_queue.wake)
        return True

    def _taken(self, waiter: Waiter | None) -> Replica | None:
        """Replica that one who waited was given, which does not count it yet."""
        if waiter is None or waiter.given is None:
            return None
        replica: Replica = waiter.given
        waiter.given = None
        _reserve(replica, -1)
        return replica if replica.usable(monotonic()) else None

    def _returned(self, replica: Any) -> None:
        """Frees the place of a request that is gone."""
        _reserve(replica, -1)

    def asked(self, call: Call) -> Asked:
        """The call as known beforehand; its answer is wanted within what its turn here has left."""
        if self.latency_max_s is None:
            return Asked(call.tokens, call.most_output, call.prefix, answers=call.answers)
        now_s = monotonic()
        spent_s = 0.0 if call.step is None else now_s - call.step.started_at_s
        left_s = min(self.latency_max_s - spent_s, call.deadline_s - now_s)
        return Asked(call.tokens, call.most_output, call.prefix, max(0.0, left_s), call.answers)

    def tokens(self, call: Call) -> int:
        """Tokens that the call is likely to read and write."""
        if self.timed is not None:
            return self.timed.tokens(self.asked(call))
        return call.tokens + call.answers * self.length.expected(call.most_output)

    @property
    def crowded(self) -> bool:
        """Tells whether a request that came now would have to wait."""
        now_s = monotonic()
        return bool(self.wait_queue) or not any(
            r.running < r.max_concurrency and r.usable(now_s) for r in self.replicas
        )

    def ended(self) -> None:
        """A request left its replica: the next may have its place."""
        if self.wait_queue.tickets:
            self._pace.ended(monotonic())
            self.wait_queue.wake()
        else:
            self._pace.last_s = None

    def finish_s(self, most_output: int | None) -> float:
        """Seconds in which an answer of at most so many tokens that is asked for now will be there, nine times in ten.

        The queue as it moves, and the 90th percentile of answers at this one's share of their mean length.
        """
        share = self.length.expected(most_output) / max(1, self.length.expected())
        return self.waits_s + self.times.p90_s * share

    def late(self, left_s: float, most_output: int | None) -> bool:
        """Tells whether such an answer is likely to be there later than in `left_s`, and nobody is to look whether that
        still holds."""
        return self.finish_s(most_output) > left_s and not self.looks(left_s)

    def looks(self, left_s: float) -> bool:
        """Tells whether a request that is likely to be late, with so long left, asks the stage all the same."""
        # A queue moves on, and tells by itself when it is short again.
        return self.waits_s <= left_s and self.times.looks(monotonic())

    @property
    def waits_s(self) -> float:
        """Seconds that who comes now will wait."""
        ahead = len(self.wait_queue)
        return (ahead + 1) * self._pace.gap_s if ahead else 0.0

    @property
    def overloaded(self) -> Overloaded:
        return Overloaded(self.stage, self.retry_after_s)

    @property
    def retry_after_s(self) -> int:
        """Seconds until the queue will have moved on, and no engine has asked to be left alone; 1 to 60."""
        rests_s = min((r.rests_until_s for r in self.replicas), default=0.0) - monotonic()
        return max(1, min(60, math.ceil(max(rests_s, len(self.wait_queue) * self._pace.gap_s))))

    def _admit(self, rank: Rank, give_up_s: float, deadline_s: float) -> None:
        """Raises `Overloaded` for whom there is no place, or none in time. Who is urgent takes that of the last."""
        if len(self.wait_queue) >= self.limits.max_queue and not self.wait_queue.displace(rank):
            raise self.overloaded
        ahead = self.wait_queue.ahead(rank)
        # A short queue is always open: it is what the pace is learnt from.
        if ahead > sum(r.max_concurrency for r in self.replicas):
            served_s = monotonic() + ahead * self._pace.gap_s
            if served_s > give_up_s or served_s + MARGIN * self.times.typical_s > deadline_s:
                raise self.overloaded

    def _hope(self, tried: list[Replica], now_s: float, give_up_s: float) -> bool:
        """Tells whether waiting can help: some replica is busy, starting, or resting for no longer than can be
        waited.
        """
        return any(
            r.state == "starting"
            or now_s < r.rests_until_s <= give_up_s
            or (r.usable(now_s) and r not in tried)
            for r in self.replicas
        )


def _reserve(replica: Replica, places: int) -> None:
    """Keeps so many places for requests that are about to be counted, or gives them back."""
    replica.running += places
    replica.load += places
