"""Values of a sequence's KV cache, read from a file that llama.cpp's server saved (`POST /slots/N?action=save`).

The values of layer l are a fixed linear image of the hidden state that layer l begins with, after its norm: what a
ramp there would read, less what the image leaves out. An engine keeps them for every token of question and answer,
so that no layer need be run again. (Keys hold them too, but turned by their position.)

File: `ggsq`, version, the tokens; then by stream its cells (position, sequences), and of all layers first the keys,
then the values, each as type, bytes a row, rows.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.errors import BadVerdict

MAGIC, VERSION = 0x67677371, 4
HALF = 1
"""ggml's number of float16, in which llama.cpp keeps a cache unless it is told otherwise."""
Content = bytes | mmap
INSTEAD = "run llama.cpp of the release that docs/reference/engines.md names, with --cache-type-v f16"


@dataclass(frozen=True, slots=True, eq=False)
class KvState:
    """One sequence: `content` of its file, and where in it the values of each layer begin."""

    content: Content
    tokens: int
    width: int
    begins: tuple[int, ...]

    @property
    def layers(self) -> int:
        return len(self.begins)

    def values(self, layer: int) -> NDArray[np.float16]:
        """(tokens, width), in the order of their positions."""
        count = self.tokens * self.width
        found = np.frombuffer(self.content, np.dtype("<f2"), count, self.begins[layer])
        return found.reshape(self.tokens, self.width)


class _Reader:
    """Numbers one after the other. Raises `struct.error` at the end of `content`."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.at = 0

    def take(self, form: str) -> Sequence[int]:
        found = struct.unpack_from(f"<{form}", self.content, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found

    def skip(self, count: int) -> int:
        """Passes over so many bytes; returns where they began."""
        begin, self.at = self.at, self.at + count
        return begin


def read_kv_state(content: Content, where: str = "saved slot") -> KvState:
    """Raises `BadVerdict` where this is no cache of one sequence in float16."""
    try:
        return _read(_Reader(content), where)
    except struct.error:
        raise BadVerdict(where, "ends too early", INSTEAD) from None


def _read(reader: _Reader, where: str) -> KvState:
    magic, version, tokens = reader.take("III")
    if (magic, version) != (MAGIC, VERSION):
        raise BadVerdict(where, f"is no saved slot of version {VERSION}", INSTEAD)
    reader.skip(4 * tokens)
    (streams,) = reader.take("I")
    # The other streams are other slots', and empty in this file.
    left, cells = streams, 0
    while left and not cells:
        left, (cells,) = left - 1, reader.take("I")
    if not cells:
        raise BadVerdict(where, "holds no tokens", "save a slot that has answered")
    # Each cell: position, how many sequences it is of, which.
    cell = np.array(reader.take(f"{3 * cells}i")).reshape(cells, 3)
    transposed, layers, *turned = reader.take("IIII")
    if transposed or any(turned) or (np.diff(cell[:, 0]) <= 0).any() or (cell[:, 1] != 1).any():
        raise BadVerdict(where, "keeps values in another order than by token", INSTEAD)
    for _ in range(layers):
        _rows(reader, cells, where)
    rows = [_rows(reader, cells, where) for _ in range(layers)]
    widths = {width for _, width in rows}
    # Each stream that is left is four bytes: no cells.
    if len(widths) != 1 or reader.at + 4 * left != len(reader.content):
        raise BadVerdict(where, "has layers of several widths, or another length", INSTEAD)
    return KvState(reader.content, cells, widths.pop(), tuple(begin for begin, _ in rows))


def _rows(reader: _Reader, cells: int, where: str) -> tuple[int, int]:
    """Begin of a layer's rows, and their width in numbers."""
    kind, row_bytes = reader.take("iQ")
    if kind != HALF:
        raise BadVerdict(where, "has a cache that is not float16", INSTEAD)
    return reader.skip(cells * row_bytes), row_bytes // 2
