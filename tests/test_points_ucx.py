"""UCX's protocols, held against the latencies of points."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from example_records import log, pingpong, plan, transport
from volley.benchmarks import BENCHMARKS
from volley.machine.ucx_protocols import Protocols, ProtocolTable, parse
from volley.records.run_log import RunLog
from volley.run.render import render

TEXT = sorted((Path(__file__).parent / "ucx").glob("composed-*.txt"))[0]
EAGER = "eager copy-in copy-out"
READ = "rendezvous zero-copy read from remote"


def composed() -> Protocols:
    return parse(TEXT.read_text(encoding="utf-8").splitlines())


def measured(protocols: Protocols | None, times_us: dict[int, float]) -> RunLog:
    """A ping-pong of ``aware`` with these latencies."""
    stack = {} if protocols is None else {"ucx_protocols": msgspec.to_builtins(protocols)}
    points = [pingpong([time * 1e-6] * 6, size=size, name="aware") for size, time in times_us.items()]
    return log(*points, the_plan=plan(launch={"stack": stack}), transports=[transport("aware", memory="device")])


def shown(run: RunLog) -> str:
    out = io.StringIO()
    render([run], BENCHMARKS, "table", out, err=io.StringIO())
    return out.getvalue()


INVERTED = {8: 15.6, 2048: 18.2, 4096: 7.7, 65536: 8.3, 1 << 20: 11.4}


def test_a_small_message_that_takes_longer_is_explained() -> None:
    text = shown(measured(composed(), INVERTED))
    assert (
        f"UCX sends up to 2304 B by {EAGER} through host memory (sysv/memory); larger sizes by {READ} (cuda_ipc/cuda)"
    ) in text
    assert "8 B in 15.6 µs but 4 KiB in 7.70 µs; UCX_RNDV_THRESH=8 makes" in text


def test_ranks_that_share_a_gpu_wait_for_each_other_whatever_the_protocol() -> None:
    run = measured(composed(), INVERTED)
    assert run.run
    run.run = replace(run.run, plan=replace(run.run.plan, share_device=True))
    text = shown(run)
    assert "UCX sends up to 2304 B" in text
    assert "UCX_RNDV_THRESH" not in text


def test_without_an_inversion_nothing_is_explained() -> None:
    text = shown(measured(composed(), {8: 7.6, 2048: 7.7, 65536: 8.3}))
    assert "UCX sends up to 2304 B" in text
    assert "UCX_RNDV_THRESH" not in text


def test_a_small_message_that_takes_longer_within_one_protocol_is_not_explained_by_it() -> None:
    text = shown(measured(composed(), {8: 18.2, 2048: 15.6, 4096: 19.0}))
    assert "UCX_RNDV_THRESH" not in text


@pytest.mark.parametrize("protocols", [None, Protocols(unknown="UCX printed nothing")])
def test_without_ucx_s_account_nothing_is_said_of_it(protocols: Protocols | None) -> None:
    assert "UCX" not in shown(measured(protocols, INVERTED))


def test_two_accounts_of_which_neither_is_this_call_s_are_none() -> None:
    (table,) = composed().sends
    twice = [
        ProtocolTable(f"{table.connection}{n}", "tagged message by ucp_tag_send* from cuda", table.ranges) for n in "ab"
    ]
    assert "UCX" not in shown(measured(Protocols(sends=twice), INVERTED))
