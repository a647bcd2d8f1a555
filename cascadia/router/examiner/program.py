"""The process that examines for a router: a task in, a reply out, each within a budget of its own CPU time.

    python -m cascadia.router.examiner.program FD CPU_S WALL_S

The budget ends a task where it stands, be that Python code or a pattern being matched; the process goes on. What does
not hear even that is ended by the kernel's alarm after `WALL_S`, and by the router, whichever comes first. It knows
none of the router's secrets, has a bounded memory, and ends when the router does: its socket is then closed.
"""

import signal
import socket
import struct
import sys
from typing import Any

import msgspec

from cascadia.router.examiner.confined import confine
from cascadia.router.examiner.examinations import Task, Unfit, examined

LENGTH = struct.Struct("<I")
AGAIN_S = 0.02
"""Of CPU time: a budget whose end was caught on the way is said to be over again."""

_tasks = msgspec.msgpack.Decoder(Task)
_encoder = msgspec.msgpack.Encoder()


class _OverBudget(BaseException):
    """Signal that the budget is spent. It is no `Exception`: nobody on the way may take it for a fault of the
    task's.
    """


def _over(*_: object) -> None:
    raise _OverBudget


def main(connection: socket.socket, cpu_s: float, wall_s: float) -> None:
    signal.signal(signal.SIGPROF, _over)
    while (content := _received(connection)) is not None:
        # Nobody handles its signal, so that the kernel ends the process, whatever C code it is in.
        signal.setitimer(signal.ITIMER_REAL, wall_s)
        reply = _encoder.encode(_reply(content, cpu_s))
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        connection.sendall(LENGTH.pack(len(reply)) + reply)


def _reply(content: bytes, cpu_s: float) -> tuple[str, Any]:
    """`("", result)`, or in a word why there is none."""
    try:
        try:
            signal.setitimer(signal.ITIMER_PROF, cpu_s, AGAIN_S)
            return "", examined(_tasks.decode(content))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
    except _OverBudget:
        # It may have struck between the result and the timer's end, which is then still to come.
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        return "budget", None
    except (RecursionError, MemoryError):
        return "large", None
    except Unfit as why:
        return str(why), None
    except Exception as error:  # noqa: BLE001 (the boundary: what it is is told, and no verdict is made of it)
        return f"fault-{type(error).__name__}", None


def _received(connection: socket.socket) -> bytes | None:
    head = _exactly(connection, LENGTH.size)
    return None if head is None else _exactly(connection, LENGTH.unpack(head)[0])


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    """Bytes read, exactly `count`; None where the other side is gone."""
    parts: list[bytes] = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    import jsonschema  # noqa: F401 (not within the first task's budget)
    import re2  # noqa: F401
    import referencing  # noqa: F401

    # Signals of the terminal are the router's to answer.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    confine()
    main(socket.socket(fileno=int(sys.argv[1])), float(sys.argv[2]), float(sys.argv[3]))
