"""Spend by key and stage adds up to the GPUs' bill, whatever was used, and by a real router's own log."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.domain.errors import BadInput
from cascadia.domain.external import External
from cascadia.domain.plan import JudgePlan, Plan, ReplicaGroup
from cascadia.files.plan_file import write_plan
from cascadia.ledger.ledger import IDLE, ledger
from cascadia.ledger.log import Use, read_use
from cascadia.router.access.keys import Key, KeyLimits, Keyring, make_key
from cascadia.router.settings.model import KeySettings, RouterSettings
from cascadia.testing.plans import POOLS, plan, stage
from cascadia.testing.routers import FakeEngine, ScriptedGate, running, stages, started
from cascadia.testing.routers import run as run_loop
from tests.unit.cli.commands import run

HOUR_USD = 2 * 0.8 + 8 * 2.67 + 2.67


def priced() -> Plan:
    """Two L4 for the small stage, eight H100 for the large one, one for the judge; each stage half or 80 % busy."""
    judge = JudgePlan(
        "llm",
        "self-hosted",
        "org/judge",
        engine="vllm",
        quantization=None,
        max_model_len=4096,
        replicas=(ReplicaGroup("h100", 1, 1, 1, 1.0),),
    )
    made = plan(
        [
            stage("small", ReplicaGroup("l4", 1, 1, 2, 1.0)),
            stage("large", ReplicaGroup("h100", 8, 1, 1, 1.0)),
        ],
        POOLS,
        judge,
    )
    loads = {"small": 0.5, "large": 0.8}
    told = tuple(replace(one, load=loads[one.name]) for one in made.predicted.stages)
    return replace(made, predicted=replace(made.predicted, stages=told))


def used(tokens: dict[tuple[str, str], int], verdicts: dict[str, int]) -> Use:
    use = Use()
    use.tokens.update(tokens)
    use.requests.update(dict.fromkeys(tokens, 1))
    use.verdicts.update(verdicts)
    return use


def test_a_key_pays_for_its_tokens_and_idle_time_is_nobody_s() -> None:
    made = ledger(priced(), used({("ann", "small"): 8_000 * 900}, {"ann": 3, "bob": 1}), hours=1.0)
    usd = {(entry.key, entry.stage): entry.usd for entry in made.entries}
    # Two L4 do 8,000 tokens a second where they are full: 900 s of them are a quarter of the hour.
    assert usd["ann", "small"] == pytest.approx(0.25 * 2 * 0.8, rel=1e-3)
    assert usd[IDLE, "small"] == pytest.approx(0.75 * 2 * 0.8, rel=1e-3)
    assert usd[IDLE, "large"] == pytest.approx(8 * 2.67)
    assert usd["ann", "judge"] == pytest.approx(2.67 * 3 / 4)
    assert list(made.by_key())[-1] == IDLE


def with_api() -> Plan:
    """The priced plan, whose large stage is somebody else's API: $2 a million read, $10 a million written."""
    made = priced()
    api = External(2.0, 10.0, ttft_p50_s=0.5, ttft_p95_s=1.0, tpot_p50_s=0.01, tpot_p95_s=0.02)
    small, large = made.stages
    return replace(made, stages=(small, replace(large, replicas=(), external=api)))


def test_a_key_pays_an_api_what_it_charges_for_reading_and_for_writing() -> None:
    use = used({("ann", "small"): 8_000 * 900, ("ann", "large"): 3_000_000, ("bob", "large"): 500_000}, {})
    use.written.update({("ann", "large"): 1_000_000})
    made = ledger(with_api(), use, hours=1.0)
    usd = {(entry.key, entry.stage): entry.usd for entry in made.entries}
    assert usd["ann", "large"] == pytest.approx(2 * 2.0 + 10.0)
    assert usd["bob", "large"] == pytest.approx(0.5 * 2.0)
    assert usd["ann", "small"] == pytest.approx(0.25 * 2 * 0.8, rel=1e-3)
    assert (IDLE, "large") not in usd
    assert made.bill_usd == pytest.approx(2 * 0.8 + 2.67 + 15.0) == pytest.approx(math.fsum(usd.values()))
    real = ledger(with_api(), use, hours=1.0, bill_usd=100.0)
    assert math.fsum(entry.usd for entry in real.entries) == pytest.approx(100.0)


