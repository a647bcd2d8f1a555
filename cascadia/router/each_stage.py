"""The same change to every stage of a router's settings, its judge's engines among them."""

from collections.abc import Callable
from dataclasses import replace

from cascadia.router.settings import JudgeSettings, RouterSettings, StageSettings

Change = Callable[[StageSettings], StageSettings]


def with_each_stage(settings: RouterSettings, change: Change) -> RouterSettings:
    judge = settings.judge
    return replace(
        settings,
        stages=tuple(map(change, settings.stages)),
        judge=None if judge is None else _with_each_engine(judge, change),
    )


def _with_each_engine(judge: JudgeSettings, change: Change) -> JudgeSettings:
    return replace(
        judge,
        stage=None if judge.stage is None else change(judge.stage),
        members=tuple(_with_each_engine(member, change) for member in judge.members),
    )
