"""The router decides as the simulator does: the same arrivals, model by model and batch by batch."""

import heapq
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from cascadia.domain.policy import Policies, Policy
from cascadia.planner.policies.played import run_of
from cascadia.planner.policies.tables import by_slack, gathered, group
from cascadia.policy.problem import ModelProfile
from cascadia.router.replicas.batch_queue import Member
from cascadia.router.replicas.batcher import Lane
from cascadia_sim.batch.simulate import which_times

MODELS = (
    ModelProfile("quick", 70.0, tuple(0.002 + 0.001 * size for size in range(1, 9))),
    ModelProfile("good", 80.0, tuple(0.006 + 0.004 * size for size in range(1, 9))),
)
VARIED = tuple(
    replace(model, drawn_s=tuple(tuple(f * s for f in (0.6, 0.8, 0.9, 1.0, 1.3)) for s in model.latency_s))
    for model in MODELS
)
SLO_S, WORKERS = 0.05, 3


def policies(queue: Any, index: Any) -> Policies:
    """By slack; at many on one queue, batches that gather. A worker's own queue is looked at by the simulator when
    something happens to it, by the router at any event (docs/models/policy.md), so none waits there."""
    made = group("g", MODELS, slo_s=SLO_S, workers=WORKERS)
    border = 400.0 if index == "rate" else 8.0
    few, many = by_slack(MODELS, (8, 6)), by_slack(MODELS, (8, 3), 0.5)
    many = gathered(MODELS[0], 3, 8) if queue == "central" else many
    levels = [Policy(border, few), Policy(8 * border, many)]
    return made.policies(levels, "test", queue=queue, index=index)


def routed(told: Policies, arrival_s: np.ndarray, models: tuple[ModelProfile, ...]) -> list[tuple[str, int]]:
    """Model and batch of each request by the router's own lane, its workers played by their profiles."""
    lane, took = Lane(told, WORKERS), [("", 0)] * len(arrival_s)
    times_s = {model.name: model.drawn_s or [(lasts_s,) for lasts_s in model.latency_s] for model in models}
    which = which_times(len(models[0].drawn_s[0]) if models[0].drawn_s else 1, len(arrival_s))
    free, timer = list(range(WORKERS)), 0
    # Completions before wake-ups, arrivals before both: as they stand in the simulator.
    events: list[tuple[float, int, int, int]] = [(float(at), 0, n, 0) for n, at in enumerate(arrival_s)]
    heapq.heapify(events)

    def dispatch(now_s: float) -> None:
        nonlocal timer
        timer += 1  # As the router's one timer, which each dispatch sets anew.
        for worker in list(free):
            found = lane.decide(worker, now_s)
            if found is None:
                continue
            decision, wait_s = found
            if decision.batch == 0:
                heapq.heappush(events, (now_s + wait_s + 1e-9, 2, timer, 0))
                continue
            members = lane.queue.take(worker, decision.batch)
            for member in members:
                took[member.slot] = decision.model, len(members)
            free.remove(worker)
            lane.in_flight += len(members)
            lasts_s = times_s[decision.model][len(members) - 1][which[members[0].slot]]
            heapq.heappush(events, (now_s + lasts_s, 1, worker, len(members)))

    while events:
        now_s, what, who, size = heapq.heappop(events)
        if what == 0:
            lane.rate.arrival(now_s)
            lane.queue.add(Member(b"", None, who, now_s + SLO_S, now_s + 9.0))  # type: ignore[arg-type]
        elif what == 1:
            free.append(who)
            lane.in_flight -= size
        elif who != timer:
            continue
        dispatch(now_s)
    return took


@pytest.mark.parametrize("models", [MODELS, VARIED], ids=["certain", "varied"])
@pytest.mark.parametrize(("queue", "index"), list(product(("worker", "central"), ("rate", "in_flight"))))
def test_each_request_gets_the_model_and_the_batch_that_were_simulated(
    queue: str, index: str, models: tuple[ModelProfile, ...]
) -> None:
    told = policies(queue, index)
    rng = np.random.default_rng(3)
    arrival_s = np.cumsum(rng.gamma(0.4, 1 / (0.4 * 500.0), 3000))
    run = run_of(told, models, arrival_s)
    simulated = [(told.models[m], int(size)) for m, size in zip(run.model, run.batch, strict=True)]
    real = routed(told, arrival_s, models)
    differ = [n for n, (one, other) in enumerate(zip(real, simulated, strict=True)) if one != other]
    assert len(set(simulated)) > 8
    assert not differ, (differ[:5], [(real[n], simulated[n]) for n in differ[:5]])
