"""A profile of one engine: measure, fit, and check the fit on traffic that it has not seen."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from types import MappingProxyType

import numpy as np

from cascadia.clients.engines.facts import EngineFacts, Load, load
from cascadia.clients.engines.openai_engine import OpenAIEngine
from cascadia.domain.errors import BadInput
from cascadia.profile.latency.asker import Asker
from cascadia.profile.latency.measure import AtMost, Seen, decoding, first_token, measure
from cascadia.profile.latency.open_loop import lengths_of, mixed, replay
from cascadia.profile.latency.points import Point, ladder, lasting, needed
from cascadia.profile.latency.rounds import NEEDED_SHARE, Known, Limits, Rounds, guessed_s, rounds
from cascadia.profile.latency.synthetic_prompts import MadeUp
from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.evidence.standing import standing
from cascadia_sim.fit.profile_check import CAPACITY_REQUESTS, Check, Served, capacity_rps, check
from cascadia_sim.fit.profile_coverage import Part, missing, told
from cascadia_sim.fit.profile_fit import Fitted, Observation, Setup, fit_profile
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.timing import ReplicaTiming

# Of the time allowed: until then single points are measured, until then mixed requests are sent.
POINTS_UNTIL, MIXED_UNTIL = 0.65, 0.9
# Until then those are measured without which the fit knows less; what is left is the fit's own time.
NEEDED_UNTIL = 0.95
LOAD_S = 2.0
# Of what the fit says the engine can do: busy, and far from an endless queue.
MIXED_LOAD = 0.6
FEWEST_MIXED = 8

Progress = Callable[[float | None, str | None], None]


@dataclass(frozen=True, slots=True)
class Profile:
    """`seen` are all measurements by point, `left_out` why a point has none.

    `missing` tells what was not measured at all, and which constants stay as they were assumed for it; a profile that
    misses nothing is whole.
    """

    facts: EngineFacts
    setup: Setup
    fitted: Fitted
    _: KW_ONLY
    seen: dict[Point, list[Seen]]
    left_out: dict[Point, str]
    missing: tuple[str, ...]
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
    kept: Mapping[Point, Sequence[Seen]] = MappingProxyType({}),
) -> Profile:
    """Takes `max_seconds` at most, but for the fit. `kept` are measurements of before, which it goes on from.

    Raises `BadInput` for an engine that cannot be measured, or gives no answer in that time.
    """
    clock = client.clock
    began_s = clock()
    end_s = began_s + NEEDED_UNTIL * max_seconds
    before = await _load(client)
    asker = Asker(client, MadeUp(draw))
    progress(0.0, "warming up")
    notes = await _settled(asker, max_seconds, end_s, any(kept))
    longest = min(facts.max_model_len or setup.architecture.max_position, setup.architecture.max_position)
    points = ladder(longest, setup.config.max_num_seqs, facts.kv_tokens)

    async def one(point: Point) -> Seen | AtMost | str:
        progress((clock() - began_s) / max_seconds, _telling(point))
        try:
            async with asyncio.timeout(max(end_s - clock(), 0.0)):
                return await measure(asker, point)
        except TimeoutError:
            return "was cut off at the time limit"

    def lacks(seen: Iterable[Point]) -> tuple[Part, ...]:
        return missing([p.expected for p in seen], longest=longest, most_sequences=setup.config.max_num_seqs)

    def still_needed(seen: Sequence[Seen]) -> list[Point]:
        return needed(points, [_observation(s.point, [s]) for s in seen], longest, setup.config.max_num_seqs)

    limits = Limits(began_s + POINTS_UNTIL * max_seconds, end_s)
    done = await rounds(points, one, _known(asker, kept), still_needed, limits, clock)
    if done.broke is not None:
        notes.append(f"the engine failed while it was measured: {done.broke}")
    if done.at_most is not None:
        setup = replace(setup, config=replace(setup.config, max_num_seqs=done.at_most))
    progress(POINTS_UNTIL, "fitting")
    lacking = lacks(done.seen)
    if lacking:
        notes += _longer(still_needed([s for found in done.seen.values() for s in found]), done, max_seconds)
    counted = lasting(done.seen, lambda points: lacks(points) == lacking)
    observed = [_observation(p, s) for p, s in counted.items()]
    fixed = frozenset[str]().union(*(part.constants for part in lacking))
    found = fit_profile(observed, setup, _named(start, facts, setup), fixed)
    if lacking:
        found = _widened(found, setup, [part.name for part in lacking])
    checked = None
    if done.broke is None:
        seconds = began_s + MIXED_UNTIL * max_seconds - clock()
        progress((clock() - began_s) / max_seconds, "checking on mixed requests")
        checked = await _check(
            asker,
            setup,
            facts,
            found=found,
            longest=longest,
            seconds=seconds,
            draw=draw,
            end_s=began_s + max_seconds,
        )
    notes += [] if checked else ["no time was left to check the fit on mixed requests; raise --max-seconds"]
    notes += _of_others(before, await _load(client))
    return Profile(
        facts,
        setup,
        found,
        seen=done.seen,
        left_out=done.left_out,
        missing=told(lacking),
        mixed=checked,
        took_s=clock() - began_s,
        notes=tuple(notes),
    )


def _longer(wanted: Sequence[Point], done: Rounds, max_seconds: float) -> list[str]:
    """Words on how long a run must be for what is missing, where this one was too short for it."""
    if done.broke is not None or not wanted or not done.took_s:
        return []
    longest_s = max(guessed_s(point, done.took_s) for point in wanted)
    enough_s = longest_s / (NEEDED_SHARE * NEEDED_UNTIL) + sum(done.took_s.values()) / len(done.took_s)
    if enough_s <= max_seconds:
        return []
    return [
        f"the longest of what is missing takes about {longest_s:.0f} s: write --max-seconds {enough_s:.0f}"
    ]


async def _settled(asker: Asker, max_seconds: float, end_s: float, kept: bool) -> list[str]:
    """Warms the engine up. Raises `BadInput` where not one answer comes in time, and there is nothing of before."""
    clock = asker.client.clock
    try:
        async with asyncio.timeout(max(end_s - clock(), 0.0)):
            await asker.settle()
    except TimeoutError:
        if not asker.warm_up and not kept:
            raise BadInput(
                "--max-seconds",
                f"{asker.client.root} gave no whole answer of 8 tokens within {max_seconds:g} s",
                f"write a longer time, e.g. {4 * max_seconds:g}, or check that nobody else keeps the engine busy",
            ) from None
        return ["the engine was too slow to be measured any further in this time"]
    return []


def _known(asker: Asker, kept: Mapping[Point, Sequence[Seen]]) -> Known:
    """Knowledge before the run: what was measured, and what the last answer of warming up says of a lone prompt
    and its decoding.
    """
    seen = {point: list(found) for point, found in kept.items()}
    took_s = {}
    for point, answer in asker.warm_up[-1:]:
        prompt = Point(1, point.prompt_tokens, 1)
        took_s = {prompt: answer.ttft_s, point: answer.e2e_s}
        seen.setdefault(prompt, []).append(first_token(prompt, [answer]))
        if isinstance(step := decoding(point, [answer]), Seen):
            seen.setdefault(point, []).append(step)
    return Known(seen, took_s)


def _widened(found: Fitted, setup: Setup, lacking: Sequence[str]) -> Fitted:
    """The fit, widened: what is missing is off by as much as the catalogue's own entry would be."""
    c = found.calibration
    assumed = standing(setup.gpu, setup.config.engine, setup.precision).error_tpot
    mean = max(assumed, c.fit.held_out_mean_error or 0.0)
    p90 = max(mean, c.fit.held_out_p90_error or 0.0)
    fit = replace(c.fit, held_out_mean_error=mean, held_out_p90_error=p90)
    source = f"{c.source}; not measured, and off as assumed constants are: {', '.join(lacking)}"
    return found._replace(calibration=replace(c, fit=fit, source=source))


