"""Worth of early exits of single tokens in decoding, by the simulator (Apparate section 3.4).

A token that exits after a share d of the layers keeps its hidden state; what its remaining layers owe the KV cache
is made up with the next token of its sequence that goes on. With a share s of tokens exiting, independently, and B
sequences:

- the early layers run for B tokens each iteration, and the ramp, which is the LM head, for B rows more;
- the late layers run only where any token goes on, with probability 1 - s^B. No work of theirs is spared, only its
  reading of weights: per iteration they make B tokens in the mean;
- late attention reads the context of sequences that go on: (1 - s) B of them.

So what is saved is weights read in s^B of the iterations and some context; what it costs is a second LM head in each.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.breakdown import Iteration, charged_s
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S
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
        model = self.architecture if layers is None else replace(self.architecture, layers=layers)
        timing = replica_timing(model, self.gpu, tp=self.tp, pp=1, config=self.config)
        return charged_s(timing, iteration)

    def head_s(self, rows: int) -> float:
        """Time of the LM head for so many rows, which a ramp is."""
        timing = replica_timing(self.architecture, self.gpu, tp=self.tp, pp=1, config=self.config)
        return int(timing.sequence_ps[rows]) / PS_PER_S


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
    early = max(1, round(depth * engine.architecture.layers))
    with_context, without = Iteration(batch, context_tokens), Iteration(batch, 1)
    whole, first = engine.seconds(with_context), engine.seconds(with_context, early)
    late_bare = engine.seconds(without) - engine.seconds(without, early)
    late_context = max(0.0, whole - first - late_bare)
    runs = 1.0 - share**batch
    late = runs * late_bare + (1.0 - share) * late_context
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
