"""Vectors of many texts, kept between runs: encoding thousands of answers takes half an hour of a core."""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.injection.normalise import plain

AT_ONCE = 8
KEPT_EVERY_S = 60.0


def encoder_folder(named: Path | None) -> Path:
    """The catalogue's, fetched where it is not there, unless one is named."""
    return named or fetch(model_named("minilm-l6-v2"))


def vectors(encoder: Encoder, texts: Sequence[str], tokens_max: int, kept: Path | None) -> np.ndarray:
    """(texts, size). What `kept` has is taken from there; what it lacks is added to it as it is made."""
    seen = [plain(text) for text in texts]
    keys = [hashlib.sha256(f"{tokens_max}:{text}".encode()).hexdigest()[:32] for text in seen]
    known = _read(kept)
    missing = {key: text for key, text in zip(keys, seen, strict=True) if key not in known}
    written_s = time.monotonic()
    order = list(missing)
    for start in range(0, len(order), AT_ONCE):
        some = order[start : start + AT_ONCE]
        known |= zip(some, encoder.encode([missing[key] for key in some], tokens_max), strict=True)
        if kept is not None and time.monotonic() - written_s > KEPT_EVERY_S:
            _write(kept, known)
            written_s = time.monotonic()
    if missing and kept is not None:
        _write(kept, known)
    return np.array([known[key] for key in keys]).reshape(len(keys), -1)


def _read(kept: Path | None) -> dict[str, np.ndarray]:
    if kept is None or not kept.exists():
        return {}
    with np.load(kept, allow_pickle=False) as file:
        return dict(zip(file["keys"].tolist(), file["vectors"], strict=True))


def _write(kept: Path, known: dict[str, np.ndarray]) -> None:
    part = kept.with_name(kept.name + ".part.npz")
    np.savez(part, keys=np.array(list(known)), vectors=np.array(list(known.values())))
    part.replace(kept)
