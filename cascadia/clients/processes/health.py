"""Health of a program on this machine: one GET on a fresh connection, by the standard library alone."""

import asyncio
from contextlib import suppress

from cascadia.files.addresses import authority

TIMEOUT_S = 5.0
MOST_BYTES = 16 * 2**20


async def healthy(host: str, port: int, path: str, timeout_s: float = TIMEOUT_S) -> bool:
    """Tells whether there is an answer with a status below 400."""
    return 0 < (await get(host, port, path, timeout_s))[0] < 400


async def get(host: str, port: int, path: str, timeout_s: float = TIMEOUT_S) -> tuple[int, bytes]:
    """Status and body; status 0 where there is no answer."""
    with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        async with asyncio.timeout(timeout_s):
            return await _get(host, port, path)
    return 0, b""


async def _get(host: str, port: int, path: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nhost: {authority(host, port)}\r\nconnection: close\r\n\r\n".encode(
                "ascii"
            )
        )
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if lengths:
            return status, await reader.readexactly(min(MOST_BYTES, int(lengths[0].partition(b":")[2])))
        return status, await reader.read(MOST_BYTES)
    finally:
        writer.close()
