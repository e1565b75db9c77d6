"""Ctrl-C while volley's modules load: a sentence instead of a traceback.  The import of this module begins that."""

from __future__ import annotations

import os
import signal

from volley.errors import EXIT_INTERRUPTED


def _stop_now(*_: object) -> None:
    os.write(2, b"volley: stopped\n")
    os._exit(EXIT_INTERRUPTED)


def hand_over() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, as Python does it."""
    if signal.getsignal(signal.SIGINT) is _stop_now:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
    signal.signal(signal.SIGINT, _stop_now)