async def _load(client: OpenAIEngine) -> Load | None:
    """Load of the engine; None also where a busy one does not answer soon: it is only asked for a note."""
    try:
        async with asyncio.timeout(LOAD_S):
            return await load(client)
    except (TimeoutError, BadInput):
        return None


def _of_others(before: Load | None, after: Load | None) -> list[str]:
    notes = []
    if before is not None and before.running + before.waiting > 0:
        notes.append(
            f"the engine was serving {before.running + before.waiting} requests of others at the start"
        )
    if before is not None and after is not None and after.preemptions > before.preemptions:
        notes.append(f"{after.preemptions - before.preemptions} requests were preempted while measuring")
    return notes


def timing_of(setup: Setup, calibration: Calibration, kv_tokens: int | None) -> ReplicaTiming:
    """Timing of a replica with the KV cache that the engine reports, where it does."""
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
    *,
    found: Fitted,
    longest: int,
    seconds: float,
    draw: np.random.Generator,
    end_s: float,
) -> Check | None:
    """Check of the fit; None where there is too little time, or the answers do not come in it."""
    timing = timing_of(setup, found.calibration, facts.kv_tokens)
    rate_rps = MIXED_LOAD * capacity_rps(lengths_of(CAPACITY_REQUESTS, longest, draw), timing)
    if rate_rps * seconds < FEWEST_MIXED:
        return None
    clock = asker.client.clock
    try:
        async with asyncio.timeout(max(end_s - clock(), 0.0)):
            answers = await replay(mixed(rate_rps, seconds, longest, draw), asker.ask, asyncio.sleep, clock)
    except (TimeoutError, BadInput):
        return None
    served = [
        Served(a.sent_s, a.chunks_s[0], a.chunks_s[-1], a.prompt_tokens or 1, a.output_tokens or 1)
        for a in answers
    ]
    return check(served, timing, found.request_s)


def _observation(point: Point, seen: Sequence[Seen]) -> Observation:
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
