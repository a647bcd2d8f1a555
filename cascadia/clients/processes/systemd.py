"""Notifications to systemd from a service of `Type=notify` (sd_notify(3)); nobody listens where it was not
started by one.
"""

import os
import socket


def notify(state: str) -> None:
    """E.g. `READY=1`."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # An abstract address is written with @ for its leading null.
    place = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(state.encode(), place)
