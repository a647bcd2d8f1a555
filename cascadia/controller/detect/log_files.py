"""Files of a router's workload log, each read once. Routers of other versions may have written them."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Tell = Callable[[str], object]
LEFT_OUT = "{path} is left out: another version of cascadia may have written it ({error})"


def new_of(
    paths: Collection[Path],
    known: set[str],
    columns: Collection[str],
    of: "Callable[[pa.Table], T]",
    tell: Tell,
) -> Iterator[T]:
    """What `of` makes of each of `paths` that is not `known` yet, with those of `columns` that it has. One that cannot
    be read may be the next time: the log is being written, or made room. `tell`: of one that is whole, and yet tells
    not what it is to, so that its requests do not go missing without a word.
    """
    import pyarrow as pa
    from pyarrow import parquet

    for path in sorted(paths):
        if path.name in known:
            continue
        try:
            there = parquet.read_schema(path).names
            table = parquet.read_table(path, columns=[name for name in columns if name in there])
        except (OSError, pa.ArrowException):
            continue
        known.add(path.name)
        try:
            found = of(table)
        except (KeyError, pa.ArrowException) as error:
            tell(LEFT_OUT.format(path=path, error=str(error).splitlines()[0][:120]))
        else:
            yield found
