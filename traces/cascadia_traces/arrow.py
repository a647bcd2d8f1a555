"""Conversions between Arrow and numpy. What Arrow offers for it loads pandas wherever that is installed, a
quarter of a second.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia_traces.checks import Ints

if TYPE_CHECKING:
    import pyarrow as pa


def numbers(column: "pa.Array") -> np.ndarray[tuple[int], np.dtype[Any]]:
    """The column's values, read-only, NaN where it has none."""
    import pyarrow as pa
    from pyarrow import compute

    if column.null_count:
        column = compute.fill_null(column.cast(pa.float64(), safe=False), pa.scalar(float("nan")))
    return np.from_dlpack(column)


def rows_of(column: "pa.Array", rows: Ints) -> "pa.Array":
    """The column's values at `rows`."""
    import pyarrow as pa

    at = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))])
    return column.take(at)
