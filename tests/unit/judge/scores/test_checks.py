"""A check says whether an answer is right, and refuses references that nothing can be compared with."""

import pytest

from cascadia_judge.errors import BadVerdict
from cascadia_judge.scores.checks import CHECKS, Check, is_right, refuse_reference

AGE = {"type": "object", "required": ["age"], "properties": {"age": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("check", "reference", "answer", "right"),
    [
        ("exact", "Paris", " paris.\n", True),
        ("exact", "Paris", "**Paris**", True),
        ("exact", "Paris", "The capital is Paris", False),
        ("exact", ["UK", "United Kingdom"], "united  kingdom", True),
        ("exact", 42, "42", True),
        ("exact", "-5", "5", False),
        ("exact", "-5", "-5", True),
        ("exact", True, "True", True),
        ("exact", "4", "<think>2 + 2 is 5? No.</think>\n\n4", True),
        ("exact", "4", "2 + 2 is 5? No.\n</think>4", True),
        ("regex", r"\b42\b", "It is 42.", True),
        ("regex", r"\b42\b", "It is 142.", False),
        ("regex", r"(?i)paris", "PARIS", True),
        ("regex", r"\b5\b", "<think>perhaps 5</think>4", False),
        ("json-schema", AGE, '{"age": 3}', True),
        ("json-schema", AGE, '```json\n{"age": 3}\n```', True),
        ("json-schema", AGE, '{"age": "3"}', False),
        ("json-schema", AGE, 'Here you are: {"age": 3}', False),
        ("json-schema", AGE, "", False),
        ("json-schema", '{"type": "integer"}', "7", True),
    ],
)
def test_an_answer_is_right_or_not(check: Check, reference: object, answer: str, right: bool) -> None:
    refuse_reference(check, reference, "here")
    assert is_right(check, reference, answer) is right


def test_json_nested_beyond_what_can_be_read_is_wrong_and_no_crash() -> None:
    assert not is_right("json-schema", AGE, "[" * 200_000)


@pytest.mark.parametrize(
    ("check", "reference", "said"),
    [
        ("exact", None, "here: the reference is no text"),
        ("exact", [], "here: the reference is no text"),
        ("exact", {"a": 1}, "here: the reference is no text"),
        ("exact", " . ", "here: the reference is empty"),
        ("regex", "(", "here: the reference is no regular expression"),
        ("regex", 3, "here: the reference is no regular expression"),
        ("json-schema", {"type": "number of apples"}, "here: the reference is no JSON schema"),
        ("json-schema", "{", "here: the reference is no JSON schema"),
        ("json-schema", None, "here: the reference is no JSON schema"),
    ],
)
def test_a_reference_that_is_none_is_refused(check: Check, reference: object, said: str) -> None:
    with pytest.raises(BadVerdict, match=said):
        refuse_reference(check, reference, "here")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"properties": {"a": {"$ref": "#/$defs/absent"}}},
        {"$ref": "#"},
    ],
)
def test_a_schema_that_needs_what_is_not_in_it_is_refused_without_being_fetched(schema: object) -> None:
    with pytest.raises(BadVerdict, match="refers to what is not in it"):
        refuse_reference("json-schema", schema, "here")


def test_a_schema_may_refer_to_its_own_parts() -> None:
    schema = {"$defs": {"one": {"type": "integer"}}, "items": {"$ref": "#/$defs/one"}}
    refuse_reference("json-schema", schema, "here")
    assert is_right("json-schema", schema, "[1, 2]")
    assert not is_right("json-schema", schema, '["1"]')


def test_every_check_is_named() -> None:
    assert CHECKS == ("exact", "regex", "json-schema")
