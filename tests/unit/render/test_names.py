import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.render.names import LONGEST_LABEL, labels

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def test_a_name_that_is_a_label_stays() -> None:
    assert labels(["small", "large-70b"]) == ("small", "large-70b")


def test_other_names_keep_what_they_can() -> None:
    assert labels(["Llama 3.1 (8B)", "Grün", "日本"]) == ("llama-3-1-8b", "grun", "x")


def test_a_name_that_would_clash_gives_way_to_the_one_that_is_a_label() -> None:
    first, second = labels(["Small!", "small"])
    assert second == "small"
    assert re.fullmatch(r"small-[0-9a-f]{6}", first)


def test_a_long_name_is_cut_and_told_apart() -> None:
    one, two = labels(["a" * 80 + "1", "a" * 80 + "2"])
    assert len(one) == len(two) == LONGEST_LABEL
    assert one != two


@pytest.mark.long
@given(st.lists(st.text(max_size=70)))
def test_labels_are_valid_and_all_different(names: list[str]) -> None:
    found = labels(names)
    assert all(DNS_LABEL.fullmatch(label) and len(label) <= LONGEST_LABEL for label in found)
    assert len(set(found)) == len(names)
    assert labels(names) == found
