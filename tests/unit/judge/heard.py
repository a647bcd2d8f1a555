"""An encoder that keeps what it was given."""

from collections.abc import Sequence

import numpy as np

from cascadia_judge.encoder.encoder import Encoded


class Hearing:
    size = 4

    def __init__(self) -> None:
        self.heard: list[str] = []

    def encoded(self, texts: Sequence[str], tokens_max: int) -> Encoded:
        self.heard += texts
        return Encoded(
            np.ones((len(texts), self.size), dtype=np.float32) / 2, np.ones(len(texts), dtype=np.int64)
        )
