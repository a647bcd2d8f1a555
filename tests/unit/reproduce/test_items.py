"""What was measured beside the paper's figures, over measurements made by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cascadia.cli.reproduce import _reproduce
from cascadia.cli.shared.output import Output
from cascadia.domain.quality import QualityTable
from cascadia.reproduce import judges, own, paper
from cascadia.reproduce.item import Step, as_markdown, measure

SYSTEMS = (
    "cascadia",
    "stand-alone large",
    "cascadeserve",
    "pre-router",
    "uniform parallelism",
    "uniform allocation",
)


def cell(key: str) -> dict[str, Any]:
    """Each system in its place is slower than the one before it by as much again, and carries less."""
    systems = {
        name: {"slo_scale": 2.0 * at, "max_rate_rps": 60.0 / at, "usd_per_hour": 72.0}
        for at, name in enumerate(SYSTEMS, 1)
    }
    return {"cell": key, "rate_rps": 1.0, "requests": 1, "slo_base_s": 1.0, "took_s": 0.0, "systems": systems}


def planned() -> dict[str, Any]:
    return {
        "thresholds": [70.0, 101.0],
        "reached": [1.0, 0.0, 0.25],
        "gpus": [8, 0, 24],
        "judge_gpus": 0,
        "shapes": [[(8, 1, 1)], [], [(1, 8, 1), (2, 4, 2)]],
        "p95_s": [1.0, 0.0, 9.0],
        "e2e_p95_s": 8.0,
    }


def of(name: str) -> object:
    """A measurement that stands for the step's own."""
    if name.startswith(("trio-", "pair-")):
        return cell(f"{name} | a | b | 60")
    if name.startswith("plan-"):
        return planned()
    if name.startswith("chunks-"):
        return {"alone": {"512": 4.0, "1024": 5.0}, "cascade": 10.0}
    if name.startswith("time-"):
        return {"wall_s": 12.0, "cpu_s": 9.0}
    judged = {"score": 50.0, "larger": 0.5, "p95_s": 10.0, "quality": 66.0, "lower": 65.6}
    ran = {"done_rps": 16.0, "offered_rps": 17.0, "load": 2.0, "quality": 89.0, "moves": 1, "confidence": 0.5}
    return {
        "table-1": {"scale": 0.14, "rows": [[[1, 4, 1], 0.21, 0.2, 0.0429]]},
        "judges": {
            "GPT-4o": judged,
            "pairwise": {"score": 40.0, "error": "infeasible: 65.5 is out of reach"},
        },
        "transition": [
            {"system": "Cascadia", "slo_scale": 4.0, **ran},
            {"system": "CascadeServe", "slo_scale": None, **ran},
        ],
    }[name]


def items(tmp_path: Path, *, quick: bool) -> dict[str, paper.Item]:
    steps = [Step(step.name, lambda name=step.name: of(name)) for step in paper.steps(tmp_path, quick=quick)]  # type: ignore[misc]
    return {item.name.split(" (")[0]: item for item in paper.items(measure(steps, tmp_path))}


def test_all_tables_and_figures_are_there(tmp_path: Path) -> None:
    found = items(tmp_path, quick=False)
    assert set(found) == {f"Table {n}" for n in range(1, 8)} | {f"Figure {n}" for n in range(5, 12)}
    assert all(
        item.why and all(len(row) == len(item.columns) for row in item.rows) for item in found.values()
    )


def test_a_quick_run_leaves_out_only_the_transitions(tmp_path: Path) -> None:
    missing = set(items(tmp_path / "all", quick=False)) - set(items(tmp_path / "quick", quick=True))
    assert missing == {"Table 5", "Figure 11"}


def test_figures_stand_beside_the_papers(tmp_path: Path) -> None:
    found = items(tmp_path, quick=False)
    assert found["Table 2"].rows[0] == (
        "90, 1",
        "99, 91 / 100, 94, 50 / 4, 8, 20",
        "65",
        "70, 101",
        "100, 0, 25",
        "8, 0, 24",
    )
    assert found["Table 3"].rows[0][-1] == "8×TP1 / – / TP8 + 2×TP4PP2"
    assert found["Table 4"].rows[0][2] == "10 / 5 = 2.00× at 1024"
    assert found["Table 5"].rows[1][-2:] == ("inf", "100 %")
    assert found["Table 6"].rows[1][2:4] == ("-20.0", "infeasible: 65.5 is out of reach")
    # $72 an hour over 60, 30 and 20 requests/s.
    assert found["Table 7"].rows[0][3:] == ("0.667 / 1.000 / 0.333", "50 % / 67 %")
    assert found["Figure 5"].rows[-2][2] == "2.00× (2.00–2.00)"
    assert found["Figure 9"].rows[1][2:] == ("6.00× (6.00–6.00)", "6.00× (6.00–6.00)")


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    calls: list[str] = []

    def find() -> str:
        calls.append("asked")
        return "found"

    told: list[tuple[float, str]] = []
    for _ in range(2):
        assert measure([Step("one", find)], tmp_path, lambda *at: told.append(at)) == {"one": "found"}
    assert calls == ["asked"]
    assert told == [(0.0, "one")] * 2


def test_markdown_has_a_section_an_item(tmp_path: Path) -> None:
    text = as_markdown(list(items(tmp_path, quick=True).values()))
    assert text.count("\n## ") + text.startswith("## ") == 12


def test_a_weaker_judge_scores_lower_by_as_much_as_it_is_said_to() -> None:
    score = np.full((1, 20_000), 60.0)
    lowered = judges.weaker(0.094, 10.0)(score)
    assert lowered.mean() == pytest.approx(0.906 * 60, abs=0.3)
    assert lowered.std() == pytest.approx(10.0, abs=0.3)


def test_a_pairwise_judge_sees_worse_a_tie_and_better(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(score: list[float], stages: tuple[str, ...]) -> QualityTable:
        row = np.array([score])
        return QualityTable(
            tuple("abcd"), stages, row, quality=row, input_tokens=row + 1, output_tokens=row + 1
        )

    reference = made([50.0, 50.0, 50.0, 50.0], ("reference",))
    monkeypatch.setattr(judges.cases, "wildbench", lambda *_: reference)
    found = judges.pairwise(made([20.0, 50.0, 54.0, 60.0], ("small",)))
    assert found.score.tolist() == [[0.0, 50.0, 50.0, 100.0]]
    assert found.quality.tolist() == [[20.0, 50.0, 54.0, 60.0]]


def test_the_comparison_quickly_is_every_eleventh_cell(tmp_path: Path) -> None:
    assert len(list(own.comparison_steps(tmp_path, quick=False))) == 72
    assert len(list(own.comparison_steps(tmp_path, quick=True))) == 7


def test_a_run_that_nobody_watches_says_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = (Step("table-1", lambda: 1), Step("figure-5", lambda: 2))
    _reproduce((), lambda _, quick: iter(steps), lambda _: iter(()), tmp_path, quick=True, output=Output())
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["0% measured; next: table-1", "50% measured; next: figure-5"]
