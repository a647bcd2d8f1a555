"""Quality tables for tests: random ones with known structure, and an enumeration of routings by hand."""

from itertools import combinations, product

import numpy as np

from cascadia.domain.quality import QualityTable


def random_table(
    stages: int, prompts: int, seed: int, *, levels: int | None = None, noise: float = 12.0
) -> QualityTable:
    """Stages of rising quality on prompts of varying difficulty; the gate's score is quality plus noise.

    With `levels`, scores and qualities are multiples of 100 / levels.
    """
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=prompts)
    shift = 0.7 * np.arange(stages)[:, None]
    quality = 100 / (1 + np.exp(-(shift + ease + 0.7 * rng.normal(size=(stages, prompts)))))
    score = np.clip(quality + noise * rng.normal(size=quality.shape), 0, 100)
    if levels is not None:
        quality, score = (np.round(x * levels / 100) * 100 / levels for x in (quality, score))
    return table_of(score, quality)


def table_of(score: object, quality: object = None) -> QualityTable:
    seen = np.asarray(score, dtype=np.float64)
    count = seen.shape[1]
    return QualityTable(
        prompt_ids=tuple(f"p{i}" for i in range(count)),
        stages=tuple("abcde"[: len(seen)]),
        score=seen,
        quality=seen if quality is None else np.asarray(quality, dtype=np.float64),
        input_tokens=np.full(seen.shape, 100.0),
        output_tokens=np.full(seen.shape, 10.0),
    )


def route(
    table: QualityTable,
    subset: tuple[int, ...],
    thresholds: tuple[float, ...],
    skips: tuple[float, ...] | None = None,
) -> tuple[list[float], float]:
    """Reached fractions and mean quality, prompt by prompt as a router would do it."""
    reached = [0.0] * len(table.stages)
    quality = 0.0
    for prompt in range(len(table)):
        skipping = (*(skips or (0.0,) * len(thresholds)), 0.0)
        for stage, threshold, skip in zip(subset, (*thresholds, -1.0), skipping, strict=True):
            if table.foreseen is not None and table.foreseen[stage, prompt] < skip:
                continue
            reached[stage] += 1 / len(table)
            if table.score[stage, prompt] >= threshold:
                quality += table.quality[stage, prompt] / len(table)
                break
    return reached, quality


def brute_force(table: QualityTable) -> set[tuple[float, ...]]:
    """The non-dominated (reached..., mean), rounded to 1e-6, over all subsets and all levels and `none`."""
    points: set[tuple[float, ...]] = set()
    count = len(table.stages)
    for size in range(1, count + 1):
        for subset in combinations(range(count), size):
            levels = [[*np.unique(table.score[gate]), 101.0] for gate in subset[:-1]]
            for thresholds in product(*levels):
                reached, mean = route(table, subset, thresholds)
                points.add((*(round(r, 6) for r in reached), round(mean, 6)))
    return beaten_left_out(points)


def beaten_left_out(points: set[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """Of (reached..., mean) those that none beats: no less quality and no more load anywhere."""

    def beats(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
        return a != b and a[-1] >= b[-1] and all(x <= y for x, y in zip(a[:-1], b[:-1], strict=True))

    return {p for p in points if not any(beats(q, p) for q in points)}