def test_verdicts_of_an_api_are_paid_for_as_planned(tmp_path: Path) -> None:
    """They were once in no line, though a plan's dollars count them."""
    priced_judge = replace(
        priced().judge,
        placement="external",
        replicas=(),
        prompt_tokens=100,
        output_tokens=5,
        usd_per_million_input_tokens=3.0,
        usd_per_million_output_tokens=12.0,
    )
    line = {
        "ts": 5,
        "status": 200,
        "key": "ann",
        "tokens": {"small": 400, "large": 900},
        "written": {"small": 150, "large": 300},
        "steps": [{"stage": "small", "score": 30.0}, {"stage": "large"}],
    }
    (tmp_path / "log").write_text(json.dumps(line) + "\n")
    use = read_use([tmp_path / "log"], -math.inf, math.inf)
    made = ledger(replace(with_api(), judge=priced_judge), use, hours=1.0)
    [judge] = [entry for entry in made.entries if entry.stage == "judge"]
    assert (judge.key, judge.requests, judge.tokens) == ("ann", 1, 505)
    assert judge.usd == pytest.approx((500 * 3.0 + 5 * 12.0) / 1e6)
    assert made.bill_usd == pytest.approx(math.fsum(entry.usd for entry in made.entries))


def test_a_log_that_does_not_say_what_an_api_wrote_is_refused_for_that_alone(tmp_path: Path) -> None:
    line = '{"ts": 5, "status": 200, "tokens": {"%s": 7}}\n'
    (tmp_path / "log").write_text(line % "large")
    with pytest.raises(BadInput, match="does not say what large read and what it wrote"):
        ledger(with_api(), read_use([tmp_path / "log"], -math.inf, math.inf), 1.0)
    (tmp_path / "log").write_text(line % "small")
    assert ledger(with_api(), read_use([tmp_path / "log"], -math.inf, math.inf), 1.0).bill_usd > 0
    alone = replace(with_api(), stages=with_api().stages[1:], judge=replace(with_api().judge, replicas=()))
    with pytest.raises(BadInput, match="nothing was used"):
        ledger(alone, Use(), 1.0, bill_usd=5.0)


KEYS = st.sampled_from(["ann", "bob", "(no key)"])


@given(
    tokens=st.dictionaries(st.tuples(KEYS, st.sampled_from(["small", "large"])), st.integers(0, 10**12)),
    verdicts=st.dictionaries(KEYS, st.integers(0, 10**6)),
    hours=st.floats(0.01, 10_000),
    bill_usd=st.none() | st.floats(0.01, 1e7),
)
def test_the_lines_add_up_to_the_bill(
    tokens: dict[tuple[str, str], int], verdicts: dict[str, int], hours: float, bill_usd: float | None
) -> None:
    made = ledger(priced(), used(tokens, verdicts), hours, bill_usd)
    assert made.bill_usd == pytest.approx(HOUR_USD * hours if bill_usd is None else bill_usd)
    assert math.fsum(entry.usd for entry in made.entries) == pytest.approx(made.bill_usd, rel=1e-6)
    assert math.fsum(made.by_key().values()) == pytest.approx(made.bill_usd, rel=1e-6)
    assert min(entry.usd for entry in made.entries) > -1e-6 * made.bill_usd


