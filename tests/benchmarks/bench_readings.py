"""What it costs to look through an answer for what speaks to a judge: `python -m tests.benchmarks.bench_readings`.

Processor time for 6,000 characters of real answers (WildBench, read in place), by how they look. The best of `RUNS`.
"""

import gzip
import json
import time
from collections.abc import Callable

from cascadia_judge.attempts import readings
from cascadia_judge.plain import plain
from tests.benchmarks.report_table import markdown
from tests.data import data_dir

MODEL = "Qwen1.5-72B-Chat-greedy"
ANSWERS = 300
CHARACTERS = 6_000
RUNS = 3


def _ms(look: Callable[[str], object], answers: list[str]) -> float:
    took = []
    for _ in range(RUNS):
        start = time.process_time()
        for answer in answers:
            look(answer)
        took.append(time.process_time() - start)
    return 1000 * min(took) * CHARACTERS / sum(map(len, answers))


def main() -> None:
    with gzip.open(data_dir() / f"judging/wildbench_gpt4o_{MODEL}.json.gz", "rt") as file:
        answers = [entry["model_output"] for entry in json.load(file) if entry["model_output"]][:ANSWERS]
    once = [answer for answer in answers if len(readings(answer)) == 1]
    kinds = {
        "all": answers,
        "one reading": once,
        "one reading, ASCII": [answer for answer in once if answer.isascii()],
        "two readings": [answer for answer in answers if len(readings(answer)) > 1],
    }
    rows = [
        (
            name,
            str(len(some)),
            f"{sum(map(len, some)) / len(some):,.0f}",
            f"{_ms(plain, some):.2f}",
            f"{_ms(readings, some):.2f}",
        )
        for name, some in kinds.items()
    ]
    print(markdown(("answers", "n", "characters", "made plain, ms", "read, ms"), rows))


if __name__ == "__main__":
    main()
