"""Listening where a user says: what cannot be is refused by the option to change."""

import asyncio
import socket

import pytest

from cascadia.clients.processes.health import get
from cascadia.clients.processes.ports import listen_as_told
from cascadia.domain.errors import BadInput


@pytest.mark.parametrize("host", ["", "hö st..", "a" * 300, "a\0b", "192.0.2.1"])
def test_a_host_that_is_none_of_this_machine_is_refused_by_its_own_option(host: str) -> None:
    with pytest.raises(BadInput, match=r"^--host: cannot listen on .*; name an address of this machine"):
        listen_as_told(host, 0)


def test_a_port_that_is_taken_is_refused_by_the_option_that_named_it() -> None:
    with (
        listen_as_told("127.0.0.1", 0) as taken,
        pytest.raises(
            BadInput, match=r"^--admin-port: cannot listen on 127\.0\.0\.1:[0-9]+ .*; name another"
        ),
    ):
        listen_as_told("127.0.0.1", taken.getsockname()[1], "--admin-port")


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_address_of_version_6_may_stand_in_brackets_and_is_asked_by_them() -> None:
    heads = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async def asked() -> None:
        try:
            listening = listen_as_told("[::1]", 0)
        except BadInput:
            pytest.skip("no IPv6 here")
        port = listening.getsockname()[1]
        async with await asyncio.start_server(answer, sock=listening):
            assert await get("::1", port, "/health") == (200, b"")
        assert f"host: [::1]:{port}\r\n".encode() in heads[0]

    asyncio.run(asked())
