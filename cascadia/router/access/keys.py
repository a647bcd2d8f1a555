"""API keys: who calls, and what they may do.

A key is `ck-ID-SECRET`: twelve characters that name it, and 256 random bits. Of the secret only a SHA-256 is kept. A
slow hash (scrypt) would add nothing, as nobody can try 2^256 secrets, and would cost 50 ms where this costs one
microsecond. Keys are made by us only, so none has less in it.
"""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Literal

Scope = Literal["inference", "metrics", "admin"]
SCOPES: tuple[Scope, ...] = ("inference", "metrics", "admin")

MARK = b"ck-"
ID_CHARS = 12
KEY_CHARS = len(MARK) + ID_CHARS + 1 + 43
_SECRET_BYTES = 32
_NO_DIGEST = bytes(32)
_ID = slice(len(MARK), len(MARK) + ID_CHARS)


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Limits of a key; None: without limit. Tokens are those of prompts and answers, of all stages that were
    asked; dollars are of their engines, in a calendar month (UTC).
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent: int | None = None
    usd_per_month: float | None = None

    @property
    def any(self) -> bool:
        """True if anything limits its rate."""
        return not (self.requests_per_minute is self.tokens_per_minute is self.concurrent is None)


@dataclass(frozen=True, slots=True)
class Key:
    """`models`: the names that it may ask for, None for all. `expires_s`: Unix time, None for never.

    `priority`: the most urgent that its requests may be; lower is served first, where requests wait.
    """

    id: str
    name: str
    digest: bytes = field(repr=False)
    _: KW_ONLY
    scopes: frozenset[Scope] = frozenset({"inference"})
    models: frozenset[str] | None = None
    limits: KeyLimits = KeyLimits()
    expires_s: float | None = None
    priority: int = 0
    max_gear: int | None = None
    """Lightest gear that its requests may get, of 0 (the heaviest) and up; None: any."""

    def may_ask(self, model: str) -> bool:
        return self.models is None or model in self.models


@dataclass(frozen=True, slots=True)
class Made:
    """A new key: `text` is told once and kept nowhere."""

    id: str
    digest: bytes
    text: str = field(repr=False)


def make_key() -> Made:
    key_id = secrets.token_hex(ID_CHARS // 2)
    text = f"ck-{key_id}-{secrets.token_urlsafe(_SECRET_BYTES)}"
    return Made(key_id, digest_of(text.encode("ascii")), text)


def digest_of(key: bytes) -> bytes:
    return sha256(key).digest()


class Keyring:
    """The keys of a file. Looking one up takes about a microsecond, so nothing is kept between requests."""

    __slots__ = ("_by_id",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, keys: Iterable[Key]) -> None:
        self._by_id = {key.id.encode("ascii"): key for key in keys}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._by_id.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyring) and self._by_id == other._by_id

    def find(self, presented: bytes) -> Key | None:
        """The key whose text was `presented`, be it expired; None where there is none.

        The id is no secret; the rest is compared in a time that tells nothing, whether or not the id is known.
        """
        if len(presented) != KEY_CHARS:
            return None
        key = self._by_id.get(presented[_ID])
        same = compare_digest(sha256(presented).digest(), _NO_DIGEST if key is None else key.digest)
        return key if same else None
