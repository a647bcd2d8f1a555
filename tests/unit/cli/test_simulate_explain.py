"""`cascadia simulate --explain` on a small cascade: where an iteration's time goes, and what would change it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.commands import run


def explained(folder: Path, *args: str) -> list[dict[str, Any]]:
    result = run("simulate", str(folder / "plan"), "--explain", "--json", *args)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    found: list[dict[str, Any]] = document["explained"]
    return found


def seconds_of(group: dict[str, Any]) -> dict[str, float]:
    return {part["term"]: part["seconds"] for part in group["here"]["parts"]}


def test_every_group_of_replicas_is_explained_by_parts_that_sum_to_its_iteration(folder: Path) -> None:
    plan = json.loads((folder / "plan" / "plan.json").read_text())
    groups = [g for s in plan["stages"] for g in s["replicas"]] + plan["judge"]["replicas"]
    found = explained(folder)
    assert [(e["here"]["tp"], e["here"]["pp"], e["count"]) for e in found] == [
        (g["tp"], g["pp"], g["count"]) for g in groups
    ]
    for e in found:
        shapes = [e["here"], *(other for other in e["others"] if "why_not" not in other)]
        for shape in shapes:
            assert sum(part["seconds"] for part in shape["parts"]) == pytest.approx(shape["iteration_s"])
            assert sum(part["share"] for part in shape["parts"]) == pytest.approx(1.0)
            assert shape["tokens_per_s_per_gpu"] * shape["gpus"] == pytest.approx(shape["tokens_per_s"])


def test_a_batch_that_is_asked_for_is_the_one_explained(folder: Path) -> None:
    for e in explained(folder, "--batch", "7", "--context", "900", "--prefill", "50"):
        del e["batch"]["in_flight"]
        assert e["batch"] == {"decoding": 7, "context_tokens": 900, "prefill_tokens": 50}


def test_more_context_is_only_read_for_longer(folder: Path) -> None:
    short, long = (explained(folder, "--batch", "4", "--context", c)[0] for c in ("500", "1000"))
    a, b = seconds_of(short), seconds_of(long)
    assert {term for term in a if a[term] != b[term]} == {"KV reading"}
    assert b["KV reading"] == pytest.approx(2 * a["KV reading"])


def test_with_a_trace_the_batch_is_that_of_the_replay(folder: Path) -> None:
    trace = str(folder / "trace.csv")
    slow, fast = (explained(folder, "--trace", trace, "--rate", rate)[0] for rate in ("0.01", "500"))
    assert slow["batch"]["decoding"] == 1
    assert fast["batch"]["decoding"] > slow["batch"]["decoding"]
    assert fast["batch"]["context_tokens"] == slow["batch"]["context_tokens"]


def test_people_get_terms_with_bars_and_shapes_with_gpus(folder: Path) -> None:
    result = run("simulate", str(folder / "plan"), "--explain")
    assert result.exit_code == 0, result.output
    assert "fixed per iteration" in result.stdout
    assert "█" in result.stdout
    assert "tokens/s/GPU" in result.stdout


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ((), "give --trace, or --explain"),
        (("--batch", "4"), "go with --explain"),
        (("--explain", "--plots", "plots.html"), "not with --explain"),
        (("--explain", "--batch", "0"), "nothing to do"),
        (("--explain", "--batch", "1000000"), "max_num_seqs"),
        (("--explain", "--batch", "1", "--prefill", "1000000"), "max_num_batched_tokens"),
        (("--explain", "--batch", "-1"), "--batch"),
        (("--explain", "--context", "0"), "--context"),
    ],
)
def test_what_cannot_be_explained_is_one_line(folder: Path, args: tuple[str, ...], what: str) -> None:
    result = run("simulate", str(folder / "plan"), *args)
    assert result.exit_code == 2
    assert what in result.stderr
    assert len(result.stderr.splitlines()) == 1
