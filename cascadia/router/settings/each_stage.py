"""Every stage of a router's settings, its judge's engines among them: to be looked at, or changed alike."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from cascadia.router.settings.model import JudgeSettings, RouterSettings, StageSettings

Change = Callable[[StageSettings], StageSettings]


def each_stage(settings: RouterSettings) -> Iterator[StageSettings]:
    yield from settings.stages
    for judge in (settings.judge, settings.foresight):
        if judge is not None:
            yield from _each_engine(judge)


def with_each_stage(settings: RouterSettings, change: Change) -> RouterSettings:
    judge, foresight = settings.judge, settings.foresight
    return replace(
        settings,
        stages=tuple(map(change, settings.stages)),
        judge=None if judge is None else _with_each_engine(judge, change),
        foresight=None if foresight is None else _with_each_engine(foresight, change),
    )


def _each_engine(judge: JudgeSettings) -> Iterator[StageSettings]:
    if judge.stage is not None:
        yield judge.stage
    for member in judge.members:
        yield from _each_engine(member)


def _with_each_engine(judge: JudgeSettings, change: Change) -> JudgeSettings:
    return replace(
        judge,
        stage=None if judge.stage is None else change(judge.stage),
        members=tuple(_with_each_engine(member, change) for member in judge.members),
    )
