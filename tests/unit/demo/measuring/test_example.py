"""What the demo plans from: a spec that reads without a remark, and a table worth a cascade."""

from pathlib import Path

import numpy as np
import pytest

from cascadia.demo.api import (
    REQUESTS_PER_MINUTE,
    USD_PER_CORE_HOUR,
    USD_PER_MILLION_INPUT_TOKENS,
    USD_PER_MILLION_OUTPUT_TOKENS,
)
from cascadia.demo.example import QUALITY_MIN, Api, accuracy_alone, example_files, write_example
from cascadia.demo.measuring.rows import prompt_id
from cascadia.demo.questions.questions import demo_questions
from cascadia.demo.stages import CORES, KEY_ENV, STAGES
from cascadia.domain.problem import Problem
from cascadia.planner.problem.quality_file import read_quality
from cascadia.planner.problem.read import read_problem
from cascadia_sim.calibration.catalogue import find_calibration
from cascadia_sim.calibration.file import write_calibration
from cascadia_sim.hardware.catalogue import gpu


def written(place: Path, api: Api | None = None) -> Path:
    measured = {stage.name: place / f"measured-{stage.name}.json" for stage in STAGES}
    for stage in STAGES:
        write_calibration(find_calibration(gpu("cpu"), "llama.cpp", stage.quantization), measured[stage.name])
    write_example(place, measured, {stage.catalogue_name: place for stage in STAGES}, 1.5, api)
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="module")
def problem(folder: Path) -> Problem:
    return read_problem(folder / "cascade.yaml")


def test_its_files_are_all_there(folder: Path) -> None:
    assert set(example_files()) <= {path.name for path in folder.iterdir()}


def test_it_is_read_without_a_remark_and_for_as_many_cores_as_it_starts(problem: Problem) -> None:
    assert problem.notes == ()
    assert sum(pool.gpus for pool in problem.cluster.pools) == CORES


def test_with_an_api_a_core_and_its_tokens_have_prices_and_its_times_and_its_key_are_its_own(
    tmp_path: Path,
) -> None:
    times = [(0.1 * each, 0.02) for each in range(1, 12)]
    api = Api("http://127.0.0.1:8123", times)
    place = written(tmp_path, api)
    assert set(example_files(api)) <= {path.name for path in place.iterdir()}
    found = read_problem(place / "cascade.yaml")
    assert found.notes == ()
    large = found.stages[1].external
    assert large is not None
    assert (large.base_url, large.requests_per_minute) == (api.url, REQUESTS_PER_MINUTE)
    assert large.api_key_env == KEY_ENV
    assert large.ttft_p50_s == pytest.approx(0.6)
    assert large.usd(1e6, 1e6) == USD_PER_MILLION_INPUT_TOKENS + USD_PER_MILLION_OUTPUT_TOKENS
    assert found.objective.goal == "cost"
    (pool,) = found.cluster.pools
    assert (pool.gpus, pool.usd_per_gpu_hour) == (1, USD_PER_CORE_HOUR)


def test_the_bar_lies_between_the_two_models() -> None:
    alone = accuracy_alone()
    assert alone["small"] < QUALITY_MIN / 100 < alone["large"]


def test_none_of_the_questions_asked_is_in_the_table(folder: Path) -> None:
    table = read_quality(folder / "quality.parquet", ("small", "large"))
    assert len(table) >= 200
    assert not set(table.prompt_ids) & {prompt_id(question) for question in demo_questions()}


def test_the_judges_scores_tell_right_answers_from_wrong_ones(folder: Path) -> None:
    """Area under the curve, of folds that did not see the row."""
    table = read_quality(folder / "quality.parquet", ("small", "large"))
    right, wrong = (table.score[0][(table.quality[0] > 50) == kind] for kind in (True, False))
    auc = np.mean((right[:, None] > wrong) + 0.5 * (right[:, None] == wrong))
    assert auc > 0.75
