"""Worth of early exits of single tokens in decoding, by the simulator (Apparate section 3.4).

A token that exits after a share d of the layers keeps its hidden state; what its remaining layers owe the KV cache
is made up with the next token of its sequence that goes on. With a share s of tokens exiting, independently, and B
sequences:

- the early layers run for B tokens each iteration, and the ramp, which is the LM head, for B rows more;
- the late layers run only where any token goes on, with probability r = 1 - s^B, then for B / r tokens, as many at
  most as an iteration takes. No work of theirs is spared, only its reading of weights: per iteration they make B tokens
  in the mean;
- late attention reads the context of sequences that go on: (1 - s) B of them.

So what is saved is weights read in s^B of the iterations and some context; what it costs is a second LM head in each.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.breakdown import Iteration, charged_s
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from cascadia_sim.models.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Engine:
    """Engine of one model on `gpu`, split `tp` ways."""

    architecture: Architecture
    gpu: Gpu
    tp: int
    config: EngineConfig

    def seconds(self, iteration: Iteration, layers: int | None = None) -> float:
        """Time of an iteration, of the first `layers` layers alone where they are given, the LM head included."""
        return charged_s(self._timing(layers), iteration)

    def head_s(self, rows: int) -> float:
        """Time of the LM head for so many rows, which a ramp is."""
        return int(self._timing().sequence_ps[rows]) / PS_PER_S

    def late_s(self, tokens: float, early: int) -> float:
        """Time of the layers behind the first `early` for so many tokens at once."""
        both = (self._timing().token_ps, self._timing(early).token_ps)
        whole, first = (float(np.interp(tokens, np.arange(len(ps)), ps)) for ps in both)
        return (whole - first) / PS_PER_S

    def late_each_s(self, rows: int, early: int) -> float:
        """Time of these layers that each of so many rows takes for itself, contexts aside."""
        both = (self._timing().sequence_ps, self._timing(early).sequence_ps)
        whole, first = (int(ps[rows]) for ps in both)
        return (whole - first) / PS_PER_S

    def early_layers(self, depth: float) -> int:
        """Layers before a ramp at `depth` (0-1): one at least, and one stays behind it."""
        return min(max(1, round(depth * self.architecture.layers)), self.architecture.layers - 1)

    @property
    def tokens_max(self) -> int:
        """Tokens that an iteration takes."""
        return min(self.config.max_num_batched_tokens, len(self._timing().token_ps) - 1)

    def most(self, context_tokens: int) -> int:
        """Sequences of so many tokens that memory holds at once."""
        timing = self._timing()
        blocks = -(-context_tokens // timing.block_size)
        return int(timing.kv_tokens // (blocks * timing.block_size))

    def _timing(self, layers: int | None = None) -> ReplicaTiming:
        model = self.architecture if layers is None else replace(self.architecture, layers=layers)
        return replica_timing(model, self.gpu, tp=self.tp, pp=1, config=self.config)


@dataclass(frozen=True, slots=True)
class Worth:
    """Seconds a token of one sequence in a batch of `batch`, without exits and with."""

    batch: int
    without_s: float
    with_s: float

    @property
    def change(self) -> float:
        """Relative change of the time a token: below 0 where exits pay."""
        return self.with_s / self.without_s - 1.0


def worth(engine: Engine, batch: int, context_tokens: int, *, depth: float, share: float) -> Worth:
    """`share` (0-1) of the tokens exits after `depth` (0-1) of the layers."""
    early, iteration = engine.early_layers(depth), Iteration(batch, context_tokens)
    whole, first = engine.seconds(iteration), engine.seconds(iteration, early)
    each = engine.late_each_s(batch, early)
    late_context = max(0.0, whole - first - engine.late_s(batch, early) - each)
    # Where hardly any token goes on, what is owed is made up in batches as large as there are.
    runs = max(1.0 - share**batch, batch / engine.tokens_max)
    late = runs * engine.late_s(batch / runs, early) + each + (1.0 - share) * late_context
    return Worth(batch, whole, first + late + engine.head_s(batch))


class Batches(NamedTuple):
    """Batch sizes `first` to `last`."""

    first: int
    last: int


def paying(
    engine: Engine, context_tokens: int, *, depth: float, share: float, most: int
) -> tuple[Batches, ...]:
    """Batches of 1 to `most` at which exits pay, as ranges: they may stop, and begin again where contexts weigh more
    than weights."""
    found: list[Batches] = []
    for batch in range(1, most + 1):
        if worth(engine, batch, context_tokens, depth=depth, share=share).change >= 0:
            continue
        if found and found[-1].last == batch - 1:
            found[-1] = Batches(found[-1].first, batch)
        else:
            found.append(Batches(batch, batch))
    return tuple(found)
