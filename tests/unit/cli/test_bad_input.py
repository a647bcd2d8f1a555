"""Bad input ends in one line, exit code 2, and a folder as it was before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from cascadia.cli.main import main
from tests.unit.planner.specs import changed, valid_spec, write_inputs, write_spec

HEADER = "arrival_s,input_tokens,output_tokens"


def spec(document: dict[str, Any]) -> Callable[[Path], None]:
    return lambda folder: void(write_spec(folder, document))


def trace(*rows: str, header: str = HEADER) -> Callable[[Path], None]:
    return lambda folder: void((folder / "trace.csv").write_text("\n".join([header, *rows])))


def table(edit: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        lines = (folder / "quality.csv").read_text().splitlines()
        (folder / "quality.csv").write_text("\n".join(edit(lines)))

    return change


def truncated_parquet(folder: Path) -> None:
    columns = {"arrival_s": [0.0, 1.0], "input_tokens": [5, 5], "output_tokens": [5, 5]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "whole.parquet")
    content = (folder / "whole.parquet").read_bytes()
    (folder / "whole.parquet").unlink()
    (folder / "trace.parquet").write_bytes(content[: len(content) // 2])
    write_spec(folder, changed("workload.trace", "trace.parquet"))


def void(_: object) -> None:
    """For lambdas that act."""


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "an unknown key": (
        spec(changed("objective.quality_mim", 80)),
        "cascade.yaml: objective.quality_mim: unknown key; did you mean 'quality_min'?",
    ),
    "an unknown model": (
        spec(changed("stages.0.model", "meta-llama/Llama-3.1-8B-Instrukt")),
        "cascade.yaml: stages[0].model: unknown model 'meta-llama/Llama-3.1-8B-Instrukt'; did you"
        " mean meta-llama/Llama-3.1-8B-Instruct or meta-llama/Llama-3-8B-Instruct or "
        "meta-llama/Llama-3.1-70B-Instruct? (or give the path of its config.json)",
    ),
    "an unknown GPU": (
        spec(changed("cluster.pools.0.gpu", "h100-smx")),
        "cascade.yaml: cluster.pools[0].gpu: unknown GPU 'h100-smx'; did you mean h100-sxm or "
        "v100 or h200-sxm?",
    ),
    "zero GPUs": (
        spec(changed("cluster.pools.0.nodes", 0)),
        "cascade.yaml: cluster.pools[0].nodes: must be at least 1, is 0",
    ),
    "contradictory objectives": (
        spec(changed("objective.maximize", "quality")),
        "cascade.yaml: objective: minimize and maximize contradict each other; keep one of them",
    ),
    "an empty trace": (trace(), "trace.csv: it holds no requests; give a row below the header"),
    "an empty file": (
        trace(header=""),
        "trace.csv: the file is empty; give a trace with at least one request",
    ),
    "an unsorted trace": (
        trace("1,5,5", "0.5,5,5"),
        "trace.csv, row 2: the arrival time 0.5 s is before the previous one, 1 s; sort the rows "
        "by arrival time (cascadia trace convert --sort does)",
    ),
    "a negative time": (
        trace("-1,5,5", "0.5,5,5"),
        "trace.csv, row 1: the arrival time -1 s is negative; write seconds from 0 on",
    ),
    "a negative length": (
        trace("0,5,5", "0.5,-5,5"),
        "trace.csv, row 2: input_tokens is -5; write a whole number from 1 to 1,000,000,000",
    ),
    "NaN": (
        trace("0,5,5", "nan,5,5"),
        "trace.csv, row 2: the arrival time is NaN or missing; write seconds since the start of the trace",
    ),
    "a missing column": (
        trace("0,5", header="arrival_s,input_tokens"),
        "trace.csv: no column 'output_tokens'; the columns are arrival_s, input_tokens; "
        "a trace needs arrival_s, input_tokens, output_tokens",
    ),
    "requests all at once": (
        trace("1,5,5", "1,5,5"),
        "cascade.yaml: workload.trace: all requests arrive at once, so there is no rate to scale;"
        " give times that differ",
    ),
    "a rate near nothing": (
        spec(changed("workload.rate_rps", 1e-300)),
        "trace.csv: spans 4.63e+296 days at this rate, and at most 45 can be planned on; raise the rate",
    ),
    "a truncated Parquet": (
        truncated_parquet,
        "trace.parquet: truncated or broken Parquet (Parquet magic bytes not found in footer. "
        "Either the file is corrupted or this is not a parquet file.); write it anew",
    ),
    "a table that lacks a stage": (
        table(lambda lines: [line for line in lines if ",large," not in line]),
        "quality.csv: no row for stage 'large'; add its answers, or rename one of: 'medium', 'small'",
    ),
    "a score above 100": (
        table(lambda lines: [line.replace("p3,small,53", "p3,small,153") for line in lines]),
        "quality.csv row 10: score is 153; write a number from 0 to 100",
    ),
    "a score that is NaN": (
        table(lambda lines: [line.replace("p3,small,53", "p3,small,nan") for line in lines]),
        "quality.csv row 10: score is missing or not a number; write a number from 0 to 100",
    ),
    "a prompt that lacks a stage": (
        table(lambda lines: [line for line in lines if not line.startswith("p3,large")]),
        "quality.csv: prompt 'p3' has no row for stage 'large'; add the row or drop the prompt",
    ),
    "prompt ids that don't join": (
        trace("0,5,5,x", "1,5,5,y", header=HEADER + ",prompt_id"),
        "trace.csv: none of its 2 requests have a prompt_id that is in the quality table (request"
        " 1 has 'x'); give both files the same ids, or leave the column out to draw rows at "
        "random",
    ),
}


@pytest.mark.long(in_ci=7)
@pytest.mark.parametrize(("break_it", "line"), CASES.values(), ids=CASES.keys())
def test_a_spec_that_cannot_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, break_it: Callable[[Path], None], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    write_spec(tmp_path, valid_spec())
    break_it(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    result = CliRunner().invoke(main, ["plan", "cascade.yaml", "--out", "plan"])
    assert (result.exit_code, result.stderr) == (2, f"error: {line}\n")
    assert result.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_model_that_fits_no_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    write_spec(tmp_path, changed("cluster.pools.0", {"gpu": "l4", "nodes": 1, "gpus_per_node": 1}))
    result = CliRunner().invoke(main, ["plan", "cascade.yaml", "--out", "plan"])
    assert result.exit_code == 3
    assert result.stderr.startswith("infeasible: stages: medium: the model fits no shape on this cluster (")
    assert result.stderr.count("\n") == 1
    assert not Path("plan").exists()
