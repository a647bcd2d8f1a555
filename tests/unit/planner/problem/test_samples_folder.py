"""A workload log of several versions of routers is put together."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from cascadia.domain.errors import BadInput
from cascadia.planner.problem.samples_folder import read_samples


def write(folder: Path, name: str, **columns: Any) -> None:
    parquet.write_table(pa.table(columns), folder / name)


def looks(prompt: str, **more: Any) -> dict[str, Any]:
    told = {"score": [40.0, 80.0], "input_tokens": [5, 5], "output_tokens": [6, 7], "at_s": [1.0, 2.0]}
    return {"prompt_id": [prompt] * 2, "stage": ["small", "large"], **told, **more}


def test_evaluations_of_versions_with_other_types_are_one_table(tmp_path: Path) -> None:
    write(tmp_path, "requests-a.parquet", arrival_s=[1.0], input_tokens=[5], output_tokens=[6])
    write(tmp_path, "quality-a.parquet", **looks("p"))
    write(tmp_path, "quality-b.parquet", **looks("q", score=[40, 80], at_s=[3, 4]))
    write(tmp_path, "quality-c.parquet", **looks("r", at_s=pa.nulls(2)))
    found = read_samples(tmp_path)
    assert found.quality is not None
    assert found.quality.prompt_ids == ("p", "q")
    write(tmp_path, "quality-d.parquet", **looks("s", score=["good", "bad"]))
    with pytest.raises(BadInput, match="quality-d"):
        read_samples(tmp_path)
