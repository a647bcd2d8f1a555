"""What each stage puts around a question: examples of its own way to answer, and nothing of the questions asked."""

import re

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cascadia.demo.questions.questions import demo_questions
from cascadia.demo.stages import LARGE, SMALL, STAGES, Stage


def rendered(stage: Stage, *messages: tuple[str, str]) -> str:
    """As engines do: blocks take their line's end with them."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    said = [{"role": role, "content": text} for role, text in messages]
    return environment.from_string(stage.template.read_text(encoding="utf-8")).render(messages=said)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_the_question_comes_last_and_the_model_goes_on(stage: Stage) -> None:
    text = rendered(stage, ("user", "What is 6 times 7?"))
    assert text.endswith("<|im_start|>user\nWhat is 6 times 7?<|im_end|>\n<|im_start|>assistant\n")
    assert text.startswith("<|im_start|>system\n")
    turns = re.findall(r"<\|im_start\|>(\w+)\n", text)
    assert turns == ["system", *["user", "assistant"] * (len(turns) // 2)]


def test_of_sums_the_small_model_is_shown_the_number_alone_and_the_large_one_steps() -> None:
    sums = {
        stage.name: [
            answer
            for answer in re.findall(
                r"<\|im_start\|>assistant\n(.+?)<\|im_end\|>", rendered(stage, ("user", "?"))
            )
            if re.search(r"\d", answer)
        ]
        for stage in STAGES
    }
    assert len(sums[SMALL.name]) == len(sums[LARGE.name]) == 3
    assert all(answer.isdigit() for answer in sums[SMALL.name])
    assert all("=" in answer for answer in sums[LARGE.name])


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_no_example_is_a_question_of_the_demo(stage: Stage) -> None:
    text = rendered(stage, ("user", "?"))
    assert not [question.text for question in demo_questions() if question.text in text]
