"""vLLM and llama.cpp on this machine's CPU: profiled at some points, then predicted elsewhere.

The figures are printed. What is asserted leaves room for a busy machine, and a run during which the engine was far
slower or faster than while it was profiled is not judged at all. `CASCADIA_E2E_STRICT=1` asks for what a quiet
machine should reach.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cascadia.clients.engines.openai_engine import OpenAIEngine
from cascadia.profile.latency.asker import Asker
from cascadia.profile.latency.measure import Seen, measure
from cascadia.profile.latency.open_loop import Request, replay
from cascadia.profile.latency.points import Point
from cascadia.profile.latency.profile import timing_of
from cascadia.profile.latency.synthetic_prompts import MadeUp
from cascadia_sim.calibration.file import read_calibration
from cascadia_sim.fit.profile_check import Check, Served, capacity_rps, check
from cascadia_sim.fit.profile_fit import Setup
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from tests.e2e.commands import Cascadia
from tests.e2e.engine_servers import NAME, beside_the_engine, llama_cpp, others_s, vllm

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
PROFILE_S = 120
STRICT = os.environ.get("CASCADIA_E2E_STRICT") == "1"
WITHIN_E2E, WITHIN_THROUGHPUT = (0.15, 0.10) if STRICT else (0.5, 0.3)
# Of a lone sequence's decoding and of a lone prompt, before and after a run, over what the profile says.
SAME_PACE = 1.15 if STRICT else 1.3
# Of the engine's core, what others may have during a run.
OTHERS = 0.03 if STRICT else 0.15
PACES = (Point(1, 24, 32), Point(1, 128, 1))


class Run(NamedTuple):
    """`paces` are seconds over those of the profile: decoding and prefill before the run, and both after it.

    `others` is the share of the engine's core that somebody else had meanwhile.
    """

    what: str
    check: Check
    paces: tuple[float, ...]
    others: float

    @property
    def comparable(self) -> bool:
        return all(1 / SAME_PACE < pace < SAME_PACE for pace in self.paces) and self.others < OTHERS


class Engine(NamedTuple):
    """`start(sequences, log)` runs it; the flags are what `profile` cannot ask it for."""

    start: Callable[[int, Path], AbstractContextManager[str]]
    sequences: int
    fewer: int
    max_num_batched_tokens: int
    quantization: str | None


class Traffic(NamedTuple):
    """Poisson at `load` of what the engine can do; lengths are drawn around these, by half and double."""

    load: float
    input_tokens: int
    output_tokens: int
    seconds: float


ENGINES = {
    "llama.cpp": Engine(llama_cpp, 4, 2, 2048, "awq-int4"),
    "vllm": Engine(vllm, 8, 3, 2048, None),
}
TRAFFIC = {
    "light": Traffic(0.3, 40, 24, 40.0),
    "busy": Traffic(0.7, 40, 24, 40.0),
    "saturated": Traffic(1.5, 40, 24, 25.0),
    "long prompts": Traffic(0.5, 160, 12, 40.0),
    "long answers": Traffic(0.5, 24, 48, 40.0),
}


@pytest.fixture(autouse=True)
def own_core() -> Iterator[None]:
    with beside_the_engine():
        yield


@pytest.mark.parametrize("name", ENGINES)
def test_a_profiled_engine_serves_as_predicted(
    name: str, cascadia: Cascadia, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = ENGINES[name]
    with engine.start(engine.sequences, tmp_path / "engine.log") as url:
        flags = ["--max-num-batched-tokens", str(engine.max_num_batched_tokens)]
        flags += ["--quantization", engine.quantization] if engine.quantization else []
        profiled = cascadia(
            *("profile", "latency", "--json", "--base-url", url, "--model", NAME, "--gpu", "cpu"),
            *("--architecture", MODEL, "--max-seconds", str(PROFILE_S), "--out", "own.json", *flags),
        ).document
        setup, request_s = setup_of(engine, profiled["engine"]), profiled["request_s"]
        calibration, kv_tokens = read_calibration(tmp_path / "own.json"), profiled["engine"]["kv_tokens"]
        timing = timing_of(setup, calibration, kv_tokens)
        runs = [serve(url, what, traffic, timing, request_s) for what, traffic in TRAFFIC.items()]
    with engine.start(engine.fewer, tmp_path / "engine-fewer.log") as url:
        setup = replace(setup, config=replace(setup.config, max_num_seqs=engine.fewer))
        timing = timing_of(setup, calibration, kv_tokens * engine.fewer // engine.sequences)
        runs.append(serve(url, f"at most {engine.fewer} at once", TRAFFIC["busy"], timing, request_s))
    with capsys.disabled():
        fit = calibration.fit
        print(f"\n{name} {calibration.engine_version}: fit {fit.mean_error:.1%}, held out", end=" ")
        print(f"{fit.held_out_mean_error:.1%}, {request_s * 1e3:.1f} ms a request outside of iterations")
        for run in runs:
            print(told(run))
    judged = [run for run in runs if run.comparable]
    if not judged:
        pytest.skip("the machine was too busy in every run")
    for what, (_, measured, predicted), *_ in judged:
        for figure in ("e2e_p50_s", "e2e_p95_s"):
            assert getattr(predicted, figure) == pytest.approx(getattr(measured, figure), rel=WITHIN_E2E), (
                what
            )
        assert predicted.throughput_rps == pytest.approx(measured.throughput_rps, rel=WITHIN_THROUGHPUT), what


def setup_of(engine: Engine, facts: dict[str, int | None]) -> Setup:
    config = EngineConfig(
        max_num_seqs=engine.sequences,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        block_size=facts["block_size"] or 1,
        quantization=engine.quantization,
    )
    return Setup(architecture(MODEL), gpu("cpu"), 1, 1, config)


def lengths(traffic: Traffic, count: int, seed: int) -> list[tuple[int, int]]:
    draw = np.random.default_rng(seed)
    factors = np.exp(draw.uniform(-np.log(2), np.log(2), (count, 2)))
    pairs = np.rint(factors * (traffic.input_tokens, traffic.output_tokens)).astype(int)
    return [(int(i), int(o)) for i, o in pairs]


def serve(url: str, what: str, traffic: Traffic, timing: ReplicaTiming, request_s: float) -> Run:
    """What the engine makes of the traffic, beside what it should."""
    draw = np.random.default_rng(2)
    rate_rps = traffic.load * capacity_rps(lengths(traffic, 200, 9), timing)
    count = max(12, round(rate_rps * traffic.seconds))
    at_s = np.cumsum(draw.exponential(1 / rate_rps, count))
    requests = [Request(float(t), i, o) for t, (i, o) in zip(at_s, lengths(traffic, count, 3), strict=True)]

    async def main() -> tuple[list[Served], list[float], float]:
        async with OpenAIEngine(url, NAME) as client:
            asker = Asker(client, MadeUp(draw))
            await asker.settle()
            paces = [await pace(asker, point, timing, request_s) for point in PACES]
            began_s, before_s = client.clock(), others_s()
            answers = await replay(requests, asker.ask, asyncio.sleep, client.clock)
            others = (others_s() - before_s) / (client.clock() - began_s)
            paces += [await pace(asker, point, timing, request_s) for point in PACES]
        served = [
            Served(a.sent_s, a.chunks_s[0], a.chunks_s[-1], a.prompt_tokens or 1, a.output_tokens or 1)
            for a in answers
        ]
        return served, paces, others

    served, paces, others = asyncio.run(main())
    return Run(what, check(served, timing, request_s), tuple(paces), others)


async def pace(asker: Asker, point: Point, timing: ReplicaTiming, request_s: float) -> float:
    """The median of three."""
    found = [await measure(asker, point) for _ in range(3)]
    seen = sorted((one for one in found if isinstance(one, Seen)), key=lambda one: one.seconds)
    one = seen[len(seen) // 2]
    prompt = round(one.prompt_tokens)
    expected_ps = int(timing.token_ps[1 if point.decodes else prompt] + timing.sequence_ps[1])
    if point.decodes:
        return one.seconds * PS_PER_S / (expected_ps + timing.context_ps * one.context_tokens)
    expected_ps += round(timing.pair_ps * prompt * (prompt + 1) / 2)
    return one.seconds / (expected_ps / PS_PER_S + request_s)


def told(run: Run) -> str:
    paces = " ".join(f"{pace:.2f}" for pace in run.paces)
    parts = [f"{run.what:20} {run.check.requests:4} requests, pace {paces}, others {run.others:.0%}"]
    for name, measured in run.check.measured._asdict().items():
        predicted = getattr(run.check.predicted, name)
        parts.append(f"{name} {measured:.3g} predicted {predicted:.3g} ({predicted / measured - 1:+.1%})")
    return "; ".join(parts) + ("" if run.comparable else "; not judged: the machine was not the engine's own")
