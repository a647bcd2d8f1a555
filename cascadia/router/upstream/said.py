"""What an engine said of its failure, as far as others may read it.

To the client whose request failed goes the engine's message, cut short and without what looks like a secret. It may
quote the request, or the answer so far: the log gets those of its words alone that engines have for their faults.
"""

import re
from typing import NamedTuple

from cascadia.clients.engines.words import QUOTED, engine_words

MOST_BYTES = 16 * 1024
"""Of an error, beyond which nobody looks for its message."""
_MOST_READ = 1000
"""Characters of it that are looked through: more than are told, so that no secret is cut where it is not known."""
LEFT_OUT = "…"
_SECRET = re.compile(
    r"(?i:\bbearer\s+\S+)"
    r"|(?i:\b(?:api[_-]?key|password|passwd|secret|credential|authorization)s?\W{1,4}(?:bearer\s+)?\S+)"
    r"|(?i:\b(?:sk|pk|hf|gh[pousr]|xox[a-z]|akia|eyj)[-_]?[\w.-]{8,})"
    # Addresses, which are the operator's own affair.
    r"|[a-z][a-z0-9+.-]*://\S+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|\b(?:localhost|[\w-]+(?:\.[\w-]+)+):\d+"
    # Keys of no known make, and paths: long, and of letters and digits.
    r"|(?=[\w+/=.~-]*\d)(?=[\w+/=.~-]*[A-Za-z])[\w+/=.~-]{20,}"
)
_WORD = re.compile(r"\w+|[^\x00-\x7f]+")
_NAME = re.compile(r"[A-Z][a-zA-Z]{2,40}(?:Error|Exception)")
_FAULTS = frozenset(
    """a access after aborted abort allocate allocated allocation an and assertion at attention bad batch be because
    been before block blocks broken busy by cache cancelled cannot capacity chat client close closed code compile
    completion connect connection context core could crash crashed cublas cuda cudnn dead decode device did died
    disk does down driver empty encountered engine enginecore error event exceeded exception exited expired failed
    failure fatal file for found free full gateway generate generation gpu graph grammar has hip illegal in index
    initialize initialized insufficient internal invalid is issue kernel key killed kv launch layer length limit
    load loaded loading logits lost lora memory missing model nan nccl no not null number occurred of off on open
    operation out output page parse pool prefill process processing program prompt proxy queue range rank ready
    refused request requests reset resource resources response restart rocm root runtime sampler sampling scheduler
    see segmentation sequence server service shape short shut shutting size slot slots space stack stage started
    starting state step stop stopped support supported template temporarily tensor terminated the thread time timed
    timeout to token tokenizer tokens tool too trace tried triton unable unavailable unexpected unknown unsupported
    upstream usage value vocabulary was while will with without worker workers wrong""".split()  # noqa: SIM905 (a list would be a page)
)
"""Words that engines, CUDA, NCCL and proxies say faults in."""


class Said(NamedTuple):
    """`client`: for whoever made the request. `log`: without a word of request or answer."""

    client: str
    log: str


def said(status: int, body: bytes, key: str | None, *, ours: bool = False) -> Said:
    """What the engine said with `status`. `key`: the router's own at this engine. `ours`: the failure is between router
    and engine, as where the key is wrong, which a client needs not know."""
    code = f"HTTP {status}"
    # A page of a proxy's is no message.
    words = "" if len(body) > MOST_BYTES or body.lstrip()[:1] == b"<" else engine_words(body, _MOST_READ)
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in words).split())
    if len(words) == _MOST_READ:
        words = words.rpartition(" ")[0]
    if key:
        words = words.replace(key, LEFT_OUT)
    words = _SECRET.sub(LEFT_OUT, words)[:QUOTED]
    if not words:
        return Said(code, code)
    faults = re.sub(rf"{LEFT_OUT}(?:\W*{LEFT_OUT})+", LEFT_OUT, _WORD.sub(_fault, words))
    return Said(code if ours else f"{code}: {words}", f"{code}: {faults}")


def _fault(found: re.Match[str]) -> str:
    word = found[0]
    return word if word.lower() in _FAULTS or _NAME.fullmatch(word) else LEFT_OUT
