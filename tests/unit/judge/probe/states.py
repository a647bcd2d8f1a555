"""Slots as llama.cpp saves them, and readings with something to learn."""

import struct

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.probe.reading import Readings

MAGIC, VERSION, HALF = 0x67677371, 4, 1
"""As llama.cpp writes them (`LLAMA_STATE_SEQ_MAGIC`, its version, `GGML_TYPE_F16`), whatever is read here."""
LAYERS, WIDTH = 5, 16


def saved(
    values: NDArray[np.float16],
    *,
    slot: int = 0,
    slots: int = 2,
    kind: int = HALF,
    transposed: int = 0,
    turned: tuple[int, int] = (0, 0),
    step: int = 1,
    sequences: int = 1,
) -> bytes:
    """File of a slot whose cache holds `values` (layers, tokens, width), as keys too."""
    layers, tokens, width = values.shape
    parts = [struct.pack("<III", MAGIC, VERSION, tokens), bytes(4 * tokens), struct.pack("<I", slots)]
    for other in range(slots):
        parts.append(struct.pack("<I", tokens if other == slot else 0))
        if other != slot:
            continue
        parts += [struct.pack("<iIi", step * position, sequences, slot) for position in range(tokens)]
        parts.append(struct.pack("<IIII", transposed, layers, *turned))
        for _ in ("keys", "values"):
            for layer in values.astype("<f2"):
                parts += [struct.pack("<iQ", kind, 2 * width), layer.tobytes()]
    return b"".join(parts)


def learnable(count: int, seed: int = 0) -> tuple[Readings, NDArray[np.float64]]:
    """Readings of questions on a few axes; an answer is right where one number of its state says so, mostly."""
    rng = np.random.default_rng(seed)
    question = rng.normal(size=(count, 4)) @ np.eye(4, WIDTH) + 0.05 * rng.normal(size=(count, WIDTH))
    answer = rng.normal(size=(count, 2 * WIDTH))
    quality = 100.0 * (answer[:, 0] + question[:, 1] + 0.3 * rng.normal(size=count) > 0)
    return Readings(question, np.hstack([question, answer])), quality
