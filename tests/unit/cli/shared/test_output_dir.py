"""A folder of results is whole or absent, and no file of the user's is ever lost."""

from pathlib import Path

import pytest

from cascadia.cli.shared.output_dir import output_dir
from cascadia.domain.errors import BadInput
from cascadia.files.text import write_whole

OWNED = ("plan.json", "report.html")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(folder: Path, **contents: str) -> None:
    for name, content in contents.items():
        (folder / name.replace("_", ".")).write_text(content)


def write_and_raise(target: Path, error: BaseException) -> None:
    with output_dir(target, OWNED) as folder:
        write(folder, plan_json="new")
        raise error


def test_a_new_folder_appears_with_its_parents(tmp_path: Path) -> None:
    with output_dir(tmp_path / "a" / "b", OWNED) as folder:
        write(folder, plan_json="{}")
        assert not (tmp_path / "a").exists()
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a" / "b") == ["plan.json"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 != 0  # others may read it, as far as umask lets them


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_and_raise(tmp_path / "a", KeyboardInterrupt())
    assert names(tmp_path) == []


def test_a_failure_leaves_an_earlier_plan_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, plan_json="old")
    with pytest.raises(BadInput):
        write_and_raise(tmp_path, BadInput("a", "b"))
    assert names(tmp_path) == ["plan.json"]
    assert (tmp_path / "plan.json").read_text() == "old"


def test_a_new_plan_replaces_all_of_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, plan_json="old", report_html="old", notes_txt="mine")
    with output_dir(tmp_path, OWNED) as folder:
        write(folder, plan_json="new")
    assert names(tmp_path) == ["notes.txt", "plan.json"]
    assert (tmp_path / "plan.json").read_text() == "new"


def test_strangers_files_are_left_alone_unless_forced(tmp_path: Path) -> None:
    write(tmp_path, notes_txt="mine")
    with (
        pytest.raises(BadInput, match=r"has files in it but no plan.json; name another .* or add --force"),
        output_dir(tmp_path, OWNED),
    ):
        pass
    with output_dir(tmp_path, OWNED, force=True) as folder:
        write(folder, plan_json="{}")
    assert names(tmp_path) == ["notes.txt", "plan.json"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    with output_dir(tmp_path, OWNED) as folder:
        write(folder, plan_json="{}")
    assert names(tmp_path) == ["plan.json"]


@pytest.mark.parametrize("place", ["file", "file/plan", "file/a/b", "x" * 300])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    worked = []
    with pytest.raises(BadInput), output_dir(tmp_path / place, OWNED):
        worked.append(place)
    assert worked == []
    assert names(tmp_path) == ["file"]


def test_a_file_that_cannot_be_written_is_named_as_it_would_have_been(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused, output_dir(tmp_path / "plan", ["plan.json"]) as staging:
        write_whole(staging / "none" / "plan.json", "{}")
    assert refused.value.where == str(tmp_path / "plan" / "none" / "plan.json")
    assert "--out" in refused.value.instead
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", OWNED)
def test_a_folder_of_the_users_by_a_files_name_is_refused_and_kept(tmp_path: Path, name: str) -> None:
    write(tmp_path, plan_json="old", report_html="old")
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    write(tmp_path / name, notes_txt="mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadInput, match=f"{name}: is a folder"), output_dir(tmp_path, OWNED, force=True):
        pass
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("blocked", ["first/a", "last/a"])
def test_files_that_cannot_all_be_put_in_place_leave_the_earlier_ones(tmp_path: Path, blocked: str) -> None:
    write(tmp_path, plan_json="old", report_html="old")
    (tmp_path / Path(blocked).parent).write_text("a file of the user's where a folder is to be")
    owned = ("plan.json", "first/a", "report.html", "last/a")

    def over() -> None:
        with output_dir(tmp_path, owned) as folder:
            (folder / blocked).parent.mkdir()
            write(folder, plan_json="new", report_html="new")
            (folder / blocked).write_text("new")

    with pytest.raises(BadInput, match="cannot be written to"):
        over()
    assert names(tmp_path) == sorted(["plan.json", "report.html", blocked.partition("/")[0]])
    assert (tmp_path / "plan.json").read_text() == (tmp_path / "report.html").read_text() == "old"
