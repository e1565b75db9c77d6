"""Which names and addresses are those of this host: no launcher needs a login there."""

from __future__ import annotations

import contextlib
import os
import socket


def is_this_host(name: str, *, look_up: bool = True) -> bool:
    """Return whether a name or an address is one of this host: launchers need no login there.

    Without ``look_up`` no resolver is asked, which may take a second for each name: another name of this host counts as
    another host.
    """
    here = os.uname().nodename
    if name.partition(".")[0] == here.partition(".")[0] or name == "localhost":
        return True
    with contextlib.suppress(OSError, UnicodeError):  # UnicodeError: an empty part, as in "a..b"
        flags = 0 if look_up else socket.AI_NUMERICHOST
        for *_, address in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=flags):
            kind = socket.AF_INET6 if len(address) > 2 else socket.AF_INET
            with contextlib.suppress(OSError), socket.socket(kind) as asked:
                asked.bind((address[0], 0))  # only an address of this host can be bound
                return True
    return False
