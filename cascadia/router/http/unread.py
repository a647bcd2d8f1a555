"""Clients that are not read from: whether such a one is still there, as its socket tells."""

import fcntl
import select
import sys
import termios
from typing import Literal

FAR_BYTES = 32 * 1024
"""Unread of a client: as much fills the socket, and that it has sent its last may be stuck behind."""

Seen = Literal["there", "far ahead", "ended", "gone"]
"""`ended`: it has sent its last, and may have gone; `far ahead`: so it may too, and nothing would tell."""


def seen_at(descriptor: int) -> Seen:
    """What the socket of a client tells without being read."""
    poll = select.poll()
    # Not every system has it: there a client that has sent its last is seen once it has gone.
    poll.register(descriptor, getattr(select, "POLLRDHUP", 0))
    for _, events in poll.poll(0):
        return "gone" if events & (select.POLLERR | select.POLLHUP) else "ended"
    unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return "far ahead" if int.from_bytes(unread, sys.byteorder) >= FAR_BYTES else "there"
