"""The known truth itself: what plain sockets see of it, and that nothing of it is left behind.

Nothing of volley runs here.  When these tests fail, what the others say of volley means nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pretend_hosts import ADDRESSES, NAMES, Lab, NoHostsError, Wire, lab

# Far slower than any processor, so that only the wire counts: 100 Mbit/s carries a full segment in 123 µs.
SLOW = Wire(delay_s=5e-3, rate_bps=100e6)
PORT = 7777
PAYLOAD_BYTES = 4_000_000

FLOODS = 4

# The first host sends PAYLOAD_BYTES and reads the clock when the second has answered with one byte.  The quickest of a
# few counts: a machine that stops for a moment holds the wire up, and nothing makes it quicker than it is.
SENDER = f"""
import json, socket, time
with socket.create_connection(("{ADDRESSES[1]}", {PORT})) as link:
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    trips = []
    for _ in range(20):
        start = time.perf_counter()
        link.sendall(b"p")
        link.recv(1)
        trips.append(time.perf_counter() - start)
    floods = []
    for _ in range({FLOODS}):
        start = time.perf_counter()
        link.sendall(bytes({PAYLOAD_BYTES}))
        link.recv(1)
        floods.append(time.perf_counter() - start)
    print(json.dumps({{"round_trip_s": min(trips), "flood_s": min(floods)}}))
"""
RECEIVER = f"""
import socket
with socket.create_server(("{ADDRESSES[1]}", {PORT})) as server:
    print("listening", flush=True)
    link, _ = server.accept()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(20):
        link.sendall(link.recv(1))
    for _ in range({FLOODS}):
        left = {PAYLOAD_BYTES}
        while left:
            left -= len(link.recv(min(left, 1 << 20)))
        link.sendall(b"d")
"""


def plain_transfer(hosts: Lab) -> dict[str, float]:
    """The quickest ping-pong of a byte and the quickest flood between the hosts, over a plain TCP connection."""
    with hosts.start([sys.executable, "-c", RECEIVER], host=NAMES[1]) as receiver:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == b"listening\n"
        sender = hosts.run([sys.executable, "-c", SENDER], timeout_s=60)
        assert sender.returncode == 0, sender.stderr
    return dict(json.loads(sender.stdout))


@pytest.mark.alone
def test_wire_has_the_delay_and_rate_that_it_was_given(join_hosts: Callable[[Wire], Lab]) -> None:
    seen = plain_transfer(join_hosts(SLOW))
    assert seen["round_trip_s"] == pytest.approx(2 * SLOW.delay_s, abs=0.5e-3)
    # One delay there and one back, and TCP's first round trips, in which it does not yet fill the wire: a few delays.
    expected = PAYLOAD_BYTES / SLOW.goodput + 2 * SLOW.delay_s
    assert expected * 0.995 < seen["flood_s"] < expected + 6 * SLOW.delay_s


def test_goodput_of_gigabit_ethernet() -> None:
    # The figure that every network engineer knows: 941 Mbit/s of TCP payload, 1448 of every 1538 bytes.
    assert Wire(delay_s=0, rate_bps=1e9).goodput * 8 / 1e6 == pytest.approx(941.48, abs=0.01)


def test_hosts_have_their_own_name_devices_and_memory(join_hosts: Callable[[Wire], Lab]) -> None:
    hosts = join_hosts(SLOW)
    for name in NAMES:
        assert hosts.run(["hostname"], host=name, timeout_s=10).stdout.strip() == name
        assert sorted(hosts.run(["ls", "/sys/class/net"], host=name, timeout_s=10).stdout.split()) == ["link0", "lo"]
    hosts.run(["touch", "/dev/shm/here"], host=NAMES[0], timeout_s=10)
    assert hosts.run(["ls", "/dev/shm"], host=NAMES[1], timeout_s=10).stdout == ""


def test_nothing_outlives_the_hosts(relay: Path, tmp_path: Path) -> None:
    mark = f"98765.{time.time_ns() % 10**9}"  # a time to sleep that nobody else uses: its process is known by it
    try:
        with lab(tmp_path / "lab", relay, SLOW) as hosts:
            for name in NAMES:
                hosts.run(["sh", "-c", f"setsid sleep {mark} >/dev/null 2>&1 &"], host=name, timeout_s=10)
            assert len(processes_with(mark)) == len(NAMES)
    except NoHostsError as reason:
        pytest.skip(str(reason))
    assert processes_with(mark) == []
    assert processes_with(str(tmp_path / "lab")) == []


def processes_with(word: str) -> list[str]:
    """Command lines, of any process that this one can see, that have ``word`` among their words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended meanwhile
        if word in words:
            found.append(" ".join(words))
    return found


def test_relay_says_why_it_does_not_start(join_hosts: Callable[[Wire], Lab], relay: Path, tmp_path: Path) -> None:
    join_hosts(SLOW)  # skips where no hosts can be made
    misled = tmp_path / "misled"
    misled.write_text(f'#!/bin/sh\nexec "{relay}" nobody 192.0.2.1 nobody 192.0.2.2 0 0\n')
    misled.chmod(0o755)
    with (
        pytest.raises(RuntimeError, match="relay: /proc/nobody/ns/net: No such file"),
        lab(tmp_path / "l", misled, SLOW),
    ):
        pass
