"""YAML's surprises don't reach a spec."""

import os
from pathlib import Path

import pytest
import yaml

from cascadia.domain.errors import BadInput
from cascadia.files.strict_yaml import parse_yaml
from cascadia.planner.spec.file import answers_in_one_pass, read_policy_spec, read_spec
from tests.unit.planner.specs import valid_spec


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("-3", -3),
        (".5", 0.5),
        ("true", True),
        ("~", None),
        ("'3'", "3"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    found = parse_yaml(f"key: {text}", "x.yaml")
    assert found == {"key": value}
    assert isinstance(found, dict)
    assert type(found["key"]) is type(value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3", "x.yaml line 3: key 'a' is given twice; keep one of them"),
        ("a: &x [1]\nb: *x", "x.yaml line 1: anchors and aliases are not supported; write the value out"),
        ("a: 1\n---\nb: 2", "x.yaml line 2: a second document begins; keep one document a file"),
        ("1: 2", "x.yaml line 1: a key is not text; quote it"),
        ("? [a]\n: 2", "x.yaml line 1: a key is not text; quote it"),
        ("a: " + "9" * 5000, "x.yaml line 1: a number has too many digits; write a smaller one"),
        ("[" * 5000, "x.yaml line 1: is nested more than 32 deep; flatten it"),
        (
            "a: 1\n b: 2",
            "x.yaml line 2: is not YAML (mapping values are not allowed here); "
            "check indentation, quotes and brackets there",
        ),
        ("a: \x00", "x.yaml: is not YAML (it holds control characters); save it as UTF-8"),
        (
            "a: !!python/name:os.system x",
            "x.yaml line 1: tags (tag:yaml.org,2002:python/name:os.system) are not supported; remove it",
        ),
    ],
)
def test_what_is_refused_is_told_with_its_line(text: str, line: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_yaml(text, "x.yaml")
    assert str(caught.value) == line


def test_a_bomb_of_aliases_is_refused_before_it_is_built() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{key}: &{key} [*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before}]\n"
        for before, key in zip("abcdefghijklmno", "bcdefghijklmnop", strict=True)
    )
    with pytest.raises(BadInput, match="anchors and aliases"):
        parse_yaml(bomb, "x.yaml")


def test_errors_name_the_file_and_not_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "cascade.yaml"
    path.write_text(yaml.safe_dump(valid_spec() | {"sede": 1}))
    with pytest.raises(BadInput) as caught:
        read_spec(path)
    assert str(caught.value) == "cascade.yaml: sede: unknown key; did you mean 'seed'?"


def test_files_that_hold_no_spec_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "cascade.yaml"
    for content, what in ((b"\xff\xfe\x00", "is not UTF-8 text"), (b"x" * 1_000_001, "is larger than")):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=what):
            read_spec(path)
    for missing, what in ((tmp_path / "no.yaml", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(BadInput, match=what):
            read_spec(missing)


def test_a_stream_is_refused_since_a_spec_is_read_more_than_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "spec")
    for read in (read_spec, read_policy_spec, answers_in_one_pass):
        with pytest.raises(BadInput, match=r"spec: is a stream, .* write it to a file first"):
            read(tmp_path / "spec")
