"""Threads are as many as the process may keep busy, not as the machine has cores."""

import os
from pathlib import Path

import pytest

from cascadia_sim.hardware.cores import usable_cores


@pytest.fixture(autouse=True)
def bound_to_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("limit", "cores"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("3200000 100000", 8),
    ],
)
def test_a_containers_quota_counts(tmp_path: Path, limit: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota_us", "cores"), [(-1, 8), (300_000, 3)])
def test_so_does_that_of_the_older_version(tmp_path: Path, quota_us: int, cores: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota_us}\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path) == cores


def test_without_any_quota_it_is_what_the_process_is_bound_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert usable_cores(tmp_path) == 8
    (tmp_path / "cpu.max").write_text("what is this\n")
    assert usable_cores(tmp_path) == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores(tmp_path) == 64
