"""Prompts come from three kinds of file; what is no prompt is refused with the line that it stands on."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from cascadia.domain.errors import BadInput
from cascadia.profile.quality.prompts import Prompt, digest, read_prompts

ASKED = ({"role": "user", "content": "What is 2 + 2?"},)


def lines(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_the_three_kinds_of_file_say_the_same(tmp_path: Path) -> None:
    row = {"prompt_id": "007", "prompt": "What is 2 + 2?", "reference": "4", "check": "exact"}
    (tmp_path / "prompts.csv").write_text("prompt_id,prompt,reference,check\n007,What is 2 + 2?,4,exact\n")
    pa.parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "prompts.parquet")
    expected = (Prompt("007", ASKED, "exact", "4"),)
    assert read_prompts(lines(tmp_path, row), None) == expected
    assert read_prompts(tmp_path / "prompts.csv", None) == expected
    assert read_prompts(tmp_path / "prompts.parquet", None) == expected


def test_messages_stay_as_they_are_and_the_judge_reads_who_said_what(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"text": "Why?"}]}]
    (prompt,) = read_prompts(lines(tmp_path, {"prompt_id": 1, "messages": messages}), None)
    assert list(prompt.messages) == messages
    assert prompt.question == "system: Be brief.\n\nuser: Why?"
    assert Prompt("1", ASKED).question == "What is 2 + 2?"


def test_messages_in_csv_are_json(tmp_path: Path) -> None:
    cell = json.dumps(list(ASKED)).replace('"', '""')
    (tmp_path / "prompts.csv").write_text(f'prompt_id,messages\nq1,"{cell}"\n')
    assert read_prompts(tmp_path / "prompts.csv", None) == (Prompt("q1", ASKED),)


def test_a_prompt_in_csv_may_be_as_long_as_a_context(tmp_path: Path) -> None:
    """The csv module refuses cells of more than 131,072 characters, unless it is told."""
    path = tmp_path / "prompts.csv"
    path.write_text(f"prompt_id,prompt\nq1,{'word ' * 100_000}\n")
    (prompt,) = read_prompts(path, None)
    assert len(prompt.question) >= 500_000


def test_a_prompts_own_check_goes_before_the_general_one(tmp_path: Path) -> None:
    rows = (
        {"prompt_id": "a", "prompt": "?", "reference": "x", "check": "regex"},
        {"prompt_id": "b", "prompt": "?", "reference": "x"},
        {"prompt_id": "c", "prompt": "?"},
    )
    assert [p.check for p in read_prompts(lines(tmp_path, *rows), "exact")] == ["regex", "exact", None]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "line 2: is not JSON"),
        ("[1]", "line 2: is not a JSON object"),
        ({"prompt": "?"}, "line 2: prompt_id is missing; write prompt_id and prompt, e.g. "),
        ({"prompt_id": [1], "prompt": "?"}, "line 2: prompt_id is no name"),
        ({"prompt_id": "first", "prompt": "?"}, "line 2: prompt_id 'first' is in line 1 too"),
        ({"prompt_id": "b"}, "line 2: has neither prompt nor messages"),
        ({"prompt_id": "b", "prompt": "?", "messages": []}, "line 2: has both prompt and messages"),
        ({"prompt_id": "b", "prompt": " "}, "line 2: prompt is no text"),
        ({"prompt_id": "b", "messages": []}, "line 2: messages is no list"),
        ({"prompt_id": "b", "messages": ["?"]}, "line 2: message 1 has no known role"),
        ({"prompt_id": "b", "messages": [{"role": "user"}]}, "line 2: message 1 has no content"),
        ({"prompt_id": "b", "prompt": "?", "check": "fuzzy"}, "line 2: check is 'fuzzy'; write one of exact"),
        ({"prompt_id": "b", "prompt": "?", "check": "exact"}, "line 2: check is exact without a reference"),
        (
            {"prompt_id": "b", "prompt": "?", "reference": "4"},
            "line 2: has a reference, and nothing says how",
        ),
        (
            {"prompt_id": "b", "prompt": "?", "reference": "(", "check": "regex"},
            "line 2: the reference is no regular",
        ),
    ],
)
def test_what_is_no_prompt_is_refused_by_its_line(tmp_path: Path, row: object, said: str) -> None:
    path = lines(tmp_path, {"prompt_id": "first", "prompt": "?"}, row)
    with pytest.raises(BadInput) as refused:
        read_prompts(path, None)
    assert str(refused.value).startswith(f"{path} {said}")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.jsonl", "", "holds no prompts"),
        ("p.csv", "prompt_id,prompt\nq1,a,b\n", "line 2: has more cells than the header"),
        ("p.csv", 'prompt_id,prompt\nq1,"a\nb"\nq2,\n', "line 4: has neither prompt nor messages"),
        ("p.parquet", "no parquet", "cannot be read as parquet"),
        ("p.txt", "What?", "not a known kind of prompt file"),
    ],
)
def test_a_file_that_is_no_prompt_file_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=said):
        read_prompts(tmp_path / name, None)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    for name in ("p.jsonl", "p.csv", "p.parquet"):
        with pytest.raises(BadInput, match="no such file"):
            read_prompts(tmp_path / name, None)


def test_without_a_judge_every_prompt_needs_a_reference(tmp_path: Path) -> None:
    rows = ({"prompt_id": "a", "prompt": "?", "reference": "x"}, {"prompt_id": "b", "prompt": "?"})
    with pytest.raises(BadInput, match="line 2: has no reference to check answers with"):
        read_prompts(lines(tmp_path, *rows), "exact", all_checked=True)


def test_the_digest_is_of_content_and_not_of_order() -> None:
    one, two = Prompt("a", ASKED), Prompt("b", ASKED, "exact", "4")
    assert digest((one, two)) == digest((two, one))
    others = (Prompt("b", ASKED), Prompt("b", ASKED, "exact", "5"), Prompt("b", ASKED, "regex", "4"))
    assert len({digest((one, other)) for other in (two, *others)}) == 4
