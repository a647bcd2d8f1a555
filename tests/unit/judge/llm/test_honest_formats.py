"""An honest answer reaches its judge whole, whatever its format: nothing is taken away, so nothing lowers its score."""

import re
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cascadia_judge.head.features import JudgeInput, look
from cascadia_judge.injection.normalise import REPEATS_MAX
from cascadia_judge.llm.llm import MANNERS, request
from cascadia_judge.llm.prompt import messages
from tests.injection.honest import FORMATS, HONEST
from tests.unit.judge.heard import Hearing

ALL = [(name, answer) for name, answers in HONEST.items() for answer in answers]

texts = st.text(st.characters(exclude_categories=("C", "M"), exclude_characters="<[|\uff5c"), min_size=1)
letters = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="<["), min_size=1)


def marked(answer: str) -> str:
    """What stands where the answer does in the prompt of an LLM judge."""
    content = messages("What is 300 + 66?", answer)[1]["content"]
    found = re.search(r"\[answer ([0-9a-f]+)\]\n(.*)\n\[end of answer \1\]", content, re.DOTALL)
    assert found is not None
    return found.group(2)


@pytest.mark.parametrize(("name", "answer"), ALL)
def test_an_llm_judge_reads_an_honest_answer_as_it_was_written(name: str, answer: str) -> None:
    assert marked(answer) == answer, name
    assert f"\n{answer}\n" in request("What is 300 + 66?", answer, MANNERS[0])["messages"][1]["content"]


@pytest.mark.parametrize("name", FORMATS)
@given(text=texts)
def test_so_it_does_whatever_stands_in_the_format(name: str, text: str) -> None:
    answer = FORMATS[name](text)
    assert marked(answer) == answer


@pytest.mark.parametrize(("name", "answer"), ALL)
def test_an_embedding_judge_is_given_all_that_is_to_be_seen_of_it_once(name: str, answer: str) -> None:
    encoder = Hearing()
    look(encoder, [JudgeInput("What is 300 + 66?", answer)])
    assert [_bare(text) for text in encoder.heard] == [_bare("What is 300 + 66?"), _bare(answer)], name


@pytest.mark.parametrize("name", FORMATS)
@given(text=letters)
def test_so_it_is_whatever_stands_in_the_format(name: str, text: str) -> None:
    answer = FORMATS[name](text)
    assume(not re.search(rf"(\S)\1{{{REPEATS_MAX}}}", answer))
    encoder = Hearing()
    look(encoder, [JudgeInput("", answer)])
    assert _bare(encoder.heard[-1]) == _bare(answer)


def _bare(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())
