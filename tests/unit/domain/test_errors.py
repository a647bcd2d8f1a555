"""An error is one line and an exit code."""

import pytest

from cascadia.domain.errors import BadInput, CascadiaError, Infeasible, OutOfTime


@pytest.mark.parametrize(
    ("error", "line", "exit_code"),
    [
        (CascadiaError("what"), "what", 1),
        (BadInput("where", "what", "instead"), "where: what; instead", 2),
        (BadInput("where", "what"), "where: what", 2),
        (Infeasible("binds", "nearest"), "infeasible: binds; nearest", 3),
        (OutOfTime("what", "instead"), "what; instead", 1),
    ],
)
def test_it_says_where_what_and_what_to_do(error: CascadiaError, line: str, exit_code: int) -> None:
    assert (str(error), error.exit_code) == (line, exit_code)
