"""Every failure has a kind, one line and an exit code."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from cascadia.cli.shared.errors import failure, one_line
from cascadia.domain.errors import BadInput, Infeasible
from cascadia_judge.errors import BadVerdict
from cascadia_sim.errors import BadInput as SimBadInput
from cascadia_traces.errors import BadInput as TraceBadInput

REPORT = "please report it, with what CASCADIA_DEBUG=1 prints"


@pytest.mark.parametrize(
    ("error", "kind", "code", "line"),
    [
        (BadInput("a.yaml: x", "is wrong", "mend it"), "bad-input", 2, "error: a.yaml: x: is wrong; mend it"),
        (
            TraceBadInput("t.csv row 3", "is negative", "mend it"),
            "bad-input",
            2,
            "error: t.csv row 3: is negative; mend it",
        ),
        (SimBadInput("gpu", "unknown GPU 'x'"), "bad-input", 2, "error: gpu: unknown GPU 'x'"),
        (
            Infeasible("quality 93 needs 40 GPUs", "with 32: 91.2"),
            "infeasible",
            3,
            "infeasible: quality 93 needs 40 GPUs; with 32: 91.2",
        ),
        (
            click.UsageError("No such option '--x'."),
            "usage",
            2,
            "error: No such option '--x' (see `cascadia --help`)",
        ),
        (KeyboardInterrupt(), "interrupted", 130, "error: interrupted"),
        (click.Abort(), "interrupted", 130, "error: interrupted"),
        (
            OSError(28, "No space left on device", "x.json"),
            "system",
            1,
            "error: No space left on device (x.json)",
        ),
        (
            OSError(36, "File name too long", "x" * 300),
            "bad-input",
            2,
            f"error: {'x' * 100}...: is too long a path; name a shorter one",
        ),
        (MemoryError(), "system", 1, "error: out of memory"),
        (
            ZeroDivisionError("division by zero"),
            "internal",
            1,
            f"internal error: ZeroDivisionError: division by zero; {REPORT}",
        ),
        (
            ValueError("rate not sustainable"),
            "internal",
            1,
            f"internal error: ValueError: rate not sustainable; {REPORT}",
        ),
    ],
)
def test_an_error_is_what_it_is(error: BaseException, kind: str, code: int, line: str) -> None:
    told = failure(error)
    assert (told.kind, told.exit_code, told.line) == (kind, code, line)
    assert told.document()["error"]["kind"] == kind


def test_the_parts_of_bad_input_reach_programs() -> None:
    document = failure(BadInput("a", "b", "c")).document()
    assert document["error"] == {
        "kind": "bad-input",
        "exit_code": 2,
        "message": "a: b; c",
        "where": "a",
        "what": "b",
        "instead": "c",
    }


class Refusal(Protocol):
    def __call__(self, where: str, what: str, instead: str) -> Exception: ...


@pytest.mark.parametrize("refusal", [BadInput, SimBadInput, TraceBadInput, BadVerdict])
def test_each_packages_refusal_is_told_alike_and_crosses_processes_whole(refusal: Refusal) -> None:
    error = refusal("a", "b", "c")
    assert failure(error) == failure(pickle.loads(pickle.dumps(error))) == failure(BadInput("a", "b", "c"))
    assert str(error) == "a: b; c"


@pytest.mark.parametrize("refusal", [BadInput, SimBadInput, TraceBadInput, BadVerdict])
def test_a_refusal_keeps_its_place_where_a_failure_to_read_a_value_is_caught(
    refusal: type[Exception],
) -> None:
    class Model(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def refused(cls, _: int) -> int:
            raise refusal("a", "b", "c")

    with pytest.raises(refusal, match="a: b; c"):
        Model(number=1)


@given(st.text())
def test_a_line_is_one_line_that_no_terminal_obeys(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()


@contextmanager
def nothing_held() -> Iterator[None]:
    yield


def test_errors_pass_through_context_managers() -> None:
    with pytest.raises(BadInput), nothing_held():
        raise BadInput("a", "b")


def test_the_command_line_starts_without_what_only_commands_need() -> None:
    heavy = ("numba", "pyarrow", "pydantic", "rich", "highspy", "pulp", "numpy", "yaml", "jinja2")
    script = f"import sys, cascadia.cli.main; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "[]\n"
