"""What of a plan the router of this machine is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.controller.local.desired import local_plan
from cascadia.controller.local.engines_file import read_local
from cascadia.controller.local.launch import check_programs, launch_of
from cascadia.domain.errors import BadInput
from cascadia.domain.gear import Gear
from cascadia.domain.plan import LatencyLine, Plan
from cascadia_sim.iteration.engine_config import LLAMA_CPP, EngineConfig
from tests.unit.controller.machine import local, two_stages


def test_the_router_skips_whom_the_plan_says_and_another_rule_is_another_routing(tmp_path: Path) -> None:
    plan = two_stages(1, 1)
    judged = local(tmp_path)
    judged = judged.model_copy(
        update={
            "router": {**judged.router, "judge": {"kind": "embedding", "replicas": [{"url": "http://h:1"}]}}
        }
    )
    embedding = replace(plan, judge=replace(plan.judge, kind="embedding"))
    skipping = local_plan(replace(embedding, skip_below=(22.0,)), judged)
    asking = local_plan(replace(embedding, skip_below=(0.0,)), judged)
    assert [stage.get("skip_below") for stage in skipping.router["stages"]] == [22.0, None]
    assert all("skip_below" not in stage for stage in asking.router["stages"])
    assert skipping.routing != asking.routing


def test_replicas_begin_to_learn_where_their_plan_says(tmp_path: Path) -> None:
    plan = two_stages(1, 1)
    line = LatencyLine(0.1, 0.001, 0.02, 0.0001)
    small, large = plan.stages
    learnt = replace(small, balancing="earliest-finish", replicas=(replace(small.replicas[0], latency=line),))
    found = local_plan(replace(plan, stages=(learnt, large)), local(tmp_path))
    launches = {kind.stage: launch for kind, launch in found.launches.items()}
    group = learnt.replicas[0]
    assert launches[small.name].learns == {
        "kind": f"{group.pool} TP=1 PP=1",
        "latency": {"base_s": 0.1, "read_s": 0.001, "step_s": 0.02, "load_s": 0.0001},
    }
    assert launches[large.name].learns == {}
    assert launch_of(launches[small.name].document) == launches[small.name]


def test_the_router_is_told_what_gears_were_planned_for_however_many_replicas_there_are(
    tmp_path: Path,
) -> None:
    plan = two_stages(2, 1)
    light, heavy = (Gear(at, None, ("small", "large"), (50.0,)) for at in (None, 20.0))
    geared = local_plan(replace(plan, gears=(heavy, light)), local(tmp_path))
    rates = {stage.name: stage.rate_rps for stage in plan.predicted.stages}
    assert {stage["name"]: stage["planned_share"] for stage in geared.router["stages"]} == pytest.approx(
        rates
    )
    shares = {kind.stage: launch.capacity_rps for kind, launch in geared.launches.items()}
    assert 2 * shares["small"] == pytest.approx(rates["small"])
    assert all("planned_share" not in stage for stage in local_plan(plan, local(tmp_path)).router["stages"])


def test_a_probe_that_nobody_would_start_is_refused_and_ones_own_commands_may_start_it(
    tmp_path: Path,
) -> None:
    """Engines without a probe in front of them would fail every verdict, one by one."""
    plan = two_stages(1, 1)
    probing = replace(plan, judge=replace(plan.judge, kind="probe", model=str(tmp_path / "probe.json")))
    told = local(tmp_path)
    with pytest.raises(BadInput, match="nothing says that the command of small starts one; write router: "):
        local_plan(probing, told)
    given = told.model_copy(update={"router": {**told.router, "judge": {"kind": "probe"}}})
    assert local_plan(probing, given).router["judge"] == {"kind": "probe"}
    planned = given.model_copy(update={"stages": {"large": told.stages["large"]}})
    with pytest.raises(BadInput, match=r"probe\.json: no such file; train it with"):
        local_plan(probing, planned)
    with pytest.raises(BadInput, match="nothing says what probe reads the states of small; write judge: "):
        local_plan(plan, planned)
    three = on_llama(probing, "middle")
    with pytest.raises(BadInput, match="the states of one model, and small and middle are gated"):
        local_plan(three, planned)


def on_llama(plan: Plan, *more: str) -> Plan:
    """All stages on llama.cpp, and `more` of them before the last."""
    config = EngineConfig(engine=LLAMA_CPP, max_model_len=1024)
    small, large = (
        replace(stage, engine=LLAMA_CPP, weights="/m/a.gguf", config=config, max_model_len=1024)
        for stage in plan.stages
    )
    between = [replace(small, name=name) for name in more]
    return replace(plan, stages=(small, *between, large), thresholds=(50.0,) * (1 + len(more)))


def test_engines_of_the_gated_stage_are_started_behind_the_plans_probe(tmp_path: Path) -> None:
    (tmp_path / "probe.json").write_text("{}")
    probe = str(tmp_path / "probe.json")
    plan = on_llama(two_stages(1, 1))
    bare = local_plan(replace(plan, judge=replace(plan.judge, kind="certainty")))
    found = local_plan(replace(plan, judge=replace(plan.judge, kind="probe", model=probe)))
    assert found.router["judge"] == {"kind": "probe"}
    small, probed = ({k.stage: la for k, la in each.launches.items()}["small"] for each in (bare, found))
    ours, engine = probed.argv[: probed.argv.index("--")], probed.argv[probed.argv.index("--") + 1 :]
    assert ours[-6:] == ("judge", "serve", probe, "--port", "{port}", "--quiet")
    flags = list(small.argv)
    for name in ("--host", "--port"):
        at = flags.index(name)
        del flags[at : at + 2]
    assert list(engine) == flags
    last = [{k.stage: la for k, la in each.launches.items()}["large"] for each in (bare, found)]
    assert last[0] == last[1]
    assert probed.kind != small.kind


def test_a_program_that_is_not_there_is_told_before_any_replica_starts(tmp_path: Path) -> None:
    launches = local_plan(two_stages(1, 1), local(tmp_path)).launches.values()
    check_programs(launches, {"PATH": "/nowhere"})
    lost = [replace(launch, argv=("no-such-engine", *launch.argv[1:])) for launch in launches]
    with pytest.raises(BadInput) as refused:
        check_programs(lost, {"PATH": "/usr/bin"})
    said = (refused.value.where, refused.value.what)
    assert said == ("small", "there is no program no-such-engine on the path")
    (tmp_path / "no-such-engine").touch(0o755)
    check_programs([replace(launch, env={"PATH": str(tmp_path)}) for launch in lost], {})


def test_a_program_that_is_filled_in_is_not_looked_for(tmp_path: Path) -> None:
    launches = local_plan(two_stages(1, 1), local(tmp_path)).launches.values()
    check_programs([replace(launch, argv=("{name}",)) for launch in launches], {})


def test_a_command_may_begin_at_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    file = tmp_path / "local.yaml"
    file.write_text("stages: {small: {command: [~/bin/vllm, serve, ~/models/small, a~b]}}\n")
    assert read_local(file).stages["small"].command == [
        "/home/ann/bin/vllm",
        "serve",
        "/home/ann/models/small",
        "a~b",
    ]
