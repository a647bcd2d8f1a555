"""^C and SIGTERM at random moments of the commands that compute, with no tables kept."""

import random
import shutil
import signal
from pathlib import Path

import pytest

from cascadia.cli.plan.outputs import PLAN_FILES
from tests.e2e.commands import Cascadia
from tests.interrupting import PROGRAM, Ended, as_asked, interrupted

SEED = 20261122
COMMANDS = {
    "plan": (("plan", "demo/example/cascade.yaml", "--out", "out"), 3.5, 24),
    "compare": (("compare", "demo/example/cascade.yaml", "--plots", "out"), 6.0, 10),
    "simulate": (("simulate", "demo", "--trace", "demo/example/chat.parquet", "--rate", "30"), 1.5, 6),
    "demo": (("demo", "--plan-only", "--out", "out"), 3.5, 8),
}
"""What is run, how long it takes about, and how often."""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planned")
    Cascadia(folder, folder / "cache")("demo", "--plan-only", "--out", "demo")
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_it_ends_at_once_at_any_moment(name: str, planned: Path, tmp_path: Path) -> None:
    arguments, takes_s, times = COMMANDS[name]
    chance = random.Random(f"{SEED} {name}")
    wrong: list[tuple[float, int, bool, Ended]] = []
    stopped = 0
    for turn in range(times):
        folder = tmp_path / str(turn)
        shutil.copytree(planned / "demo", folder / "demo")
        number = chance.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM])
        after_s, ignored = chance.uniform(0.0, takes_s), chance.random() < 0.25
        ended = interrupted((*PROGRAM, *arguments), folder, number, after_s, ignored=ignored)
        stopped += ended.code != 0
        whole = {p.name for p in (folder / "out").glob("*")} in (set(), {"example"})
        if ended.code == 0:  # it was quicker than us
            continue
        if not as_asked(ended, number) or (name != "compare" and not whole and not _complete(folder / "out")):
            wrong.append((after_s, number, ignored, ended))
    assert wrong == []
    assert stopped >= times // 2, "hardly any was still at work when it was told to end"


def _complete(folder: Path) -> bool:
    return {p.name for p in folder.iterdir()} >= {PLAN_FILES[0], "report.html"}
