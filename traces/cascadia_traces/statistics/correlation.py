"""Correlation of input and output lengths."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cascadia_traces.checks import Floats
from cascadia_traces.statistics.moments import Moments
from cascadia_traces.trace import Trace

SPEARMAN_REQUESTS = 1_000_000
"""Ranks need every length at once: beyond this many they are not computed."""

SAMPLE_REQUESTS = 2_048


@dataclass(slots=True)
class LengthPairs:
    """Sums for Pearson's correlation of logarithms, all pairs for Spearman's while few, and a sample."""

    logs: Moments = field(default_factory=Moments)
    kept: list[NDArray[np.int32]] | None = field(default_factory=list)
    sample: list[tuple[int, int]] = field(default_factory=list)
    stride: int = 1
    count: int = 0

    def add(self, chunk: Trace) -> None:
        self.logs += Moments.of(np.log(chunk.input_tokens), np.log(chunk.output_tokens))
        if self.kept is not None:
            self.kept.append(np.array([chunk.input_tokens, chunk.output_tokens], dtype=np.int32))
        # Every stride-th request; the stride doubles whenever the sample is full.
        rows = np.arange(-self.count % self.stride, len(chunk), self.stride)
        self.sample += zip(chunk.input_tokens[rows].tolist(), chunk.output_tokens[rows].tolist(), strict=True)
        self.count += len(chunk)
        while len(self.sample) > SAMPLE_REQUESTS:
            self.sample = self.sample[::2]
            self.stride *= 2
        if self.count > SPEARMAN_REQUESTS:
            self.kept = None

    def spearman(self) -> float | None:
        """Correlation of ranks, ties sharing theirs; None for too many requests or constant lengths."""
        if not self.kept:
            return None
        inputs, outputs = np.concatenate(self.kept, axis=1)
        return Moments.of(_ranks(inputs), _ranks(outputs)).correlation


def _ranks(values: NDArray[np.int32]) -> Floats:
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[which]
    return ranks
