"""Go's YAML parsers (kubectl, helm, compose) take bare words for values where PyYAML does not."""

import pytest
import yaml

from cascadia.render.yaml_text import yaml_text


@pytest.mark.parametrize(
    "word",
    ["1e3", "0x1f", "0o17", "012", "1_000", "12:30", ".5", "+1", "y", "N", "on", "null", "~", "", "true"],
)
def test_text_that_looks_like_a_value_is_quoted(word: str) -> None:
    assert yaml_text([{"a": word}]) == f'a: "{word}"\n'


@pytest.mark.parametrize("word", ["small", "16Gi", "--port=8000", "a b", "h100-sxm"])
def test_other_text_is_bare(word: str) -> None:
    assert yaml_text([{"a": word}]) == f"a: {word}\n"


def test_values_used_twice_are_written_twice() -> None:
    shared = {"b": [1, 2]}
    text = yaml_text([{"x": shared, "y": shared}])
    assert "&" not in text
    assert yaml.safe_load(text) == {"x": {"b": [1, 2]}, "y": {"b": [1, 2]}}
