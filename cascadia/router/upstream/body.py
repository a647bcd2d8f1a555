"""The body of an engine's answer: held until it is whole, or passed on in parts."""

from cascadia.clients.engines.held_bytes import HeldBytes, Holding
from cascadia.router.upstream.errors import UpstreamError

HIGH_WATER = 64 * 1024


class Body:
    """Body of one exchange after another. `streamed`: it is read as it comes, and not counted in `HeldBytes`."""

    __slots__ = ("_buffer", "_held", "_holding", "_max_bytes", "_size", "streamed", "unread_bytes")

    def __init__(self, held: HeldBytes) -> None:
        self._holding = Holding(held)
        self._buffer: list[bytes] = []
        self.unread_bytes = 0
        self._held: bytes | bytearray = b""
        self._size = 0
        self._max_bytes = 0
        self.streamed = False

    def begin(self, max_bytes: int) -> None:
        """`max_bytes` of one that is held."""
        if self.streamed:
            self._buffer.clear()
            self.unread_bytes = 0
            self.streamed = False
        self._size = 0
        self._max_bytes = max_bytes

    @property
    def begun(self) -> bool:
        return self._size > 0

    @property
    def full(self) -> bool:
        """Tells whether more is here than whoever reads it has taken in a while."""
        return self.unread_bytes > HIGH_WATER

    @property
    def waits(self) -> bool:
        """Tells whether a part is here that was not read yet."""
        return bool(self._buffer)

    def add(self, part: bytes) -> UpstreamError | None:
        """Adds a part; returns None, or why no more is taken."""
        self._size += len(part)
        if self.streamed:
            self._buffer.append(part)
            self.unread_bytes += len(part)
        elif self._size > self._max_bytes:
            return UpstreamError("too-large")
        elif not self._holding.take(len(part)):
            return UpstreamError("exhausted", "too many bytes of answers are held")
        elif not self._held:
            self._held = part
        else:
            # One array: a list of parts costs a multiple of what they hold.
            if isinstance(self._held, bytes):
                self._held = bytearray(self._held)
            self._held += part
        return None

    def take_at_once(self, whole: bytes) -> bool:
        """One that came in one piece, and is read before anything else is done; False where it is too large."""
        if len(whole) > self._max_bytes:
            return False
        self._held = whole
        return True

    @property
    def held(self) -> bytes:
        held = self._held
        return held if isinstance(held, bytes) else bytes(held)

    def stream(self) -> None:
        """Reads it as it comes from here on."""
        self.streamed = True
        if self._held:
            self._buffer.append(bytes(self._held))
            self.unread_bytes += len(self._held)
        self.drop()

    def read(self) -> bytes:
        """The parts that have come since the last call."""
        data = self._buffer[0] if len(self._buffer) == 1 else b"".join(self._buffer)
        self._buffer.clear()
        self.unread_bytes = 0
        return data

    def put_back(self, data: bytes) -> None:
        """Puts back a part that `read` gave, to be read again."""
        self._buffer.insert(0, data)
        self.unread_bytes += len(data)

    def drop(self) -> None:
        """Drops what is held, which nobody asks for."""
        self._held = b""
        if self._holding.count:
            self._holding.release()
