"""Sessions: where a conversation goes on, at the stage that answered last, or at the first stage like any other
request.

Fresh is the default: each turn is judged on its own, which is what a plan's thresholds and load fractions assume, and a
conversation that needed the large stage once is not served by it for ever. Sticky spares the small stage's answer and
its verdict where earlier turns were too hard for it, keeps one voice, and finds the conversation in the cache of the
replica that has it; its price is that load moves up.

What is kept is a hash and a stage's name, of the conversations used last: a lost one starts afresh, and no more. So the
processes of a router tell each other without waiting to be heard: see `live/session_news.py`.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

from cascadia.router.openai.bounded import looks_for
from cascadia.router.openai.requests import Fields, leading_of
from cascadia.router.settings.model import ConversationSettings

_assistant = looks_for(b'"assistant"')


class Conversations:
    """`kept` of them, each for `kept_s` after its last turn."""

    def __init__(self, settings: ConversationSettings) -> None:
        self.settings = settings
        self.tell: Callable[[bytes, str], None] | None = None
        """Who passes it on to the other processes of this router."""
        self._stages: OrderedDict[bytes, tuple[str, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._stages)

    def stage_of(self, key: bytes, now_s: float) -> str | None:
        """The name of the stage that answered last."""
        found = self._stages.get(key)
        if found is None:
            return None
        stage, until_s = found
        if now_s >= until_s:
            del self._stages[key]
            return None
        return stage

    def answered(self, key: bytes, stage: str, now_s: float) -> None:
        self.learn(key, stage, now_s)
        if self.tell is not None:
            self.tell(key, stage)

    def learn(self, key: bytes, stage: str, now_s: float) -> None:
        """Notes that it was answered, here or by another process."""
        self._stages[key] = stage, now_s + self.settings.kept_s
        self._stages.move_to_end(key)
        if len(self._stages) > self.settings.kept:
            self._stages.popitem(last=False)


class Session:
    """Session of one request. `known`: whether it can have had an earlier turn, so that the memory is worth a
    look.
    """

    __slots__ = ("key", "known")

    def __init__(self, key: bytes, *, known: bool) -> None:
        self.key = key
        self.known = known


def session_of(fields: Fields, header: bytes | None, caller: str = "") -> Session | None:
    """Session by the client's own name of it; else by the user and the beginning, which later turns repeat. `caller`:
    the name of its key. Two keys' sessions of one name are two."""
    whose = caller.encode()
    if header:
        return Session(_hash(b"header", whose, header), known=True)
    leading = leading_of(fields)
    if not leading:
        return None
    # Two conversations may begin alike: one that has no answer in it yet is new, whatever is remembered.
    return Session(_hash(b"began", whose, fields.beginning("user"), leading), known=_has_answer(fields))


def _has_answer(fields: Fields) -> bool:
    # In a text the quotation marks would have backslashes.
    return _assistant(fields.given("messages") or fields.given("input")) is not None


def _hash(*parts: bytes) -> bytes:
    found = blake2b(digest_size=16)
    for part in parts:
        found.update(b"%d:" % len(part) + part)
    return found.digest()
