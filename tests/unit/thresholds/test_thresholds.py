"""Thresholds are proposed with what they are worth, approved into the file, and put back; each step leaves a line."""

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cascadia.cli.thresholds.group import _saved
from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.quality_file import write_quality
from cascadia.router.settings.file import read_settings
from cascadia.thresholds import audit
from cascadia.thresholds.outcome import Estimate, estimate, largest_alone, outcome
from tests.unit.cli.commands import run
from tests.unit.cli.test_main import CASCADIA
from tests.unit.controller.test_local_process import until

PROMPTS = 400
ROUTER = """# Ours.
cost_unit: usd-per-million-tokens
stages:
  - {name: small, threshold: 95, cost: 1, replicas: [{url: "http://h:1"}]}   # strict at first
  - {name: large, cost: 10, replicas: [{url: "http://h:2"}]}
judge: {kind: llm, model: j, replicas: [{url: "http://h:3"}]}
"""


def table() -> QualityTable:
    """The small model is right where its score is 40 or more; the large one nearly always."""
    score = np.vstack([np.arange(PROMPTS) % 100, np.full(PROMPTS, 90.0)])
    right = np.vstack([np.where(score[0] >= 40, 100.0, 0.0), np.where(np.arange(PROMPTS) % 50, 100.0, 0.0)])
    tokens = np.full((2, PROMPTS), 500.0)
    names = tuple(f"q{at}" for at in range(PROMPTS))
    return QualityTable(
        names, ("small", "large"), score, quality=right, input_tokens=tokens, output_tokens=tokens
    )


@pytest.fixture
def router(tmp_path: Path) -> Path:
    write_quality(table(), tmp_path / "q.parquet")
    (tmp_path / "router.yaml").write_text(ROUTER)
    return tmp_path / "router.yaml"


def proposed(router: Path, *more: str) -> dict[str, object]:
    asked = [
        "--quality-table",
        str(router.parent / "q.parquet"),
        "--quality-min",
        "90",
        "--by",
        "ann",
        "--json",
    ]
    done = run("thresholds", "propose", str(router), *asked, *more)
    assert done.exit_code == 0, done.output
    document: dict[str, object] = json.loads(done.stdout)
    return document


def test_an_outcome_is_paid_for_stage_by_stage() -> None:
    small = QualityTable(
        ("a", "b"),
        ("s", "l"),
        np.array([[80.0, 20.0], [50.0, 50.0]]),
        quality=np.array([[70.0, 10.0], [90.0, 100.0]]),
        input_tokens=np.array([[10.0, 10.0], [10.0, 20.0]]),
        output_tokens=np.array([[5.0, 5.0], [5.0, 30.0]]),
    )
    found = outcome(small, [60.0], [(1.0, 1.0), (2.0, 3.0)])
    assert found.cost.tolist() == [15.0, 15.0 + 130.0]
    assert found.quality.tolist() == [70.0, 100.0]
    assert found.answered.tolist() == [0.5, 0.5]
    assert largest_alone(small, [(1.0, 1.0), (2.0, 3.0)]).cost.tolist() == [35.0, 130.0]


def test_an_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    found = [estimate(rng.exponential(size=200)) for _ in range(400)]
    assert 0.91 <= np.mean([abs(each.mean - 1.0) <= each.margin for each in found]) <= 0.98


def test_a_proposal_is_cheaper_and_holds_its_quality(router: Path) -> None:
    expected = proposed(router)["expected"]
    assert isinstance(expected, dict)
    level = expected["proposed"]["thresholds"]["small"]
    # At 40 quality is 99.2; the bar of 90 is held with fewer escalations, and not below 30.
    assert 30 < level <= 40
    assert expected["lower"] >= 90
    mean, margin = expected["saved"]
    assert mean - margin > 0
    now, then = expected["now"]["cost"][0], expected["proposed"]["cost"][0]
    assert mean == pytest.approx(now - then)
    assert router.read_text() == ROUTER


