"""The plan in a terminal."""

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from cascadia.domain.plan import Plan
from cascadia.report.numbers import seconds
from cascadia.report.text import LEFT_OUT_BELOW, plan_summary
from tests.unit.report import plans
from tests.unit.report.sample import sample_plan


def printed(plan: Plan, width: int, *, colour: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=colour, legacy_windows=False)
    console.print(plan_summary(plan))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_sample_plan_at_80_columns() -> None:
    lines = [line.rstrip() for line in printed(sample_plan(), 80).splitlines()]
    assert lines[0] == "30 H100 GPUs serve 10 requests/s at quality ≥ 85 with p95 14.6 s"
    assert lines[2].split() == ["stage", "replicas", "GPUs", "reached", "accepted", "score", "p95", "load"]
    row = next(line for line in lines if line.startswith("medium"))
    assert " ".join(row.split()) == "medium 2 × TP4 8 37.9 % 24.6 % any, 9.94 s 73 %"
    assert any(line.startswith("proof    Cheapest within 3 % of the fastest of") for line in lines)
    assert any(
        line.startswith("load     carries 1.4× this rate: the trace 8 times end to end") for line in lines
    )


def test_a_plan_of_an_older_version_shows_no_load_and_claims_no_headroom() -> None:
    plan = sample_plan()
    stages = tuple(replace(s, load=None) for s in plan.predicted.stages)
    older = replace(plan, stability=None, headroom=None, predicted=replace(plan.predicted, stages=stages))
    text = printed(older, 80)
    assert "carries" not in text
    assert "99.7 %" not in text


def test_headroom_says_where_it_leaves_bounds_on_latency_aside() -> None:
    plan = sample_plan()
    bounded = replace(plan, objective=replace(plan.objective, latency_max_s=20.0))
    text = " ".join(printed(bounded, 80).split())
    assert "carries 1.4× this rate, its bounds on latency aside: the trace" in text


def test_a_plan_that_carries_hardly_more_names_no_factor() -> None:
    text = " ".join(printed(replace(sample_plan(), headroom=1.02), 80).split())
    assert "carries this rate and hardly more" in text


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("make", [sample_plan, *plans.EDGES])
def test_no_line_is_wider_than_the_terminal(make: Callable[[], Plan], width: int) -> None:
    text = printed(make(), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert " load" in text
    assert "81 %" in text
    assert all(stage.name in text for stage in make().stages)


def test_full_model_names_are_shown_where_there_is_room() -> None:
    assert "Llama-3.1-405B-Instruct" in printed(sample_plan(), 120)


def test_it_is_plain_when_piped_and_coloured_on_a_terminal() -> None:
    assert "\x1b" not in printed(sample_plan(), 80)
    assert "\x1b" in printed(sample_plan(), 80, colour=True)


def test_names_cannot_steer_the_terminal_or_the_markup() -> None:
    text = printed(plans.hostile("\x1b[2J[red]x[/red]"), 200)
    assert "\x1b" not in text
    assert "[red]" in text


@pytest.mark.parametrize("width", [44, 50, 56, 64, 71, 72, 80, 120])
def test_a_stage_keeps_its_name_and_each_column_its_figures_on_any_terminal(width: int) -> None:
    plan = sample_plan()
    lines = printed(plan, width).splitlines()
    assert max(len(line) for line in lines) <= width
    assert all(any(line.startswith(stage.name) for line in lines) for stage in plan.stages)
    head = next(line.split() for line in lines if line.startswith("stage"))
    columns = ("stage", "replicas", "GPUs", "reached", "accepted", "score", "p95", "load")
    assert head == [name for name in columns if width >= LEFT_OUT_BELOW.get(name, 0)]
    for stage, told in zip(plan.stages, plan.predicted.stages, strict=True):
        row = next(line for line in lines if line.startswith(stage.name))
        assert seconds(told.latency.p95_s) in row


def test_cores_are_called_cores() -> None:
    plan = sample_plan()
    cluster = replace(plan.cluster, pools=tuple(replace(pool, gpu="cpu") for pool in plan.cluster.pools))
    head = next(
        line for line in printed(replace(plan, cluster=cluster), 80).splitlines() if line.startswith("stage")
    )
    assert head.split()[2] == "cores"
