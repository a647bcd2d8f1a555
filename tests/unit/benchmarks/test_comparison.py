"""Sums of the comparison, over results made by hand."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cascadia.reproduce import summary
from cascadia.reproduce.cells import Result, keep, known
from cascadia.reproduce.grid import cells
from tests.benchmarks.bench_compare_page import Places, read_data, sections, write
from tests.benchmarks.report_table import figure, markdown, replaced
from tests.data import ROOT

Figures = Mapping[str, float | None]


def result(cell: str, /, **systems: Figures) -> Result:
    named = {name.replace("_", " "): dict(fields) for name, fields in systems.items()}
    alone = {name.replace("alone ", "stand-alone: "): fields for name, fields in named.items()}
    return Result(cell, 10.0, 100, 1.0, 0.5, alone)


def of(slo_scale: float | None, max_rate_rps: float | None) -> Figures:
    return {"slo_scale": slo_scale, "max_rate_rps": max_rate_rps}


RESULTS = [
    result("a | azure | low | 60", cascadia=of(2.0, 30.0), alone_s=of(9.0, 15.0), alone_l=of(4.0, 10.0)),
    result("a | azure | high | 60", cascadia=of(3.0, 30.0), alone_s=of(None, 60.0)),
    result("b | azure | low | 70", cascadia=of(2.0, 20.0), alone_s=of(16.0, 10.0), cascadeserve=of(1.9, 5.0)),
]


def test_the_grid_has_72_cells_of_different_names() -> None:
    assert len({cell.key for cell in cells()}) == len(list(cells())) == 72


def test_the_best_model_alone_is_the_best_in_each_figure() -> None:
    assert summary.slo_scale(RESULTS[0], summary.ALONE) == 4.0
    assert summary.rate_rps(RESULTS[0], summary.ALONE) == 15.0


def test_ratios_are_averaged_geometrically_where_both_have_a_figure() -> None:
    found = summary.by_slo_scale(RESULTS, summary.ALONE)
    assert sorted(found.ratio.tolist()) == [2.0, 8.0]
    assert found.alone == 1
    assert (found.mean, found.range) == ("4.00×", "2.00–8.00")
    assert summary.by_rate(RESULTS, summary.ALONE).range == "0.50–2.00"


def test_what_beats_the_choice_from_within_its_search_is_a_fault() -> None:
    found = {(f.cell, f.system, f.figure) for f in summary.faults(RESULTS)}
    assert found == {
        ("a | azure | high | 60", summary.ALONE, "max req/s"),
        ("b | azure | low | 70", "cascadeserve", "SLO scale"),
    }
    assert "beaten by" in summary.faults_table(RESULTS)
    assert summary.faults_table(RESULTS[:1]).startswith("No system")


def test_a_table_has_a_row_for_each_group_and_system() -> None:
    assert len(summary.by_group(RESULTS, 0).splitlines()) == 2 + 2
    assert summary.present(RESULTS, summary.BASELINES) == [summary.ALONE, "cascadeserve"]
    assert len(summary.baselines(RESULTS).splitlines()) == 2 + 2


def test_results_are_kept_by_the_line_and_a_line_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "comparison.jsonl"
    assert known(path) == {}
    for one in RESULTS:
        keep(path, one)
    path.write_text(path.read_text() + '{"cell": "c | az')
    assert known(path) == {r.cell: r for r in RESULTS}


MARKS = ("count", "baselines", "groups", "ablations", "faults", "grid")


def test_a_page_is_written_from_whatever_cells_there_are(tmp_path: Path) -> None:
    places = Places(tmp_path / "page.md", tmp_path / "data" / "cells.csv", tmp_path)
    places.page.write_text("".join(f"<!-- measured: {mark} -->\n<!-- end -->\n" for mark in MARKS))
    write(RESULTS, places)
    first = places.page.read_text()
    assert "3 of 72 cells" in first
    assert "<svg" in (tmp_path / "comparison-slo.svg").read_text()
    read = read_data(places.data)
    assert [(r.cell, list(r.systems)) for r in read] == [(r.cell, list(r.systems)) for r in RESULTS]
    write(read, places)
    assert places.page.read_text() == first


def test_the_page_is_that_of_its_data() -> None:
    page = Places().page.read_text()
    for name, body in sections(read_data(Places().data)).items():
        assert replaced(page, name, body) == page


def test_a_section_of_a_page_is_replaced_and_the_rest_stays() -> None:
    page = (
        "before\n<!-- measured: one -->\nold\n<!-- end -->\nafter\n<!-- measured: two -->\nx\n<!-- end -->\n"
    )
    assert replaced(page, "one", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="no section between"):
        replaced(page, "three", "new")


def test_figures_have_three_digits_and_tables_a_rule() -> None:
    assert [figure(x) for x in (0.12345, 12.345, 1234.5, float("nan"))] == ["0.123", "12.3", "1,234", "–"]
    assert markdown(("a", "b"), [("x", "1")]) == "| a | b |\n| --- | --: |\n| x | 1 |"


def test_the_page_on_design_quotes_the_row_that_it_names() -> None:
    """It said 1.44 times a day after the comparison, run again, had come to 1.58."""
    docs = ROOT / "docs"
    (row,) = [
        line
        for line in (docs / "benchmarks/comparison.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| no refinement |")
    ]
    scale, _, _ = row.split("|")[2].strip().partition("×")
    said = (docs / "design/README.md").read_text(encoding="utf-8")
    assert f'{scale} times as slow as the refined plan (row "no refinement"' in said
