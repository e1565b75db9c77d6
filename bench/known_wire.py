"""A wire of known delay and rate between two pretend hosts, and what volley says of it.

The hosts are those of tests/twohosts: namespaces on this machine, joined by a relay that delays packets and charges
each for its bytes on Ethernet.  Root and a TUN device are needed.  A ping-pong of two polling sockets through the
same wire tells what this machine's TCP adds without MPI.
"""

import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from comparisons import Finding
from programs import HERE, LAUNCH_TIMEOUT_S, VOLLEY, BenchError

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.pair.results import PingPong, StreamPoint
from volley.records.records_file import read_runs
from volley.statistics.estimates import estimate, median

sys.path.append(str(HERE.parent / "tests/twohosts"))
from pretend_hosts import (
    ADDRESSES,
    FRAMING,
    IP_HEADER,
    NAMES,
    TCP_HEADER,
    Lab,
    NoHostsError,
    Wire,
    build_relay,
    compile_for_hosts,
    lab,
)

DELAYS_S = (50e-6, 250e-6, 1e-3, 5e-3, 20e-3)
RATES_BPS = (20e6, 100e6, 300e6, 1e9)
MAX_ADDED_US, MAX_OFF_PERCENT = "≤ 60.00", "≤ 1.000"
WINDOW = 64
OUTLASTS = 400
"""A window holds the wire so many times as long as its delay."""
SHORTEST_WINDOW_S = 1.0
WINDOWS = 2
SOCKET_EXCHANGES = 100


@dataclass(frozen=True)
class WireSeen:
    """One wire as it was set, and as volley measured it."""

    delay_s: float
    rate_bps: float
    half_round_trip_s: float
    """Of 8 B."""
    sockets_s: float
    """Half round trip of 8 B between two polling sockets."""
    window_bytes: int
    window_s: float
    """Of a stream: a window and its acknowledgement."""

    @property
    def added_s(self) -> float:
        """What the half round trip is longer than the delay and the time that the frame of 8 B holds the wire."""
        return self._beyond_wire_s(self.half_round_trip_s)

    @property
    def sockets_added_s(self) -> float:
        """The same of the sockets."""
        return self._beyond_wire_s(self.sockets_s)

    def _beyond_wire_s(self, time_s: float) -> float:
        frame_s = (8 + TCP_HEADER + IP_HEADER + FRAMING) * 8 / self.rate_bps
        return time_s - self.delay_s - frame_s

    @property
    def goodput_share(self) -> float:
        """Goodput of the window, less its last packet's way there and the answer's way back, as a share of TCP's.

        TCP's is what full segments leave of the rate.
        """
        goodput = self.window_bytes / (self.window_s - 2 * self.delay_s)
        return goodput / Wire(self.delay_s, self.rate_bps).goodput


class NotHereError(Exception):
    """This machine cannot make the hosts; the message says why."""


def known_wires() -> Iterator[WireSeen]:
    """Measure every delay at every rate, one wire after another.

    Raises:
        NotHereError: if this machine cannot make the hosts.
        BenchError: if volley fails between them.
    """
    with tempfile.TemporaryDirectory() as folder:
        relay, sockets = build_relay(Path(folder)), compile_for_hosts(HERE / "socket_pingpong.c", Path(folder))
        for number, (delay_s, rate_bps) in enumerate(product(DELAYS_S, RATES_BPS)):
            wire = Wire(delay_s, rate_bps)
            try:
                with lab(Path(folder) / f"lab{number}", relay, wire) as hosts:
                    yield _seen(hosts, wire, Path(folder), sockets)
            except NoHostsError as reason:
                raise NotHereError(str(reason)) from None


def summary(wires: list[WireSeen]) -> list[Finding]:
    """Say how far the worst wire is off."""
    added, off = (max(wires, key=key) for key in (lambda w: abs(w.added_s), lambda w: abs(w.goodput_share - 1)))
    count = f"known wire, the worst of {len(wires)} delays and rates"
    beside = [(wire.added_s - wire.sockets_added_s) * 1e6 for wire in wires]
    return [
        Finding(f"{count}: 8 B, beyond delay and frame", estimate([added.added_s * 1e6]), "µs", MAX_ADDED_US),
        Finding(f"{count}: the same, beyond two polling sockets", estimate([max(beside, key=abs)]), "µs", "–"),
        Finding(f"{count}: goodput, off by", estimate([100 * abs(off.goodput_share - 1)]), "%", MAX_OFF_PERCENT),
    ]


def _seen(hosts: Lab, wire: Wire, folder: Path, sockets: Path) -> WireSeen:
    sockets_s = _between_sockets(hosts, sockets)
    latency = _measured(hosts, folder, "pingpong", "--sizes", "8")
    window_s = max(SHORTEST_WINDOW_S, OUTLASTS * wire.delay_s)
    message_bytes = math.ceil(window_s * wire.goodput / WINDOW / 1024) * 1024
    words = ("--window", str(WINDOW), "--warmup", "1", "--iterations", str(WINDOWS))
    stream = _measured(hosts, folder, "stream", "--sizes", str(message_bytes), *words)
    assert isinstance(latency, PingPong)
    assert isinstance(stream, StreamPoint)
    window_bytes, taken_s = WINDOW * message_bytes, median(stream.forward_s)
    latency_s = median(latency.times_s)
    return WireSeen(wire.delay_s, wire.rate_bps, latency_s, sockets_s, window_bytes, taken_s)


def _between_sockets(hosts: Lab, program: Path) -> float:
    command = [str(program), str(SOCKET_EXCHANGES)]
    with hosts.start(command, host=NAMES[1]):
        done = hosts.run([*command, ADDRESSES[1]], timeout_s=LAUNCH_TIMEOUT_S)
    if done.returncode != 0:
        raise BenchError(f"the ping-pong of sockets ended with status {done.returncode}: {done.stderr.strip()}")
    return float(done.stdout)


def _measured(hosts: Lab, folder: Path, *words: str) -> object:
    records = folder / "records.jsonl"
    options = ("--transport", "host", "--hosts", ",".join(NAMES), "--format", "json", "--launches", "1")
    done = hosts.run([*VOLLEY, *words, *options, "-o", str(records)], timeout_s=LAUNCH_TIMEOUT_S)
    if done.returncode != 0:
        raise BenchError(f"volley ended with status {done.returncode}: {done.stderr.strip()}")
    (log,) = read_runs(records, BENCHMARKS)
    (point,) = log.records
    return point
