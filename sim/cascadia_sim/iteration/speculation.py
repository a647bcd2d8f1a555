"""Speculative decoding: a draft proposes tokens, and one pass of the model checks them all.

With k tokens drafted for each, an iteration of B sequences passes B (k + 1) positions. A draft is right with
probability a where those before it were (`acceptance`), independently, so that a sequence moves on by N tokens with

    P(N > j) = a^j  for j = 0 ... k,        E[N] = (1 - a^(k + 1)) / (1 - a)

(Leviathan et al. 2023, equation 1), and what the draft proposed beyond the first error is lost. N is drawn for each
sequence and iteration; nothing is replaced by its mean. `drafting.py` tells what an iteration takes.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from cascadia_sim.iteration.sharding import InvalidShape, check_shape
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.models.config_json import read_architecture

Method = Literal["ngram", "draft_model", "eagle3", "mtp"]


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculation as an engine is told of it: at most `tokens` are drafted for a sequence in an iteration.

    `ngram` finds them in the text so far; `draft_model` asks `model`, of the catalogue or a folder with its
    `config.json`; `eagle3` and `mtp` ask one more layer with an LM head, of the model's own width, which for `eagle3`
    the engine loads from `model`.
    """

    method: Method
    tokens: int
    acceptance: float
    model: str | None = None


def speculates(speculation: Speculation | None, *, tp: int, pp: int) -> bool:
    """Tells whether replicas of this shape do: none in a pipeline; a draft is split as the model is."""
    if speculation is None or speculation.tokens < 1 or pp > 1:
        return False
    if speculation.method != "draft_model":
        return True
    try:
        check_shape(_own_model(speculation.model), tp, 1)
    except InvalidShape:
        return False
    return True


@lru_cache(maxsize=64)
def _own_model(model: str | None) -> Architecture:
    assert model is not None
    folder = Path(model)
    return read_architecture(folder / "config.json") if folder.is_absolute() else architecture(model)


def drafter(speculation: Speculation, target: Architecture) -> Architecture | None:
    """Architecture that proposes the tokens; None where nothing is computed for them. A layer of the model's own shares
    its embedding.
    """
    if speculation.method == "ngram":
        return None
    if speculation.method == "draft_model":
        return _own_model(speculation.model)
    dense = target.intermediate or (target.moe.per_token * target.moe.intermediate if target.moe else 0)
    own = speculation.method == "mtp" and target.moe is not None
    return replace(
        target,
        name=f"{target.name} ({speculation.method})",
        layers=1,
        tied_embeddings=True,
        intermediate=0 if own else dense,
        moe=replace(target.moe, dense_layers=0) if own and target.moe else None,
        window=None,
        recurrent=None,
        sparse=None,
        blocks=None,
    )
