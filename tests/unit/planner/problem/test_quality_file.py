"""A quality table survives the disk, and a broken one is refused in one line that says what to do."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import QualityTable, ScoredBy
from cascadia.planner.problem.quality_file import read_quality, write_quality
from tests.examples import examples
from tests.unit.planner.routing.random_tables import random_table

KINDS = ("parquet", "csv", "jsonl")
HEAD = "prompt_id,stage,score,input_tokens,output_tokens\n"
GOOD = HEAD + "q1,small,70,10,20\nq1,large,90,10,30\nq2,small,40,5,20\nq2,large,80,5,30\n"
STAGES = ("small", "large")

on_disk = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def refusal(path: Path, stages: tuple[str, ...] = STAGES) -> str:
    with pytest.raises(BadInput) as caught:
        read_quality(path, stages)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(path))
    return line.removeprefix(str(path))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "quality.csv"


def same(a: QualityTable, b: QualityTable) -> bool:
    names = ("score", "quality", "input_tokens", "output_tokens")
    if (a.foreseen is None) != (b.foreseen is None) or not np.array_equal(a.foreseen, b.foreseen):  # type: ignore[arg-type]
        return False
    return (a.prompt_ids, a.stages) == (b.prompt_ids, b.stages) and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in names
    )


ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=6)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@on_disk
def test_what_is_written_is_read(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    prompts = data.draw(st.lists(ids, min_size=1, max_size=6, unique=True))
    stages = data.draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    shape = (len(stages), len(prompts))

    def cells(low: float, high: float) -> np.ndarray:
        some = st.lists(st.floats(low, high), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
        return np.array(data.draw(some)).reshape(shape)

    table = QualityTable(
        tuple(prompts),
        tuple(stages),
        cells(0, 100),
        quality=cells(0, 100),
        input_tokens=cells(1, 1e6),
        output_tokens=cells(1, 1e6),
        foreseen=data.draw(st.sampled_from([None, cells(0, 100)])),
    )
    path = tmp_path / f"quality.{kind}"
    write_quality(table, path)
    assert same(read_quality(path, tuple(stages), scale=100), table)


def test_rows_may_come_in_any_order_and_other_stages_are_left_aside(csv: Path) -> None:
    csv.write_text(
        HEAD + "q2,large,80,5,30\nq1,huge,-7,0,0\nq1,small,70,10,20\nq2,small,40,5,20\nq1,large,90,10,30\n"
        "q2,huge,-7,0,0\n"
    )
    notes: list[str] = []
    table = read_quality(csv, STAGES, note=notes.append)
    assert notes == ["quality.csv: stage 'huge' is not in the spec, its 2 rows are left aside"]
    assert table.prompt_ids == ("q2", "q1")
    assert table.score.tolist() == [[40, 70], [80, 90]]
    assert table.output_tokens.tolist() == [[20, 20], [30, 30]]


def test_quality_is_the_score_where_absent_and_apart_where_given(csv: Path) -> None:
    csv.write_text(GOOD)
    table = read_quality(csv, STAGES)
    assert table.quality is table.score
    csv.write_text(HEAD.replace("score", "score,quality") + "q,small,70,0,1,1\nq,large,90,100,1,1\n")
    table = read_quality(csv, STAGES)
    assert (table.score.tolist(), table.quality.tolist()) == ([[70], [90]], [[0], [100]])


def test_what_is_foreseen_is_read_where_it_is_given(csv: Path) -> None:
    csv.write_text(GOOD)
    assert read_quality(csv, STAGES).foreseen is None
    csv.write_text(HEAD.replace("score", "score,foreseen") + "q,small,70,25,1,1\nq,large,90,100,1,1\n")
    table = read_quality(csv, STAGES)
    assert table.foreseen is not None
    assert table.foreseen.tolist() == [[25], [100]]


@pytest.mark.parametrize("text", ["007", "2024-01-01", "true", "1e5"])
def test_identifiers_stay_as_they_are_written(tmp_path: Path, text: str) -> None:
    row = {"prompt_id": text, "stage": text, "score": 50, "input_tokens": 1, "output_tokens": 1}
    jsonl, csv = tmp_path / "q.jsonl", tmp_path / "q.csv"
    jsonl.write_text(json.dumps(row) + "\n")
    csv.write_text(HEAD + f"{text},{text},50,1,1\n")
    for path in (jsonl, csv):
        assert read_quality(path, (text,)).prompt_ids == (text,)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_answers_of_many_lines_and_megabytes_may_stand_beside_their_scores(tmp_path: Path, kind: str) -> None:
    """More than a block that Arrow reads at once, with line ends in quotes on both sides of its border."""
    answers = ['"one", she said,\nand two\n' * 400] * 1700
    answers[7] = "x" * 5_000_000
    table = pa.table(
        {"prompt_id": [str(number) for number in range(len(answers))], "stage": ["small"] * len(answers)}
        | {"score": [70] * len(answers), "input_tokens": [10] * len(answers)}
        | {"output_tokens": [20] * len(answers), "answer": answers}
    )
    path = tmp_path / f"quality.{kind}"
    if kind == "csv":
        pa.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    assert path.stat().st_size > 20_000_000
    assert read_quality(path, ("small",)).prompt_ids == tuple(table["prompt_id"].to_pylist())


def test_json_identifiers_may_be_numbers(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"prompt_id": 7, "stage": "a", "score": 50, "input_tokens": 1, "output_tokens": 1}\n')
    assert read_quality(path, ("a",)).prompt_ids == ("7",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("q2,large,80", "q2,large,101"), " row 4: score is 101; write a number from 0 to 100"),
        (
            HEAD.replace("score", "foreseen,score") + "q1,small,101,70,1,1\nq1,large,5,90,1,1\n",
            " row 1: foreseen is 101; write a number from 0 to 100",
        ),
        (GOOD.replace("q2,large,80", "q2,large,-1"), " row 4: score is -1; write a number from 0 to 100"),
        (GOOD.replace("q2,small,40", "q2,small,nan"), " row 3: score is missing or not a number"),
        (GOOD.replace("q2,small,40", "q2,small,"), " row 3: score is missing or not a number"),
        (GOOD.replace("q2,small,40", "q2,small,good"), " row 3: score is missing or not a number"),
        (
            GOOD.replace("q2,small,40,5", "q2,small,40,0"),
            " row 3: input_tokens is 0; write a number from 1 to 1,000,000,000",
        ),
        (GOOD.replace("q2,small,40,5,20\n", ""), ": prompt 'q2' has no row for stage 'small'; add the row"),
        (GOOD + "q1,large,90,10,30\n", " row 5: prompt 'q1' has a second row for 'large'; keep one"),
        (
            GOOD.replace("large", "big"),
            ": no row for stage 'large'; add its answers, or rename one of: 'big', 'small'",
        ),
        (GOOD.replace("score", "points"), ": no column 'score'; it has prompt_id, stage, points,"),
        (GOOD.replace("output_tokens", "score"), ": no column 'output_tokens'"),
        (
            GOOD.replace("_tokens", ""),
            ": no column 'input_tokens' and none 'output_tokens'; it has prompt_id,",
        ),
        (
            "stage,prompt_id" + GOOD.removeprefix("prompt_id,stage"),
            ": no row for stage 'small'; exchange the columns prompt_id and stage",
        ),
        (GOOD.replace(",", ";"), ": its cells are separated by semicolons; save it with commas between them"),
        (HEAD, ": the table has no rows; write one row per prompt and stage"),
        ("", ": the file is empty; write columns prompt_id, stage,"),
        (GOOD + "q3,small,1\n", ": cannot be read as csv (CSV parse error"),
    ],
)
def test_a_fault_is_named_with_its_place_and_remedy(csv: Path, text: str, said: str) -> None:
    csv.write_text(text)
    assert refusal(csv).startswith(said)


def test_a_column_given_twice_is_refused(csv: Path) -> None:
    csv.write_text("prompt_id,stage,score,score,input_tokens,output_tokens\nq,small,1,2,1,1\n")
    assert refusal(csv).startswith(": column 'score' is there twice")


def table_of(greatest: float, *columns: str) -> str:
    """Ten prompts whose `columns` rise evenly to `greatest`; a score of 100 besides where it is not among them."""
    fixed = () if "score" in columns else ("score",)
    head = ",".join(("prompt_id", "stage", *columns, *fixed, "input_tokens", "output_tokens"))
    rows = [
        ",".join((f"q{i}", stage, *[f"{greatest * i / 9:g}"] * len(columns), *["100"] * len(fixed), "9", "9"))
        for i in range(10)
        for stage in STAGES
    ]
    return "\n".join((head, *rows)) + "\n"


@pytest.mark.parametrize(("greatest", "scale"), [(1, 1), (4.5, 5), (5, 5), (7, 10), (10, 10)])
@pytest.mark.parametrize("column", ["score", "quality", "foreseen"])
def test_a_column_of_another_scale_is_refused_unless_the_scale_is_named(
    csv: Path, greatest: float, scale: int, column: str
) -> None:
    csv.write_text(table_of(greatest, column))
    assert refusal(csv) == (
        f": column {column!r} never exceeds {scale}, and no scale is named; "
        f"write quality: {{table: quality.csv, scale: {scale}}}, or scale: 100 if they are of 100"
    )
    assert getattr(read_quality(csv, STAGES, scale=100), column).max() == greatest


@pytest.mark.parametrize("scale", [1, 5, 10, 20])
def test_scores_of_a_named_scale_are_converted_and_those_beyond_it_refused(csv: Path, scale: float) -> None:
    csv.write_text(table_of(scale, "score", "quality"))
    table = read_quality(csv, STAGES, scale=scale)
    assert (table.score.max(), table.quality.max(), table.score[0, 3]) == (
        100,
        100,
        pytest.approx(100 / 3, rel=1e-4),
    )
    assert table.scored_by == ScoredBy(scale=scale)
    with pytest.raises(
        BadInput, match=rf"row 19: score is {scale}(.0)?; write a number from 0 to {0.99 * scale:g}"
    ):
        read_quality(csv, STAGES, scale=0.99 * scale)


def test_checks_beside_scores_of_another_scale_stay_of_a_hundred(csv: Path) -> None:
    csv.write_text(HEAD.replace("score", "score,quality") + "q,small,3,0,1,1\nq,large,9,100,1,1\n")
    table = read_quality(csv, STAGES, scale=10)
    assert (table.score.tolist(), table.quality.tolist()) == ([[30], [90]], [[0], [100]])


@pytest.mark.parametrize(("score", "scale"), [((3, 9), 10), ((0.3, 0.9), 1), ((30, 90), None)])
def test_quality_of_0_and_1_is_wrong_and_right_beside_scores_of_any_scale(
    csv: Path, score: tuple[float, float], scale: float | None
) -> None:
    csv.write_text(
        HEAD.replace("score", "score,quality") + f"q,small,{score[0]},0,1,1\nq,large,{score[1]},1,1,1\n"
    )
    table = read_quality(csv, STAGES, scale=scale)
    assert (table.score.tolist(), table.quality.tolist()) == ([[30], [90]], [[0], [100]])


@pytest.mark.parametrize("right", [0, 1])
def test_answers_that_are_all_right_or_all_wrong_are_so_beside_scores_of_any_scale(
    csv: Path, right: int
) -> None:
    csv.write_text(HEAD.replace("score", "score,quality") + f"q,small,3,{right},1,1\nq,large,9,{right},1,1\n")
    assert read_quality(csv, STAGES, scale=10).quality.tolist() == [[100 * right], [100 * right]]


@pytest.mark.parametrize(("quality", "scale", "most"), [((0.2, 0.9), 10, 1), ((2, 9), 5, 10)])
def test_quality_on_neither_scale_is_refused(
    csv: Path, quality: tuple[float, float], scale: float, most: float
) -> None:
    csv.write_text(
        HEAD.replace("score", "score,quality") + f"q,small,3,{quality[0]},1,1\nq,large,5,{quality[1]},1,1\n"
    )
    with pytest.raises(BadInput, match=rf"never exceeds {most}, and scores go up to {scale};.*from 0 to 100"):
        read_quality(csv, STAGES, scale=scale)


def test_parquet_says_whose_scores_these_are(tmp_path: Path) -> None:
    judge = ScoredBy("llm", "org/judge", "1f3a", 100.0)
    low = random_table(2, 12, seed=1)
    write_quality(replace(low, score=low.score / 20, scored_by=judge), tmp_path / "q.parquet")
    assert read_quality(tmp_path / "q.parquet", low.stages).scored_by == judge
    with pytest.raises(BadInput, match=r"says that its scores go up to 100, not 10; remove quality\.scale"):
        read_quality(tmp_path / "q.parquet", low.stages, scale=10)


@pytest.mark.parametrize(
    "said", [b"", b"[]", b"{", b"\xff", b'{"scale": 0}', b'{"scale": "10"}', b'{"kind": 3}']
)
def test_metadata_that_are_none_are_refused(tmp_path: Path, said: bytes) -> None:
    csv, path = tmp_path / "q.csv", tmp_path / "q.parquet"
    csv.write_text(GOOD)
    table = pa.csv.read_csv(csv).replace_schema_metadata({b"cascadia.judge": said})
    pa.parquet.write_table(table, path)
    assert refusal(path).startswith(": its metadata cascadia.judge is not a judge's; write the table anew")


@pytest.mark.parametrize(
    "extra", ["q3,smal,50,1,1\n", "q3,smal,50,1,1\nq3,lagre,50,1,1\n", "q1,smal,5,1,1\n"]
)
def test_a_row_of_an_unknown_stage_does_not_take_its_prompt_with_it(csv: Path, extra: str) -> None:
    csv.write_text(GOOD + extra)
    assert refusal(csv).startswith(" row 5: stage 'smal' is not in the spec; did you mean 'small'?")


def test_no_file_a_folder_and_an_unknown_ending_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent.csv").startswith(": no such file")
    (tmp_path / "folder.csv").mkdir()
    assert refusal(tmp_path / "folder.csv") == ": is a directory; name a quality table in it"
    (tmp_path / "quality.xlsx").write_text(GOOD)
    assert refusal(tmp_path / "quality.xlsx").startswith(": not a known kind of quality table")


def test_nested_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.parquet"
    columns = {
        "prompt_id": ["q"],
        "stage": ["a"],
        "score": [[1.0]],
        "input_tokens": [1],
        "output_tokens": [1],
    }
    pa.parquet.write_table(pa.table(columns), path)
    assert refusal(path, ("a",)).startswith(" row 1: score is missing or not a number")
    pa.parquet.write_table(pa.table({**columns, "score": [1.0], "prompt_id": [["q"]]}), path)
    assert refusal(path, ("a",)).startswith(": column 'prompt_id' is not text")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    files = {}
    for kind in KINDS:
        path = tmp_path_factory.mktemp("whole") / f"q.{kind}"
        write_quality(random_table(2, 12, seed=1), path)
        files[kind] = path.read_bytes()
    return files


def read_or_refuse(path: Path) -> QualityTable | BadInput:
    try:
        return read_quality(path, ("a", "b"))
    except BadInput as error:
        return error


@pytest.mark.parametrize("kind", KINDS)
@given(cut=st.floats(0, 1), junk=st.binary(max_size=12))
@example(cut=0.5, junk=b"")
@on_disk
def test_a_damaged_file_is_refused_or_read_but_never_more(
    tmp_path: Path, whole: dict[str, bytes], kind: str, cut: float, junk: bytes
) -> None:
    path = tmp_path / f"q.{kind}"
    at = int(cut * len(whole[kind]))
    for damaged in (whole[kind][:at], whole[kind][:at] + junk + whole[kind][at + len(junk) :], junk):
        path.write_bytes(damaged)
        outcome = read_or_refuse(path)
        if isinstance(outcome, BadInput):
            assert "\n" not in str(outcome)
        else:
            assert outcome.score.shape == (2, len(outcome))
            assert ((outcome.score >= 0) & (outcome.score <= 100)).all()


json_value = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers())
)


@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from([*HEAD.strip().split(","), "quality", "x"]), json_value), max_size=4
    )
)
@on_disk
def test_any_json_is_refused_or_read_but_never_more(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadInput) as caught:
        read_quality(path, STAGES)
    assert "\n" not in str(caught.value)


def test_an_unwritable_place_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    table = random_table(2, 3, seed=1)
    with pytest.raises(BadInput, match="cannot be written"):
        write_quality(table, tmp_path / "absent" / "q.csv")
    (tmp_path / "q.csv").mkdir()
    with pytest.raises(BadInput, match="cannot be written"):
        write_quality(table, tmp_path / "q.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["q.csv"]


def test_a_table_compressed_by_gzip_is_told_to_be_unpacked(csv: Path) -> None:
    csv.write_bytes(gzip.compress(GOOD.encode()))
    assert refusal(csv) == ": is compressed by gzip; unpack it"


def test_a_blank_in_a_stages_name_is_seen(csv: Path) -> None:
    csv.write_text(GOOD.replace(",small,", ", small,"))
    assert refusal(csv) == ": no row for stage 'small'; add its answers, or rename one of: ' small', 'large'"


@pytest.mark.parametrize("text", ["7_0", "٧٠"])
def test_numbers_that_only_python_reads_are_none(csv: Path, text: str) -> None:
    csv.write_text(GOOD.replace(",70,", f",{text},"))
    assert refusal(csv) == " row 1: score is missing or not a number; write a number from 0 to 100"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"score": "40"}', "its score is text, and in line 1 a number; write all values of a column alike"),
        (
            '{"score": true}',
            "its score is a truth, and in line 1 a number; write all values of a column alike",
        ),
        ('{"score": [4]}', "its score is a list, and in line 1 a number; write all values of a column alike"),
        (
            '{"prompt_id": 3}',
            "its prompt_id is a number, and in line 1 text; write all values of a column alike",
        ),
        ('{"score": 40', "is not JSON (Expecting ',' delimiter); write one object a line"),
        ("[1]", "is not an object; write one object a line"),
    ],
)
def test_the_line_that_is_not_as_those_before_it_is_named(tmp_path: Path, line: str, said: str) -> None:
    path, row = tmp_path / "q.jsonl", {"prompt_id": "q1", "score": 70, "input_tokens": 1, "output_tokens": 2}
    whole = [json.dumps({**row, "stage": stage}) for stage in STAGES]
    path.write_text("\n".join([*whole, "", line]) + "\n")
    assert refusal(path) == f" line 4: {said}"
