"""The bundled example's quality table: made up, from a fixed seed.

Its answers behave as real ones do where it matters to a planner: prompts differ in how hard they are, larger models
are better on most of them and write more, and the judge sees quality through noise, more of it at the extremes.
"""

import numpy as np

from cascadia.domain.quality import Floats, QualityTable

STAGES = ("small", "medium", "large")

_ABILITY = np.array([[1.2], [1.9], [2.8]])
"""Per stage, in standard deviations of difficulty: quality is a logistic of ability less difficulty."""

_MEDIAN_OUTPUT_TOKENS = np.array([[170.0], [210.0], [230.0]])


def example_quality(questions: int = 1_000, seed: int = 2024) -> QualityTable:
    """Quality of three models' answers to `questions` prompts, and the scores that a small judge gives them."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(size=questions)
    luck = rng.normal(scale=0.7, size=(len(STAGES), questions))
    quality = 100 / (1 + np.exp(-1.5 * (_ABILITY - difficulty + luck)))
    return QualityTable(
        prompt_ids=tuple(f"q{number:04d}" for number in range(questions)),
        stages=STAGES,
        score=_judged(quality, difficulty, rng),
        quality=np.round(quality, 1),
        input_tokens=_lengths(rng, np.full((1, questions), 500.0), 1.0, 16_384).repeat(len(STAGES), axis=0),
        output_tokens=_lengths(rng, _MEDIAN_OUTPUT_TOKENS * np.exp(0.25 * difficulty), 0.75, 4_096),
    )


def _judged(quality: Floats, difficulty: Floats, rng: np.random.Generator) -> Floats:
    """Whole numbers that lean to the middle: a small judge neither trusts the good nor sees through the bad."""
    noise = rng.normal(size=quality.shape) * (8 + 4 * np.abs(difficulty))
    said: Floats = np.clip(np.rint(25 + 0.65 * quality + noise), 0, 100)
    return said


def _lengths(rng: np.random.Generator, median: Floats, sigma: float, most: int) -> Floats:
    """Lognormal whole numbers of tokens."""
    return np.clip(np.rint(median * np.exp(sigma * rng.normal(size=median.shape))), 1, most)
