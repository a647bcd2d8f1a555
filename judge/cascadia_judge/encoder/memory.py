"""An encoder that remembers its last vectors: a judge meets a question before its answer is written, and again with it.

What is kept of a text is its hash and its vector, never the text.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Protocol

import numpy as np

from cascadia_judge.encoder.encoder import TOKENS_MAX, Encoded


class Encodes(Protocol):
    @property
    def size(self) -> int:
        """Numbers in a vector."""
        ...

    def encoded(self, texts: Sequence[str], tokens_max: int = TOKENS_MAX) -> Encoded: ...


class Remembering:
    """Thread-safe. Vectors of the last `most` texts are kept, about 1.6 kB each of MiniLM's."""

    def __init__(self, encoder: Encodes, most: int = 4096) -> None:
        self._encoder = encoder
        self._most = most
        self._lock = Lock()
        self._known: OrderedDict[bytes, tuple[np.ndarray[tuple[int], np.dtype[np.float32]], int]] = (
            OrderedDict()
        )

    @property
    def size(self) -> int:
        return self._encoder.size

    def encoded(self, texts: Sequence[str], tokens_max: int = TOKENS_MAX) -> Encoded:
        keys = [_key(text, tokens_max) for text in texts]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        # Outside the lock: a text that two ask for at once is encoded twice, which is less than all waiting
        # for one.
        if new:
            made = self._encoder.encoded(list(new.values()), tokens_max)
            for key, vector, tokens in zip(new, made.vectors, made.tokens.tolist(), strict=True):
                # A view would keep the whole batch's vectors as long as one of them.
                found[key] = (vector.copy(), tokens)
        with self._lock:
            for key in keys:
                self._known[key] = found[key]
                self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        vectors = [found[key][0] for key in keys]
        return Encoded(
            np.stack(vectors) if vectors else np.zeros((0, self.size), np.float32),
            np.array([found[key][1] for key in keys], dtype=np.int64),
        )


def _key(text: str, tokens_max: int) -> bytes:
    return blake2b(f"{tokens_max}:{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
