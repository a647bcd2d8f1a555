"""A verdict costs what its kind of judge reads and writes."""

import numpy as np
import pytest

from cascadia_judge.errors import BadVerdict
from cascadia_judge.llm.cost import EMBEDDING_TOKENS_MAX, JudgeLoad, judge_load
from cascadia_judge.llm.prompt import PROMPT_TOKENS

QUESTION, ANSWER = np.array([10, 100]), np.array([20, 900])


def test_an_llm_judge_reads_its_instructions_the_question_and_the_answer_and_writes_one_token() -> None:
    load = judge_load("llm")
    assert load.read_tokens(QUESTION, ANSWER).tolist() == [PROMPT_TOKENS + 30, PROMPT_TOKENS + 1000]
    assert load.output_tokens == 1


def test_an_embedding_judge_reads_a_beginning_and_writes_nothing() -> None:
    load = judge_load("embedding")
    assert load.read_tokens(QUESTION, ANSWER).tolist() == [30, EMBEDDING_TOKENS_MAX]
    assert load.output_tokens == 0


def test_certainty_reads_nothing() -> None:
    assert judge_load("certainty").read_tokens(QUESTION, ANSWER).tolist() == [0, 0]
    assert judge_load("certainty").usd(QUESTION, ANSWER, 3.0, 10.0) == 0.0


def test_the_price_is_that_of_all_tokens() -> None:
    load = JudgeLoad("llm", prompt_tokens=70, output_tokens=2)
    # 2 * 70 + 30 + 1000 = 1170 tokens read at 3 $/M, 4 written at 10 $/M.
    assert load.usd(QUESTION, ANSWER, 3.0, 10.0) == pytest.approx((1170 * 3 + 4 * 10) / 1e6)


def test_tokens_below_nought_are_refused() -> None:
    with pytest.raises(BadVerdict, match="tokens below 0"):
        JudgeLoad("llm", prompt_tokens=-1, output_tokens=1)
    with pytest.raises(BadVerdict, match="tokens below 0"):
        JudgeLoad("llm", prompt_tokens=1, output_tokens=-1)
    assert JudgeLoad("llm", prompt_tokens=0, output_tokens=0).read_tokens(QUESTION, ANSWER).tolist() == [
        30,
        1000,
    ]
