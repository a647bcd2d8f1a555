"""What is fitted together: the measurements of one GPU, engine and precision, and where the fit starts from.

Sets of one `family` are the same engine on several GPUs: they are first fitted as one, and each then stays near
that, so that a GPU with few models learns from the others what belongs to the engine.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cascadia_sim.fit.calibration_cells import Cell
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Efficiency
from tests.benchmarks.fidelity import inference_bench, vidur_iterations

BENCH = "LLM-Inference-Bench (argonne-lcf, BSD-3): whole batches of 128-2048 tokens in and out; held out: one model"
VIDUR = (
    "iterations of Vidur (microsoft/vidur, MIT): no LM head, no CPU, 20 us added a collective; held out: {}"
)
SHARED = frozenset({"a100-40gb", "h100-sxm", "gh200"})
"""GPUs whose vLLM is fitted as one first. TRT-LLM has its own attention kernels for each generation."""
# Under vLLM of 2024 on the H100 it takes up to twice the time of models of its very size, at long contexts only.
ODD = frozenset({("h100-sxm", "vllm", "mistralai/Mistral-7B-v0.1")})


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """`groups` names what is left out together when errors on unseen data are measured, one for each cell."""

    name: str
    family: str
    gpu: str
    engine: str
    engine_version: str
    precision: str
    source: str
    cells: tuple[Cell, ...]
    groups: tuple[str, ...]
    start: Efficiency
    odd: tuple[Cell, ...] = ()


def all_sets() -> list[MeasuredSet]:
    return [*_bench_sets("nvlink"), *_vidur_sets()]


def without_entry() -> list[MeasuredSet]:
    """The MI300X, on which a fit errs by 10 % with constants that mean nothing: prefill at 6 % of the peak."""
    return list(_bench_sets("xgmi"))


def _bench_sets(link: str) -> Iterable[MeasuredSet]:
    dense = [r for r in inference_bench.runs() if r.architecture.moe is None and r.gpu.link == link]
    for card, engine in dict.fromkeys((r.gpu.name, r.engine) for r in dense):
        runs = [r for r in dense if (r.gpu.name, r.engine) == (card, engine)]
        usual = [r for r in runs if (card, engine, r.model) not in ODD]
        cells = [c for r in usual for c in r.cells()]
        yield MeasuredSet(
            name=f"{card}-{engine}-2024-bf16",
            family=f"{engine}-2024" if card in SHARED and engine == "vllm" else f"{card}-{engine}",
            gpu=card,
            engine=engine,
            engine_version="2024 (not told)",
            precision="bf16",
            source=BENCH,
            cells=tuple(cells),
            groups=tuple(c.architecture.name for c in cells),
            start=gpu(card).efficiency,
            odd=tuple(c for r in runs if r not in usual for c in r.cells()),
        )


def _vidur_sets() -> Iterable[MeasuredSet]:
    every = vidur_iterations.cells()
    for card in dict.fromkeys(c.gpu.name for c in every if c.gpu):
        cells = [c for c in every if c.gpu and c.gpu.name == card]
        models = {c.architecture.name for c in cells}
        alone = len(models) == 1
        start = gpu(card).efficiency
        yield MeasuredSet(
            name=f"{card}-vidur-bf16",
            family=f"{card}-vidur",
            gpu=card,
            engine="vidur",
            engine_version="main of 2025",
            precision="bf16",
            source=VIDUR.format("one tensor-parallel degree" if alone else "one model"),
            cells=tuple(cells),
            groups=tuple(f"tp {c.tp}" if alone else c.architecture.name for c in cells),
            start=replace(start, iteration_s=1e-6, sequence_s=0.0, head=0.0, sampler=0.0, link_latency=4.0),
        )
