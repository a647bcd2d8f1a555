"""A profile of one engine: measure, fit, and check the fit on traffic that it has not seen."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cascadia.clients.engine_facts import EngineFacts, load
from cascadia.clients.latency_measure import Asker, Seen, measure, rounds
from cascadia.clients.latency_mixed import lengths_of, mixed, replay
from cascadia.clients.latency_points import Point, ladder
from cascadia.clients.made_up_prompts import MadeUp
from cascadia.clients.openai_engine import OpenAIEngine
from cascadia_sim.build import replica_timing
from cascadia_sim.calibration import Calibration
from cascadia_sim.profile_check import CAPACITY_REQUESTS, Check, Served, capacity_rps, check
from cascadia_sim.profile_fit import Fitted, Observation, Setup, fit_profile
from cascadia_sim.timing import ReplicaTiming

# Of the time allowed: until then single points are measured, until then mixed requests are sent.
POINTS_UNTIL, MIXED_UNTIL = 0.65, 0.9
# Of what the fit says the engine can do: busy, and far from an endless queue.
MIXED_LOAD = 0.6
FEWEST_MIXED = 8

Progress = Callable[[float | None, str | None], None]


@dataclass(frozen=True, slots=True)
class Profile:
    """`seen` are all measurements by point, `left_out` why a point has none."""

    facts: EngineFacts
    setup: Setup
    fitted: Fitted
    seen: dict[Point, list[Seen]]
    left_out: dict[Point, str]
    mixed: Check | None
    took_s: float
    notes: tuple[str, ...]


async def profile_latency(
    client: OpenAIEngine,
    facts: EngineFacts,
    setup: Setup,
    start: Calibration,
    *,
    max_seconds: float,
    draw: np.random.Generator,
    progress: Progress,
) -> Profile:
    """Takes about `max_seconds`. Raises `BadInput` for an engine that cannot be measured."""
    clock = client.clock
    began_s = clock()
    before = await load(client)
    asker = Asker(client, MadeUp(draw))
    progress(0.0, "warming up")
    first = await asker.settle()
    longest = min(facts.max_model_len or setup.architecture.max_position, setup.architecture.max_position)
    points = ladder(longest, setup.config.max_num_seqs, facts.kv_tokens)

    def tell(point: Point) -> None:
        progress((clock() - began_s) / max_seconds, _telling(point))

    seen, left_out, at_most = await rounds(
        points, lambda p: measure(asker, p), first, began_s + POINTS_UNTIL * max_seconds, clock, tell
    )
    if at_most is not None:
        setup = replace(setup, config=replace(setup.config, max_num_seqs=at_most))
    progress(POINTS_UNTIL, "fitting")
    found = fit_profile([_observation(p, s) for p, s in seen.items()], setup, _named(start, facts, setup))
    seconds = began_s + MIXED_UNTIL * max_seconds - clock()
    progress((clock() - began_s) / max_seconds, "checking on mixed requests")
    checked = await _check(asker, setup, facts, found, longest, seconds, draw)
    after = await load(client)
    notes = [] if checked else ["no time was left to check the fit on mixed requests; raise --max-seconds"]
    if before is not None and before.running + before.waiting > 0:
        notes.append(
            f"the engine was serving {before.running + before.waiting} requests of others at the start"
        )
    if before is not None and after is not None and after.preemptions > before.preemptions:
        notes.append(f"{after.preemptions - before.preemptions} requests were preempted while measuring")
    return Profile(facts, setup, found, seen, left_out, checked, clock() - began_s, tuple(notes))


def timing_of(setup: Setup, calibration: Calibration, kv_tokens: int | None) -> ReplicaTiming:
    """With the KV cache that the engine reports, where it does."""
    config = replace(setup.config, calibration=calibration)
    timing = replica_timing(setup.architecture, setup.gpu, tp=setup.tp, pp=setup.pp, config=config)
    if kv_tokens is None:
        return timing
    lane = kv_tokens // setup.pp
    return replace(timing, kv_tokens=lane - lane % timing.block_size)


def _named(start: Calibration, facts: EngineFacts, setup: Setup) -> Calibration:
    """`start` under the name of what is being measured."""
    a, gpu = setup.architecture.name, setup.gpu.name
    return replace(
        start,
        name=f"{gpu}-{facts.engine}-{setup.precision}-measured",
        gpu=gpu,
        engine=facts.engine,
        engine_version=facts.version,
        precision=setup.precision,
        source=f"cascadia profile latency: {a}, TP {setup.tp}, PP {setup.pp}; held out: every third point",
    )


async def _check(
    asker: Asker,
    setup: Setup,
    facts: EngineFacts,
    found: Fitted,
    longest: int,
    seconds: float,
    draw: np.random.Generator,
) -> Check | None:
    timing = timing_of(setup, found.calibration, facts.kv_tokens)
    rate_rps = MIXED_LOAD * capacity_rps(lengths_of(CAPACITY_REQUESTS, longest, draw), timing)
    if rate_rps * seconds < FEWEST_MIXED:
        return None
    answers = await replay(
        mixed(rate_rps, seconds, longest, draw), asker.ask, asyncio.sleep, asker.client.clock
    )
    served = [
        Served(a.sent_s, a.chunks_s[0], a.chunks_s[-1], a.prompt_tokens or 1, a.output_tokens or 1)
        for a in answers
    ]
    return check(served, timing, found.request_s)


def _observation(point: Point, seen: list[Seen]) -> Observation:
    """The median of a point's measurements."""
    prompt, context, seconds = (
        float(np.median([getattr(one, name) for one in seen]))
        for name in ("prompt_tokens", "context_tokens", "seconds")
    )
    return Observation(point.decodes, point.sequences, prompt, context, seconds)


def _telling(point: Point) -> str:
    if not point.decodes:
        return f"a prompt of {point.prompt_tokens} tokens"
    return f"{point.sequences} at once, prompts of {point.prompt_tokens} tokens"
