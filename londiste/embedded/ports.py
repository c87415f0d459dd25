"""Free TCP ports of 127.0.0.1 for embedded servers."""

from __future__ import annotations

import socket


def choose_port(wanted: bool | int, remembered: str) -> int | None:
    """A port; None if no port is wanted.

    wanted -- True: the remembered one if it is free, else any free one; a number: that one.
    """
    if wanted is False:
        return None
    if wanted is not True:
        return int(wanted)
    if remembered.isdigit() and _is_free(int(remembered)):
        return int(remembered)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
