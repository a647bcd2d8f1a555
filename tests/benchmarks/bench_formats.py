"""What judges' reading does to honest answers, by format, and what it costs: `python -m tests.benchmarks formats`.

    python -m tests.benchmarks.bench_formats [--encoder FOLDER] [--scored N]

Real answers of ten models (WildBench and GSM8K, read in place), and the last line of each answer to GSM8K as models
put a short answer: in Markdown, JSON, XML and code. Of an LLM judge: how many are altered in its prompt, and whether
one is lost from it. Of the demo's head: by how much its score of the text as it is made plain differs from that of the
text itself, on `--scored` answers a format. Then processor time for answers of real lengths.

Exits with 1 where more than 1 % of real answers are altered for an LLM judge, or one is lost.
"""

import argparse
import csv
import gzip
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.head import features
from cascadia_judge.injection.normalise import is_blank, plain
from cascadia_judge.llm.llm import MANNERS, request
from cascadia_judge.llm.prompt import parted
from tests.benchmarks.judge_vectors import encoder_folder
from tests.benchmarks.report_table import markdown
from tests.data import data_dir
from tests.injection.honest import FORMATS

ALTERED_MAX = 0.01
RUNS = 5
QUANTILES = (0.5, 0.95, 0.99)

_FENCED = re.compile(r"```(?:json)?\n(.*)\n```", re.DOTALL)
_TAG = re.compile(r"</[A-Za-z][\w:-]*>")
_MARKDOWN = re.compile(r"^\s*(?:#{1,6} |[-*+] |\d+\. |\|.*\|)|\*\*[^*\n]+\*\*", re.MULTILINE)


class Answered(NamedTuple):
    question: str
    answer: str


def format_of(answer: str) -> str:
    text = answer.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        if isinstance(json.loads(fenced.group(1) if fenced else text), dict | list):
            return "JSON"
    except ValueError:
        pass
    if _TAG.search(text):
        return "XML"
    if "```" in text:
        return "code"
    return "Markdown" if _MARKDOWN.search(text) else "plain"


def wildbench() -> Iterator[Answered]:
    """Without questions, which its files do not have."""
    for path in sorted((data_dir() / "judging").glob("wildbench_gpt4o_*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from (Answered("", row["model_output"]) for row in json.load(file) if row["model_output"])


def gsm8k() -> Iterator[Answered]:
    with gzip.open(
        data_dir() / "quality" / "routellm_gsm8k_responses.csv.gz", "rt", encoding="utf-8"
    ) as file:
        for row in csv.DictReader(file):
            for name, text in row.items():
                if name.endswith("_response") and text:
                    yield Answered(row["prompt"], text)


def put_shortly(answers: Sequence[Answered]) -> dict[str, list[Answered]]:
    """The last line of each, in each format."""
    last = [(one.question, one.answer.strip().splitlines()[-1].removeprefix("#### ")) for one in answers]
    return {
        name: [Answered(question, put(text)) for question, text in last]
        for name, put in FORMATS.items()
        if name in ("Markdown", "JSON", "XML", "code")
    }


def lost(one: Answered) -> bool:
    """Whether an LLM judge is not shown all of it."""
    body = request(one.question, one.answer, MANNERS[0], reads_tokens=10**6)
    shown = str(body["messages"][1]["content"])
    return is_blank(one.answer) or f"]\n{parted(one.answer)}\n[end of answer" not in shown


def differences(judge: EmbeddingJudge, answers: Sequence[Answered], at_most: int) -> list[float]:
    """Points by which the head's score of the text made plain is above that of the text as it was written."""
    some = answers[:: max(1, len(answers) // at_most)][:at_most]
    # What is the same text has the same score.
    changed = [one for one in some if plain(one.answer) != one.answer]
    cases = [Case(one.question, one.answer.encode("utf-8", "replace").decode()) for one in changed]
    read = [verdict.score for verdict in judge.scores(cases)] if cases else []
    with patch.object(features, "plain", lambda text: text):
        written = [verdict.score for verdict in judge.scores(cases)] if cases else []
    return [*(a - b for a, b in zip(read, written, strict=True)), *[0.0] * (len(some) - len(changed))]


def row(name: str, answers: Sequence[Answered], judge: EmbeddingJudge, scored: int) -> tuple[str, ...]:
    altered = mean(parted(one.answer) != one.answer for one in answers)
    points = differences(judge, answers, scored)
    return (
        name,
        f"{len(answers):,}",
        f"{100 * altered:.2f}",
        str(sum(map(lost, answers))),
        str(len(points)),
        f"{mean(points):+.2f}",
        f"{100 * mean(abs(point) >= 0.5 for point in points):.1f}",
        f"{min(points):+.1f}",
    )


def costs(answers: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Of answers about as long as each quantile: microseconds to part one, to write its prompt, to make it plain."""
    longer = sorted(answers, key=len)
    for quantile in QUANTILES:
        at = int(quantile * len(longer))
        some = longer[max(0, at - 100) : at + 100]
        ask = partial(request, "What is 300 + 66?", manner=MANNERS[0])
        looks: Sequence[Callable[[str], object]] = (parted, lambda text, ask=ask: ask(answer=text), plain)
        found = (f"{_microseconds(look, some):.0f}" for look in looks)
        yield f"p{100 * quantile:.0f}", f"{np.mean([len(text) for text in some]):,.0f}", *found


def _microseconds(look: Callable[[str], object], answers: Sequence[str]) -> float:
    took = []
    for _ in range(RUNS):
        start = time.process_time()
        for answer in answers:
            look(answer)
        took.append(time.process_time() - start)
    return 1e6 * min(took) / len(answers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--encoder", type=Path, help="folder of the sentence encoder; the catalogue's by default"
    )
    parser.add_argument("--scored", type=int, default=200, help="answers a row that the head scores (200)")
    given = parser.parse_args()
    head = Path(str(files("cascadia_judge").joinpath("data", "demo_head.json")))
    judge = EmbeddingJudge.read(head, Encoder.read(encoder_folder(given.encoder)))
    of_math, of_chat = list(gsm8k()), list(wildbench())
    real: Mapping[str, list[Answered]] = defaultdict(list)
    for one in (*of_chat, *of_math):
        real[format_of(one.answer)].append(one)
    every = [one for some in real.values() for one in some]
    groups = [(name, some) for name, some in real.items()] + [("all real", every)]
    groups += [(f"short, {name}", some) for name, some in put_shortly(of_math).items()]
    head_row = ("answers", "n", "LLM: altered %", "lost", "head: n", "mean points", "moved %", "most lost")
    print(markdown(head_row, [row(name, some, judge, given.scored) for name, some in groups]))
    print()
    head_row = ("length", "characters", "parted, µs", "whole prompt, µs", "made plain, µs")
    print(markdown(head_row, list(costs([one.answer for one in of_chat]))))
    share = mean(parted(one.answer) != one.answer for one in every)
    sys.exit(1 if share > ALTERED_MAX or any(map(lost, every)) else 0)


if __name__ == "__main__":
    main()
