"""What a vector costs: processor time and memory of the sentence encoder, one thread.

`python -m tests.benchmarks.bench_encoder [FOLDER]`
"""

import argparse
import time
from pathlib import Path

import numpy as np

from cascadia_judge.encoder.encoder import Encoder
from tests.benchmarks.judge_vectors import encoder_folder
from tests.benchmarks.report_table import markdown

WORDS = (
    "jumps",
    "over",
    "lazy",
    "dog",
    "seven",
    "old",
    "men",
    "look",
    "wonder",
    "what",
    "in",
    "the",
    "quick",
    "fox",
)
"""Each is one token."""
TOKENS = (5, 14, 40, 128, 250)
ROUNDS = 3


def cpu_ms(encoder: Encoder, texts: list[list[str]]) -> float:
    """Of a text, the least of `ROUNDS` means; `texts` are encoded list by list."""
    best = np.inf
    for _ in range(ROUNDS):
        started = time.process_time()
        for some in texts:
            encoder.encode(some)
        best = min(best, time.process_time() - started)
    return 1e3 * best / sum(map(len, texts))


def resident_mb(kind: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(kind)).split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="what a vector costs")
    parser.add_argument("folder", type=Path, nargs="?", help="of the encoder; default: the demo's, fetched")
    folder = encoder_folder(parser.parse_args().folder)
    before_mb = resident_mb("VmRSS")
    started = time.process_time()
    encoder = Encoder.read(folder)
    read_s = time.process_time() - started
    read_mb = resident_mb("VmRSS")
    rng = np.random.default_rng(0)
    lines = []
    for tokens in TOKENS:
        some = [" ".join(rng.choice(WORDS, tokens)) for _ in range(max(8, 400 // tokens))]
        encoder.encode(some[:1])
        lines.append(
            (
                str(tokens),
                f"{cpu_ms(encoder, [[each] for each in some]):.1f}",
                f"{cpu_ms(encoder, [some]):.1f}",
            )
        )
    print(markdown(("tokens", "ms of a core, one text at a time", "in a batch"), lines))
    print(
        f"read in {read_s:.2f} s of a core; resident {before_mb:.0f} MB before, {read_mb:.0f} MB after",
        end="",
    )
    print(f", {resident_mb('VmRSS'):.0f} MB after use, {resident_mb('VmHWM'):.0f} MB at the most")


if __name__ == "__main__":
    main()
