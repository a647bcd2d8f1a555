"""A table on a narrow terminal says all that it says on a wide one."""

import pytest
from rich.console import Console
from rich.table import Table

from cascadia.cli.shared.narrow import fitting

FIGURES = ("560 ms", "1.86 s", "2.42 s", "89 ms", "12 %")


def told(columns: int) -> str:
    table = Table("", title="500 requests")
    for name in ("p50", "p95", "p99", "TTFT p95", "load"):
        table.add_column(name, justify="right")
    table.add_row("small", *FIGURES)
    console = Console(width=columns, highlight=False)
    with console.capture() as captured:
        console.print(fitting(table, console))
    return captured.get()


@pytest.mark.parametrize("columns", [20, 40, 60, 120])
def test_no_figure_is_cut(columns: int) -> None:
    shown = told(columns)
    assert all(word in shown for word in ("small", "500 requests", "TTFT p95", *FIGURES))
    assert max(map(len, shown.splitlines())) <= columns


def test_a_table_that_fits_stays_one() -> None:
    assert len(told(60).splitlines()) == 6
    assert len(told(40).splitlines()) == 7


@pytest.mark.parametrize("columns", range(60, 130, 5))
def test_no_word_is_broken_where_other_columns_could_give_way(columns: int) -> None:
    table = Table("what", "why", box=None)
    table.add_row("w" * 60, " ".join(["because"] * 8))
    console = Console(width=columns, highlight=False)
    with console.capture() as captured:
        console.print(fitting(table, console))
    assert "w" * 60 in captured.get()
    assert captured.get().count("because") == 8
