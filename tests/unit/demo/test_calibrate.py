"""Engine speeds are kept for later runs only where nobody else had the cores while they were measured."""

from pathlib import Path

import pytest

from cascadia.demo.calibrate import BUSY, Speeds, keep, kept_speeds
from cascadia.demo.stages import STAGES


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("CASCADIA_CACHE_DIR", str(tmp_path / "cache"))
    paths = {stage.name: tmp_path / f"{stage.name}.json" for stage in STAGES}
    for name, path in paths.items():
        path.write_text(f'{{"of": "{name}"}}')
    return paths


def test_speeds_of_a_busy_moment_serve_once(measured: dict[str, Path]) -> None:
    speeds = keep(Speeds(measured, BUSY + 0.01))
    assert speeds.paths == measured
    assert kept_speeds() is None


def test_speeds_of_a_quiet_moment_are_kept(measured: dict[str, Path]) -> None:
    assert kept_speeds() is None
    keep(Speeds(measured, BUSY))
    again = kept_speeds()
    assert again is not None
    assert not again.busy
    assert {name: path.read_text() for name, path in again.paths.items()} == {
        name: path.read_text() for name, path in measured.items()
    }
