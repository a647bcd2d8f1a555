"""Rows of Mooncake's JSON Lines: prefix reuse is read off the hashes of 512-token blocks.

Each hash covers its block and all before it (Mooncake, FAST'25, section 4), so equal ids mean equal prefixes
and a set of the ids seen is enough. The set grows with the distinct blocks of the trace, about 100 bytes
each.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cascadia_traces.checks import Floats
from cascadia_traces.errors import BadInput
from cascadia_traces.formats.json_lines import Batch, numbers_of, read_objects
from cascadia_traces.formats.layout import Layout
from cascadia_traces.formats.rows import Rows
from cascadia_traces.formats.source import Source

BLOCK_TOKENS = 512


def read_mooncake(source: Source, layout: Layout, on_progress: Callable[[int], None]) -> Iterator[Rows]:
    """Batches of rows. A request without `hash_ids` shares no prefix."""
    seen: set[int | str] = set()
    for batch in read_objects(source, on_progress):
        columns = {
            ours: numbers_of(source, batch, theirs, [row.get(theirs) for row in batch.objects])
            for ours, theirs in layout.columns.items()
        }
        inputs = columns["input_tokens"]
        yield Rows(
            batch.line,
            columns["arrival_s"] / 1000,
            inputs,
            output_tokens=columns["output_tokens"],
            prefix_tokens=_prefixes(source, batch, inputs, seen),
            hash_ids=[" ".join(map(str, row.get("hash_ids") or ())) for row in batch.objects],
        )


def _prefixes(source: Source, batch: Batch, inputs: Floats, seen: set[int | str]) -> Floats:
    blocks = np.array(
        [
            _known_blocks(f"{source.name}, line {line}", row.get("hash_ids"), seen)
            for row, line in zip(batch.objects, batch.line, strict=True)
        ],
        dtype=np.float64,
    )
    # An engine computes at least the last token anew.
    return np.maximum(np.minimum(blocks * BLOCK_TOKENS, inputs - 1), 0)


def _known_blocks(where: str, ids: Any, seen: set[int | str]) -> int:
    """Number of leading blocks that were seen before; adds all of them to `seen`."""
    if ids is None:
        return 0
    if type(ids) is not list or not all(type(block) in (int, str) for block in ids):
        raise BadInput(where, "hash_ids is not a list of numbers", "write it like [0, 1, 2]")
    known = 0
    for block in ids:
        if block not in seen:
            break
        known += 1
    seen.update(ids)
    return known
