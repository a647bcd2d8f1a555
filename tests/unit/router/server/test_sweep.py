"""The sweep for clients that are too slow."""

import asyncio
from itertools import pairwise
from typing import Any

from cascadia.router.server.app import Router
from cascadia.router.server.server import SWEPT_A_TURN, Server
from cascadia.router.settings.model import ReplicaSettings, RouterSettings, StageSettings


class _Client:
    """A connection that counts how often it is looked at."""

    def __init__(self) -> None:
        self.looks = 0
        self.gone = False

    def close_overdue(self, now_s: float) -> None:
        assert not self.gone
        self.looks += 1


def test_each_turn_looks_at_few_connections_and_a_round_at_all() -> None:
    async def main() -> None:
        stage = StageSettings("small", "small", (ReplicaSettings("http://127.0.0.1:9"),))
        server = Server(Router(RouterSettings((stage,), None)))
        clients: list[Any] = [_Client() for _ in range(3 * SWEPT_A_TURN + 1)]
        server.connections.update(clients)
        seen = []
        for turn in range(9):
            if turn == 2:
                clients[0].gone = True
                server.connections.discard(clients[0])
            server._sweep()
            assert server._sweep_timer is not None
            server._sweep_timer.cancel()
            seen.append(sum(client.looks for client in clients))
        assert all(b - a <= SWEPT_A_TURN for a, b in pairwise(seen))
        assert all(client.looks in (2, 3) for client in clients if not client.gone)

    asyncio.run(main())
