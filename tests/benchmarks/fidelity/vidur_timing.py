"""Timings for Vidur's runs: from its own iteration times, and from the roofline with its calibration.

Vidur adds up operators. Those that depend on tokens only (on their number rounded up to 8) go into `token_ps`;
attention of decoding is linear in the context at each batch size, near a run's mean context, so that it splits
into `context_ps` and a table by sequences; attention of prefill is a constant and a cost a pair.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cascadia.reproduce.public_data import rows
from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.catalogue import find_calibration, generic_calibration
from cascadia_sim.fit.calibration_cells import Cell
from cascadia_sim.fit.calibration_fit import fit
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.scheduling import vidurs
from cascadia_sim.iteration.timing import Ints, ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from tests.benchmarks.fidelity import vidur_iterations
from tests.benchmarks.fidelity.vidur_runs import FOLDER, Run, read_trace

PS_PER_MS = 1_000_000_000
ROUNDED_TO = 8
BY_TOKENS = (
    "attn_pre_proj",
    "attn_post_proj",
    "mlp_up_proj",
    "mlp_down_proj",
    "mlp_act",
    "input_layernorm",
    "post_attention_layernorm",
    "attn_rope",
    "add",
)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Operators:
    """Milliseconds of the whole model. `by_tokens` and `sending` at `tokens`; `decode` [batches, contexts]."""

    tokens: Floats
    by_tokens: Floats
    sending: Floats
    batches: Floats
    contexts: Floats
    decode: Floats
    prompts: Floats
    prefill: Floats

    def decode_ms(self, context: float) -> Floats:
        """At each of `batches`, linear between contexts."""
        return np.array([np.interp(context, self.contexts, row) for row in self.decode])


@lru_cache(maxsize=64)
def _iterations(model: str, gpu_name: str, tp: int, attention: str) -> list[dict[str, str]]:
    of = (model, gpu_name, str(tp), attention)
    keys = ("model", "gpu", "tp", "attention_source")
    return [r for r in rows(f"{FOLDER}/iteration_times.csv") if tuple(r[k] for k in keys) == of]


@lru_cache(maxsize=64)
def operators(model: str, gpu_name: str, tp: int, attention: str) -> Operators:
    at: dict[int, tuple[float, float]] = {}
    decode: dict[tuple[int, int], float] = {}
    prefill: dict[int, float] = {}
    for r in _iterations(model, gpu_name, tp, attention):
        layers, batch, new = int(r["layers"]), int(r["batch"]), int(r["new_tokens"])
        summed = sum(_ms(r, name) for name in BY_TOKENS) + 2 * _ms(r, "all_reduce")
        at[-(-batch * new // ROUNDED_TO) * ROUNDED_TO] = layers * summed, _ms(r, "send_recv")
        if r["phase"] == "decode":
            decode[batch, int(r["context"])] = layers * _ms(r, "attn")
        else:
            prefill[new] = layers * _ms(r, "attn")
    batches, contexts = (sorted({key[i] for key in decode}) for i in (0, 1))
    return Operators(
        tokens=np.array(sorted(at), float),
        by_tokens=np.array([at[t][0] for t in sorted(at)]),
        sending=np.array([at[t][1] for t in sorted(at)]),
        batches=np.array(batches, float),
        contexts=np.array(contexts, float),
        decode=np.array([[decode[b, c] for c in contexts] for b in batches]),
        prompts=np.array(sorted(prefill), float),
        prefill=np.array([prefill[p] for p in sorted(prefill)]),
    )


def _ms(row: dict[str, str], operator: str) -> float:
    return float(row[f"layer_{operator}_ms"] or 0.0)


def from_iteration_times(run: Run) -> ReplicaTiming:
    o = operators(run.model, run.gpu, run.tp, run.attention)
    context = read_trace(run).mean_context
    attention = o.decode_ms(context)
    context_ms = float((attention / o.batches).min()) / context
    by_sequence = np.interp(
        np.arange(run.batch_cap + 1), o.batches, attention - context_ms * o.batches * context
    )
    by_sequence[0] = 0.0
    start_ms, pair_ms = _prefill_line(o)
    tokens = -(-np.arange(run.budget + 1) // ROUNDED_TO) * ROUNDED_TO
    token_ms = np.interp(tokens, o.tokens, o.by_tokens)
    token_ms += (run.pp - 1) * np.interp(tokens, o.tokens, o.sending)
    # More tokens than sequences: a prompt is among them, and decoding's start is charged only where it decodes.
    token_ms[run.batch_cap + 1 :] += start_ms - (0.0 if run.chunked else by_sequence[1])
    return replace(
        _frame(run),
        token_ps=_ps(token_ms),
        sequence_ps=_ps(by_sequence),
        context_ps=round(context_ms * PS_PER_MS),
        pair_ps=pair_ms * PS_PER_MS,
    )


def reproduction(run: Run) -> tuple[Floats, Floats]:
    """Relative errors of its timing at the iterations given: of decoding, of prefill. For runs without PP."""
    t = from_iteration_times(run)
    errors: dict[str, list[float]] = {"decode": [], "prefill": []}
    for r in _iterations(run.model, run.gpu, run.tp, run.attention):
        batch, new = int(r["batch"]), int(r["new_tokens"])
        if batch > run.batch_cap or new > run.budget:
            continue
        took = t.token_ps[batch * new] + t.sequence_ps[batch]
        if r["phase"] == "decode":
            took += t.context_ps * batch * int(r["context"])
        else:
            took += int(t.pair_ps * new * (new + 1) / 2)
        errors[r["phase"]].append(float(took) / (float(r["iter_ms"]) * PS_PER_MS) - 1)
    return np.array(errors["decode"]), np.array(errors["prefill"])


def _prefill_line(o: Operators) -> tuple[float, float]:
    """Constant and cost a pair that miss prefill attention by the least share of the iteration."""
    weight = 1 / (o.prefill + np.interp(o.prompts, o.tokens, o.by_tokens))
    pairs = o.prompts * (o.prompts + 1) / 2
    columns = np.stack([np.ones_like(pairs), pairs], axis=1)
    (start, slope), *_ = np.linalg.lstsq(columns * weight[:, None], o.prefill * weight, rcond=None)
    return float(max(start, 0.0)), float(slope)


def analytic(run: Run) -> ReplicaTiming:
    """The roofline's, with the catalogue's constants for Vidur's iterations on the run's GPU."""
    return _roofline(run, find_calibration(gpu(run.gpu), "vidur", "bf16"))


def unseen(run: Run) -> ReplicaTiming:
    """The roofline's, fitted without the run's model; where the GPU has no other, without its degree of TP."""
    cells = _cells(run.gpu)
    models = {c.architecture for c in cells}
    return _roofline(run, _fitted(run.gpu, run.model, 0) if len(models) > 1 else _fitted(run.gpu, "", run.tp))


@lru_cache(maxsize=32)
def _fitted(gpu_name: str, model: str, tp: int) -> Calibration:
    """Constants from the iterations given on a GPU, but for those of `model` or of `tp`."""
    without = architecture(model) if model else None
    seen = [c for c in _cells(gpu_name) if c.architecture != without and c.tp != tp]
    return fit(seen, generic_calibration(gpu(gpu_name), "vidur", "bf16"), gpu(gpu_name))


@lru_cache(maxsize=8)
def _cells(gpu_name: str) -> list[Cell]:
    return [c for c in vidur_iterations.cells() if c.gpu == gpu(gpu_name)]


def _roofline(run: Run, calibration: Calibration) -> ReplicaTiming:
    """Its tables without LM head and sampler, which the iterations given leave out too."""
    config = EngineConfig(
        calibration=calibration,
        max_num_seqs=run.batch_cap,
        max_num_batched_tokens=run.budget,
        enable_chunked_prefill=run.chunked,
        block_size=run.block_size,
        gpu_memory_utilization=0.999,
    )
    timing = replica_timing(
        architecture(run.model), gpu(run.gpu), tp=run.tp, pp=run.pp, config=config, min_kv_tokens=16
    )
    return replace(
        _frame(run),
        token_ps=timing.token_ps,
        sequence_ps=timing.sequence_ps,
        context_ps=timing.context_ps,
        pair_ps=timing.pair_ps,
    )


def _frame(run: Run) -> ReplicaTiming:
    """What the run's scheduler was told, with empty tables."""
    return ReplicaTiming(
        token_ps=np.ones(2, np.int64),
        sequence_ps=np.zeros(run.batch_cap + 1, np.int64),
        context_ps=0,
        pair_ps=0.0,
        kv_tokens=run.kv_blocks // run.pp * run.block_size,
        block_size=run.block_size,
        max_num_seqs=run.batch_cap,
        max_num_batched_tokens=run.budget,
        chunked_prefill=run.chunked,
        lanes=run.pp,
        scheduling=vidurs(kv_blocks=run.kv_blocks, max_num_seqs=run.batch_cap, stages=run.pp),
    )


def _ps(ms: Floats) -> Ints:
    return np.rint(ms * PS_PER_MS).astype(np.int64)
