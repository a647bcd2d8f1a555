"""Whatever a spec says, of all that it may say, it is read, or refused in one line."""

from pathlib import Path
from random import Random

import pytest
import yaml

from cascadia.domain.errors import BadInput
from cascadia.planner.problem.read import read_problem
from cascadia.planner.search.context import find_shapes
from tests.unit.planner.spec.drawn_specs import SCHEMA, drawn
from tests.unit.planner.specs import changed, valid_spec, write_inputs, write_spec

SPECS = 100


def read(folder: Path, document: dict[str, object]) -> str:
    """Why it is refused; empty where it is not."""
    try:
        find_shapes(read_problem(write_spec(folder, document)))
    except BadInput as error:
        return str(error)
    return ""


def test_specs_drawn_from_the_whole_schema(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    refused = 0
    for seed in range(SPECS):
        random = Random(seed)
        document = drawn(random, valid_spec(), random.choice([1, 1, 2, 3, 5]))
        why = read(tmp_path, document)
        assert "\n" not in why, yaml.safe_dump(document)
        assert len(why) < 1_000
        refused += bool(why)
    assert 0 < refused < SPECS


def test_the_schema_has_keys_that_the_valid_spec_has_not() -> None:
    assert set(valid_spec()) < set(SCHEMA["properties"])


@pytest.mark.parametrize(
    "path", ["stages.0.model", "judge.model", "workload.trace", "quality.table", "stages.0.calibration"]
)
@pytest.mark.parametrize(
    "name", ["é" * 200, "é" * 200 + ".csv", "~nobody-here/x.csv", "./" + "x" * 300 + ".json"]
)
def test_names_that_no_file_can_have(path: str, name: str, tmp_path: Path) -> None:
    write_inputs(tmp_path)
    assert read(tmp_path, changed(path, name))


@pytest.mark.parametrize("part", ["judge", "stages.0"])
@pytest.mark.parametrize(("key", "value"), [("max_num_batched_tokens", 255), ("max_num_seqs", 8193)])
def test_an_engine_with_less_tokens_an_iteration_than_sequences(
    part: str, key: str, value: int, tmp_path: Path
) -> None:
    """vLLM does not start so, and what cannot be simulated is told before planning."""
    write_inputs(tmp_path)
    assert "is below max_num_seqs" in read(tmp_path, changed(f"{part}.{key}", value))
