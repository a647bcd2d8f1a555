"""Rows as a format's reader yields them, before anything is checked."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from cascadia_traces.checks import Floats, Ints, Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """n consecutive requests as found in a file. NaN stands for a missing number.

    `arrival_s` counts from anywhere; `number` (n) is where each stands in the file: its line in JSONL, else
    its row, counted from 1 below the header.
    """

    number: Ints
    arrival_s: Floats
    input_tokens: Numbers
    _: KW_ONLY
    output_tokens: Numbers
    prompt_id: Sequence[str] | None = None
    session_id: Sequence[str] | None = None
    prefix_tokens: Numbers | None = None
    hash_ids: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)

    def where(self, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> "Rows":
        """The rows for which `keep` (n) is true."""
        if keep.all():
            return self
        kept = np.flatnonzero(keep)
        return self.at(kept)

    def at(self, index: Ints) -> "Rows":
        """The rows at `index`, in its order."""
        return Rows(
            self.number[index],
            self.arrival_s[index],
            self.input_tokens[index],
            output_tokens=self.output_tokens[index],
            prompt_id=None if self.prompt_id is None else [self.prompt_id[i] for i in index],
            session_id=None if self.session_id is None else [self.session_id[i] for i in index],
            prefix_tokens=None if self.prefix_tokens is None else self.prefix_tokens[index],
            hash_ids=None if self.hash_ids is None else [self.hash_ids[i] for i in index],
        )

    @staticmethod
    def joined(parts: Sequence["Rows"]) -> "Rows":
        """All parts as one (at least one part; every part of a file has the same columns)."""

        def texts(name: str) -> list[str] | None:
            if getattr(parts[0], name) is None:
                return None
            return [text for part in parts for text in getattr(part, name)]

        prefixes: list[Numbers] = [part.prefix_tokens for part in parts if part.prefix_tokens is not None]
        return Rows(
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.arrival_s for part in parts]),
            np.concatenate([part.input_tokens for part in parts]),
            output_tokens=np.concatenate([part.output_tokens for part in parts]),
            prompt_id=texts("prompt_id"),
            session_id=texts("session_id"),
            prefix_tokens=np.concatenate(prefixes, dtype=np.float64) if prefixes else None,
            hash_ids=texts("hash_ids"),
        )
