"""The demo's gate reads the answer: what it was trained on, and what it may look at."""

from cascadia.demo.stages import HEAD
from cascadia_judge.head.file import load


def test_every_head_that_judges_an_answer_reads_it() -> None:
    heads, about = load(HEAD.read_text(encoding="utf-8"), str(HEAD))
    groups = [head.groups for head in heads]
    assert ("question",) in groups
    assert ("question", "answer", "certainty") in groups
    assert all("answer" in group for group in groups if group != ("question",))
    assert about["decoys"] > 0
