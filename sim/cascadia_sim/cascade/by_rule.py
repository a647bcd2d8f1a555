"""Requests sent to replicas by a rule that is no part of the simulator: the code that a router runs, say."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, cast, runtime_checkable

import numpy as np

from cascadia_sim.engine.arrays import Fleet, Network, Paths, Requests, Sites, network_of, no_apis, no_paths
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
        """Time at which it wants to look again at those whom it keeps, whatever ends by then."""
        ...

    def came(self, request: int, input_tokens: int, now_s: float) -> None: ...

    def placed(self, now_s: float) -> Sequence[tuple[int, int]]:
        """Requests that begin now, each with its replica."""
        ...

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None: ...


MakeRule = Callable[[], Rule | QueueingRule]
"""A rule of one run, as it begins."""


class Ruled:
    """Group of a network whose visits `rule` shares among its replicas, which are `lanes`.

    What the rule is told of ends when it is asked, as a router looks at its replicas when a request comes. `came_ps`:
    when those came who waited for a replica, by visit; the network has when they began.
    """

    def __init__(
        self, group: int, lanes: Ints, timings: Sequence[ReplicaTiming], rule: Rule | QueueingRule
    ) -> None:
        self.group = group
        self.came_ps: dict[int, int] = {}
        self._lanes = lanes
        self._timings = timings
        self._rule = rule
        # A protocol: to ask it of each visit takes 20 us.
        self._queue = rule if isinstance(rule, QueueingRule) else None
        self._in_hand: list[list[int]] = [[] for _ in timings]

    def asked(
        self, fleet: Fleet, requests: Requests, network: Network, visits: list[int], now_ps: int
    ) -> None:
        """Sends those of `visits`, who come now, and of those who wait, whom the rule has begin now."""
        from cascadia_sim.engine import kernel

        if now_ps >= kernel.NEVER - 1:
            raise BadInput("rule", "keeps requests although all replicas are idle", "let it give them away")
        self._tell(fleet, requests)
        for visit, at in self._placed(requests, network, visits, now_ps):
            lane = self._lanes[at]
            network.replica[visit] = lane
            # A replica has a request from the moment at which it was given it.
            if (came_ps := int(requests.arrival_ps[visit])) < now_ps:
                self.came_ps[visit], requests.arrival_ps[visit] = came_ps, now_ps
            self._in_hand[at].append(visit)
            kernel.append(fleet, requests, lane, visit, 1)

    def _placed(
        self, requests: Requests, network: Network, visits: list[int], now_ps: int
    ) -> Iterable[tuple[int, int]]:
        queue, now_s = self._queue, now_ps / PS_PER_S
        if queue is None:
            rule = cast(Rule, self._rule)
            return [(v, rule.choose(v, int(requests.input_tokens[v]), now_s)) for v in visits]
        for v in visits:
            queue.came(v, int(requests.input_tokens[v]), now_s)
        placed = queue.placed(now_s)
        network.again_ps[self.group] = self._again_ps(queue, now_ps)
        return placed

    @staticmethod
    def _again_ps(queue: QueueingRule, now_ps: int) -> int:
        from cascadia_sim.engine import kernel

        if not queue.waits:
            return kernel.NEVER
        again_ps = queue.again_s * PS_PER_S
        # One picosecond later than asked: truncated, the instant may lie before it, and the rule would ask for the
        # same again for ever.
        return max(int(again_ps), now_ps) + 1 if again_ps < kernel.NEVER - 1 else kernel.NEVER - 1

    def _tell(self, fleet: Fleet, requests: Requests) -> None:
        """Tells the rule what has ended since it was asked, by replica."""
        from cascadia_sim.engine import kernel

        for at in np.flatnonzero(fleet.state[self._lanes, kernel.ANSWERED]).tolist():
            fleet.state[self._lanes[at], kernel.ANSWERED] = 0
            which = np.array(self._in_hand[at])
            done = requests.finish_ps[which] >= 0
            self._in_hand[at] = which[~done].tolist()
            at_ps = _at_client(requests, self._timings, at, which[done])
            for visit, ended_ps in zip(which[done].tolist(), at_ps.tolist(), strict=True):
                self._rule.ended(visit, at, int(requests.output_tokens[visit]), ended_ps / PS_PER_S)


def run(
    fleet: Fleet,
    requests: Requests,
    sites: Sites,
    network: Network,
    paths: Paths,
    until_ps: int,
    ruled: Sequence[Ruled] = (),
) -> None:
    """Runs a network up to `until_ps`; groups that `by_load` says have a rule of their own are among `ruled`."""
    from cascadia_sim.engine import kernel

    while (left := kernel.together(fleet, requests, sites, network, paths, until_ps)) >= 0:
        came, now_ps = network.due[:left], int(network.paused_ps[0])
        for each in ruled:
            visits = came[network.group[came] == each.group].tolist()
            if visits or network.again_ps[each.group] <= now_ps:
                each.asked(fleet, requests, network, visits, now_ps)


def serve(
    fleet: Fleet,
    requests: Requests,
    sites: Sites,
    timings: Sequence[ReplicaTiming],
    rule: Rule | QueueingRule,
    replica: Ints,
) -> None:
    """Sends the requests [n] of one stage as `rule` has it, writes that to `replica` [n], and runs all out."""
    from cascadia_sim.engine import kernel

    n = replica.size
    network = network_of(
        np.zeros(n, np.int64),
        np.full(n, -1, np.int64),
        np.arange(n),
        sizes=(len(timings),),
        by_load=np.array([kernel.OWN_RULE]),
        most_load=np.array([np.inf]),
        apis=no_apis(1),
    )
    # The caller's arrivals are not those at replicas.
    requests = requests._replace(arrival_ps=requests.arrival_ps.copy())
    ruled = Ruled(0, np.arange(len(timings)), timings, rule)
    run(fleet, requests, sites, network, no_paths(n, n), until_ps=kernel.NEVER, ruled=(ruled,))
    replica[:] = network.replica


def _at_client(requests: Requests, timings: Sequence[ReplicaTiming], lane: int, which: Ints) -> Ints:
    first_ps, finish_ps = requests.first_token_ps[which], requests.finish_ps[which]
    late_ps = delays_ps(
        timings, np.full(which.size, lane), first_ps, finish_ps, requests.output_tokens[which]
    )
    found: Ints = finish_ps + late_ps
    return found
