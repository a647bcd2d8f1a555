"""The terms of one iteration's time, each under its name, for one replica.

`build.py` charges their sums and `breakdown.py` shows them one by one, so that neither can leave out what the
other has. All take what they count (tokens, sequences, context tokens, attention pairs: `timing.py`) and return
seconds as charged, through all pipeline stages.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration import roofline
from cascadia_sim.iteration.moe import layer_seconds
from cascadia_sim.iteration.parallel import Split, communication_seconds
from cascadia_sim.iteration.roofline import Floats
from cascadia_sim.iteration.sharding import stage_layers
from cascadia_sim.iteration.timing import PS_PER_S, Ints
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.quantization import WeightFormat


@dataclass(frozen=True, slots=True)
class Setting:
    """Model, GPU and shape that an iteration runs on. `gpus_per_node` says which links a shape crosses."""

    architecture: Architecture
    gpu: Gpu
    form: WeightFormat
    _: KW_ONLY
    tp: int
    pp: int
    gpus_per_node: int
    kv_cache_dtype: str
    attention_dp: int = 1
    expert_parallel: bool = False

    @property
    def split(self) -> Split:
        return Split(self.tp, self.attention_dp, self.expert_parallel)

    @property
    def stretch(self) -> float:
        """Layers charged over layers there are: every pipeline stage takes as long as the fullest."""
        layers = self.architecture.layers
        return max(stage_layers(layers, self.pp)) * self.pp / layers

    @property
    def heads(self) -> int:
        """LM heads charged: one a pipeline stage, unless the last has a layer less to make up for it."""
        return self.pp if self.architecture.layers % self.pp == 0 else 1


class Term(NamedTuple):
    """`seconds(counts, setting)`: one entry for each of `counts`."""

    name: str
    seconds: Callable[[Floats, Setting], Floats]


def charged(terms: tuple[Term, ...], counts: Floats, setting: Setting) -> Floats:
    """The sum of `terms`, seconds."""
    return np.asarray(sum((term.seconds(counts, setting) for term in terms), np.zeros_like(counts)))


def _layered(part: Callable[[Floats, Setting], Floats]) -> Callable[[Floats, Setting], Floats]:
    return lambda counts, setting: part(counts, setting) * setting.stretch


def _by_rank(part: Callable[[Floats, Setting, int], Floats]) -> Callable[[Floats, Setting], Floats]:
    """Wraps `part`, which attention's ranks do side by side, each for its share of the counts, on the GPUs of
    one.
    """
    return _layered(lambda counts, s: part(counts / s.attention_dp, s, s.split.attention_tp))


def _experts(tokens: Floats, s: Setting) -> Floats:
    a = s.architecture
    return a.moe_layers * layer_seconds(tokens, a, s.gpu, s.form, s.tp, s.expert_parallel)


ON_GPU = (
    Term("qkv", _by_rank(lambda t, s, tp: roofline.qkv_seconds(t, s.architecture, s.gpu, s.form, tp))),
    Term("out", _by_rank(lambda t, s, tp: roofline.out_seconds(t, s.architecture, s.gpu, s.form, tp))),
    Term(
        "recurrent",
        _by_rank(lambda t, s, tp: roofline.recurrent_seconds(t, s.architecture, s.gpu, s.form, tp)),
    ),
    Term("up", _layered(lambda t, s: roofline.up_seconds(t, s.architecture, s.gpu, s.form, s.tp))),
    Term("down", _layered(lambda t, s: roofline.down_seconds(t, s.architecture, s.gpu, s.form, s.tp))),
    Term("experts", _layered(_experts)),
    Term(
        "element-wise", _by_rank(lambda t, s, tp: roofline.element_wise_seconds(t, s.architecture, s.gpu, tp))
    ),
    Term("fixed per layer", _layered(lambda t, s: roofline.fixed_seconds(t, s.architecture, s.gpu))),
    Term(
        "all-reduce",
        _layered(lambda t, s: communication_seconds(t, s.architecture, s.gpu, s.split, s.gpus_per_node)),
    ),
)

BY_TOKENS = (
    *ON_GPU,
    Term(
        "pipeline boundary",
        lambda t, s: roofline.boundary_seconds(t, s.architecture, s.gpu, s.tp, s.pp, s.gpus_per_node),
    ),
    Term("fixed per iteration", lambda t, s: np.full_like(t, s.gpu.efficiency.iteration_s)),
)

BY_SEQUENCES = (
    Term(
        "LM head",
        lambda n, s: (
            s.heads
            * s.gpu.efficiency.head
            * roofline.lm_head_seconds(
                n / s.attention_dp, s.architecture, s.gpu, s.form, s.split.attention_tp
            )
        ),
    ),
    Term(
        "sampler",
        lambda n, s: (
            s.heads
            * s.gpu.efficiency.sampler
            * roofline.sampler_seconds(n / s.attention_dp, s.architecture, s.gpu)
        ),
    ),
    Term(
        "attention per sequence",
        _layered(lambda n, s: roofline.sequence_seconds(n / s.attention_dp, s.architecture, s.gpu)),
    ),
    Term("recurrent state", _by_rank(lambda n, s, tp: roofline.state_seconds(n, s.architecture, s.gpu, tp))),
    Term("engine per sequence", lambda n, s: n * s.gpu.efficiency.sequence_s),
)

BY_CONTEXT = (
    Term(
        "KV reading",
        _by_rank(lambda c, s, tp: c * roofline.context_seconds(s.architecture, s.gpu, tp, s.kv_cache_dtype)),
    ),
)

BY_PAIRS = (
    Term(
        "prefill attention",
        _by_rank(lambda p, s, tp: p * roofline.pair_seconds(s.architecture, s.gpu, tp)),
    ),
)


def table(terms: tuple[Term, ...], first: int, last: int, setting: Setting) -> Ints:
    """Sums of `terms`, picoseconds, non-decreasing also where rounding or the smooth maximum left a dip."""
    seconds = tabulated(terms, first, last, setting)
    return np.maximum.accumulate(np.rint(seconds * PS_PER_S).astype(np.int64))


def tabulated(terms: tuple[Term, ...], first: int, last: int, setting: Setting) -> Floats:
    """The sum of `terms` by count from 0 to `last`, seconds; counts below `first` cost as much as it.

    Between `_knots` it is linear, so that each term's own tables sum to that of all.
    """
    knots = _knots(first, max(first, last))
    return np.interp(_counts(last), knots, charged(terms, knots, setting))


@lru_cache(maxsize=64)
def _knots(first: int, last: int) -> Floats:
    """Every count up to 64, then both sides of each half tile, of more tiles at a time beyond 4,096."""
    steps = [*range(first, min(last, 64))]
    at = 64
    while at < last:
        steps += [at, at + 1]
        at += max(64, at // 2048 * 64)
    return np.array(sorted({*steps, last}), dtype=np.float64)


@lru_cache(maxsize=64)
def _counts(last: int) -> Floats:
    return np.arange(last + 1, dtype=np.float64)
