"""Rows of Mooncake's JSON Lines, and Qwen's: prefix reuse is read off the hashes of 512-token blocks.

Each hash covers its block and all before it (Mooncake, FAST'25, section 4), so equal ids mean equal prefixes
and a set of the ids seen is enough. The set grows with the distinct blocks of the trace, about 100 bytes
each. Qwen's hashes are of 16 tokens alone: 32 of them, with all before them, are named anew.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from cascadia_traces.checks import Floats
from cascadia_traces.errors import BadInput
from cascadia_traces.formats.json_lines import numbers_of, read_objects
from cascadia_traces.formats.layout import Layout
from cascadia_traces.formats.rows import Rows
from cascadia_traces.formats.source import Source

BLOCK_TOKENS = 512

Ids = Sequence[int | str]


def read_mooncake(source: Source, layout: Layout, on_progress: Callable[[int], None]) -> Iterator[Rows]:
    """Batches of rows. A request without `hash_ids` shares no prefix."""
    seen: set[int | str] = set()
    for batch in read_objects(source, on_progress):
        columns = {
            ours: numbers_of(source, batch, theirs, [row.get(theirs) for row in batch.objects])
            for ours, theirs in layout.columns.items()
        }
        inputs = columns["input_tokens"]
        blocks = [
            _blocks(f"{source.name}, line {line}", row.get("hash_ids"), reads, layout)
            for row, line, reads in zip(batch.objects, batch.line, inputs.tolist(), strict=True)
        ]
        yield Rows(
            batch.line,
            columns["arrival_s"] / layout.per_s,
            inputs,
            output_tokens=columns["output_tokens"],
            prefix_tokens=_prefixes(blocks, inputs, seen),
            hash_ids=[" ".join(map(str, ids)) for ids in blocks],
        )


def _blocks(where: str, ids: Any, input_tokens: float, layout: Layout) -> Ids:
    """Names of a prompt's blocks of `BLOCK_TOKENS`, each standing for all before it as well."""
    if ids is None:
        return ()
    if type(ids) is not list or not all(type(block) in (int, str) for block in ids):
        raise BadInput(where, "hash_ids is not a list of numbers", "write it like [0, 1, 2]")
    # One more than the prompt has tokens for: who cuts prompts may count a token that marks their beginning.
    if len(ids) > -(-input_tokens // layout.block_tokens) + 1:
        said = f"hash_ids names {len(ids)} blocks of {input_tokens:g} tokens"
        each = f"{layout.name}'s blocks are of {layout.block_tokens} tokens"
        raise BadInput(where, said, f"{each}: leave hash_ids out, or write the hashes of such blocks")
    return ids if layout.block_tokens == BLOCK_TOKENS else _joined(ids, BLOCK_TOKENS // layout.block_tokens)


def _joined(ids: Ids, each: int) -> Ids:
    names: list[int | str] = []
    so_far = blake2b(digest_size=8)
    for first in range(0, len(ids), each):
        so_far.update(f"{' '.join(map(str, ids[first : first + each]))} ".encode())
        names.append(so_far.hexdigest())
    return names


def _prefixes(blocks: Sequence[Ids], inputs: Floats, seen: set[int | str]) -> Floats:
    known = np.array([_known_blocks(ids, seen) for ids in blocks], dtype=np.float64)
    # An engine computes at least the last token anew.
    return np.maximum(np.minimum(known * BLOCK_TOKENS, inputs - 1), 0)


def _known_blocks(ids: Ids, seen: set[int | str]) -> int:
    """Number of leading blocks that were seen before; adds all of them to `seen`."""
    known = 0
    for block in ids:
        if block not in seen:
            break
        known += 1
    seen.update(ids)
    return known
