"""`cascadia`, with a file in the place of DNS: `python -m tests.e2e.k8s_router_program HOSTS serve router.yaml ...`."""

import ctypes
import json
import signal
import sys
from pathlib import Path

from cascadia.cli.main import main
from cascadia.router.live import dns_watch as resolver

PR_SET_PDEATHSIG = 1


def use(hosts: Path) -> None:
    async def addresses_of(name: str) -> tuple[str, ...]:
        return tuple(sorted(json.loads(hosts.read_text()).get(name, ())))

    resolver.addresses_of = addresses_of


if __name__ == "__main__":
    # Simulated nodes are killed, and take their pods along.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    use(Path(sys.argv.pop(1)))
    main()