def test_a_router_s_own_log_is_shared_out_by_key_and_stage(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    keys = {name: make_key() for name in ("ann", "bob")}
    ring = Keyring(Key(made.id, name, made.digest, limits=KeyLimits()) for name, made in keys.items())

    async def main() -> None:
        small, large = FakeEngine("about four"), FakeEngine("4")
        gate = ScriptedGate({"about four": 20.0})
        async with started(small, large):
            settings = RouterSettings(
                stages(small, large, thresholds=(50.0,)), None, keys=KeySettings(Path("k.json"))
            )
            async with running(settings, gate, keyring=ring) as up:
                for name, model in (("ann", "cascadia"), ("ann", "cascadia"), ("bob", "small")):
                    answer = await up.chat(model, headers={"authorization": f"Bearer {keys[name].text}"})
                    assert answer.status_code == 200, answer.text
        lines.extend(up.lines)

    run_loop(main)
    write_plan(priced(), tmp_path / "plan.json")
    with gzip.open(tmp_path / "router.log.gz", "wt") as file:
        file.write("starting\n" + "".join(json.dumps(line) + "\n" for line in lines))
    use = read_use([tmp_path / "router.log.gz"], -math.inf, math.inf)
    assert set(use.requests) == {("ann", "small"), ("ann", "large"), ("bob", "small")}
    assert use.requests["ann", "small"] == 2
    assert all(0 < use.written[at] < tokens for at, tokens in use.tokens.items())
    assert not use.whole
    assert use.verdicts == {"ann": 2, "bob": 0}
    asked = ["--since", "2020-01-01", "--until", "2100-01-01", "--bill", "412.50", "--json"]
    done = run("ledger", str(tmp_path / "plan.json"), str(tmp_path / "router.log.gz"), *asked)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert sum(entry["usd"] for entry in document["entries"]) == pytest.approx(412.50, rel=1e-3)
    assert set(document["by_key"]) == {"ann", "bob", IDLE}


def test_what_cannot_be_shared_out_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="asks stages that the plan has not: huge"):
        ledger(priced(), used({("ann", "huge"): 1}, {}), 1.0)
    free = replace(POOLS, pools=tuple(replace(pool, usd_per_gpu_hour=0.0) for pool in POOLS.pools))
    with pytest.raises(BadInput, match="have no price"):
        ledger(replace(priced(), cluster=free), Use(), 1.0)
    write_plan(priced(), tmp_path / "plan.json")
    (tmp_path / "router.log").write_text('{"ts": 5, "status": 200, "tokens": {"small": 7}}\n{"ts":')
    done = run("ledger", str(tmp_path), str(tmp_path / "router.log"))
    assert done.exit_code == 2
    assert "line 2: is cut off" in done.stderr
    (tmp_path / "router.log").write_text('{"ts": 5, "status": 200, "tokens": {"small": 7}}\n')
    assert "leave no time between them" in run("ledger", str(tmp_path), str(tmp_path / "router.log")).stderr
    (tmp_path / "again.log").symlink_to("router.log")
    done = run("ledger", str(tmp_path), str(tmp_path / "router.log"), str(tmp_path / "again.log"))
    assert done.exit_code == 2
    assert "named twice" in done.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"ts": 1.0}'.encode("utf-16"), "holds no request of a router"),
        (b'{"ts": 1.0, "status": 200, "key": "\xff"}', "line 1: is cut off, or no JSON"),
        (b'{"a":' * 100_000, "line 1: is cut off, or no JSON"),
        (b'{"ts": 1, "status": 200, "tokens": {"small": -5}}', "line 1: tokens are {'small': -5}"),
        (b'{"ts": 1, "status": 200, "tokens": {"small": true}}', "line 1: tokens are {'small': True}"),
        (b'{"ts": 1, "status": 200, "tokens": {"small": 1e9}}', "line 1: tokens are"),
        (b'{"ts": 1, "status": 200, "tokens": {}, "written": [1]}', "line 1: written tokens are [1]"),
        (b'{"ts": 1, "status": 200, "key": ["a"], "tokens": {}}', "line 1: the key is ['a']"),
        (b'{"ts": 1, "status": 200, "tokens": {}, "steps": "x"}', "line 1: steps are 'x'"),
        (b'{"ts": 1, "status": 200, "tokens": {}, "steps": 5}', "line 1: steps are 5"),
        (b'{"ts": 1e400, "status": 200, "tokens": {"small": 1}}', "holds no request of a router"),
    ],
)
def test_a_log_that_is_none_is_one_line(tmp_path: Path, content: bytes, told: str) -> None:
    write_plan(priced(), tmp_path / "plan.json")
    (tmp_path / "log.jsonl").write_bytes(content)
    found = run("ledger", str(tmp_path / "plan.json"), str(tmp_path / "log.jsonl"))
    assert found.exit_code == 2
    assert told in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_compressed_log_that_was_cut_off_is_told(tmp_path: Path) -> None:
    write_plan(priced(), tmp_path / "plan.json")
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(b'{"ts": 1, "status": 200}\n' * 1000)[:40])
    found = run("ledger", str(tmp_path / "plan.json"), str(tmp_path / "log.jsonl.gz"))
    assert (found.exit_code, "log.jsonl.gz: cannot be read (" in found.stderr) == (2, True)


def test_a_mark_before_the_first_line_costs_no_line(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'\xef\xbb\xbf{"ts": 1, "status": 200, "tokens": {"small": 5}}\n')
    assert read_use([log], -math.inf, math.inf).tokens == {("(no key)", "small"): 5}
