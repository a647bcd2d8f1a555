"""LLM-Inference-Bench (argonne-lcf, BSD-3): the latency of a whole batch, from its prompts to its last token.

All prompts of a batch have one length and so have all answers, the same. A row is one run: its prefill, in
iterations of at most PREFILL_TOKENS, and one decode step for each further token at the mean context (time is
linear in it). Left out: models that the catalogue lacks, batches whose KV cache does not fit (they run in waves),
and rows faster than the memory's peak allows (answers that ended early). The A100 is the 40 GB one.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from cascadia.reproduce.public_data import rows
from cascadia_sim.fit.calibration_cells import Cell
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.memory import kv_capacity_tokens
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.catalogue import UnknownModel, architecture

SOURCE = "perf/llm_inference_bench.csv"
FIGURE_5 = (
    "perf/llm_inference_bench_Fig_5_a_TP_PP_Results.csv",
    "perf/llm_inference_bench_Fig_5_b_TP_EP_PP_results.csv",
)
GPUS = {
    "Nvidia A100 GPU": "a100-40gb",
    "Nvidia H100 GPU": "h100-sxm",
    "Nvidia GH200 GPU": "gh200",
    "AMD MI300X GPU": "mi300x",
}
ENGINES = {"TensorRT-LLM": "trtllm", "vLLM": "vllm"}
PREFILL_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class Run:
    """`length` is that of each prompt and of each answer."""

    gpu: Gpu
    engine: str
    model: str
    _: KW_ONLY
    architecture: Architecture
    tp: int
    pp: int
    length: int
    batch: int
    seconds: float

    @property
    def config(self) -> EngineConfig:
        return EngineConfig(
            engine=self.engine, max_num_seqs=max(self.batch, 1), max_num_batched_tokens=PREFILL_TOKENS
        )

    @property
    def fits(self) -> bool:
        room = kv_capacity_tokens(self.architecture, self.gpu, tp=self.tp, pp=self.pp, config=self.config)
        return room >= 2 * self.length * self.batch

    @property
    def possible(self) -> bool:
        """No faster than reading the layers' weights and the KV cache at the memory's peak."""
        a = self.architecture
        step_bytes: float = a.weight_bytes() - 4 * a.embedding_parameters
        step_bytes += self.batch * 1.5 * self.length * a.kv_bytes_per_token()
        return self.seconds > self.length * step_bytes / (self.tp * self.pp * self.gpu.hbm_bytes_per_s)

    def cells(self) -> list[Cell]:
        a, b, n = self.architecture, self.batch, self.length
        passes = -(-b * n // PREFILL_TOKENS)
        common = (a, self.tp, self.pp)
        last = {
            "seconds": self.seconds,
            "config": EngineConfig(engine=self.engine),
            "run": self,
            "gpu": self.gpu,
        }
        pairs = b * n * (n + 1) / 2
        return [
            Cell(
                *common,
                tokens=b * n / passes,
                sequences=b / passes,
                context=0,
                pairs=pairs / passes,
                repeats=passes,
                **last,  # type: ignore[arg-type]
            ),
            Cell(
                *common,
                tokens=b,
                sequences=b,
                context=b * 1.5 * n,
                pairs=0,
                repeats=n - 1,
                **last,  # type: ignore[arg-type]
            ),
        ]


def runs(name: str = SOURCE) -> list[Run]:
    """One for each key, the median of its repeats."""
    found: dict[tuple[object, ...], list[Run]] = {}
    for run in _read(name):
        key = (run.gpu.name, run.engine, run.model, run.tp, run.pp, run.length, run.batch)
        found.setdefault(key, []).append(run)
    middle = [sorted(same, key=lambda r: r.seconds)[(len(same) - 1) // 2] for same in found.values()]
    return [run for run in middle if run.fits and run.possible]


def _read(name: str) -> Iterator[Run]:
    for row in rows(name):
        if row["Hardware"] not in GPUS or row["Framework"] not in ENGINES:
            continue
        try:
            found = architecture(row["Model"])
        except UnknownModel:
            continue
        tp, pp = _degrees(int(row["Num of Hardware"]), row.get("Parallelism Type", "TP"))
        if tp:
            length, batch = int(row["Input Output Length"]), int(row["Batch Size"])
            card, engine = gpu(GPUS[row["Hardware"]]), ENGINES[row["Framework"]]
            yield Run(
                card,
                engine,
                row["Model"],
                architecture=found,
                tp=tp,
                pp=pp,
                length=length,
                batch=batch,
                seconds=float(row["Latency"]),
            )


def _degrees(gpus: int, kind: str) -> tuple[int, int]:
    """Tensor and pipeline degrees; (0, 0) for expert parallelism."""
    if "EP" in kind:
        return 0, 0
    if kind.startswith("Hyb"):
        return 2, 2
    return (1, gpus) if kind in ("PP", "Pipeline Parallelism") else (gpus, 1)
