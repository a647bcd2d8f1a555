"""Early verdicts of the embedding judge: certified by those that were drawn, withdrawn when they differ, and told."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cascadia.controller.local.judge import embedding_judge
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPromise
from cascadia.exits.path import Path as Settings
from cascadia.judge_service.exits import Early, JudgeExits, add_exits
from cascadia.judge_service.ramp import EarlyEncoder, JudgeRamp, digest, file_of, read_ramp, write_ramp
from cascadia.planner.problem.judge import build_judge
from cascadia.planner.spec.models import ExitPromiseSpec, JudgeSpec
from cascadia.testing.plans import NO_JUDGE, three_stages
from cascadia_judge.embedding import Case, EmbeddingJudge, Verdict
from cascadia_judge.encoder.encoder import Encoder
from tests.unit.judge import tiny_encoder

PROMISE = ExitPromise(0.2, 0.9, 0.5)
RAMP = JudgeRamp("", np.eye(2), np.zeros(2), {}, 10.0, Settings(np.linspace(0.1, 0.9, 9)[:, None]))
CASES = [Case("q", str(at)) for at in range(8)]
NUMBERS = count()


def others() -> list[Case]:
    """Eight that nobody has asked before."""
    return [Case("q", f"{next(NUMBERS)}") for _ in range(8)]


class Whole:
    """Says 50 of every answer, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def scores(self, cases: Sequence[Case]) -> list[Verdict]:
        self.asked += len(cases)
        return [Verdict(50.0, 1.0, 9)] * len(cases)


class Told(JudgeExits):
    """Whose ramp says `score` of every answer, and doubts it a little."""

    score = 55.0

    def _looked(self, judge: Any, cases: Sequence[Case]) -> list[Early]:
        return [Early(Verdict(self.score, 0.5, 3), 0.3)] * len(cases)


def told(promise: ExitPromise = PROMISE) -> Told:
    return Told(None, RAMP, promise, Random(0))  # type: ignore[arg-type]


def certified() -> tuple[Told, Whole]:
    exits, whole = told(), Whole()
    while exits.state["certified"] < 9:
        exits.scores(whole, others())  # type: ignore[arg-type]
    return exits, whole


def test_nothing_is_early_until_certified_and_then_all_but_those_drawn() -> None:
    exits, whole = told(), Whole()
    assert {one.score for one in exits.scores(whole, CASES)} == {50.0}  # type: ignore[arg-type]
    assert exits.state["taken"] == 0
    exits, whole = certified()
    before = exits.state
    found = exits.scores(whole, CASES)  # type: ignore[arg-type]
    drawn = exits.state["shadowed"] - before["shadowed"]
    assert sorted({one.score for one in found}) == [50.0, 55.0]
    assert sum(one.score == 50.0 for one in found) == drawn
    assert whole.asked == exits.state["whole"]


def test_where_all_leave_the_whole_judge_has_nothing_to_do(tmp_path: Path) -> None:
    """A real one: most calls are of one case, and it used to fail on none."""
    judge = EmbeddingJudge(Encoder.read(tiny_encoder.write(tmp_path / "encoder")), (), {})
    exits, _ = certified()
    exits._shadow = 0.0
    for n in (0, 1, 8):
        assert [one.score for one in exits.scores(judge, CASES[:n])] == [55.0] * n


def test_the_same_few_answers_again_and_again_certify_nothing() -> None:
    exits, whole = told(), Whole()
    for _ in range(60):
        exits.scores(whole, CASES)  # type: ignore[arg-type]
    assert exits.state["fed_back"] > 200
    assert exits.state["certified"] == 0


def test_verdicts_that_differ_too_often_are_withdrawn() -> None:
    exits, whole = certified()
    exits.score = 61.0
    while not exits.state["withdrawn"]:
        exits.scores(whole, CASES)  # type: ignore[arg-type]
    assert exits.state["disagreed"] < 20
    assert {one.score for one in exits.scores(whole, CASES)} == {50.0}  # type: ignore[arg-type]


