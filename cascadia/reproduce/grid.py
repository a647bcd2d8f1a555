"""The comparison's cells: three cascades, two traces, three loads, four quality bars each, on 32 H100s.

Bars lie at 30, 60, 80 and 90 % of the way from the smallest model's lower bound to the best that any routing reaches.
The lowest is in reach of the middle model alone (of three); the two highest need the largest model alone.

Rates are 25, 50 and 80 % of the largest rate that Cascadia sustains at the highest bar (`bench_compare --rates` shows
those), and the same at every bar. A cell replays `SPAN_S` seconds of the trace, but no fewer than 3,000 requests.
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from cascadia.domain.quality import QualityTable
from cascadia.reproduce import cases

AZURE = "traces/azure_2023_conv.csv"
MOONCAKE = "traces/mooncake_conversation.jsonl"
TRACES = {"azure conv": AZURE, "mooncake": MOONCAKE}
FILES = {**TRACES, "azure code": "traces/azure_2023_code.csv"}
LOADS = ("low", "medium", "high")
SPAN_S = 240.0
FEWEST_REQUESTS = 3000

Stages = tuple[dict[str, object], ...]

GPT_4O: dict[str, object] = {
    "kind": "llm",
    "model": "gpt-4o",
    "placement": "external",
    "latency_p50_s": 0.27,
    "latency_p95_s": 0.54,
    "usd_per_million_input_tokens": 2.5,
    "usd_per_million_output_tokens": 10.0,
}
"""WildBench's scores are GPT-4o's, so GPT-4o is the gate's judge: 0.27 s as in Cascadia app. H, at list price."""


@dataclass(frozen=True, slots=True)
class Cascade:
    """`rates_rps` are by trace, for low, medium and high load; `judge` None is a Llama-3.1-8B on GPUs."""

    name: str
    models: str
    stages: Stages
    _: KW_ONLY
    table: Callable[[], QualityTable]
    judge: dict[str, object] | None
    bars: tuple[float, ...]
    rates_rps: dict[str, tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class Cell:
    cascade: Cascade
    trace: str
    load: str
    bar: float

    @property
    def key(self) -> str:
        return f"{self.cascade.name} | {self.trace} | {self.load} | {self.bar:g}"

    @property
    def rate_rps(self) -> float:
        return self.cascade.rates_rps[self.trace][LOADS.index(self.load)]

    def case(self, folder: Path, rate_rps: float | None = None) -> cases.Case:
        rate = rate_rps or self.rate_rps
        return cases.case(
            folder,
            self.cascade.table(),
            self.cascade.stages,
            trace=FILES[self.trace],
            rate_rps=rate,
            judge=self.cascade.judge,
            objective={"minimize": "latency", "quantile": 0.95, "quality_min": self.bar},
            max_requests=max(FEWEST_REQUESTS, round(rate * SPAN_S)),
        )


def _stages(*models: str) -> Stages:
    names = ("small", "medium", "large") if len(models) == 3 else ("small", "large")
    return tuple({"name": name, "model": model} for name, model in zip(names, models, strict=True))


CASCADES = (
    Cascade(
        "gemma-qwen",
        "gemma-2b-it → gemma-7b-it → Qwen1.5-72B-Chat, WildBench",
        _stages("google/gemma-2b-it", "google/gemma-7b-it", "Qwen/Qwen1.5-72B-Chat"),
        table=lambda: cases.wildbench(
            ("gemma-2b-it", "gemma-7b-it", "Qwen1.5-72B-Chat-greedy"), ("small", "medium", "large")
        ),
        judge=GPT_4O,
        bars=(48, 56.5, 62, 65),
        rates_rps={"azure conv": (8.65, 17.3, 27.7), "mooncake": (0.85, 1.7, 2.7)},
    ),
    Cascade(
        "phi-qwen",
        "Phi-3-mini-128k → Qwen1.5-72B-Chat, WildBench",
        _stages("microsoft/Phi-3-mini-128k-instruct", "Qwen/Qwen1.5-72B-Chat"),
        table=lambda: cases.wildbench(
            ("Phi-3-mini-128k-instruct", "Qwen1.5-72B-Chat-greedy"), ("small", "large")
        ),
        judge=GPT_4O,
        bars=(60.5, 63.5, 65.5, 66.5),
        rates_rps={"azure conv": (9.1, 18.2, 29), "mooncake": (0.82, 1.65, 2.6)},
    ),
    Cascade(
        "llama",
        "Llama-3.1 8B → 70B → 405B-FP8, GSM8K",
        tuple(dict[str, object](stage) for stage in cases.LLAMA_STAGES),
        table=lambda: cases.gsm8k(cases.LLAMA, ("small", "medium", "large")),
        judge=None,
        bars=(86, 90, 92.5, 94),
        rates_rps={"azure conv": (11.5, 23, 37), "mooncake": (0.85, 1.7, 2.7)},
    ),
)


def cells() -> Iterator[Cell]:
    for cascade in CASCADES:
        for trace in TRACES:
            for load in LOADS:
                for bar in cascade.bars:
                    yield Cell(cascade, trace, load, bar)