def test_prices_of_what_is_read_and_what_is_written_are_those_of_each(router: Path) -> None:
    before = proposed(router)
    api = "usd_per_million_input_tokens: 4, usd_per_million_output_tokens: 16"
    router.write_text(
        ROUTER.replace("cost_unit: usd-per-million-tokens\n", "")
        .replace("cost: 10", api)
        .replace("cost: 1,", "usd_per_million_input_tokens: 1, usd_per_million_output_tokens: 1,")
    )
    # As many tokens are read as written: $4 and $16 are $10 for each.
    of_each_time = {"id": "", "at": ""}
    assert proposed(router) | of_each_time == before | of_each_time


def test_an_approval_changes_the_threshold_alone_and_a_rollback_puts_it_back(router: Path) -> None:
    proposed(router)
    assert run("thresholds", "approve", str(router), "--by", "bob").exit_code == 0
    changed = router.read_text()
    level = read_settings(router).stages[0].threshold
    assert level <= 40
    assert changed == ROUTER.replace("threshold: 95", f"threshold: {level:g}")
    assert run("thresholds", "rollback", str(router), "--by", "bob").exit_code == 0
    assert router.read_text() == ROUTER
    assert run("thresholds", "rollback", str(router)).exit_code == 2
    lines = [
        json.loads(line) for line in (router.parent / "router.yaml.audit.jsonl").read_text().splitlines()
    ]
    assert [(line["what"], line["by"]) for line in lines] == [
        ("proposed", "ann"),
        ("approved", "bob"),
        ("rolled back", "bob"),
    ]
    shown = run("thresholds", "log", str(router))
    assert len(shown.stdout.splitlines()) == 3


def test_a_proposal_for_other_thresholds_than_today_s_is_refused(router: Path) -> None:
    proposed(router)
    router.write_text(ROUTER.replace("threshold: 95", "threshold: 80"))
    refused = run("thresholds", "approve", str(router))
    assert refused.exit_code == 2
    assert "not those of the proposal; propose anew" in refused.stderr


def test_a_rollback_throws_no_later_change_away(router: Path) -> None:
    proposed(router)
    assert run("thresholds", "approve", str(router)).exit_code == 0
    router.write_text(ROUTER.replace("threshold: 95", "threshold: 77"))
    refused = run("thresholds", "rollback", str(router))
    assert refused.exit_code == 2
    assert "its thresholds (small 77) are not those of the approval; write small 95 by hand" in refused.stderr
    assert read_settings(router).stages[0].threshold == 77


def test_a_link_stays_one_and_what_it_points_to_is_changed_and_recorded(router: Path, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    link = tmp_path / "etc" / "linked.yaml"
    link.symlink_to(router)
    asked = ["--quality-table", str(router.parent / "q.parquet"), "--quality-min", "90"]
    assert run("thresholds", "propose", str(link), *asked).exit_code == 0
    assert run("thresholds", "approve", str(link)).exit_code == 0
    assert link.is_symlink()
    assert read_settings(router).stages[0].threshold <= 40
    assert [path.name for path in link.parent.iterdir()] == ["linked.yaml"]
    assert run("thresholds", "rollback", str(router)).exit_code == 0
    assert router.read_text() == ROUTER


def test_one_of_several_approvals_at_once_is_made(router: Path) -> None:
    proposed(router)
    command = [*CASCADIA, "thresholds", "approve", str(router)]
    with audit.held(router):
        started = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
        waiting = f"-> FLOCK .*:{audit.audit_file(router).stat().st_ino} "
        asyncio.run(until(lambda: len(re.findall(waiting, Path("/proc/locks").read_text())) == 2))
    assert sorted(one.wait(timeout=300) for one in started) == [0, 2]
    assert run("thresholds", "log", str(router)).stdout.count("approved") == 1


@pytest.mark.parametrize("command", ["propose", "approve", "rollback"])
def test_thresholds_that_a_fleet_would_put_back_are_not_changed(router: Path, command: str) -> None:
    proposed(router)
    assert run("thresholds", "approve", str(router)).exit_code == 0
    router.write_text(f"{router.read_text()}revision: a1b2\n")
    before = router.read_text()
    asked = ["--quality-table", str(router.parent / "q.parquet"), "--quality-min", "90"]
    refused = run("thresholds", command, str(router), *(asked if command == "propose" else ()))
    assert refused.exit_code == 2
    assert "is written by its fleet" in refused.stderr
    assert router.read_text() == before
    assert len(run("thresholds", "log", str(router)).stdout.splitlines()) == 2


def test_nothing_is_proposed_where_it_cannot_be_recorded(router: Path) -> None:
    (router.parent / "router.yaml.audit.jsonl").symlink_to(router.parent / "gone" / "away.jsonl")
    asked = ["--quality-table", str(router.parent / "q.parquet"), "--quality-min", "90"]
    refused = run("thresholds", "propose", str(router), *asked)
    assert refused.exit_code == 2
    assert "router.yaml.audit.jsonl: cannot be written (No such file or directory)" in refused.stderr


@pytest.mark.parametrize(
    ("change", "said", "code"),
    [
        (("cost: 10, ", ""), "no price of large", 2),
        (("judge:", "mixture: {share: 0.5, thresholds: {small: 1}}\njudge:"), "of gears or of a mixture", 2),
        (("name: large", "name: huge"), "no row for stage 'huge'", 2),
    ],
)
def test_a_router_that_cannot_be_proposed_for_is_told(
    change: tuple[str, str], said: str, code: int, router: Path
) -> None:
    router.write_text(ROUTER.replace(*change))
    asked = ["--quality-table", str(router.parent / "q.parquet"), "--quality-min", "90"]
    refused = run("thresholds", "propose", str(router), *asked)
    assert refused.exit_code == code
    assert said in refused.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [(("--quality-min", "0.9"), "did you mean 90?"), (("--confidence", "95"), "--confidence: is 95")],
)
def test_a_fraction_for_a_bar_and_percent_for_a_share_are_refused(
    more: tuple[str, str], said: str, router: Path
) -> None:
    asked = ["--quality-table", str(router.parent / "q.parquet"), "--quality-min", "90", *more]
    refused = run("thresholds", "propose", str(router), *asked)
    assert refused.exit_code == 2
    assert said in refused.stderr


