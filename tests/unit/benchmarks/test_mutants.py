"""Mutants that are told to be equivalent are of lines that are there: who changes one has to look at it again."""

from tests.benchmarks.mutants.equivalent import EQUIVALENT
from tests.data import ROOT


def test_each_equivalent_mutant_is_of_a_line_that_is_there() -> None:
    lines = {
        each.path: {line.strip() for line in (ROOT / each.path).read_text().splitlines()}
        for each in EQUIVALENT
    }
    assert not [each for each in EQUIVALENT if each.before not in lines[each.path]]
