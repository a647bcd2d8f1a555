"""The runs of `perf/vidur_simulations`: what was deployed, what was asked, what came out."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cascadia.reproduce.public_data import rows
from cascadia_sim.iteration.timing import PS_PER_S, Ints

FOLDER = "perf/vidur_simulations"
PROMPT_TOKENS = 4096
"""What a batch of whole prompts may hold: Vidur's default, which the runs kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds, and requests per second from the first arrival to the last finish."""

    e2e_p50: float
    e2e_p95: float
    ttft_p50: float
    ttft_p95: float
    throughput: float


@dataclass(frozen=True, slots=True)
class Run:
    """`qps` is infinite where all requests are there from the start; `kv_blocks` of one replica."""

    model: str
    gpu: str
    tp: int
    pp: int
    replicas: int
    chunked: bool
    budget: int
    batch_cap: int
    kv_blocks: int
    block_size: int
    attention: str
    workload: str
    qps: float
    load: float
    trace: str
    outcome: Outcome
    restarts: int
    iterations: int

    @property
    def name(self) -> str:
        scheduler = "chunked" if self.chunked else "whole"
        return (
            f"{self.model.split('/')[1]} {self.gpu} tp{self.tp} pp{self.pp} x{self.replicas} {scheduler} "
            f"{self.workload} {self.qps:g}/s"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    arrival_ps: Ints
    input_tokens: Ints
    output_tokens: Ints

    @property
    def mean_context(self) -> float:
        """Of a sequence that decodes, over all decode steps: long answers take part in more of them."""
        return float(np.average(self.input_tokens + self.output_tokens / 2, weights=self.output_tokens))


def read_runs() -> list[Run]:
    return [_run(row) for row in rows(f"{FOLDER}/runs.csv")]


@lru_cache(maxsize=256)
def read_trace(run: Run) -> Trace:
    given = list(rows(f"{FOLDER}/traces/{run.trace}"))
    arrival_s = np.array([float(r["arrived_at"]) for r in given])
    lengths = [
        np.array([int(r[k]) for r in given], np.int64) for k in ("num_prefill_tokens", "num_decode_tokens")
    ]
    return Trace(np.rint(arrival_s * PS_PER_S).astype(np.int64), *lengths)


def _run(row: dict[str, str]) -> Run:
    chunked = row["scheduler"] == "sarathi"
    return Run(
        model=row["model"],
        gpu=row["gpu"],
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        replicas=int(row["replicas"]),
        chunked=chunked,
        budget=int(float(row["chunk_size"])) if chunked else PROMPT_TOKENS,
        batch_cap=int(row["batch_cap"]),
        kv_blocks=int(row["kv_blocks_per_replica"]),
        block_size=int(row["block_size"]),
        attention=row["attention_source"],
        workload=row["workload"],
        qps=float(row["qps"]),
        load=float(row["frac_of_saturation"] or "inf"),
        trace=row["trace"],
        outcome=Outcome(*(float(row[k]) for k in ("e2e_p50", "e2e_p95", "ttft_p50", "ttft_p95", "req_s"))),
        restarts=int(row["restarts"]),
        iterations=int(row["iterations"]),
    )
