"""Bars that an answer is held to, and stages that the question alone skips: by the stage, a gear, a mixture or the
client."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cascadia.router.cascade.scoring import Scoring
from cascadia.router.gates.base import JudgeFailed
from cascadia.router.gates.context import ASKED
from cascadia.router.settings.model import (
    ExitSettings,
    GearSettings,
    JudgeSettings,
    MixtureSettings,
    StageSettings,
)

MIXTURE = MixtureSettings(0.25, {"small": 30.0}, {"small": 45.0, "large": 0.0})
GEAR = GearSettings(0, None, ("small", "large"), {"small": 40.0}, {"small": 55.0, "large": 0.0})


def stage(name: str = "small", threshold: float = 60.0, skip_below: float | None = 35.0) -> Any:
    exits = tuple(ExitSettings(tokens, 80.0) for tokens in (100, 200))
    settings = StageSettings(
        name, name, (), threshold=threshold, skip_below=skip_below, exits=exits, budget_field="budget"
    )
    failures: list[str] = []
    return SimpleNamespace(
        name=name, settings=settings, metrics=SimpleNamespace(judge_failed=failures.append), failures=failures
    )


def ask(**changes: Any) -> Any:
    said = {"messages": b'[{"role": "user", "content": "?"}]'}
    fields = SimpleNamespace(given=lambda name: said.get(name, b""))
    given = {"gear": None, "other": False, "score_min": 0.0, "fields": fields, "deadline_s": float("inf")}
    return SimpleNamespace(**(given | changes))


class Foresees:
    """Says of each name what `told` has; a failure where it has none."""

    def __init__(self, **told: float) -> None:
        self.told = told

    async def expected(self, question: str, until_s: float) -> float:
        assert (question, until_s < float("inf")) == ("?", True)
        context = ASKED.get()
        assert context is not None
        name = context.stage.replace("@", "_")
        if name not in self.told:
            raise JudgeFailed("status-500")
        return self.told[name]


def scoring(
    mixture: MixtureSettings | None = MIXTURE, on_failure: Any = None, foresight: Foresees | None = None
) -> Scoring:
    judge = None if on_failure is None else JudgeSettings("embedding", on_failure=on_failure)
    return Scoring(
        None, judge, None, examiner=None,  # type: ignore[arg-type]
        foresight=foresight, foresight_told=JudgeSettings("embedding"), mixture=mixture,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "name", "bar"),
    [
        ({}, "small", 60.0),
        ({"score_min": 75.0}, "small", 75.0),
        ({"score_min": 5.0}, "small", 60.0),
        ({"other": True}, "small", 30.0),
        ({"other": True, "score_min": 50.0}, "small", 50.0),
        ({"other": True}, "medium", 60.0),
        ({"gear": GEAR}, "small", 40.0),
        ({"gear": GEAR}, "large", 0.0),
        ({"gear": GEAR, "other": True}, "small", 40.0),
    ],
)
def test_the_bar_is_the_gears_or_the_mixtures_or_the_stages_and_never_below_the_clients(
    asked: dict[str, Any], name: str, bar: float
) -> None:
    assert scoring().threshold(ask(**asked), stage(name)) == bar
    if "other" not in asked:
        assert scoring(None).threshold(ask(**asked, other=True), stage(name)) == bar


@pytest.mark.parametrize(
    ("score", "threshold", "last", "on_failure", "found"),
    [
        (60.0, 60.0, False, "escalate", (True, "score")),
        (59.9, 60.0, False, "accept", (False, "score")),
        (0.0, 60.0, True, "escalate", (True, "")),
        (None, 0.0, False, None, (True, "")),
        (None, 0.1, False, "accept", (True, "judge")),
        (None, 100.0, False, "accept", (True, "judge")),
        (None, 100.0, False, "escalate", (False, "judge")),
        (None, 60.0, False, None, (False, "judge")),
        (None, 100.1, False, "accept", (False, "threshold")),
    ],
)
def test_an_answer_is_kept_at_its_bar_or_as_the_judges_failure_has_it(
    score: float | None, threshold: float, last: bool, on_failure: str | None, found: tuple[bool, str]
) -> None:
    held = SimpleNamespace(stage=stage(threshold=threshold), score=score)
    assert scoring(None, on_failure).accepts(ask(), held, last) == found  # type: ignore[arg-type]


def test_a_quarter_of_the_requests_goes_by_the_mixture() -> None:
    one, none = scoring(), scoring(None)
    assert sum(one.takes_other() for _ in range(1000)) == pytest.approx(250, abs=1)
    assert not any(none.takes_other() for _ in range(100))


@pytest.mark.parametrize(
    ("asked", "told", "skipped"),
    [
        ({}, {"small": 34.9, "large": 34.9}, {"small", "large"}),
        ({}, {"small": 35.0, "large": 80.0}, set()),
        ({}, {"small": 10.0}, {"small"}),
        ({"other": True}, {"small": 44.0, "large": 0.0}, {"small"}),
        ({"gear": GEAR}, {"small": 54.0, "large": 0.0}, {"small"}),
        ({"gear": GEAR}, {"small": 55.0, "large": 0.0}, set()),
        ({"gear": GearSettings(0, None, ("small",))}, {"small": 34.0, "large": 40.0}, {"small"}),
    ],
)
def test_a_stage_is_skipped_where_less_is_foreseen_than_it_is_asked_for(
    asked: dict[str, Any], told: dict[str, float], skipped: set[str]
) -> None:
    stages = [stage("small"), stage("large")]
    found = asyncio.run(scoring(foresight=Foresees(**told)).skipped(ask(**asked), stages))
    assert found == skipped
    assert [one.failures for one in stages if one.name in told] == [[] for _ in told]


def test_a_stage_that_is_never_asked_is_skipped_without_foresight() -> None:
    stages = [stage("a", skip_below=101.0), stage("b", skip_below=100.9), stage("c", skip_below=None)]
    assert asyncio.run(scoring().skipped(ask(), stages)) == {"a"}
    assert asyncio.run(scoring(foresight=Foresees(b=100.0)).skipped(ask(), stages)) == {"a", "b"}


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"small_100": 50.0, "small_200": 70.0, "small": 80.0}, {0: 70.0, 1: 90.0}),
        ({"small_100": 79.5, "small_200": 85.0, "small": 80.0}, {0: 99.5, 1: 100.0}),
        ({"small_100": 50.0, "small_200": 70.0}, {}),
        ({"small_200": 70.0, "small": 80.0}, {}),
    ],
)
def test_a_budget_scores_what_it_loses_beside_thinking_to_the_end(
    told: dict[str, float], found: dict[int, float]
) -> None:
    assert asyncio.run(scoring(foresight=Foresees(**told)).foreseen(ask(), stage())) == pytest.approx(found)
    assert asyncio.run(scoring().foreseen(ask(), stage())) == {}


@pytest.mark.parametrize("wants", [(None, 95.0), (None, None)])
def test_nothing_is_foreseen_of_exits_that_do_not_ask(wants: tuple[float | None, ...]) -> None:
    """Nor need the heads know them."""
    thinks = stage()
    exits = tuple(ExitSettings(n, 80.0, foreseen=bar) for n, bar in zip((100, 200), wants, strict=True))
    thinks.settings = replace(thinks.settings, exits=exits, budget_field=None)
    found = asyncio.run(scoring(foresight=Foresees(small_200=70.0, small=80.0)).foreseen(ask(), thinks))
    assert found == {at: 90.0 for at, bar in enumerate(wants) if bar}
