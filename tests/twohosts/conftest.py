"""Fixtures: pretend hosts joined by a wire of known delay and rate (pretend_hosts.py)."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pretend_hosts import Lab, NoHostsError, Wire, build_relay, lab


@pytest.fixture(scope="session")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The relay, compiled."""
    return build_relay(tmp_path_factory.mktemp("relay"))


@pytest.fixture
def join_hosts(relay: Path, tmp_path: Path) -> Iterator[Callable[[Wire], Lab]]:
    """Call it with a wire to get two hosts joined by it, until the test ends."""
    number = itertools.count()
    with contextlib.ExitStack() as stack:

        def join(wire: Wire) -> Lab:
            try:
                return stack.enter_context(lab(tmp_path / f"lab{next(number)}", relay, wire))
            except NoHostsError as reason:
                pytest.skip(str(reason))

        yield join
