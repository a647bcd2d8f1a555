"""Tests that are asked of a mutant, the quickest first."""

from collections.abc import Iterable, Iterator, Sequence

from tests.benchmarks.mutants.record import Recorded
from tests.benchmarks.mutants.sites import Mutant

FIRST = 30
ROUND_S = 30.0
"""CPU seconds, as recorded, of the tests that are asked of a mutant which the first do not notice."""


def rounds(recorded: Sequence[Recorded], one: Mutant) -> Iterator[list[str]]:
    """The quickest that execute the statement; then as many as `ROUND_S` allows of all in their files, where an earlier
    test may have spared a later one the line by what it has left in memory."""
    seconds: dict[str, float] = {}
    direct: set[str] = set()
    for record in recorded:
        touching = record.touching(one.path, one.lines)
        files = files_of(touching)
        seconds |= {test: s for test, s in record.seconds.items() if _file(test) in files}
        direct |= touching
    quickest = sorted(direct, key=lambda test: (seconds[test], test))[:FIRST]
    yield _by_file(quickest)
    left_s = ROUND_S
    others = sorted(
        seconds.keys() - set(quickest), key=lambda test: (test not in direct, seconds[test], test)
    )
    yield _by_file([test for test in others if (left_s := left_s - seconds[test]) > 0])


def files_of(tests: Iterable[str]) -> list[str]:
    return sorted({_file(test) for test in tests})


def _file(test: str) -> str:
    return test.partition("::")[0]


def _by_file(tests: Sequence[str]) -> list[str]:
    """In their order, but for those of a file, which follow its first: they share what is set up once for all."""
    place = {_file(test): i for i, test in reversed(list(enumerate(tests)))}
    return sorted(tests, key=lambda test: place[_file(test)])
