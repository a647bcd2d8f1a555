"""A cascade in the middle of its work: replicas open and close, routings change, and requests go on through it all.

`advance` runs it up to an instant; between two calls its owner may open a replica, close one, or change the routing.
What holds then:

- an open replica gets new requests from this instant on; a closed one finishes what it has;
- a request keeps the routing under which it arrived, to its last stage;
- among several routings (`shift`) it gets, at its arrival, the one for as many requests as are under way;
- where the last replica of a stage closes (only one that the routing no longer sends to may lose it), it still serves
  those who arrived under an earlier routing.

Nothing is started anew at a change: queues, batches under way and KV caches stay as they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cascadia_sim.cascade.by_rule import MakeRule, Ruled, run
from cascadia_sim.cascade.elsewhere import Elsewhere, apis_of
from cascadia_sim.cascade.parts import Bools
from cascadia_sim.engine.arrays import Apis, Fleet, Network, Paths, Requests, Sites, network_of, no_paths
from cascadia_sim.engine.dispatch import DEFAULT, Dispatch, check_dispatch
from cascadia_sim.engine.requests import check_timing
from cascadia_sim.errors import BadInput
from cascadia_sim.iteration.timing import Ints, ReplicaTiming

FIRST_CAPACITY = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class CascadeRequests:
    """n requests, `arrival_ps` [n] not decreasing; lengths [S, n] as each of S stages would see them.

    `cached_tokens` [S, n] of the inputs are in the prefix cache; None: none are.
    """

    arrival_ps: Ints
    input_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints | None = None

    def __post_init__(self) -> None:
        if (np.diff(self.arrival_ps) < 0).any():
            raise BadInput("arrival_ps", "falls", "sort the requests by arrival")


@dataclass(frozen=True, slots=True)
class VerdictTokens:
    """A verdict reads question, answer and `prompt` tokens of instruction, of which `cached` are in the prefix cache,
    and writes `output`."""

    prompt: int = 0
    output: int = 1
    cached: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class VerdictDelays:
    """A judge elsewhere: `latency_ps` [S, n] is what its verdict takes, by stage and request."""

    latency_ps: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """`stages` in order, until one accepts: `accept` [S, n]; the last accepts all.

    `enter` [S, n]: whom a stage is asked at all; None: all. The last stage is asked whoever comes. `judged` [S, n]:
    whose answer waits for a verdict, others are answered there; None: all but the last stage's. `looked_ps` [n]: how
    long the question is looked at before; None: not at all. `tried` [S, n]: as of a `CascadeStage`; None: nobody.
    """

    stages: tuple[int, ...]
    accept: Bools
    enter: Bools | None = None
    judged: Bools | None = None
    looked_ps: Ints | None = None
    tried: Bools | None = None


DEAD_BAND, HOLD_S = 0.10, 1.0
"""Of `cascadia.domain.gear`, whose rule is told here once more for the simulator."""


class Answers(NamedTuple):
    """Outcome by request: the time it was answered and the stage that did, -1 where it is not; whoever was
    turned away never will be.
    """

    finish_ps: Ints
    by: Ints
    refused: Bools


class RollingCascade:
    """`judge` None: verdicts are there at once. Group s is stage s; the judge's is `self.judge_group`. `apis` [S] are
    the stages elsewhere, None for the others: they serve without replicas and turn nobody away. `rules` [S] make what
    shares a stage's requests in place of `dispatch`, None where that does; replicas of such a stage neither come nor go
    once time has begun, and turn nobody away.

    A stage whose chosen replica has more than `most_load` tokens per weight in hand turns a request away: at the first
    stage it is lost, later the answer before is given. Verdicts are never refused.

    A request is under way until its client has the answer, and goes on to judge and next stage then
    (`engine/client.py`).
    """

    def __init__(
        self,
        asked: CascadeRequests,
        judge: VerdictTokens | VerdictDelays | None,
        dispatch: Dispatch = DEFAULT,
        most_load: float = np.inf,
        apis: Sequence[Elsewhere | None] = (),
        rules: Sequence[MakeRule | None] = (),
    ) -> None:
        check_dispatch(dispatch)
        stages, n = asked.input_tokens.shape
        self.asked = asked
        self.judge = judge
        self.judge_group = stages
        self.now_ps = 0
        self._by_load = np.full(stages + 1, dispatch == "least-outstanding", np.int64)
        self._most_load = np.append(np.full(stages, most_load), np.inf)
        self._apis = (*apis, *[None] * (stages + 1 - len(apis)))
        self._rules = {group: make for group, make in enumerate(rules) if make is not None}
        self._ruled: list[Ruled] | None = None
        self._timings: list[ReplicaTiming] = []
        self._group_of: list[int] = []
        self._open: list[list[int]] = [[] for _ in range(stages + 1)]
        self._closed: set[int] = set()
        self._routings: tuple[Routing, ...] = ()
        self._longest = _longest(asked, judge)
        self._fleet = _no_fleet()
        self._sites = _no_sites(stages, judge)
        self._requests: Requests | None = None
        self._network = self._network_of(0, np.zeros(1, np.int64))
        self._visits = self._known = self._all_answered = 0
        self._paths = _paths(asked, judge)
        self._judged = np.zeros(n, bool)

    def open(self, group: int, timing: ReplicaTiming, weight: float = 1.0) -> int:
        """A replica that serves from now on; its number."""
        from cascadia_sim.engine.client import constants
        from cascadia_sim.engine.fleet import with_more_lanes

        check_timing(timing)
        self._check_rule(group)
        room = timing.kv_tokens // timing.block_size * timing.block_size * timing.lanes
        # Here, since the kernel would wait for ever for room that the longest request can never get.
        if self._longest[group] > room:
            what = f"holds {room} tokens, and the longest request has {self._longest[group]}"
            raise BadInput("timing.kv_tokens", what, "drop it, or give the replica more memory")
        self._timings.append(timing)
        self._group_of.append(group)
        self._fleet = with_more_lanes(self._fleet, self._timings)
        sites = self._sites
        self._sites = sites._replace(
            weights=np.append(sites.weights, weight),
            client=np.append(sites.client, constants([timing]), axis=0),
            credit=np.append(sites.credit, 0.0),
        )
        lane = len(self._timings) - 1
        self._open[group] = [*(r for r in self._open[group] if r not in self._closed), lane]
        self._arrange()
        return lane

    def close(self, replica: int) -> None:
        """Closes a replica: it gets no new requests, but for the stragglers of a stage that nobody else serves."""
        group = self._group_of[replica]
        self._check_rule(group)
        others = [r for r in self._open[group] if r != replica]
        if others:
            self._open[group] = others
        elif any(group in self._served(routing) for routing in self._routings):
            raise BadInput(
                "replica", "is the last of a stage that is sent to", "open another, or reroute first"
            )
        # Still among the open where it is the last: who arrived under an earlier routing may yet come to it.
        self._closed.add(replica)
        self._arrange()

    def _check_rule(self, group: int) -> None:
        if group in self._rules and self._ruled is not None:
            raise BadInput("replica", "is of a stage with a rule of its own", "open all before time begins")

    def idle(self, replica: int) -> bool:
        """Tells whether the replica has finished all that it had, or will get."""
        from cascadia_sim.engine import kernel

        if self._fleet.state[replica, kernel.OUTSTANDING]:
            return False
        group = self._group_of[replica]
        if replica not in self._open[group] or self._requests is None:
            return True
        answers = self.answers(self._all_answered, self._known)
        under_way = (answers.finish_ps < 0) & ~answers.refused
        # Those before are answered for good: asking again each time from the first would be quadratic in a
        # day's requests.
        self._all_answered += int(under_way.argmax()) if under_way.any() else under_way.size
        if group == self.judge_group:
            return not (under_way & self._judged[self._known - under_way.size : self._known]).any()
        visits = self._paths.visit[group, self._known - under_way.size : self._known]
        return not (under_way & (visits >= 0) & (self._requests.finish_ps[visits] < 0)).any()

    def route(self, stages: Sequence[int], accept: Bools) -> None:
        """Sends whoever arrives from now on through `stages`, until one accepts: `accept` [S, n], the last one all."""
        self.shift((Routing(tuple(stages), accept),))

    def shift(
        self,
        routings: Sequence[Routing],
        borders: Sequence[float] = (),
        dead_band: float = DEAD_BAND,
        hold_s: float = HOLD_S,
    ) -> None:
        """Sends whoever arrives from now on by routing i where `borders[i - 1]` < requests under way <= `borders[i]`.

        Upwards at once; back where for `hold_s` less than a border by the share `dead_band` was under way.
        """
        if len(borders) != len(routings) - 1 or (np.diff([0.0, *borders]) <= 0).any():
            what = f"are {tuple(borders)} for {len(routings)} routings"
            raise BadInput("borders", what, "give one less than routings, rising from above 0")
        for group in (group for routing in routings for group in self._served(routing)):
            if self._apis[group] is None and not set(self._open[group]) - self._closed:
                what = "the judge" if group == self.judge_group else f"stage {group}"
                raise BadInput("stages", f"{what} has no open replica", "open one first")
        self._routings = tuple(routings)
        more = len(routings) - self._paths.following.shape[0]
        if more > 0:
            _, depth, n = self._paths.following.shape
            following = np.append(self._paths.following, np.full((more, depth, n), -1, np.int8), axis=0)
            judged = np.append(self._paths.judged, np.zeros((more, depth - 1, n), bool), axis=0)
            self._paths = self._paths._replace(following=following, judged=judged)
        if any(routing.looked_ps is not None for routing in routings):
            nothing = np.zeros(self.asked.arrival_ps.size, np.int64)
            looked = [nothing if r.looked_ps is None else r.looked_ps for r in routings]
            self._paths = self._paths._replace(looked_ps=np.stack(looked))
        else:
            self._paths = self._paths._replace(looked_ps=np.zeros((0, 0), np.int64))
        self._paths.rule[:2] = dead_band, hold_s
        self._paths = self._paths._replace(borders=np.array(borders, float), force=np.array([0.0, -1.0]))

    def ready(self, capacity: float) -> None:
        """Lowers all borders, from now on, to what that share of the planned replicas can carry."""
        if capacity <= 0:
            raise BadInput("capacity", f"is {capacity:g}", "give a share above 0")
        self._paths.rule[2] = capacity

    @property
    def gears(self) -> Ints:
        """The number of the routing that each request [n] got; -1 where it has not arrived."""
        return self._paths.gear

    def advance(self, until_ps: int) -> None:
        """All that happens before `until_ps`. Who arrives then meets what was opened and closed up to now."""
        if self._ruled is None:
            self._ruled = self._begin_rules()
        self._enter(until_ps)
        if self._requests is not None:
            network = self._network._replace(entry=self._network.entry[: self._known])
            run(
                self._fleet,
                self._requests,
                self._sites,
                network,
                self._paths,
                until_ps=until_ps,
                ruled=self._ruled,
            )
        self.now_ps = until_ps

    def _begin_rules(self) -> list[Ruled]:
        from cascadia_sim.engine.kernel import OWN_RULE

        ruled = []
        for group, make in self._rules.items():
            lanes = self._open[group]
            if lanes:
                self._by_load[group] = OWN_RULE
                ruled.append(Ruled(group, np.array(lanes), [self._timings[lane] for lane in lanes], make()))
        return ruled

    def finish(self) -> None:
        """Runs until all is answered."""
        from cascadia_sim.engine import kernel

        self.advance(kernel.NEVER)

    def answers(self, first: int = 0, stop: int | None = None) -> Answers:
        """Answers to requests `first` to `stop` - 1 up to now."""
        from cascadia_sim.engine.kernel import REFUSED

        part = slice(first, stop)
        paths = self._paths
        last, by = paths.last_visit[part], paths.last_stage[part].copy()
        finish_ps = np.full(last.size, -1, np.int64)
        if self._requests is None:
            return Answers(finish_ps, finish_ps.copy(), np.zeros(last.size, bool))
        there = last >= 0
        finish_ps[there] = self._requests.finish_ps[last[there]]
        finish_ps[finish_ps >= 0] += paths.wait_ps[last[finish_ps >= 0]]
        before = np.full(last.size, -1, np.int64)
        refused = np.zeros(last.size, bool)
        for stage, visits in self._ways(part):
            away = visits >= 0
            away[away] = self._network.replica[visits[away]] == REFUSED
            refused |= away & (before < 0)
            earlier = away & (before >= 0)
            finish_ps[earlier], by[earlier] = self._requests.arrival_ps[visits[earlier]], before[earlier]
            before[visits >= 0] = stage
        by[finish_ps < 0] = -1
        return Answers(finish_ps, by, refused)

    def in_hand(self, first: int = 0, stop: int | None = None) -> list[int]:
        """Counts, by stage and last of the judge, what of requests `first` to `stop` - 1 has arrived there and waits
        for its answer. A judge without replicas has nothing in hand."""
        part = slice(first, stop)
        visits = [*(visit for _, visit in self._ways(part)), self._paths.verdict[:, part]]
        return [self._count(visit, waits=True) for visit in visits]

    def turned_away(self, first: int = 0, stop: int | None = None) -> list[int]:
        """Counts, by stage, those of them for whom it had no place."""
        return [self._count(visit, waits=False) for _, visit in self._ways(slice(first, stop))]

    def _count(self, visit: Ints, *, waits: bool) -> int:
        from cascadia_sim.engine.kernel import REFUSED

        if self._requests is None:
            return 0
        visits = visit[visit >= 0]
        arrival_ps, finish_ps = self._requests.arrival_ps[visits], self._requests.finish_ps[visits]
        came = (arrival_ps > 0) & (arrival_ps <= self.now_ps)
        away = self._network.replica[visits] == REFUSED
        return int((came & ((finish_ps < 0) & ~away if waits else away)).sum())

    def _ways(self, part: slice) -> Iterator[tuple[int, Ints]]:
        """The visits to each stage, from the first on, of those who have arrived; -1 of those who do not come."""
        paths, who = self._paths, np.arange(*part.indices(self.asked.arrival_ps.size))
        arrived = paths.gear[part] >= 0
        gear = np.maximum(paths.gear[part], 0)
        at = np.where(arrived, paths.following[gear, 0, who], -1)
        for stage in range(self.judge_group):
            here = at == stage
            yield stage, np.where(here, paths.visit[stage, who], -1)
            at = np.where(here, paths.following[gear, stage + 1, who], at)

    def _served(self, routing: Routing) -> tuple[int, ...]:
        judges = (
            routing.judged is None
            or routing.tried is not None
            or routing.judged[list(routing.stages[:-1])].any()
        )
        asks = isinstance(self.judge, VerdictTokens) and len(routing.stages) > 1 and judges
        return (*routing.stages, self.judge_group) if asks else routing.stages

    def _arrange(self) -> None:
        lanes = [np.array(group, np.int64) for group in self._open]
        first = np.cumsum([0, *(group.size for group in lanes)], dtype=np.int64)
        self._sites = self._sites._replace(open=np.concatenate(lanes))
        serves = np.array(self._group_of, np.int64)
        self._network = self._network._replace(first_replica=first, serves=serves)

    def _enter(self, until_ps: int) -> None:
        """Lays out the visits of those who arrive before `until_ps`: all that any of the routings may ask for."""
        stop = int(np.searchsorted(self.asked.arrival_ps, until_ps))
        who = np.arange(self._known, stop)
        if not who.size:
            return
        if not self._routings:
            raise BadInput("stages", "requests arrive, and no routing is set", "call `route` first")
        comes, judged = self._follow(who)
        for stage in np.flatnonzero(comes.any(axis=1)):
            here = who[comes[stage]]
            self._paths.visit[stage, here] = self._answers(int(stage), here)
            if isinstance(self.judge, VerdictTokens) and judged[stage].any():
                self._judged[who[judged[stage]]] = True
                self._paths.verdict[stage, who[judged[stage]]] = self._verdicts(
                    int(stage), who[judged[stage]]
                )
        self._known = stop

    def _follow(self, who: Ints) -> tuple[Bools, Bools]:
        """Marks who comes to each stage under any of the routings, and who is judged there [S, m]."""
        comes, judged = np.zeros((2, self.judge_group, who.size), bool)
        for routing, following, waits in zip(
            self._routings, self._paths.following, self._paths.judged, strict=False
        ):
            left, before = np.ones(who.size, bool), np.zeros(who.size, np.int64)
            for stage in routing.stages:
                last = stage == routing.stages[-1]
                here = left if last or routing.enter is None else left & routing.enter[stage, who]
                following[before[here], who[here]] = stage
                before[here] = stage + 1
                comes[stage] |= here
                gated = here & (not last) & (True if routing.judged is None else routing.judged[stage, who])
                asks = gated if routing.tried is None else gated | (here & routing.tried[stage, who])
                waits[stage, who] = asks
                judged[stage] |= asks
                if last:
                    break
                left = left & ~(here & (routing.accept[stage, who] | ~gated))
        return comes, judged

    def _answers(self, stage: int, who: Ints) -> Ints:
        asked = self.asked
        cached = None if asked.cached_tokens is None else asked.cached_tokens[stage, who]
        lengths = asked.input_tokens[stage, who], asked.output_tokens[stage, who]
        visits = self._add(stage, *lengths, cached)
        if (api := self._apis[stage]) is not None:
            times = self._network.apis
            times.first_ps[visits], times.whole_ps[visits] = api.first_ps[who], api.whole_ps[who]
        return visits

    def _verdicts(self, stage: int, who: Ints) -> Ints:
        asked, judge = self.asked, self.judge
        assert isinstance(judge, VerdictTokens)
        read = asked.input_tokens[stage, who] + asked.output_tokens[stage, who] + judge.prompt
        output, cached = (np.full(who.size, tokens, np.int64) for tokens in (judge.output, judge.cached))
        return self._add(self.judge_group, read, output, cached)

    def _add(self, group: int, input_tokens: Ints, output_tokens: Ints, cached_tokens: Ints | None) -> Ints:
        """Visits to `group`, not yet arrived; their numbers."""
        first, end = self._visits, self._visits + input_tokens.size
        self._make_room(end)
        assert self._requests is not None
        self._requests.input_tokens[first:end] = input_tokens
        self._requests.output_tokens[first:end] = output_tokens
        if cached_tokens is not None:
            self._requests.cached_tokens[first:end] = cached_tokens
        self._network.group[first:end] = group
        self._visits = end
        return np.arange(first, end)

    def _make_room(self, visits: int) -> None:
        from cascadia_sim.engine.fleet import requests_of, with_more_requests

        if self._requests is None:
            self._requests = requests_of(*(np.zeros(0, np.int64) for _ in range(4)))
        capacity = self._requests.arrival_ps.size
        if visits <= capacity:
            return
        capacity = max(2 * capacity, visits, FIRST_CAPACITY)
        self._requests = with_more_requests(self._requests, capacity)
        known, self._network = self._network, self._network_of(capacity, self._network.first_replica)
        for name in ("group", "successor", "entry", "replica", "entered"):
            column = getattr(known, name)
            getattr(self._network, name)[: column.size] = column
        self._network.ended[:] = known.ended
        self._network = self._network._replace(apis=self._with_room(known.apis, capacity))
        wait_ps = np.zeros(capacity, np.int64)
        wait_ps[: self._paths.wait_ps.size] = self._paths.wait_ps
        self._paths = self._paths._replace(wait_ps=wait_ps)

    def _with_room(self, apis: Apis, capacity: int) -> Apis:
        """`apis` with times for `capacity` visits, where there are any."""
        if not apis.elsewhere.any():
            return apis
        first_ps, whole_ps = np.zeros((2, capacity), np.int64)
        first_ps[: apis.first_ps.size], whole_ps[: apis.whole_ps.size] = apis.first_ps, apis.whole_ps
        return apis._replace(first_ps=first_ps, whole_ps=whole_ps)

    def _network_of(self, capacity: int, first_replica: Ints) -> Network:
        def column(value: int = 0) -> Ints:
            return np.full(capacity, value, np.int64)

        network = network_of(
            column(),
            column(-1),
            column(),
            sizes=[0] * len(self._apis),
            by_load=self._by_load,
            most_load=self._most_load,
            apis=apis_of(self._apis),
        )
        return network._replace(first_replica=first_replica, serves=np.array(self._group_of, np.int64))


def _paths(asked: CascadeRequests, judge: VerdictTokens | VerdictDelays | None) -> Paths:
    """Paths before anybody has arrived, with no routing known."""
    stages, n = asked.input_tokens.shape
    unknown = np.full(n, -1, np.int64)
    return no_paths(requests=n)._replace(
        arrival_ps=asked.arrival_ps,
        following=np.full((1, stages + 1, n), -1, np.int8),
        judged=np.zeros((1, stages, n), bool),
        visit=np.full((stages, n), -1, np.int64),
        verdict=np.full((stages, n), -1, np.int64),
        verdict_ps=judge.latency_ps if isinstance(judge, VerdictDelays) else np.zeros((0, 0), np.int64),
        rule=np.array([DEAD_BAND, HOLD_S, 1.0]),
        force=np.array([0.0, -1.0]),
        gear=unknown.copy(),
        last_visit=unknown.copy(),
        last_stage=unknown.copy(),
    )


def _no_fleet() -> Fleet:
    from cascadia_sim.engine.fleet import fleet_of

    return fleet_of(())


def _no_sites(stages: int, judge: VerdictTokens | VerdictDelays | None) -> Sites:
    from cascadia_sim.engine.fleet import sites_of

    most = judge.output if isinstance(judge, VerdictTokens) else None
    return sites_of((), (*([None] * stages), most))


def _longest(asked: CascadeRequests, judge: VerdictTokens | VerdictDelays | None) -> Ints:
    """Tokens of the longest request that may come to each group."""
    whole = (asked.input_tokens + asked.output_tokens).max(axis=1, initial=0)
    judged = 0
    if isinstance(judge, VerdictTokens):
        judged = int(whole.max(initial=0)) + judge.prompt + judge.output
    return np.append(whole, judged)
