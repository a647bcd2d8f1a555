"""A journal keeps what is done through any crash, and lets no other run go on from it."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from cascadia.domain.errors import BadInput
from cascadia.profile.quality.answers import keep_answers
from cascadia.profile.quality.journal import Done, Failed, open_journal

INPUTS = {"prompts": "abc", "stages": [["small", "m"]], "judge": {"model": "j"}}
ROWS = tuple(
    Done(f"q{n}", "small", 50.0 + n, quality=None if n else 100.0, input_tokens=10, output_tokens=20)
    for n in range(3)
)


def written(path: Path) -> bytes:
    with open_journal(path, INPUTS, restart=False) as journal:
        for row in ROWS:
            journal.add(row)
        journal.add(Failed("q9", "small", "judge", "no grade"))
    return path.read_bytes()


def reopened(path: Path, restart: bool = False) -> tuple[Done, ...]:
    with open_journal(path, INPUTS, restart=restart) as journal:
        return tuple(journal.done.values())


def test_what_was_done_is_there_and_what_failed_is_not(tmp_path: Path) -> None:
    written(tmp_path / "j")
    assert reopened(tmp_path / "j") == ROWS


def test_wherever_the_file_ends_whole_lines_count_and_the_run_goes_on(tmp_path: Path) -> None:
    whole = written(tmp_path / "j")
    line_ends = [at for at in range(len(whole)) if whole[at : at + 1] == b"\n"]
    for end in sorted({*range(0, len(whole), 29), *line_ends, *(at + 1 for at in line_ends)}):
        path = tmp_path / "cut"
        path.write_bytes(whole[:end])
        rows = max(0, whole[:end].count(b"\n") - 1)
        with open_journal(path, INPUTS, restart=False) as journal:
            assert tuple(journal.done.values()) == ROWS[:rows]
            journal.add(Done("new", "small", 1.0, quality=None, input_tokens=1, output_tokens=1))
        assert reopened(path)[-1].prompt_id == "new"
        path.unlink()


def test_each_line_is_in_the_file_before_the_next(tmp_path: Path) -> None:
    with open_journal(tmp_path / "j", INPUTS, restart=False) as journal:
        for count, row in enumerate(ROWS, 2):
            journal.add(row)
            assert (tmp_path / "j").read_bytes().count(b"\n") == count


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"prompts": "abd"}, "is of a run with other prompts; add --restart"),
        ({"stages": [["small", "n"]]}, "other stages"),
        ({"judge": {"model": "k"}, "prompts": "x"}, "other prompts and judge"),
        ({"--max-tokens": 5}, "other --max-tokens"),
    ],
)
def test_the_journal_of_other_inputs_is_refused_and_stays(
    tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    before = written(tmp_path / "j")
    with (
        pytest.raises(BadInput, match=said),
        open_journal(tmp_path / "j", {**INPUTS, **changed}, restart=False),
    ):
        pass
    assert (tmp_path / "j").read_bytes() == before


def test_a_journal_without_a_single_answer_binds_nobody(tmp_path: Path) -> None:
    with open_journal(tmp_path / "j", {"prompts": "misspelt"}, restart=False) as journal:
        journal.add(Failed("q9", "small", "small", "HTTP 404"))
    assert reopened(tmp_path / "j") == ()
    assert b"misspelt" not in (tmp_path / "j").read_bytes()


def test_restart_begins_anew(tmp_path: Path) -> None:
    written(tmp_path / "j")
    assert reopened(tmp_path / "j", restart=True) == ()
    assert reopened(tmp_path / "j") == ()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("content", ["my notes", "my notes\n", '{"a": 1}\n', "[]\n"])
def test_a_file_that_is_no_journal_is_never_touched(tmp_path: Path, content: str, restart: bool) -> None:
    (tmp_path / "j").write_text(content)
    with pytest.raises(BadInput, match="is no journal of this command"):
        reopened(tmp_path / "j", restart)
    assert (tmp_path / "j").read_text() == content


OTHER = json.dumps(asdict(ROWS[0]) | {"score": "high"})


@pytest.mark.parametrize("line", ["{", "[]", '{"prompt_id": "q"}', "{}", OTHER])
def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path, line: str) -> None:
    lines = written(tmp_path / "j").splitlines(keepends=True)
    lines[2] = line.encode() + b"\n"
    (tmp_path / "j").write_bytes(b"".join(lines))
    with pytest.raises(BadInput, match="j line 3: is damaged; add --restart"):
        reopened(tmp_path / "j")


def test_a_journal_of_a_version_that_knows_more_is_refused_and_stays(tmp_path: Path) -> None:
    """Its answers may have been got otherwise: mixed with ours they would be figures of neither."""
    lines = written(tmp_path / "j").splitlines(keepends=True)
    header = {"cascadia_quality_journal": 1, "inputs": {**INPUTS, "--top-p": 0.5}}
    later = json.dumps(asdict(ROWS[1]) | {"language": "en"})
    for number, line, said in (
        (0, json.dumps(header), "other --top-p"),
        (2, later, "line 3: is of another version of cascadia: it tells language"),
    ):
        told = [*lines[:number], line.encode() + b"\n", *lines[number + 1 :]]
        (tmp_path / "j").write_bytes(b"".join(told))
        with pytest.raises(BadInput, match=said):
            reopened(tmp_path / "j")
        assert (tmp_path / "j").read_bytes() == b"".join(told)


def test_two_runs_at_once_are_one_too_many(tmp_path: Path) -> None:
    with (
        open_journal(tmp_path / "j", INPUTS, restart=False),
        pytest.raises(BadInput, match="another run is writing it"),
        open_journal(tmp_path / "j", INPUTS, restart=False),
    ):
        pass


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written"):
        reopened(tmp_path / "absent" / "j")


def test_kept_answers_are_in_step_with_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with keep_answers(path, ()) as answers:
        for row in ROWS:
            answers.add(row, f"answer to {row.prompt_id}")
    with path.open("a") as stream:
        stream.write('{"prompt_id": "half')
    with keep_answers(path, {("q0", "small"), ("q2", "small")}) as answers:
        answers.add(ROWS[1], "again")
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["prompt_id"], row["answer"]) for row in kept] == [
        ("q0", "answer to q0"),
        ("q2", "answer to q2"),
        ("q1", "again"),
    ]
