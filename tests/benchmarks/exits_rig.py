"""A real classifier with ramps, and real texts for it: Debian's package descriptions, by kind of package.

MiniLM reads a description and says which of four sections the package is in; its head is trained here. Texts come
from this system's package lists (`apt-get update` brings them). Ramps are trained, calibrated and examined on texts
of their own, none of which the head was trained on.
"""

import csv
import gzip
import json
import random
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia.exits.readings import Ints, Readings
from cascadia.exits.timing import Timing
from cascadia.ramps.cuts import Cut, cuts
from cascadia.ramps.measure import measured
from cascadia.ramps.ramp import Ramp
from cascadia.ramps.texts import typical
from cascadia.ramps.train import fit, look, readings
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.encoder.graph import IDS, SUMS, THERE, bert_graph
from tests.benchmarks.judge_vectors import encoder_folder
from tests.data import data_dir

if TYPE_CHECKING:
    from onnx import ModelProto

SECTIONS = ("libs", "libdevel", "python", "doc")
OTHERS = ("utils", "net", "games", "science", "sound", "admin", "web", "graphics", "text", "math")
"""Where texts of another kind come from: the model has no answer for them, and says one of its four."""
FOR_HEAD, FOR_RAMPS, FOR_PATH = 4000, 6000, 2000
OTHER_TEXTS = 3000
AT_ONCE = 32
TOKENS_MAX = 128


@dataclass(frozen=True, slots=True)
class Texts:
    """`texts` of the four sections with their `truth`, and `others` of other sections; all shuffled."""

    texts: list[str]
    truth: list[int]
    others: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class Rig:
    """`fresh` are readings of texts that nothing was trained on, with their `truth`; `changed` of texts of another
    kind.
    """

    model: "ModelProto"
    encoder: Encoder
    places: tuple[Cut, ...]
    ramps: tuple[Ramp, ...]
    timings: tuple[Timing, ...]
    calibration: Readings
    fresh: Readings
    truth: Ints
    changed: dict[str, Readings]
    texts: list[str]
    trained_cpu_s: float


def descriptions(seed: int = 0) -> Texts:
    """Raises FileNotFoundError where this system has no package lists."""
    listed = subprocess.run(
        ["apt-cache", "dumpavail"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    known: dict[str, str] = {}
    for block in listed.split("\n\n"):
        text = re.search(r"^Description(?:-en)?: (.+)$", block, re.M)
        section = re.search(r"^Section: (.+)$", block, re.M)
        if text and section:
            known.setdefault(text[1], section[1].split("/")[-1])
    rows = sorted(known.items())
    if len(rows) < 20_000:
        raise FileNotFoundError("no package lists on this system: apt-get update")
    random.Random(seed).shuffle(rows)
    of_four = [(text, SECTIONS.index(section)) for text, section in rows if section in SECTIONS]
    others = [text for text, section in rows if section in OTHERS][:OTHER_TEXTS]
    return Texts([text for text, _ in of_four], [label for _, label in of_four], others)


def kinds_of(known: Texts, start: int) -> dict[str, list[str]]:
    """What traffic may change to. School questions are of the public data, where that is there."""
    some = known.texts[start : start + OTHER_TEXTS]
    found = {
        "other sections": known.others,
        "first two words": [" ".join(text.split()[:2]) for text in some],
        "first word": [text.split()[0] for text in some],
    }
    questions = data_dir() / "quality/routellm_gsm8k_responses.csv.gz"
    if questions.exists():
        with gzip.open(questions, "rt") as file:
            found["school questions"] = [row["prompt"] for row in csv.DictReader(file)]
    return found


def batches(encoder: Encoder, texts: Sequence[str], size: int = AT_ONCE) -> Iterator[dict[str, Any]]:
    for start in range(0, len(texts), size):
        found = encoder.tokenizer.encode_batch(list(texts[start : start + size]), add_special_tokens=False)
        windows = [[encoder.first, *one.ids[: TOKENS_MAX - 2], encoder.last] for one in found]
        longest = max(map(len, windows))
        ids = np.zeros((len(windows), longest), dtype=np.int64)
        there = np.zeros(ids.shape, dtype=np.bool_)
        for row, window in enumerate(windows):
            ids[row, : len(window)] = window
            there[row, : len(window)] = True
        yield {IDS: ids, THERE: there}


def classifier(folder: Path, encoder: Encoder, texts: Sequence[str], truth: Sequence[int]) -> "ModelProto":
    """MiniLM with a linear head on the mean of its tokens, trained on `texts`."""
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file
    from sklearn.linear_model import LogisticRegression

    vectors = np.concatenate(
        [encoder.encode(texts[at : at + AT_ONCE]) for at in range(0, len(texts), AT_ONCE)]
    )
    head = LogisticRegression(C=10.0, max_iter=300).fit(vectors, list(truth))
    model = bert_graph(
        json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors"), ""
    )
    graph = model.graph
    parts = {"head.weight": head.coef_.T, "head.bias": head.intercept_}
    graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(part, dtype=np.float32), name)
        for name, part in parts.items()
    )
    graph.node.extend(
        [
            helper.make_node("LpNormalization", [SUMS], ["vector"], axis=-1, p=2),
            helper.make_node("Gemm", ["vector", *parts], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
        ]
    )
    del graph.output[:]
    shape = ["texts", len(SECTIONS)]
    graph.output.append(helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, shape))
    return model


def rig() -> Rig:
    """Everything, in about a minute and a half of a core."""
    folder = encoder_folder(None)
    encoder = Encoder.read(folder)
    known = descriptions()
    at = FOR_HEAD + FOR_RAMPS
    model = classifier(folder, encoder, known.texts[:FOR_HEAD], known.truth[:FOR_HEAD])
    places = cuts(model)
    start = time.process_time()
    ramps = fit(places, look(model, places, batches(encoder, known.texts[FOR_HEAD:at])))
    trained_cpu_s = time.process_time() - start
    rest = readings(ramps, look(model, places, batches(encoder, known.texts[at:])))
    changed = {
        kind: readings(ramps, look(model, places, batches(encoder, texts)))
        for kind, texts in kinds_of(known, at + FOR_PATH).items()
    }
    sizes = [next(batches(encoder, typical(known.texts[at:], size), size)) for size in (1, 2, 4, 8, 16)]
    return Rig(
        model=model,
        encoder=encoder,
        places=places,
        ramps=ramps,
        timings=measured(model, ramps, sizes),
        calibration=rest.take(slice(FOR_PATH)),
        fresh=rest.take(slice(FOR_PATH, None)),
        truth=np.array(known.truth[at + FOR_PATH :]),
        changed=changed,
        texts=known.texts[at + FOR_PATH :],
        trained_cpu_s=trained_cpu_s,
    )
