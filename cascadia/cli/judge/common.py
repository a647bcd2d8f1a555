"""Parts that the commands of `cascadia judge` share: the encoder, and rows of graded answers."""

import os
from collections.abc import Callable, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cascadia.domain.quality import QualityTable
    from cascadia_judge.embedding import EmbeddingJudge
    from cascadia_judge.head.rows import Row

ENCODER_VARIABLE = "CASCADIA_ENCODER"
ENCODER = "minilm-l6-v2"
"""In the model catalogue."""
ROWS_MAX_BYTES = 2 * 2**30
CHARACTERS_PER_TOKEN = 4

encoder_option = click.option(
    "--encoder",
    "encoder_folder",
    type=click.Path(path_type=Path),
    help="Folder of the sentence encoder, all-MiniLM-L6-v2 (config.json, tokenizer.json, model.safetensors). "
    f"Default: the variable {ENCODER_VARIABLE}, else the one of the model catalogue, fetched where it is not there.",
)


def encoder_folder_of(given: Path | None, output: Output) -> Path:
    """Folder that is named, else the catalogue's, which is fetched and verified. Raises `CascadiaError` where
    it cannot be.
    """
    if given is not None:
        return given
    if named := os.environ.get(ENCODER_VARIABLE):
        return Path(named)
    from cascadia.clients.hub.catalogue import model_named
    from cascadia.clients.hub.fetch import fetch

    model = model_named(ENCODER)
    with output.progress(f"getting {model.model}") as step:
        return fetch(model, lambda done_bytes: step(done_bytes / model.bytes))


def read_judge(
    judge_file: Path, encoder_folder: Path | None, threads: int, output: Output
) -> "EmbeddingJudge":
    """The judge that was trained into `judge_file`, with its encoder."""
    from cascadia_judge.embedding import EmbeddingJudge
    from cascadia_judge.encoder.encoder import Encoder
    from cascadia_judge.encoder.memory import Remembering

    encoder = Encoder.read(encoder_folder_of(encoder_folder, output), threads)
    return EmbeddingJudge.read(judge_file, Remembering(encoder))


def encoder_digest(folder: Path) -> str:
    """SHA-256 of the weights."""
    with (folder / "model.safetensors").open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def rows_of(path: Path, stages: Sequence[str], *, graded: bool = True) -> "list[Row]":
    """Rows of `stages`, where any are named; `graded`: their quality counts. Raises `BadInput` or `BadVerdict`."""
    import numpy as np

    from cascadia.planner.problem.quality_judge import likely_scale
    from cascadia_judge.head.rows import read_rows

    if not path.is_file():
        raise BadInput(str(path), "no such file", "name a file with one graded answer a line")
    if path.stat().st_size > ROWS_MAX_BYTES:
        raise BadInput(str(path), "is larger than 2 GiB", "give fewer answers")
    try:
        with path.open(encoding="utf-8-sig") as file:
            rows = read_rows(file, str(path))
    except UnicodeDecodeError:
        raise BadInput(str(path), "is no text in UTF-8", "write one JSON object a line") from None
    if graded and (likely := likely_scale(np.array([row.quality for row in rows]))) is not None:
        raise BadInput(str(path), f"quality never exceeds {likely:g}", "write 0-100, such as 100 for right")
    known = sorted({row.stage for row in rows})
    for stage in stages:
        if stage not in known:
            raise BadInput(f"--stage {stage}", "has no rows", f"the stages are {', '.join(known)}")
    return [row for row in rows if not stages or row.stage in stages]


def quality_table(
    rows: "Sequence[Row]",
    scores: "NDArray[np.float64]",
    foreseen: "NDArray[np.float64]",
    note: "Callable[[str], None]",
    kind: str = "embedding",
) -> "QualityTable":
    """Quality table of the questions that every stage answered and that have a score each. Stages as they come
    first in the rows.

    `foreseen` is NaN where nothing was; the table then has no such column. Tokens written are the engine's where it
    told, else a quarter of the characters; tokens read always are. `note` hears what was left out.
    """
    import numpy as np

    from cascadia.domain.quality import QualityTable, ScoredBy

    stages = tuple(dict.fromkeys(row.stage for row in rows))
    at: dict[tuple[str, str], int] = {}
    for i, row in enumerate(rows):
        if np.isfinite(scores[i]):
            at.setdefault((row.stage, row.prompt_id), i)
    prompts = tuple(
        p for p in dict.fromkeys(row.prompt_id for row in rows) if all((stage, p) in at for stage in stages)
    )
    if not prompts:
        raise BadInput("--table", "no question was answered by every stage", "give rows of all stages")
    order = [[at[stage, prompt] for prompt in prompts] for stage in stages]
    written = [
        row.certainty.tokens if row.certainty else max(1, len(row.answer) // CHARACTERS_PER_TOKEN)
        for row in rows
    ]
    read = [max(1, len(row.question) // CHARACTERS_PER_TOKEN) for row in rows]

    def column(values: "Sequence[float] | NDArray[np.float64]") -> "NDArray[np.float64]":
        return np.asarray(values, dtype=np.float64)[order]

    if said := lost(rows, scores, len(prompts)):
        note(said)
    return QualityTable(
        prompt_ids=prompts,
        stages=stages,
        score=column(scores),
        quality=column([row.quality for row in rows]),
        input_tokens=column(read),
        output_tokens=column(written),
        foreseen=None if np.isnan(foreseen).any() else column(foreseen),
        scored_by=ScoredBy(kind),
    )


def lost(rows: "Sequence[Row]", scores: "NDArray[np.float64]", kept: int) -> str | None:
    """Words on the rows that a table of `kept` questions could not take."""
    import numpy as np

    asked = len({row.prompt_id for row in rows})
    unscored = int(np.count_nonzero(~np.isfinite(scores)))
    twice = len(rows) - len({(row.stage, row.prompt_id) for row in rows})
    parts = [
        f"{asked - kept:,} of {asked:,} questions were not answered by every stage" if asked > kept else "",
        f"{unscored:,} answers have no score" if unscored else "",
        f"{twice:,} answers stand there twice, of which the first counts" if twice else "",
    ]
    said = "; ".join(part for part in parts if part)
    return f"the table leaves out: {said}" if said else None
