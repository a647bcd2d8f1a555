"""Public data: found as it is or compressed, and refused with the whole list where it is missing or another."""

import gzip
from hashlib import sha256
from pathlib import Path

import pytest

from cascadia.cli.main import main
from cascadia.domain.errors import BadInput
from cascadia.reproduce.sources import ADAPT, COMPARISON, PAPER, Source, check

HELD = b"a,b\n1,2\n"
SOURCE = Source("quality/table.csv", "example.org/table", "MIT", sha256(HELD).hexdigest())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CASCADIA_DATA", str(tmp_path))
    (tmp_path / "quality").mkdir()
    return tmp_path


def test_a_file_is_taken_as_it_is_and_compressed(folder: Path) -> None:
    (folder / "quality" / "table.csv").write_bytes(HELD)
    check((SOURCE,))
    (folder / "quality" / "table.csv").unlink()
    (folder / "quality" / "table.csv.gz").write_bytes(gzip.compress(HELD))
    check((SOURCE,))


def test_another_file_and_a_broken_one_are_refused_with_where_they_come_from(folder: Path) -> None:
    (folder / "quality" / "table.csv").write_bytes(b"else")
    with pytest.raises(BadInput, match=r"holds something else .*example\.org/table, MIT, SHA-256"):
        check((SOURCE,))
    (folder / "quality" / "table.csv").unlink()
    (folder / "quality" / "table.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(BadInput, match="cannot be read"):
        check((SOURCE,))


@pytest.mark.parametrize(
    ("name", "sources"), [("paper", PAPER), ("comparison", COMPARISON), ("adapt", ADAPT)]
)
def test_without_data_each_command_ends_with_2_and_the_whole_list(
    name: str,
    sources: tuple[Source, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("CASCADIA_DATA")
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", name, "--quick"])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "CASCADIA_DATA: is not set" in said
    assert all(f"{s.path} is missing ({s.origin}, {s.licence}, SHA-256 {s.sha256})" in said for s in sources)