def test_what_was_certified_outlives_the_judge_and_others_of_its_file_share_it(tmp_path: Path) -> None:
    state, whole = tmp_path / "head.json.exits-state.json", Whole()
    one, other = (Told(None, RAMP, PROMISE, Random(seed), state) for seed in range(2))  # type: ignore[arg-type]
    for _ in range(20):
        one.scores(whole, others())  # type: ignore[arg-type]
        other.scores(whole, others())  # type: ignore[arg-type]
    one.close()
    other.close()
    again = Told(None, RAMP, PROMISE, Random(0), state)  # type: ignore[arg-type]
    assert again.state["certified"] == 9
    assert again.state["fed_back"] == one.counts["shadowed"] + other.counts["shadowed"]
    trained_anew = replace(RAMP, weight=2 * np.eye(2))
    assert Told(None, trained_anew, PROMISE, Random(0), state).state["fed_back"] == 0  # type: ignore[arg-type]


def test_the_metrics_tell_of_the_certificate() -> None:
    registry, (exits, _) = CollectorRegistry(), certified()
    add_exits(registry, exits)
    text = generate_latest(registry).decode()
    assert "cascadia_judge_exits_certified 9.0" in text
    assert f"cascadia_judge_exits_fed_back {float(exits.state['fed_back'])}" in text


def test_a_ramp_is_read_as_it_was_written_and_only_for_its_judge(tmp_path: Path) -> None:
    judge = tmp_path / "head.json"
    judge.write_text("{}")
    with pytest.raises(BadInput, match=r"has no head\.json\.exits beside it"):
        read_ramp(judge)
    path = Settings(RAMP.path.thresholds, np.arange(9.0), 20)
    write_ramp(judge, replace(RAMP, judge_sha256=digest(judge), doubts={1: np.array([0.5, -1.0])}, path=path))
    found = read_ramp(judge)
    assert found.path.differed is not None
    assert (found.path.differed.tolist(), found.path.inputs) == (list(range(9)), 20)
    assert found.doubts[1].tolist() == [0.5, -1.0]
    assert np.array_equal(found.path.thresholds, RAMP.path.thresholds)
    judge.write_text("{ }")
    with pytest.raises(BadInput, match="is for another judge"):
        read_ramp(judge)
    for damaged in ("", "[]", '{"weight": 3}'):
        file_of(judge).write_text(damaged)
        with pytest.raises(BadInput, match="cannot be read"):
            read_ramp(judge)


def test_the_first_part_of_the_encoder_tells_a_text_whatever_is_beside_it(tmp_path: Path) -> None:
    early = EarlyEncoder.read(tiny_encoder.write(tmp_path / "encoder"))
    alone = early.encoded(["two cats"])
    beside = early.encoded(["two cats", "what is the four and two ?", ""])
    assert alone.vectors[0] == pytest.approx(beside.vectors[0], abs=1e-5)
    assert np.linalg.norm(alone.vectors[0]) == pytest.approx(1.0, abs=1e-5)
    assert not beside.vectors[2].any()
    assert not np.allclose(alone.vectors[0], early.encoder.encode(["no cat"])[0], atol=1e-2)


def test_a_spec_gives_the_judge_its_exits_and_up_starts_it_so(tmp_path: Path) -> None:
    spec = JudgeSpec(kind="embedding", model="head.json", exits=ExitPromiseSpec(risk=0.05))
    with pytest.raises(BadInput, match="judge train-exits"):
        build_judge(spec, tmp_path, "cascade.yaml")
    with pytest.raises(BadInput, match="names no model"):
        build_judge(spec.model_copy(update={"model": None}), tmp_path, "cascade.yaml")
    file_of(tmp_path / "head.json").write_text("{}")
    exits = build_judge(spec, tmp_path, "cascade.yaml").judge.exits
    assert exits == ExitPromise(0.05, 0.9, 0.1)
    judge = replace(NO_JUDGE, kind="embedding", model="head.json", exits=exits)
    argv = embedding_judge(replace(three_stages(), judge=judge), None).argv
    assert argv[-7:] == ("--exits", "--risk", "0.05", "--confidence", "0.9", "--shadow", "0.1")


def test_another_kind_of_judge_has_no_exits() -> None:
    with pytest.raises(ValueError, match="exits has no effect on a judge that is certainty"):
        JudgeSpec(kind="certainty", exits=ExitPromiseSpec())
