"""A table on a terminal that is too narrow for it: each row is a block of lines, one for each of its columns."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Column, Table


def fitting(table: "Table", console: "Console") -> "RenderableType":
    """`table`, or its rows as blocks where numbers or words would be broken."""
    edges = sum(_least_width(column, console) + _gap(table) for column in table.columns)
    return table if edges <= console.width + _gap(table) else _blocks(table)


def _least_width(column: "Column", console: "Console") -> int:
    """Columns below which words are broken; figures, which stand on the right, stay whole with their units."""
    from rich.measure import Measurement

    sizes = [Measurement.get(console, console.options, cell) for cell in (column.header, *column.cells)]
    whole = column.justify == "right" or column.no_wrap
    return max(size.maximum if whole else size.minimum for size in sizes)


def _gap(table: "Table") -> int:
    _, right, _, left = table.padding
    return right + left + (table.box is not None)


def _blocks(table: "Table") -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    blocks: list[RenderableType] = [] if table.title is None else [table.title]
    first, *rest = table.columns
    for title, *cells in zip(first.cells, *(column.cells for column in rest), strict=True):
        block = Table.grid(padding=(0, 2))
        for column, cell in zip(rest, cells, strict=True):
            if str(cell):
                block.add_row(column.header, cell)
        blocks += [Text(str(title), "bold") if isinstance(title, str) and "[" not in title else title, block]
    return Group(*blocks)
