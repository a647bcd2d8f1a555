"""A port is given to one program at a time, also between fleets."""

import socket
from pathlib import Path

from cascadia.clients.processes.ports import reserve, reserve_one


def test_a_reserved_port_is_not_given_again_until_it_is_released(tmp_path: Path) -> None:
    first = reserve(20_100, tmp_path)
    second = reserve(first.number, tmp_path)
    assert second.number > first.number
    assert reserve_one(first.number, tmp_path) is None
    first.release()
    assert reserve(first.number, tmp_path).number == first.number


def test_a_port_that_somebody_listens_on_is_passed_over(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert reserve(port, tmp_path).number > port
        assert reserve_one(port, tmp_path) is None
