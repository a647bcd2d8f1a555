"""The arithmetic of a BERT encoder, in numpy: token ids in, one vector a token out.

Devlin et al. 2019 (BERT); post-norm, as MiniLM (Wang et al. 2020) keeps it. Matrices are stored (in, out), so that a
layer is `x @ w + b`. Everything is float32.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_ERF = tuple(
    np.float32(c) for c in (0.3275911, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
)
"""Abramowitz and Stegun 7.1.26: |error| <= 1.5e-7, which is what float32 can tell."""


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    weight: Floats
    bias: Floats

    def __call__(self, x: Floats) -> Floats:
        return np.asarray(x @ self.weight + self.bias, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    weight: Floats
    bias: Floats
    epsilon: float

    def __call__(self, x: Floats) -> Floats:
        centred: Floats = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        centred /= np.sqrt(variance + np.float32(self.epsilon))
        centred *= self.weight
        centred += self.bias
        return centred


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """`qkv` makes query, key and value in one product (hidden, 3 hidden)."""

    qkv: Linear
    attended: Linear
    attended_norm: Norm
    wide: Linear
    narrow: Linear
    narrow_norm: Norm
    heads: int

    def __call__(self, x: Floats, hidden_from: Floats | None) -> Floats:
        """`x` (texts, tokens, hidden); `hidden_from` (texts, 1, 1, tokens) is -inf where there is no token."""
        x = self.attended_norm(x + self.attended(self._attention(x, hidden_from)))
        return self.narrow_norm(x + self.narrow(gelu(self.wide(x))))

    def _attention(self, x: Floats, hidden_from: Floats | None) -> Floats:
        texts, tokens, hidden = x.shape
        size = hidden // self.heads
        split = self.qkv(x).reshape(texts, tokens, 3, self.heads, size).transpose(2, 0, 3, 1, 4)
        query, key, value = split
        weights = (query @ key.transpose(0, 1, 3, 2)) * np.float32(1.0 / math.sqrt(size))
        if hidden_from is not None:
            weights += hidden_from
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        joined = (weights @ value).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(joined).reshape(texts, tokens, hidden)


@dataclass(frozen=True, slots=True, eq=False)
class Bert:
    """`words` (vocabulary, hidden), `places` (most tokens, hidden; the one type of token is added to it)."""

    words: Floats
    places: Floats
    norm: Norm
    layers: tuple[Layer, ...]

    def __call__(self, ids: Ints, there: Bools) -> Floats:
        """`ids` and `there` (texts, tokens); tokens that are not `there` are padding. (texts, tokens, hidden)."""
        hidden_from: Floats | None = None
        if not there.all():
            hidden_from = np.where(there, np.float32(0), np.float32(-np.inf))[:, None, None, :]
        x = self.norm(self.words[ids] + self.places[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x, hidden_from)
        return x


def gelu(x: Floats) -> Floats:
    """x times the normal distribution at x, by the error function and not by its tanh approximation."""
    p, *coefficients = _ERF
    z = np.abs(x)
    z *= np.float32(math.sqrt(0.5))
    t = 1.0 / (1.0 + p * z)
    series = np.zeros_like(t)
    for c in reversed(coefficients):
        series += c
        series *= t
    np.square(z, out=z)
    np.negative(z, out=z)
    np.exp(z, out=z)
    series *= z
    # series is erfc(|x| / sqrt 2): twice the tail beyond |x|.
    return np.asarray(np.maximum(x, 0) - np.abs(x) * (np.float32(0.5) * series), dtype=np.float32)
