"""`cascadia simulate` and `cascadia compare` on a small cascade, with the real planner and simulator."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.commands import run


def simulated(folder: Path, *args: str) -> dict[str, object]:
    result = run("simulate", str(folder / "plan"), "--trace", str(folder / "trace.csv"), "--json", *args)
    assert result.exit_code == 0, result.output
    document: dict[str, object] = json.loads(result.stdout)
    return document


def p95(document: dict[str, object]) -> float:
    return float(document["predicted"]["e2e"]["p95_s"])  # type: ignore[index]


def test_a_plan_replayed_on_its_own_trace_and_table_is_what_it_predicted(folder: Path) -> None:
    plan = json.loads((folder / "plan" / "plan.json").read_text())
    rate = plan["predicted"]["rate_rps"]
    found = simulated(folder, "--rate", str(rate), "--quality-table", str(folder / "quality.csv"))
    # The trace is short beside its latencies: the plan's figures are of rounds of it that have settled.
    assert found["stability"]["p95_once_s"] == pytest.approx(plan["predicted"]["e2e"]["p95_s"], rel=1e-3)
    assert found["stability"]["rounds"] == plan["stability"]["rounds"]
    assert p95(found) <= 1.001 * plan["predicted"]["e2e"]["p95_s"]


def test_paths_drawn_from_the_plan_are_reproducible_and_seeded(folder: Path) -> None:
    assert simulated(folder) == simulated(folder)
    assert simulated(folder, "--seed", "1")["requests"] == 40


def test_more_traffic_is_not_faster(folder: Path) -> None:
    assert p95(simulated(folder, "--rate", "50")) >= p95(simulated(folder, "--rate", "0.5"))


def test_an_slo_is_told_as_a_share(folder: Path) -> None:
    found = simulated(folder, "--slo", "1000")
    assert found["slo"] == {"limit_s": 1000.0, "attainment": 1.0}


def geared(folder: Path, into: Path) -> Path:
    """The plan with a light gear for whoever meets more than one request under way: its first stage alone, and else its
    last."""
    plan = json.loads((folder / "plan" / "plan.json").read_text())
    # Beside gears there is none.
    plan.pop("mixture", None)
    deployed = [s["name"] for s in plan["stages"] if s["replicas"]]
    own = plan["gears"][-1] | {"stages": deployed[-1:]}
    light = own | {"stages": deployed[:1], "predicted": None}
    plan["gears"] = [own | {"max_in_flight": 1.0}, light]
    into.mkdir()
    (into / "plan.json").write_text(json.dumps(plan))
    return into


def test_gears_are_played_and_told(folder: Path, tmp_path: Path) -> None:
    plan = str(geared(folder, tmp_path / "geared"))
    asked = ["simulate", plan, "--trace", str(folder / "trace.csv"), "--rate", "2"]
    scored = [*asked, "--quality-table", str(folder / "quality.csv")]
    found = json.loads(run(*scored, "--json").stdout)
    heavy, light = found["gears"]
    assert (heavy["max_in_flight"], light["max_in_flight"]) == (1.0, None)
    assert heavy["requests"] + light["requests"] == found["requests"] == 40
    assert min(heavy["requests"], light["requests"], found["switches"]) > 0
    assert found["switches"] <= 2 * min(heavy["requests"], light["requests"])
    shown = " ".join(run(*scored).stdout.split())
    assert f"the gear changed {found['switches']} time" in shown
    assert f"{light['requests']} ({light['request_share']:.1%})".replace("%", " %") in shown


def test_a_gear_that_serves_nobody_has_no_latency(folder: Path, tmp_path: Path) -> None:
    plan = str(geared(folder, tmp_path / "geared"))
    asked = ["simulate", plan, "--trace", str(folder / "trace.csv"), "--rate", "0.001"]
    scored = [*asked, "--quality-table", str(folder / "quality.csv")]
    heavy, light = json.loads(run(*scored, "--json").stdout)["gears"]
    assert (heavy["requests"], light["requests"], light["p95_s"]) == (40, 0, None)
    assert "0 (0 %)" in run(*scored).stdout


def test_plots_show_which_gear_served_when(folder: Path, tmp_path: Path) -> None:
    plan, page = str(geared(folder, tmp_path / "geared")), tmp_path / "sim.html"
    asked = ["simulate", plan, "--trace", str(folder / "trace.csv"), "--rate", "2"]
    asked += ["--quality-table", str(folder / "quality.csv"), "--plots", str(page)]
    assert run(*asked).exit_code == 0
    found, text = json.loads(run(*asked, "--json").stdout), page.read_text()
    assert f"The gear changed {found['switches']} time" in text
    assert all(chart in text for chart in ("Rate over the trace", "Requests in flight", ">Gear<"))
    assert "single setting" not in text


def test_without_scores_gears_are_not_played(folder: Path, tmp_path: Path) -> None:
    plan = str(geared(folder, tmp_path / "geared"))
    result = run("simulate", plan, "--trace", str(folder / "trace.csv"))
    assert "note: gears are not played: without a quality table" in " ".join(result.stderr.split())
    assert "the gear changed" not in result.stdout


def test_a_foresight_file_says_nothing_without_a_table(folder: Path) -> None:
    asked = ["simulate", str(folder / "plan"), "--trace", str(folder / "trace.csv"), "--foresight", "f.json"]
    result = run(*asked)
    assert result.exit_code == 2
    assert "--foresight goes with --quality-table" in result.stderr
    result = run(*asked, "--quality-table", str(folder / "quality.csv"))
    assert result.exit_code == 2
    assert "f.json: no such file" in result.stderr


def test_plots_are_one_page_that_needs_no_other_host(folder: Path) -> None:
    page = folder / "sim.html"
    result = run("simulate", str(folder / "plan"), "--trace", str(folder / "trace.csv"), "--plots", str(page))
    assert result.exit_code == 0, result.output
    assert "as planned" in result.stdout
    text = page.read_text()
    assert "SLO attainment" in text
    assert "Queues" in text
    assert "src=" not in text


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["simulate", "nowhere", "--trace", "t.csv"], "error: nowhere: no such file; check the path"),
        (["simulate", "{plan}", "--trace", "none.csv"], "error: none.csv: "),
        (["simulate", "{plan}", "--trace", "{trace}", "--rate", "0"], "error: "),
        (["simulate", "{plan}", "--trace", "{trace}", "--rate", "1e-9"], "error: --rate: spans "),
        (["compare", "none.yaml"], "error: none.yaml: no such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(folder: Path, args: list[str], line: str) -> None:
    known = {"plan": str(folder / "plan"), "trace": str(folder / "trace.csv")}
    result = run(*(a.format(**known) for a in args))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1
