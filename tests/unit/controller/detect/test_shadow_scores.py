"""Second evaluations in the workload log are counted and become a quality table."""

from pathlib import Path
from typing import Any

from pyarrow import parquet

from cascadia.controller.detect.shadow_scores import KEPT_S, ShadowFiles
from cascadia.planner.problem.quality_file import read_quality
from cascadia.router.observers.samples_rows import QUALITY, Row, schema_of
from tests.unit.controller.detect.test_samples_file import write

STAGES = ("small", "large")


def look(prompt: str, stage: str, at_s: float) -> Row:
    row: dict[str, Any] = dict.fromkeys(schema_of(QUALITY, text=False).names)
    return row | {
        "prompt_id": prompt, "stage": stage, "score": 50.0, "at_s": at_s, "input_tokens": 5, "output_tokens": 7,
    }  # fmt: skip


def whole(*prompts: str, at_s: float = 10.0) -> list[Row]:
    return [look(prompt, stage, at_s) for prompt in prompts for stage in STAGES]


def test_a_routers_clock_that_jumped_ahead_makes_nothing_else_old(tmp_path: Path) -> None:
    write(tmp_path, "a", QUALITY, *whole("p"), *whole("ahead", at_s=1e9), *whole("never", at_s=float("nan")))
    assert ShadowFiles(tmp_path, STAGES, clock=lambda: 100.0).count(5.0) == 1


def test_questions_that_went_through_all_stages_since_become_a_quality_table(tmp_path: Path) -> None:
    write(tmp_path, "a", QUALITY, *whole("p", "q"), *whole("old", at_s=1.0), look("half", "small", 10.0))
    evaluations = ShadowFiles(tmp_path, STAGES)
    assert evaluations.count(5.0) == 2
    evaluations.write(5.0, tmp_path / "table.parquet")
    assert read_quality(tmp_path / "table.parquet", STAGES).prompt_ids == ("p", "q")


def test_they_say_in_which_gear_the_client_was_answered_and_how_hard_the_question_is(tmp_path: Path) -> None:
    easy = [
        row | {"gear": 0, "score": score}
        for row, score in zip(whole("p", at_s=12.0), (80.0, 90.0), strict=True)
    ]
    hard = [row | {"gear": 2, "score": 40.0} for row in whole("q", at_s=11.0)]
    write(tmp_path, "a", QUALITY, *easy, *hard, *whole("no gear"))
    gear, score = ShadowFiles(tmp_path, STAGES).by_gear(5.0)
    assert (gear.tolist(), score.tolist()) == ([2, 0], [40.0, 85.0])


def test_a_log_of_before_tells_no_gears(tmp_path: Path) -> None:
    write(tmp_path, "a", QUALITY, *whole("p"))
    (file,) = tmp_path.glob("quality-*.parquet")
    parquet.write_table(parquet.read_table(file).drop_columns(["gear"]), file)
    evaluations = ShadowFiles(tmp_path, STAGES)
    assert evaluations.count(5.0) == 1
    assert len(evaluations.by_gear(5.0)[0]) == 0


def test_a_look_may_be_spread_over_two_files_and_a_damaged_file_is_skipped(tmp_path: Path) -> None:
    evaluations = ShadowFiles(tmp_path, STAGES)
    write(tmp_path, "a", QUALITY, look("p", "small", 10.0))
    (tmp_path / "quality-b.parquet").write_bytes(b"PAR1 and no more")
    assert evaluations.count(0.0) == 0
    write(tmp_path, "c", QUALITY, look("p", "large", 11.0))
    assert evaluations.count(0.0) == 1


def test_old_looks_are_forgotten_and_those_whose_file_has_gone_are_not(tmp_path: Path) -> None:
    evaluations = ShadowFiles(tmp_path, STAGES)
    write(tmp_path, "a", QUALITY, *whole("p"))
    assert evaluations.count(0.0) == 1
    (tmp_path / "quality-a.parquet").unlink()
    assert evaluations.count(0.0) == 1
    write(tmp_path, "b", QUALITY, *whole("q", at_s=10.0 + KEPT_S))
    assert evaluations.count(0.0) == 2
    write(tmp_path, "c", QUALITY, *whole("r", at_s=11.0 + KEPT_S))
    assert evaluations.count(0.0) == 2


def test_a_file_of_a_version_that_tells_less_is_left_out_and_named_once(tmp_path: Path) -> None:
    said: list[str] = []
    evaluations = ShadowFiles(tmp_path, STAGES, tell=said.append)
    write(tmp_path, "a", QUALITY, *whole("p"))
    (file,) = tmp_path.glob("quality-*.parquet")
    parquet.write_table(parquet.read_table(file).drop_columns(["score"]), file)
    write(tmp_path, "b", QUALITY, *whole("q"))
    assert [evaluations.count(5.0) for _ in range(2)] == [1, 1]
    (line,) = said
    assert str(file) in line
