"""A cascade in the middle of its work: replicas open and close, routings change, and requests go on through it all.

`advance` runs it up to an instant; between two calls its owner may open a replica, close one, or change the routing.
What holds then:

- an open replica gets new requests from this instant on; a closed one finishes what it has;
- a request keeps the routing under which it arrived, to its last stage;
- where the last replica of a stage closes (only one that the routing no longer sends to may lose it), it still serves
  those who arrived under an earlier routing.

Nothing is started anew at a change: queues, batches under way and KV caches stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cascadia_sim.cascade.parts import Bools
from cascadia_sim.engine.arrays import Fleet, Network, Requests, Sites
from cascadia_sim.engine.dispatch import DEFAULT, Dispatch, check_dispatch
from cascadia_sim.engine.requests import check_timing
from cascadia_sim.errors import InputError
from cascadia_sim.iteration.timing import Ints, ReplicaTiming

FIRST_CAPACITY = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """n requests, `arrival_ps` [n] not decreasing; lengths [S, n] as each of S stages would see them."""

    arrival_ps: Ints
    input_tokens: Ints
    output_tokens: Ints

    def __post_init__(self) -> None:
        if (np.diff(self.arrival_ps) < 0).any():
            raise InputError("arrival_ps", "falls", "sort the requests by arrival")


@dataclass(frozen=True, slots=True)
class VerdictTokens:
    """A verdict reads question, answer and `prompt` tokens of instruction, and writes `output`."""

    prompt: int = 0
    output: int = 1


class Answers(NamedTuple):
    """By request: when it was answered and by which stage, -1 where it is not; who was turned away never will be."""

    finish_ps: Ints
    by: Ints
    refused: Bools


class RollingCascade:
    """`judge` None: verdicts are there at once. Group s is stage s; the judge's is `self.judge_group`.

    A stage whose chosen replica has more than `most_load` tokens per weight in hand turns a request away: at the first
    stage it is lost, later the answer before is given. Verdicts are never refused.
    """

    def __init__(
        self,
        asked: Asked,
        judge: VerdictTokens | None,
        dispatch: Dispatch = DEFAULT,
        most_load: float = np.inf,
    ) -> None:
        check_dispatch(dispatch)
        stages, n = asked.input_tokens.shape
        self.asked = asked
        self.judge = judge
        self.judge_group = stages
        self.now_ps = 0
        self._by_load = np.full(stages + 1, dispatch == "least-outstanding", np.int64)
        self._most_load = np.append(np.full(stages, most_load), np.inf)
        self._timings: list[ReplicaTiming] = []
        self._group_of: list[int] = []
        self._open: list[list[int]] = [[] for _ in range(stages + 1)]
        self._closed: set[int] = set()
        self._routing: tuple[int, ...] = ()
        self._accept: Bools = np.zeros((stages, 0), bool)
        self._longest = _longest(asked, judge)
        self._fleet: Fleet | None = None
        self._sites = _no_sites(stages, judge)
        self._requests: Requests | None = None
        self._network = self._network_of(0, np.zeros(1, np.int64))
        self._visits = self._entries = self._known = self._all_answered = 0
        self._visit = np.full((stages, n), -1, np.int64)
        self._last_visit = np.full(n, -1, np.int64)
        self._last_stage = np.full(n, -1, np.int64)
        self._judged = np.zeros(n, bool)

    def open(self, group: int, timing: ReplicaTiming, weight: float = 1.0) -> int:
        """A replica that serves from now on; its number."""
        from cascadia_sim.engine.fleet import fleet_of, with_more_lanes

        check_timing(timing)
        room = timing.kv_tokens // timing.block_size * timing.block_size * timing.lanes
        if self._longest[group] > room:
            what = f"holds {room} tokens, and the longest request has {self._longest[group]}"
            raise InputError("timing.kv_tokens", what, "drop it, or give the replica more memory")
        self._timings.append(timing)
        self._group_of.append(group)
        fleet = self._fleet
        self._fleet = fleet_of(self._timings) if fleet is None else with_more_lanes(fleet, self._timings)
        sites = self._sites
        self._sites = sites._replace(
            weights=np.append(sites.weights, weight), credit=np.append(sites.credit, 0.0)
        )
        lane = len(self._timings) - 1
        self._open[group] = [*(r for r in self._open[group] if r not in self._closed), lane]
        self._arrange()
        return lane

    def close(self, replica: int) -> None:
        """Nothing new goes there, but for the stragglers of a stage that nobody else serves."""
        group = self._group_of[replica]
        others = [r for r in self._open[group] if r != replica]
        if others:
            self._open[group] = others
        elif group in self._served(self._routing):
            raise InputError(
                "replica", "is the last of a stage that is sent to", "open another, or reroute first"
            )
        self._closed.add(replica)
        self._arrange()

    def idle(self, replica: int) -> bool:
        """Whether it has finished all that it had, or will get."""
        from cascadia_sim.engine import kernel

        assert self._fleet is not None
        if self._fleet.state[replica, kernel.OUTSTANDING]:
            return False
        group = self._group_of[replica]
        if replica not in self._open[group] or self._requests is None:
            return True
        answers = self.answers(self._all_answered, self._known)
        under_way = (answers.finish_ps < 0) & ~answers.refused
        self._all_answered += int(under_way.argmax()) if under_way.any() else under_way.size
        if group == self.judge_group:
            return not (under_way & self._judged[self._known - under_way.size : self._known]).any()
        visits = self._visit[group, self._known - under_way.size : self._known]
        return not (under_way & (visits >= 0) & (self._requests.finish_ps[visits] < 0)).any()

    def route(self, stages: Sequence[int], accept: Bools) -> None:
        """Who arrives from now on goes through `stages`, until one accepts: `accept` [S, n], the last one all."""
        for group in self._served(tuple(stages)):
            if not set(self._open[group]) - self._closed:
                what = "the judge" if group == self.judge_group else f"stage {group}"
                raise InputError("stages", f"{what} has no open replica", "open one first")
        self._routing = tuple(stages)
        self._accept = accept

    def advance(self, until_ps: int) -> None:
        """All that happens before `until_ps`. Who arrives then meets what was opened and closed up to now."""
        from cascadia_sim.engine import kernel

        self._enter(until_ps)
        if self._requests is not None and self._fleet is not None:
            network = self._network._replace(entry=self._network.entry[: self._entries])
            kernel.together(self._fleet, self._requests, self._sites, network, until_ps)
        self.now_ps = until_ps

    def finish(self) -> None:
        """Until all is answered."""
        from cascadia_sim.engine import kernel

        self.advance(kernel.NEVER)

    def answers(self, first: int = 0, stop: int | None = None) -> Answers:
        """What has come of requests `first` to `stop` - 1 up to now."""
        from cascadia_sim.engine.kernel import REFUSED

        part = slice(first, stop)
        last, by = self._last_visit[part], self._last_stage[part].copy()
        finish_ps = np.full(last.size, -1, np.int64)
        if self._requests is None:
            return Answers(finish_ps, finish_ps.copy(), np.zeros(last.size, bool))
        finish_ps[last >= 0] = self._requests.finish_ps[last[last >= 0]]
        before = np.full(last.size, -1, np.int64)
        refused = np.zeros(last.size, bool)
        for stage, visits in enumerate(self._visit):
            visit = visits[part]
            away = (visit >= 0) & (self._network.replica[visit] == REFUSED)
            refused |= away & (before < 0)
            earlier = away & (before >= 0)
            finish_ps[earlier], by[earlier] = self._requests.arrival_ps[visit[earlier]], before[earlier]
            before[visit >= 0] = stage
        by[finish_ps < 0] = -1
        return Answers(finish_ps, by, refused)

    def in_hand(self, first: int = 0, stop: int | None = None) -> list[int]:
        """By stage, how many of requests `first` to `stop` - 1 have arrived there and have no answer of it yet."""
        from cascadia_sim.engine.kernel import REFUSED

        if self._requests is None:
            return [0] * len(self._visit)
        found = []
        for visit in self._visit[:, first:stop]:
            visits = visit[visit >= 0]
            arrival_ps, finish_ps = self._requests.arrival_ps[visits], self._requests.finish_ps[visits]
            away = self._network.replica[visits] == REFUSED
            here = (arrival_ps > 0) & (arrival_ps <= self.now_ps) & (finish_ps < 0) & ~away
            found.append(int(here.sum()))
        return found

    def _served(self, stages: tuple[int, ...]) -> tuple[int, ...]:
        return (*stages, self.judge_group) if self.judge is not None and len(stages) > 1 else stages

    def _arrange(self) -> None:
        lanes = [np.array(group, np.int64) for group in self._open]
        first = np.cumsum([0, *(group.size for group in lanes)], dtype=np.int64)
        self._sites = self._sites._replace(open=np.concatenate(lanes))
        serves = np.array(self._group_of, np.int64)
        self._network = self._network._replace(first_replica=first, serves=serves)

    def _enter(self, until_ps: int) -> None:
        """Lays out the visits of those who arrive before `until_ps`: answer, verdict, the next answer, and so on."""
        stop = int(np.searchsorted(self.asked.arrival_ps, until_ps))
        who = np.arange(self._known, stop)
        if not who.size:
            return
        if not self._routing:
            raise InputError("stages", "requests arrive, and no routing is set", "call `route` first")
        asked, before = self.asked, np.zeros(0, np.int64)
        for i, stage in enumerate(self._routing):
            answers = self._add(stage, asked.input_tokens[stage, who], asked.output_tokens[stage, who])
            if i == 0:
                assert self._requests is not None
                self._requests.arrival_ps[answers] = asked.arrival_ps[who]
                self._network.entry[self._entries : self._entries + who.size] = answers
                self._entries += who.size
            else:
                self._network.successor[before] = answers
            given = self._verdicts(stage, who, answers) if i < len(self._routing) - 1 else answers
            self._visit[stage, who] = answers
            self._last_visit[who], self._last_stage[who] = given, stage
            if i < len(self._routing) - 1:
                rejected = ~self._accept[stage, who]
                who, before = who[rejected], given[rejected]
        self._known = stop

    def _verdicts(self, stage: int, who: Ints, answers: Ints) -> Ints:
        """The visits after which it is known whether each answer is accepted."""
        if self.judge is None:
            return answers
        asked, judge = self.asked, self.judge
        read = asked.input_tokens[stage, who] + asked.output_tokens[stage, who] + judge.prompt
        self._judged[who] = True
        given = self._add(self.judge_group, read, np.full(who.size, judge.output, np.int64))
        self._network.successor[answers] = given
        return given

    def _add(self, group: int, input_tokens: Ints, output_tokens: Ints) -> Ints:
        """Visits to `group`, not yet arrived; their numbers."""
        first, end = self._visits, self._visits + input_tokens.size
        self._make_room(end)
        assert self._requests is not None
        self._requests.input_tokens[first:end] = input_tokens
        self._requests.output_tokens[first:end] = output_tokens
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

    def _network_of(self, capacity: int, first_replica: Ints) -> Network:
        def column(value: int = 0) -> Ints:
            return np.full(capacity, value, np.int64)

        return Network(
            group=column(),
            successor=column(-1),
            entry=column(),
            entered=np.zeros(1, np.int64),
            first_replica=first_replica,
            serves=np.array(self._group_of, np.int64),
            by_load=self._by_load,
            most_load=self._most_load,
            replica=column(),
            due=column(),
        )


def _no_sites(stages: int, judge: VerdictTokens | None) -> Sites:
    from cascadia_sim.engine.fleet import sites_of

    return sites_of((), (*([None] * stages), judge.output if judge else None))


def _longest(asked: Asked, judge: VerdictTokens | None) -> Ints:
    """By group: tokens of the longest request that may come to it."""
    whole = (asked.input_tokens + asked.output_tokens).max(axis=1, initial=0)
    judged = 0 if judge is None else int(whole.max(initial=0)) + judge.prompt + judge.output
    return np.append(whole, judged)
