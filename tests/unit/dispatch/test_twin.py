"""Router and simulator choose alike: the rules of `cascadia.dispatch` and their compiled twins, on the same log."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.dispatch import answer_length
from cascadia.dispatch.answer_length import AnswerLength
from cascadia.dispatch.least_outstanding import LOOKED_AT, LeastOutstanding
from cascadia.dispatch.round_robin import SmoothRoundRobin
from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.engine import kernel
from cascadia_sim.engine.fleet import fleet_of, sites_of
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.timing import ReplicaTiming
from tests.examples import examples
from tests.unit.sim.cascade.test_stage import columns_of
from tests.unit.sim.iteration.test_twin import Request, timings, workloads
from tests.unit.sim.machines import machine


@dataclass
class Fake:
    name: str
    weight: float
    outstanding_tokens: int = 0


WEIGHTS = st.lists(st.sampled_from([0.25, 1 / 3, 1.0, 1.0, 3.0, 7.3]), min_size=1, max_size=LOOKED_AT + 8)
ROOM = st.lists(st.booleans(), min_size=LOOKED_AT + 8, max_size=LOOKED_AT + 8)
"""Which replicas may be sent to."""
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("arrives"), st.integers(1, 400)),
        st.tuples(st.just("ends"), st.integers(1, 400)),
        st.tuples(st.just("room"), ROOM),
    ),
    max_size=120,
)


@settings(max_examples=examples(200))
@given(WEIGHTS, EVENTS, st.one_of(st.none(), st.integers(1, 300)), st.integers(0, 2**32))
def test_the_least_outstanding_is_the_same_at_every_choice_of_a_log(
    weights: list[float], events: list[tuple[str, object]], most: int | None, seed: int
) -> None:
    """Who arrives brings so many tokens; who ends has written so many; now and then some replicas have no room."""
    rng = np.random.default_rng(seed)
    fakes, balancer, length = (
        [Fake(f"{i}", w) for i, w in enumerate(weights)],
        LeastOutstanding(),
        AnswerLength(),
    )
    replicas = [Replica(machine(), w) for w in weights]
    fleet, sites = fleet_of([r.timing for r in replicas]), sites_of(replicas, (most,))
    open_, running = list(range(len(weights))), [[] for _ in weights]  # type: list[int], list[list[int]]
    for kind, value in events:
        if kind == "room":
            open_ = [r for r in range(len(weights)) if value[r]] or [0]  # type: ignore[index]
            sites = sites._replace(open=np.array(open_, np.int64))
        elif kind == "arrives":
            tokens = int(value) + length.expected(most)  # type: ignore[call-overload]
            assert tokens == int(value) + kernel.expected(sites, 0)  # type: ignore[call-overload]
            chosen = open_[balancer.choose([fakes[r] for r in open_], tokens)]
            assert chosen == kernel.least_outstanding(fleet, sites, 0, 0, len(open_), tokens)
            fakes[chosen].outstanding_tokens += tokens
            fleet.state[chosen, kernel.OUTSTANDING] += tokens
            running[chosen].append(tokens)
        elif busy := [r for r, held in enumerate(running) if held]:
            at = int(rng.choice(busy))
            tokens = running[at].pop(int(rng.integers(len(running[at]))))
            fakes[at].outstanding_tokens -= tokens
            fleet.state[at, kernel.OUTSTANDING] -= tokens
            length.seen(int(value))  # type: ignore[call-overload]
            fleet.state[at, kernel.WRITTEN] += int(value)  # type: ignore[call-overload]
            fleet.state[at, kernel.ANSWERED] += 1
            kernel.learn(fleet, sites, at, 0)


@given(WEIGHTS, st.lists(ROOM, min_size=1, max_size=6), st.integers(1, 40))
def test_round_robin_is_the_same_at_every_choice_though_replicas_come_and_go(
    weights: list[float], rooms: list[list[bool]], choices: int
) -> None:
    robin, fakes = SmoothRoundRobin(), [Fake(f"{i}", w) for i, w in enumerate(weights)]
    sites = sites_of([Replica(machine(), w) for w in weights])
    for room in rooms:
        open_ = [r for r in range(len(weights)) if room[r]] or [0]
        sites = sites._replace(open=np.array(open_, np.int64))
        for _ in range(choices):
            chosen = open_[robin.choose([fakes[r] for r in open_])]
            assert chosen == kernel.richest(sites, 0, len(open_))


def test_both_expect_the_same_of_answers() -> None:
    assert (kernel.FIRST_ANSWER_TOKENS, kernel.ANSWERS_KEPT) == (
        answer_length.FIRST_ANSWER_TOKENS,
        answer_length.ANSWERS_KEPT,
    )
    assert kernel.LOOKED_AT == LOOKED_AT
    length, sites = AnswerLength(), sites_of((), (None,))
    fleet = fleet_of([machine()])
    for tokens in np.random.default_rng(0).integers(1, 2000, 3 * answer_length.ANSWERS_KEPT).tolist():
        length.seen(tokens)
        fleet.state[0, kernel.WRITTEN], fleet.state[0, kernel.ANSWERED] = tokens, 1
        kernel.learn(fleet, sites, 0, 0)
        assert length.expected() == kernel.expected(sites, 0)


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(timings(speculating=False), st.sampled_from([1.0, 2.0])), min_size=2, max_size=3),
    workloads(),
)
def test_a_stage_is_served_as_the_routers_rule_has_it(
    fleet: list[tuple[ReplicaTiming, float]], requests: list[Request]
) -> None:
    """What has finished at each arrival is worked out anew, replica by replica; then the router's own code chooses."""
    columns = columns_of(requests)
    arrival_ps, input_tokens, output_tokens, _ = columns
    run = simulate_stage([Replica(t, w) for t, w in fleet], "least-outstanding", *columns)
    balancer, length = LeastOutstanding(), AnswerLength()
    charged, ended = np.zeros(len(requests), np.int64), np.zeros(len(requests), bool)
    for i in range(len(requests)):
        fakes = []
        for r, (timing, weight) in enumerate(fleet):
            before = np.flatnonzero(run.replica[:i] == r)
            finish_ps = simulate_replica(timing, *(c[before] for c in columns)).finish_ps
            left = finish_ps > arrival_ps[i]
            for k in before[~left]:
                if not ended[k]:
                    length.seen(int(output_tokens[k]))
                    ended[k] = True
            fakes.append(Fake(f"{r}", weight, int(charged[before[left]].sum())))
        charged[i] = input_tokens[i] + length.expected()
        assert run.replica[i] == balancer.choose(fakes, int(charged[i]))
