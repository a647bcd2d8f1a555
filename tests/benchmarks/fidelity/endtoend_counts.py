"""End-to-end points made ready to be predicted often: what they count, folded together by setting."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Efficiency
from cascadia_sim.iteration.roofline import Floats
from cascadia_sim.iteration.terms import BY_CONTEXT, BY_PAIRS, BY_SEQUENCES, BY_TOKENS, Setting, charged
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.quantization import weight_format
from tests.benchmarks.fidelity.closed_loop import Weights
from tests.benchmarks.fidelity.endtoend import engine_of, known_architecture, loop_of, weights_of
from tests.benchmarks.fidelity.endtoend_points import Point

FOLD = 12  # counts within a twelfth of each other count as their mean


class Fitted:
    """Points made ready to be predicted often; `measured` [points, 2] are TTFT and TPOT, ms."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.measured: Floats = np.array([(p.ttft_ms, p.tpot_ms) for p in points])
        self._held_back = np.array([p.held_steps for p in points])
        alike: dict[Setting, list[int]] = {}
        for i, p in enumerate(points):
            alike.setdefault(_setting(p), []).append(i)
        self._parts = [(s, rows, _Counts([points[i] for i in rows])) for s, rows in alike.items()]

    def predicted(self, e: Efficiency) -> Floats:
        out = np.empty_like(self.measured)
        for setting, rows, counts in self._parts:
            out[rows] = counts.seconds(replace(setting, gpu=replace(setting.gpu, efficiency=e))) * 1e3
        out[:, 0] += e.first_token_s * 1e3 + (e.first_token_steps + self._held_back) * out[:, 1]
        return out


class _Counts:
    """What points of one setting count, folded together where token or sequence counts are nearly the same."""

    def __init__(self, points: Sequence[Point]) -> None:
        folded = [_folded(loop) for loop in (weights_of(loop_of(p)) for p in points)]
        self._shape = (len(points), 2)
        self._tokens, self._sequences = (
            tuple(
                np.concatenate(parts)
                for parts in zip(
                    *(
                        (counts, weights, np.full(len(counts), 2 * i + j))
                        for i, both in enumerate(folded)
                        for j in (0, 1)
                        for counts, weights in [both[j][which]]
                    ),
                    strict=True,
                )
            )
            for which in (0, 1)
        )
        loops = [weights_of(loop_of(p)) for p in points]
        self._context = np.array([w.context for w in loops])
        self._pairs = np.array([w.pairs for w in loops])

    def seconds(self, s: Setting) -> Floats:
        one = np.ones(1)
        total = self._context * charged(BY_CONTEXT, one, s)[0] + self._pairs * charged(BY_PAIRS, one, s)[0]
        for terms, (counts, weights, rows) in ((BY_TOKENS, self._tokens), (BY_SEQUENCES, self._sequences)):
            flat = np.bincount(rows, charged(terms, counts, s) * weights, minlength=2 * self._shape[0])
            total = total + flat.reshape(self._shape)
        return np.asarray(total)


def _folded(weights: Weights) -> list[list[tuple[Floats, Floats]]]:
    """For TTFT and for TPOT: (counts, weights) of tokens and of sequences, those nearly the same folded together."""
    return [[_fold(table, which) for table in (weights.tokens, weights.sequences)] for which in (0, 1)]


def _fold(table: dict[int, list[float]], which: int) -> tuple[Floats, Floats]:
    counts = np.array(list(table), dtype=np.float64)
    weights = np.array(list(table.values()))[:, which]
    key = np.where(counts <= 16, counts, 16 + np.round(FOLD * np.log(np.maximum(counts, 1.0))))
    _, place = np.unique(key, return_inverse=True)
    total = np.bincount(place, weights).astype(np.float64)
    kept = total > 0
    return (np.bincount(place, weights * counts)[kept] / total[kept]), total[kept]


def _setting(p: Point) -> Setting:
    model = model_of(p)
    c = engine_of(p, model)
    form = weight_format(c.quantization or model.quantization)
    return Setting(
        model,
        gpu(p.system),
        form,
        tp=p.gpus,
        pp=1,
        gpus_per_node=8,
        kv_cache_dtype=c.kv_cache_dtype,
        attention_dp=c.attention_dp,
        expert_parallel=c.enable_expert_parallel,
    )


def model_of(p: Point) -> Architecture:
    found = known_architecture(p)
    assert found is not None, p.model
    return found


def format_of(p: Point) -> str:
    return _setting(p).form.name
