"""Events of a stream, each passed on when it is whole: a client never sees half of one, however the stream ends."""

ENDS = (b"\n\n", b"\n\r\n")
EVENT_BYTES_MAX = 16 * 2**20
"""Of one event; the last one of a response holds all of it."""


class WholeEvents:
    """`part` takes what came and gives what can be passed on; what was begun and not ended is `held`."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        # Not bytes: an event that comes byte by byte would be copied whole for each.
        self._held = bytearray()

    @property
    def held(self) -> bytes:
        return bytes(self._held)

    def __len__(self) -> int:
        """Bytes held."""
        return len(self._held)

    def part(self, data: bytes) -> bytes:
        """Raises `OverflowError` for an event without end."""
        held = self._held
        if not held and data.endswith(ENDS):
            return data
        # The end of an event may itself come in two parts.
        edge = held[-2:]
        seen = edge + data
        whole = max((at + len(end) for end in ENDS if (at := seen.rfind(end)) >= 0), default=0) - len(edge)
        if whole <= 0:
            if len(held) + len(data) > EVENT_BYTES_MAX:
                raise OverflowError
            held += data
            return b""
        out = b"".join((held, memoryview(data)[:whole]))
        self._held = bytearray(data[whole:])
        return out
