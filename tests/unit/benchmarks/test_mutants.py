"""Mutants that are told to be equivalent are of lines that are there: who changes one has to look at it again. And any
place can be turned.
"""

from pathlib import Path

import pytest

from tests.benchmarks.mutants.equivalent import EQUIVALENT
from tests.data import ROOT


def test_each_equivalent_mutant_is_of_a_line_that_is_there() -> None:
    lines = {
        each.path: {line.strip() for line in (ROOT / each.path).read_text().splitlines()}
        for each in EQUIVALENT
    }
    assert not [each for each in EQUIVALENT if each.before not in lines[each.path]]


@pytest.mark.parametrize(
    "caught", ["", "OSError", "(OSError, ValueError) as error", "(*SOME, OSError)", "os.error"]
)
def test_what_a_program_catches_ends_no_sample(tmp_path: Path, caught: str) -> None:
    """A sample of the router ended with an error of Cosmic Ray's, at the first place that caught others' exceptions."""
    pytest.importorskip("cosmic_ray")
    from tests.benchmarks.mutants.sites import mutant, sites

    (tmp_path / "caught.py").write_text(f"try:\n    done = 1 > 0\nexcept {caught}:\n    raise\n")
    found = [
        mutant(tmp_path, site, way)
        for site in sites(tmp_path, Path("caught.py"))
        for way in range(len(site.ways))
    ]
    plain = caught not in ("", "(*SOME, OSError)", "os.error")
    assert ("ExceptionReplacer" in {each.operator for each in found if each is not None}) is plain
