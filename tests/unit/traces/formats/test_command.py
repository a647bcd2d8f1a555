"""`cascadia trace`, as a user and as a program would call it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cascadia.cli.shared.errors import failure
from cascadia.cli.trace.group import trace
from cascadia_traces.errors import BadInput
from cascadia_traces.formats.reading import read_trace
from tests.unit.traces.samples import MOONCAKE, file_of


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(trace, [str(argument) for argument in arguments])


def done(*arguments: str | Path) -> Result:
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.parquet"
    done("generate", path, "--arrivals", "gamma", "--cv", "3", "--rate", "10", "--requests", "2000")
    return path


def test_generate_gives_the_same_bytes_again(chat: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.parquet"
    done("generate", again, "--arrivals", "gamma", "--cv", "3", "--rate", "10", "--requests", "2000")
    assert again.read_bytes() == chat.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ["--rate", "5"],
        ["--arrivals", "on-off", "--rate", "5", "--on-s", "10", "--off-s", "5", "--off-share", "0.2"],
        ["--arrivals", "diurnal", "--rate", "5", "--amplitude", "0.9", "--period-s", "60", "--cv", "2"],
        ["--arrivals", "steps", "--steps", "10:5,5:0,20:9"],
        ["--rate", "5", "--input", "zipf:1.1:4096", "--output", "lognormal:90:1:512", "--correlation", "0.4"],
    ],
)
def test_generate_makes_every_kind(tmp_path: Path, options: list[str]) -> None:
    done("generate", tmp_path / "out.csv", *options, "--requests", "300")
    assert len(read_trace(tmp_path / "out.csv")) == 300


def test_generate_takes_lengths_from_a_trace(chat: Path, tmp_path: Path) -> None:
    seen = read_trace(chat)
    for options in (
        ["--lengths-from", str(chat)],
        ["--input", f"empirical:{chat}", "--output", f"empirical:{chat}"],
    ):
        done("generate", tmp_path / "out.csv", "--rate", "1", "--requests", "99", *options)
        assert set(read_trace(tmp_path / "out.csv").input_tokens) <= set(seen.input_tokens)


@pytest.mark.parametrize(
    "more", [("--input", "zipf:1.2"), ("--output", "zipf:1.2"), ("--correlation", "0.5")]
)
def test_lengths_that_would_not_be_drawn_are_refused(
    chat: Path, tmp_path: Path, more: tuple[str, str]
) -> None:
    found = call("generate", tmp_path / "out.csv", "--rate", "1", "--lengths-from", chat, *more)
    error = found.exception
    assert isinstance(error, Exception)
    assert f"{more[0]}: means nothing with --lengths-from" in failure(error).line
    assert not (tmp_path / "out.csv").exists()


def test_inspect_shows_the_figures(chat: Path) -> None:
    shown = done("inspect", chat).stdout
    assert "chat.parquet (parquet)" in shown
    assert "2,000" in shown
    assert "index of dispersion" in shown
    assert "\x1b" not in shown


def test_inspect_as_json_is_one_document(chat: Path) -> None:
    document = json.loads(done("inspect", chat, "--json").stdout)
    assert (document["format"], document["requests"]) == ("parquet", 2000)
    assert document["gap_cv"] == pytest.approx(3, rel=0.2)
    assert document["input_tokens"]["p50"] == pytest.approx(500, rel=0.1)


def test_inspect_draws_a_page_of_plots(chat: Path, tmp_path: Path) -> None:
    done("inspect", chat, "--plots", tmp_path / "plots.html")
    page = (tmp_path / "plots.html").read_text()
    for title in (
        "Rate over time",
        "Burstiness",
        "Input length",
        "Output length",
        "Lengths of 2,000 requests",
    ):
        assert title in page
    assert page.count("<svg") >= 5


def test_plots_of_a_single_request_can_be_drawn(tmp_path: Path) -> None:
    one = file_of(tmp_path, "arrival_s,input_tokens,output_tokens\n0,1,1\n")
    done("inspect", one, "--plots", tmp_path / "plots.html")
    assert (tmp_path / "plots.html").read_text().endswith("</html>\n")


def test_scale_sets_the_rate(chat: Path, tmp_path: Path) -> None:
    document = json.loads(done("scale", chat, tmp_path / "fast.jsonl", "--rate", "20", "--json").stdout)
    assert read_trace(tmp_path / "fast.jsonl").rate_rps == pytest.approx(20)
    assert document["was_rps"] == pytest.approx(read_trace(chat).rate_rps)


def test_convert_tells_on_standard_error_what_it_changed(tmp_path: Path) -> None:
    path = file_of(tmp_path, MOONCAKE.replace("30500", "30000").replace("36001", "36000"))
    result = done("convert", path, tmp_path / "out.csv")
    assert "times are rounded to 3 s: spread" in result.stderr
    assert "4 requests" in result.stdout
    plain = done("convert", path, tmp_path / "out.csv", "--no-spread", "--quiet")
    assert plain.output == ""
    assert read_trace(tmp_path / "out.csv").arrival_s.tolist() == [0, 3, 3, 9]


def test_convert_sorts_when_asked(tmp_path: Path) -> None:
    path = file_of(tmp_path, "arrival_s,input_tokens,output_tokens\n2,1,1\n1,2,2\n")
    assert isinstance(call("convert", path, tmp_path / "out.csv").exception, BadInput)
    done("convert", path, tmp_path / "out.csv", "--sort")
    assert read_trace(tmp_path / "out.csv").input_tokens.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["inspect", "nowhere.csv"], "nowhere.csv: no such file; check the path"),
        (["generate", "out.csv"], "--rate: is missing; give the mean number of requests/s"),
        (["generate", "out.csv", "--rate", "0"], "--rate: 0 is out of range"),
        (["generate", "out.csv", "--rate", "1", "--cv", "2"], "--cv: means nothing with --arrivals poisson"),
        (["generate", "out.csv", "--arrivals", "steps", "--rate", "1"], "--rate: means nothing with"),
        (["generate", "out.csv", "--arrivals", "steps", "--steps", "5"], "--steps: '5' is no step"),
        (["generate", "out.csv", "--arrivals", "steps"], "--steps: '' is not made of numbers"),
        (["generate", "out.csv", "--rate", "1", "--input", "normal:1"], "--input: 'normal:1' is no distr"),
        (["generate", "out.csv", "--rate", "1", "--input", "zipf:1:inf"], "--input: inf is not a whole"),
        (["generate", "out.txt", "--rate", "1"], "out.txt: unknown suffix '.txt'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = call(*arguments).exception
    assert error is not None
    assert (failure(error).exit_code, failure(error).kind) == (2, "bad-input")
    assert told in failure(error).line
    assert list(tmp_path.iterdir()) == []


def test_plots_that_cannot_be_written_are_bad_input(chat: Path, tmp_path: Path) -> None:
    error = call("inspect", chat, "--plots", tmp_path / "none" / "plots.html").exception
    assert error is not None
    assert failure(error).kind == "bad-input"
