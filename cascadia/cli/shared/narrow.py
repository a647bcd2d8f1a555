"""Tables whose words and figures stay whole: on a terminal too narrow for that, each row is a block of lines, one for
each column."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Column, Table


def fitting(table: "Table", console: "Console") -> "RenderableType":
    """`table`, or its rows as blocks where numbers or words would be broken."""
    from rich.segment import Segment

    lines = Segment.split_lines(console.render(unbroken(table, console)))
    return table if max(map(Segment.get_line_length, lines)) <= console.width else _blocks(table)


def unbroken(table: "Table", console: "Console") -> "Table":
    """`table`, where no column is so narrow that it breaks numbers or words: it may be wider than asked for."""
    for column in table.columns:
        column.min_width = max(column.min_width or 0, _least_width(column, console))
        column.no_wrap = column.no_wrap or column.justify == "right"  # rich narrows those that may wrap
    return table


def _least_width(column: "Column", console: "Console") -> int:
    """Columns below which words are broken; figures, which stand on the right, stay whole with their units."""
    from rich.measure import Measurement

    sizes = [Measurement.get(console, console.options, cell) for cell in (column.header, *column.cells)]
    whole = column.justify == "right" or column.no_wrap
    return max(size.maximum if whole else size.minimum for size in sizes)


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
