"""Early verdicts of the demo's judge: how many, how near the whole judge's, and the CPU that they spare.

    python -m tests.benchmarks.bench_judge_exits [--cases N] [--risk R] [--points P]

Questions of the demo's kinds are judged by the head that knows the question alone, since the models' answers are not
kept. Exits are certified on one half of the stream and timed, in pairs with the whole judge, on the rest. Linear
algebra has one thread, as in `cascadia judge serve`: more wait for each other at full speed where others run.
"""

import argparse
import sys
import time
from random import Random

import numpy as np
from threadpoolctl import threadpool_limits

from cascadia.demo.questions.questions import training_questions
from cascadia.demo.stages import HEAD
from cascadia.domain.plan import ExitPromise
from cascadia.judge_service.exits import JudgeExits
from cascadia.judge_service.ramp import EarlyEncoder, digest
from cascadia.judge_service.train_ramp import fit_ramp
from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.encoder.encoder import Encoder
from tests.benchmarks.judge_vectors import encoder_folder

TAUGHT, SIZE = 1000, 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=4000, help="cases of the stream")
    parser.add_argument("--risk", type=float, default=0.05, help="share of verdicts that may differ")
    parser.add_argument("--points", type=float, default=10.0, help="further apart they differ")
    options = parser.parse_args()
    threadpool_limits(1, user_api="blas")
    folder = encoder_folder(None)
    judge, early = EmbeddingJudge.read(HEAD, Encoder.read(folder)), EarlyEncoder.read(folder)
    cases = [Case(one.text) for one in training_questions(TAUGHT + options.cases)]
    Random(0).shuffle(cases)
    ramp, _ = fit_ramp(judge, early, cases[:TAUGHT], digest(HEAD), options.points, options.risk)
    exits = JudgeExits(early, ramp, ExitPromise(options.risk, 0.9, 0.1), Random(0))
    stream = cases[TAUGHT:]
    half = len(stream) // 2
    for at in range(0, half, SIZE):
        exits.scores(judge, stream[at : at + SIZE])
    print("certified", exits.state)
    before, ratios, apart = dict(exits.state), [], []
    for at in range(half, len(stream), SIZE):
        some = stream[at : at + SIZE]
        start = time.process_time()
        whole = judge.scores(some)
        middle = time.process_time()
        found = exits.scores(judge, some)
        ratios.append((middle - start, time.process_time() - middle))
        apart += [abs(a.score - b.score) for a, b in zip(whole, found, strict=True)]
    base, ours = np.array(ratios).sum(axis=0)
    taken = exits.state["taken"] - before["taken"]
    print(
        f"{len(apart)} verdicts, {taken / len(apart):.1%} early; {np.mean(np.array(apart) > options.points):.2%} "
        f"off by more than {options.points:g} points, {np.mean(apart):.2f} in the mean; "
        f"CPU {ours / base - 1:+.1%}; {exits.state}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
