"""The specs that planning is timed on: the issue's reference, and the same with one thing grown."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml

from cascadia.demo.plan_example import QUALITY_NAME, SPEC, TRACE_NAME, write_example
from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.quality_file import write_quality
from cascadia.planner.problem.read import read_problem
from cascadia.reproduce.cases import LLAMA, LLAMA_STAGES, Case, case, gsm8k, reference_case
from cascadia_traces.formats.reading import read_trace
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.trace import Trace, join
from tests.data import data_path

AZURE = "traces/azure_2023_conv.csv"
POOLS = ("h100-sxm", "h200-sxm", "a100-sxm", "l40s")

LADDER = (
    ("tiny", "Phi-3.5-mini-instruct", {"model": "microsoft/Phi-3.5-mini-instruct"}),
    ("small", LLAMA[0], {"model": "meta-llama/Llama-3.1-8B-Instruct"}),
    ("middle", "gemma-2-27b-it@together", {"model": "google/gemma-2-27b-it"}),
    ("medium", LLAMA[1], {"model": "meta-llama/Llama-3.1-70B-Instruct"}),
    ("large", LLAMA[2], {"model": "meta-llama/Llama-3.1-405B-Instruct", "quantization": "fp8"}),
)
STEPS_OF_LADDER = {2: (1, 3), 3: (1, 3, 4), 4: (0, 1, 3, 4), 5: (0, 1, 2, 3, 4)}


@dataclass(frozen=True, slots=True)
class Target:
    """A size with the seconds that the issue allows."""

    name: str
    make: Callable[[Path], Case]
    asked_s: float
    repeats: int


def targets() -> Iterator[Target]:
    yield Target("32 H100, 10 req/s", lambda folder: reference_case(folder, nodes=4), 3.0, 5)
    yield Target("32 H100, the bundled example", bundled, 3.0, 5)
    yield Target("the same for the least cost, p95 within 25 s", cheapest, 3.0, 5)
    yield Target("32 H100, 1,000 questions, a noisy judge's fine scores", fine_scores, 3.0, 5)
    yield Target("80 H100, 10 req/s", lambda folder: reference_case(folder, nodes=10), 5.0, 5)
    yield Target("the same for the least cost, p95 within 25 s", cheapest_of_80, 5.0, 5)
    for rate in (10.0, 300.0):
        yield Target(
            f"1,024 GPUs in four pools, {rate:.0f} req/s",
            lambda folder, rate=rate: four_pools(folder, rate),  # type: ignore[misc]
            60.0,
            2,
        )
    yield Target("32 H100, 10⁶ requests", million_requests, 30.0, 1)


def bundled(folder: Path) -> Case:
    """What `cascadia demo --plan-only` plans."""
    folder.mkdir(parents=True, exist_ok=True)
    write_example(folder)
    return Case(folder, yaml.safe_load(SPEC))


def for_least_cost(made: Case) -> Case:
    """The case for the goal `cost`, at its own bar."""
    objective = {**made.spec["objective"], "latency_max_s": 25.0, "minimize": "cost"}
    return Case(made.folder, {**made.spec, "objective": objective})


def cheapest(folder: Path) -> Case:
    return for_least_cost(bundled(folder))


def cheapest_of_80(folder: Path) -> Case:
    return for_least_cost(reference_case(folder, nodes=10))


def fine_scores(folder: Path) -> Case:
    """The bundled example with a judge that errs by 18 points and gives no two answers the same score."""
    made = bundled(folder)
    table = read_problem(made.path).quality
    noise = np.random.default_rng(5).normal(0.0, 18.0, table.score.shape)
    noisy = replace(table, score=np.clip(table.quality + noise, 0.0, 100.0))
    write_quality(noisy, folder / QUALITY_NAME)
    return made


def million_requests(folder: Path) -> Case:
    """The bundled example on a trace of 10^6 requests, about as bursty and as long as its own."""
    made = bundled(folder)
    rng, n = np.random.default_rng(6), 1_000_000
    trace = Trace(
        np.cumsum(rng.gamma(0.4, 1 / 0.4 / 24, n)),
        np.clip(rng.lognormal(6.2, 0.9, n), 8, 6000).astype(np.int64),
        np.clip(rng.lognormal(5.2, 0.8, n), 4, 2000).astype(np.int64),
    )
    write_trace(trace, folder / TRACE_NAME)
    return made


def four_pools(folder: Path, rate_rps: float, nodes: int = 32) -> Case:
    pools = [{"gpu": gpu, "nodes": nodes, "gpus_per_node": 8} for gpu in POOLS]
    return reference_case(folder, pools=pools, rate_rps=rate_rps)


def grown(quick: bool) -> Iterator[tuple[str, str, Callable[[Path], Case]]]:
    """(what grows, its size, the case)."""
    for nodes in (1, 4, 16, 128) if quick else (1, 2, 4, 8, 16, 32, 64, 128):
        yield "H100 GPUs", f"{8 * nodes}", lambda folder, n=nodes: reference_case(folder, nodes=n)  # type: ignore[misc]
    for stages in (2, 5) if quick else (2, 3, 4, 5):
        yield "stages", f"{stages}", lambda folder, n=stages: ladder(folder, n)  # type: ignore[misc]
    for questions in (100, 5000) if quick else (100, 300, 1000, 2500, 5000):
        yield "questions", f"{questions:,}", lambda folder, n=questions: with_questions(folder, n)  # type: ignore[misc]
    for requests in (1000, 200_000) if quick else (1000, 5000, 20_000, 60_000, 200_000):
        yield "requests", f"{requests:,}", lambda folder, n=requests: with_requests(folder, n)  # type: ignore[misc]


def ladder(folder: Path, stages: int) -> Case:
    """The reference with 2 to 5 models, of GSM8K as well."""
    chosen = [LADDER[at] for at in STEPS_OF_LADDER[stages]]
    table = gsm8k([model for _, model, _ in chosen], [name for name, _, _ in chosen], questions=1000)
    return case(folder, table, [{"name": name, **stage} for name, _, stage in chosen])


def with_questions(folder: Path, questions: int) -> Case:
    """The reference with rows drawn from all of GSM8K, with replacement where there are too few.

    At a lower bar: a hundred questions prove less.
    """
    whole = gsm8k(LLAMA, ("small", "medium", "large"))
    enough = questions <= len(whole)
    rows = np.random.default_rng(0).choice(len(whole), questions, replace=not enough)
    table = QualityTable(
        tuple(f"q{at}" for at in range(questions)),
        whole.stages,
        whole.score[:, rows],
        quality=whole.quality[:, rows],
        input_tokens=whole.input_tokens[:, rows],
        output_tokens=whole.output_tokens[:, rows],
    )
    objective = {"minimize": "latency", "quantile": 0.95, "quality_min": 85}
    return case(folder, table, [dict(stage) for stage in LLAMA_STAGES], objective=objective)


def with_requests(folder: Path, requests: int) -> Case:
    """The reference with the trace cut, or repeated, to `requests` requests; at 10 requests/s as before."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trace.parquet"
    write_trace(repeated(read_trace(data_path(AZURE)), requests), path)
    return reference_case(folder, trace=str(path))


def repeated(trace: Trace, requests: int) -> Trace:
    """`trace` end to end with itself, as often as needed."""
    gap_s = trace.duration_s / (len(trace) - 1)
    copies = -(-requests // len(trace))
    parts = [
        Trace(
            trace.arrival_s - trace.arrival_s[0] + copy * (trace.duration_s + gap_s),
            trace.input_tokens,
            trace.output_tokens,
        )
        for copy in range(copies)
    ]
    return join(parts).rows(0, requests)
