"""Measured points of real servers at fixed concurrency, in one shape of record.

Source: aiconfigurator_endtoend_h200_b200.csv (ai-dynamo/aiconfigurator, Apache-2.0), most of it InferenceX. Its columns
tell one deployment in several ways: parallel degrees multiplied (64 = TP 8 x EP 8 on the same eight GPUs), the
batch of a data-parallel rank in place of the concurrency, R1's figures repeated under V3. Here `gpus` are the
GPUs that there are, and a measurement is told once.
"""

import csv
import gzip
import re
from dataclasses import dataclass
from pathlib import Path

FILE = "perf/aiconfigurator_endtoend_h200_b200.csv"
MOST_TTFT_MS = 60_000.0
HELD_FOR_RANKS = 60
# One architecture under several names.
FAMILIES = {
    "deepseek-ai/DeepSeek-V3": "deepseek-ai/DeepSeek-R1",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-R1",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-ai/DeepSeek-R1",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-235B-A22B-FP8": "Qwen/Qwen3-235B-A22B",
    "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B",
}


@dataclass(frozen=True, slots=True)
class Point:
    """`concurrency` requests are kept up on one replica of `gpus` GPUs; means over requests, in ms.

    `varied`: lengths are uniform from 0.8 of `input_tokens` and `output_tokens` up to them, else exact.
    """

    system: str
    engine: str
    version: str
    model: str
    precision: str
    gpus: int
    attention_dp: int
    expert_parallel: bool
    input_tokens: int
    output_tokens: int
    concurrency: int
    varied: bool
    ttft_ms: float
    tpot_ms: float

    @property
    def tokens_a_message(self) -> int:
        """How many the engine streamed at once: the client sees the first when the last of them is there.

        The file does not say. With TRT-LLM, Llama's first tokens are late by 19 to 20 decode steps at 1,024 in and
        1,024 out, on both GPUs and at every batch, and not at other lengths. Its recipes for DeepSeek stream ten.
        """
        if self.engine != "trtllm":
            return 1
        if "DeepSeek" in self.model:
            return 10
        plain = (self.input_tokens, self.output_tokens) == (1024, 1024)
        return 20 if "Llama" in self.model and plain else 1

    @property
    def waits_on_purpose(self) -> int:
        """Decode steps that the measured recipe has requests wait before an engine looks at them.

        InferenceX's recipes for DeepSeek-R1 on B200 (dsr1_fp8_b200.sh, dsr1_fp4_b200.sh, dsr1_fp8_b200_trt.sh) run
        SGLang with `--scheduler-recv-interval` 10 below 16 requests and 30 from there on, and TRT-LLM in FP8 with
        `batch_wait_timeout_iters: 40` at 1,024 in and out from 64 to 255 requests. In FP4 SGLang's are late by 27
        steps at every number of requests, which the recipe does not explain: 20 are taken to be a setting's.
        """
        if self.engine == "trtllm" and self.attention_dp > 1:
            return self.waits_for_ranks
        if not self.system.startswith("b200") or "DeepSeek" not in self.model:
            return 0
        if self.engine == "sglang":
            return 20 if self.precision != "fp8" else 10 if self.concurrency < 16 else 30
        short = (self.input_tokens, self.output_tokens) == (1024, 1024)
        waits = self.engine == "trtllm" and self.precision == "fp8" and short and 64 <= self.concurrency < 256
        return 40 if waits else 0

    @property
    def waits_for_ranks(self) -> int:
        """Decode steps that a prompt waits on average for prompts on all other ranks of attention-DP.

        InferenceX's recipes run TRT-LLM's attention-DP with `enable_balance` and `timeout_iters: 60`: prompts are held
        until each rank has one, or 60 steps. Each step `concurrency / output_tokens` arrive, dealt to the ranks in
        turn; the first waits for the last and the last for none.
        """
        filling = self.attention_dp * self.output_tokens / self.concurrency
        return round(min(HELD_FOR_RANKS, filling) / 2)

    @property
    def held_steps(self) -> int:
        """By how many decode steps the settings of the measured engine, no part of a calibration, make TTFT longer."""
        return self.tokens_a_message - 1 + self.waits_on_purpose

    @property
    def stack(self) -> tuple[str, str, str]:
        """System, engine, and its version where that is far slower than later ones (vLLM 0.12 with mixtures)."""
        return self.system, self.engine, self.version if self.version == "0.12.0" else ""

    @property
    def group(self) -> tuple[str, str, str]:
        """What one calibration covers."""
        return self.system, self.engine, self.precision

    @property
    def cell(self) -> tuple[str, str, str, str, int]:
        return self.system, self.engine, self.model, self.precision, self.gpus


def read_points(path: Path) -> list[Point]:
    """Aggregated serving only, TTFT of at most a minute, each measurement once, in the file's order."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        points = [p for row in csv.DictReader(file) if (p := _point(row)) is not None]
    return list({(p.cell, p.ttft_ms, p.tpot_ms, p.concurrency): p for p in points}.values())


def _point(row: dict[str, str]) -> Point | None:
    ttft_ms, tpot_ms = float(row["silicon_ttft_ms"]), float(row["silicon_tpot_ms"])
    if row["mode"] != "agg" or ttft_ms > MOST_TTFT_MS:
        return None
    stated = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
    batch = int(row["batch_size"])
    concurrency = int(stated[1]) if stated else batch
    tp, dp, moe_tp, moe_ep = (
        int(row[name] or 1) for name in ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    )
    gpus, ranks = _shape(tp, dp, moe_tp, moe_ep)
    if not row["attention_dp_size"] and concurrency == batch * tp:
        ranks = gpus  # the batch of a rank is told, the ranks are not
    if concurrency not in (batch, batch * ranks) and ranks == 1:
        return None  # a fleet of replicas behind one figure
    return Point(
        system=row["system"].replace("_", "-"),
        engine=row["backend"],
        version=row["backend_version"],
        model=FAMILIES.get(row["model_path"], row["model_path"]),
        precision=row["precision"],
        gpus=gpus,
        attention_dp=ranks,
        expert_parallel=moe_ep > 1,
        input_tokens=int(row["isl"]),
        output_tokens=int(row["osl"]),
        concurrency=concurrency,
        varied=row["isl"] in ("1024", "8192"),
        ttft_ms=round(ttft_ms, 3),
        tpot_ms=round(tpot_ms, 5),
    )


def _shape(tp: int, dp: int, moe_tp: int, moe_ep: int) -> tuple[int, int]:
    """GPUs of the replica, and attention's data-parallel ranks among them."""
    if moe_tp == moe_ep > 1:
        gpus = moe_tp  # TP and EP are told as a product, over the same GPUs
    elif tp == dp > 1:
        gpus = tp  # so are TP and DP
    elif moe_tp * moe_ep == 1:
        gpus = tp  # dense
    else:
        gpus = moe_tp * moe_ep
    return gpus, (gpus if dp > 1 else gpus // tp if tp < gpus else 1)