def test_a_bar_beyond_reach_names_the_nearest(router: Path) -> None:
    asked = ["--quality-table", str(router.parent / "q.parquet"), "--quality-min", "99.9"]
    refused = run("thresholds", "propose", str(router), *asked)
    assert refused.exit_code == 3
    assert "lower --quality-min to that" in refused.stderr
    assert not (router.parent / "router.yaml.audit.jsonl").exists()


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"42",
        b"[" * 100_000,
        b'{"at": "t", "what": "approved", "id": "1", "by": "ann", "before": {"small": "x"}, "after": {}}',
        b'{"at": "t", "what": "proposed", "id": "1", "by": "ann", "expected": null}',
    ],
)
@pytest.mark.parametrize("command", ["log", "approve", "rollback"])
def test_a_torn_audit_file_is_told_by_its_line(router: Path, command: str, line: bytes) -> None:
    (router.parent / "router.yaml.audit.jsonl").write_bytes(line + b"\n")
    found = run("thresholds", command, str(router))
    assert found.exit_code == 2
    assert "router.yaml.audit.jsonl line 1: is not JSON, or of no such file; mend it by hand" in found.stderr
    assert router.read_text() == ROUTER


def test_a_log_of_what_is_no_router_s_file_is_refused(router: Path) -> None:
    (router.parent / "other.yaml").write_text("42\n")
    for name, told in (
        ("other.yaml", "must be a mapping, is 42; is this the right file?"),
        ("", "is no file"),
    ):
        found = run("thresholds", "log", str(router.parent / name) if name else "")
        assert (found.exit_code, told in found.stderr) == (2, True)


def test_who_proposes_has_a_number_where_the_system_knows_no_name(
    router: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container: `docker run --user 12345`."""

    def none() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    proposed(router)
    monkeypatch.setattr("getpass.getuser", none)
    assert run("thresholds", "approve", str(router)).exit_code == 0
    assert json.loads(run("thresholds", "log", str(router), "--json").stdout)["entries"][1]["by"] == str(
        os.getuid()
    )


@pytest.mark.parametrize(
    ("mean", "told"),
    [(0.25, "saves $0.25 ± 0.01"), (0.0, "saves $0 ± 0.01"), (-0.25, "costs $0.25 ± 0.01 more")],
)
def test_what_saves_less_than_nothing_costs_more(mean: float, told: str) -> None:
    assert _saved(Estimate(mean, 0.01), "$") == told
