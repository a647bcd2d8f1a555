"""Texts as vectors of length 1: a sentence encoder of the MiniLM kind, read from its files and run by ONNX Runtime.

A folder as Hugging Face lays it out: `config.json`, `tokenizer.json`, `model.safetensors`. The vector is
the mean over the tokens of the last layer, made 1 long (Reimers and Gurevych 2019, section 3). Of a text
that is longer than the model reads, the beginning and the end are encoded apart and their tokens averaged
together.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.encoder.graph import IDS, SUMS, THERE, bert_graph
from cascadia_judge.errors import BadVerdict

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

FILES = ("config.json", "tokenizer.json", "model.safetensors")
TOKENS_MAX = 256
"""As all-MiniLM-L6-v2 was made to read."""
CHARACTERS_PER_TOKEN_MAX = 16
"""Of ordinary text; what is cut off before the tokenizer sees it, so that a huge text costs no more than a
long one."""
PASS_TOKENS = 512
"""Of one pass through the layers, padding included: larger ones were no faster, and take memory."""


class Encoded(NamedTuple):
    """`vectors` (texts, hidden) of length 1, or 0 for a text without a token; `tokens` read of each."""

    vectors: NDArray[np.float32]
    tokens: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Encoder:
    """Thread-safe: nothing is changed by encoding."""

    tokenizer: "Tokenizer"
    session: "InferenceSession"
    size: int
    """Numbers in a vector."""
    places: int
    """Tokens that one pass can take of a text, the two around it among them."""
    first: int
    last: int
    """The ids that stand in front of a text and behind it."""

    @classmethod
    def read(cls, folder: Path, threads: int = 1) -> "Encoder":
        """Computes with `threads` threads. Raises `BadVerdict` where the folder holds no encoder that can be run
        here."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        for name in FILES:
            if not (folder / name).is_file():
                raise BadVerdict(str(folder), f"has no {name}", f"name a folder with {', '.join(FILES)}")
        config = json.loads((folder / "config.json").read_bytes())
        try:
            weights = load_file(folder / "model.safetensors")
        except SafetensorError as error:
            raise BadVerdict(
                str(folder / "model.safetensors"), f"cannot be read ({error})", "fetch it again"
            ) from None
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        first, last = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
        if first is None or last is None:
            raise BadVerdict(str(folder / "tokenizer.json"), "has no [CLS] and [SEP]", "name a BERT encoder")
        graph = bert_graph(config, weights, str(folder))
        places, size = weights["embeddings.position_embeddings.weight"].shape
        del weights
        return cls(tokenizer, _session(graph, threads), size, places, first, last)

    def encode(self, texts: Sequence[str], tokens_max: int = TOKENS_MAX) -> NDArray[np.float32]:
        """(texts, size), each of length 1."""
        return self.encoded(texts, tokens_max).vectors

    def encoded(self, texts: Sequence[str], tokens_max: int = TOKENS_MAX) -> Encoded:
        """Encodes at most `tokens_max` tokens of each text: of a longer one, as many from its end as its
        beginning.
        """
        room = min(tokens_max, self.places - 2)
        cut = [_ends(text, CHARACTERS_PER_TOKEN_MAX * room) for text in texts]
        found = self.tokenizer.encode_batch(cut, add_special_tokens=False) if cut else []
        windows = [(at, window) for at, text in enumerate(found) for window in _windows(list(text.ids), room)]
        # A pass is padded to its longest window.
        windows.sort(key=lambda entry: len(entry[1]))
        sums = np.zeros((len(texts), self.size), dtype=np.float32)
        tokens = np.zeros(len(texts), dtype=np.int64)
        for group in _passes(windows):
            owners = [at for at, _ in group]
            # `add.at`: both ends of a long text have one owner, which `sums[owners] +=` would add once.
            np.add.at(sums, owners, self._sums([window for _, window in group]))
            np.add.at(tokens, owners, [len(window) for _, window in group])
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        return Encoded(np.divide(sums, length, out=sums, where=length > 0), tokens)

    def _sums(self, windows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Sums the vectors of each window's tokens, the two around it among them."""
        longest = max(map(len, windows)) + 2
        ids = np.zeros((len(windows), longest), dtype=np.int64)
        there = np.zeros(ids.shape, dtype=np.bool_)
        for row, window in enumerate(windows):
            ids[row, : len(window) + 2] = [self.first, *window, self.last]
            there[row, : len(window) + 2] = True
        (sums,) = self.session.run([SUMS], {IDS: ids, THERE: there})
        return np.asarray(sums, dtype=np.float32)


def _windows(ids: list[int], room: int) -> list[list[int]]:
    if len(ids) <= room:
        return [ids] if ids else []
    return [ids[: room // 2], ids[-(room // 2) :]]


def _passes(windows: list[tuple[int, list[int]]]) -> Iterable[list[tuple[int, list[int]]]]:
    """Windows of like length together, `PASS_TOKENS` at a time."""
    group: list[tuple[int, list[int]]] = []
    for entry in windows:
        if group and (len(group) + 1) * (len(entry[1]) + 2) > PASS_TOKENS:
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


def _ends(text: str, characters: int) -> str:
    """Half a surrogate pair is no text that a tokenizer takes."""
    if len(text) > characters:
        text = text[: characters // 2] + " " + text[-(characters // 2) :]
    return text.encode("utf-8", "replace").decode()


def _session(graph: "ModelProto", threads: int) -> "InferenceSession":
    """Threads that wait do not spin, and no memory is kept for the longest text that ever came.

    By way of a file, which is gone again when this returns: its weights are mapped, not copied, and that takes a third
    of the memory.
    """
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with TemporaryDirectory(prefix="cascadia-encoder-") as folder:
        path = Path(folder) / "encoder.onnx"
        onnx.save(graph, path, save_as_external_data=True, location="weights")
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
