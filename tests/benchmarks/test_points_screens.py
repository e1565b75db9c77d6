"""Reports of points as people and programs see them: texts in ``tests/screens/points`` that a person has read."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from example_records import RECORD_FILES, collective, golden, log, pingpong, plan, run, stream, transport
from gpu_records import device_of
from screens import check_formats, shown
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.overlap.results import OverlapPoint
from volley.benchmarks.pair.results import line
from volley.command.options import FORMATS
from volley.errors import UserError
from volley.machine.hardware import Device, Hardware, Settings
from volley.machine.ucx_protocols import Protocols, ProtocolTable, parse
from volley.records.launch_series import count_missing
from volley.records.plan import Sampling
from volley.records.record_types import End, LaunchTimes, Mismatch
from volley.records.records_file import parse_runs, read_runs
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.run.render import reports_of, results_of

TESTS = Path(__file__).parents[1]
RECORDS = TESTS.parent / "results" / "h200-x2"
SAMPLES = [1.000e-6, 1.001e-6, 1.002e-6, 1.003e-6, 1.004e-6, 1.005e-6, 1.006e-6]
SPREAD = [0.997, 0.998, 0.999, 1.0, 1.001, 1.002, 1.003]
STEPS = [8 << 3 * step for step in range(7)]
SIZES = [8 << 2 * step for step in range(9)]
WIDE = [1.0e-6, 1.2e-6, 1.0e-6, 1.2e-6, 1.1e-6, 1.1e-6]
DRIFTING = [1e-6 * (1 + number / 100) for number in range(30)]
WILD = [1e-6 * (1 + number / 10) for number in range(30)]
TAIL = plan(sampling=Sampling(tail=True))
NULL = transport("null", mpi=False, memory="none")
DEVICE = [transport(name, memory="device") for name in ("aware", "peer")]

Logs = list[RunLog]


def changed(one: RunLog, **facts: Any) -> RunLog:
    """The log with other fields; those of its run have the name ``run_…``."""
    of_run = {name.removeprefix("run_"): value for name, value in facts.items() if name.startswith("run_")}
    for name, value in facts.items():
        if name not in {f"run_{each}" for each in of_run}:
            setattr(one, name, value)
    if of_run:
        one.run = replace(one.run, **of_run)
    return one


def curve(name: str, latency_s: float, rate: float, sizes: Sequence[int] = STEPS, **changes: Any) -> list[Any]:
    """The points of one transport, ±0.3 %."""
    return [
        pingpong([(latency_s + size / rate) * factor for factor in SPREAD], size, name, **changes) for size in sizes
    ]


def sides(names: str, *microseconds: Sequence[float]) -> RunLog:
    """Transports with so many µs at 8, 64 and 512 bytes, or at the first of these."""
    return log(
        *(
            pingpong([factor * time for time in SAMPLES], size, name)
            for name, factors in zip(names, microseconds, strict=True)
            for size, factor in zip((8, 64, 512), factors, strict=False)
        )
    )


def repeated(times: Sequence[float], name: str = "host", **how: Any) -> Logs:
    """Launches that take so long, without any spread."""
    return [log(pingpong([time] * 6, name=name), **how) for time in times]


def skipping(*reasons: str) -> RunLog:
    """Three transports beside two that are measured: they skip the largest size for these reasons."""
    points = [
        pingpong([], SIZES[-1], name, status="skipped", reason=reason)
        for name, reason in zip(("host", "aware", "peer"), reasons, strict=False)
    ]
    return log(*two_transports()[0].records, *points)


def two_transports(*, wide: float = 1.0, status: str = "ok") -> Logs:
    slow = [
        pingpong(
            [(5e-6 + size / 1e9) * (1 + (factor - 1) * wide) for factor in SPREAD],
            size,
            "staged/pinned",
            ended_by="time",
        )
        for size in SIZES
    ]
    if status != "ok":
        slow[0] = pingpong([], SIZES[0], "staged/pinned", status=status, reason="the message differs")
    both = [transport("host"), transport("staged/pinned", memory="device")]
    return [log(*curve("host", 1e-6, 10e9, SIZES), *slow, transports=both)]


def skipped_by_the_slow() -> Logs:
    """The baseline skips the largest size."""
    (one,) = two_transports()
    reason = "3 round trips exceed the limit of 0.56 s for each transport (5 s for this size)"
    points = [each for each in one.records if (each.transport, each.size_bytes) != ("staged/pinned", SIZES[-1])]
    points.append(pingpong([], SIZES[-1], "staged/pinned", status="skipped", reason=reason))
    fast = curve("aware", 1e-6, 10e9, SIZES)
    return [log(*points, *fast, transports=[*one.transports, DEVICE[0]])]


def groups_of(count: int, order: int = 1) -> Logs:
    """A quarter of the launches takes a third of the time of the others."""
    times = [0.35e-6] * (count - count // 4) + [0.11e-6] * (count // 4)
    return repeated([times[order * launch % count] for launch in range(count)])


def drifting(count: int) -> Logs:
    """Twelve launches, of which so many drift and are interrupted."""
    steady = [1e-6 + 1e-9 * (number % 3) for number in range(30)]
    drift = [*steady[:20], *(1.1 * time for time in steady[:10])]
    hits = [*steady, *[1e-4] * 6]
    return [
        log(pingpong(drift if launch < count else steady), pingpong(hits if launch < count else steady, 64))
        for launch in range(12)
    ]


def few_samples() -> Logs:
    wide, wider = (
        [time * factor for time in each] for factor, each in ((1e6, WIDE), (1.0, [1, 1.6, 1, 1.6, 1.3, 1.3]))
    )
    points = [pingpong(wide, size, name, ended_by="few") for size in (64, 128) for name in ("host", "aware")]
    return [log(*points, pingpong(wider, 256, "aware", ended_by="few"), pingpong([1.0] * 6, 512, ended_by="few"))]


def on_two_nodes() -> Logs:
    (one,) = read_runs(RECORDS / "pingpong-all.jsonl", BENCHMARKS)
    first, second = one.run.ranks
    return [changed(one, run_ranks=[first, replace(second, node=1, host="elsewhere")])]


def barriers() -> Logs:
    others = [collective(name, [1e-6] * 6, size) for name in ("broadcast", "allreduce") for size in (8, 64)]
    return [log(collective("barrier", [(2 + launch) * 1e-7] * 6), *others) for launch in range(7)]


def nothing_in_common() -> Logs:
    return [
        log(*(pingpong([factor * (1 + launch) ** 6 * 1e-6] * 6, size, name) for size in SIZES for name in ("a", "b")))
        for launch, factor in enumerate(SPREAD)
    ]


def overlaps() -> Logs:
    """Those of which a part is hidden for certain, and one that sends nothing."""
    (one,) = read_runs(RECORDS / "overlap.jsonl", BENCHMARKS)
    points = [point for point in one.of(OverlapPoint) if point.transport in ("aware", "peer", "device", "nccl")]
    null = [replace(point, transport="null") for point in points if point.transport == "aware"]
    return [changed(one, records=[*points, *null], transports=[*one.transports, NULL])]


# ------------------------------------------------------------------------------------- line rates and protocols


def machine() -> list[Hardware]:
    """The records of a machine with two H200, before and after."""
    lines = (TESTS / "machines/composed-2xh200-nv18/hardware.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Hardware) for line in lines]


def with_gpus(*points: Any, **of_the_last: Any) -> RunLog:
    """A run between two GPUs; ``of_the_last`` changes them in the last record."""
    before, after = machine()
    after = replace(after, gpus=[replace(gpu, **of_the_last) for gpu in after.gpus])
    names = [transport(name, memory="device") for name in ("peer", "staged/pinned")]
    made = log(*points, transports=names)
    ranks = [replace(rank, device=device_of(gpu)) for rank, gpu in zip(run().ranks, before.gpus, strict=False)]
    return changed(made, run_ranks=ranks, hardware=[before, after])


GIB = 1 << 30
AT_THE_LINE = (pingpong([GIB / 400e9] * 6, GIB, "peer"), pingpong([GIB / 50e9] * 6, GIB, "staged/pinned"))
FAR = [8 << 4 * step for step in range(8)]
FAR_BELOW = [
    pingpong([2e-6 + size / rate] * 6, size, name)
    for name, rate, sizes in (("peer", 100e9, FAR), ("staged/pinned", 50e9, FAR[:-1]))
    for size in sizes
]
BOTH_WAYS = stream([(64 << 20) / 300e9] * 6, [(64 << 20) / 320e9] * 6, size=1 << 20, transport="peer")
INVERTED = {8: 15.6, 2048: 18.2, 4096: 7.7, 65536: 8.3, 1 << 20: 11.4}


def protocols() -> Protocols:
    return parse(sorted((TESTS / "ucx").glob("composed-*.txt"))[0].read_text("utf-8").splitlines())


def two_accounts() -> Protocols:
    """Two tables, neither of which is that of this call."""
    (table,) = protocols().sends
    operation = "tagged message by ucp_tag_send* from cuda"
    return Protocols(sends=[ProtocolTable(f"{table.connection}{each}", operation, table.ranges) for each in "ab"])


def ucx(account: Protocols | None, times_us: Mapping[int, float], **changes: Any) -> Logs:
    """A ping-pong of ``aware`` with these latencies."""
    stack = {} if account is None else {"ucx_protocols": msgspec.to_builtins(account)}
    points = [pingpong([time * 1e-6] * 6, size=size, name="aware") for size, time in times_us.items()]
    return [log(*points, the_plan=plan(launch={"stack": stack}, **changes), transports=DEVICE[:1])]


# ------------------------------------------------------------------------------------------------------- screens

WRONG = Mismatch(rank=1, offset_bytes=17, expected=0x5A, found=0x5B, wrong_bytes=1)
GUARDS = {16: -1, 32: 0, 64: 63, 128: 128}
"""Offsets of a wrong byte by the size of the message: a guard byte, two of the message, a guard byte."""
CUT = (RECORD_FILES[0].parent / "incomplete.jsonl").read_bytes().splitlines(keepends=True)[0]
UNREADABLE = [*(f"line {number}: not JSON" for number in (1, 2, 3, 7)), "line 4: \x1b[31mrubbish", "it broke off"]
BAD_TEXT = "bad \x1b[2J [bold]node[/bold] :smile:\nnext"
MISSING = [transport(name, available=False, reason="no NVIDIA driver") for name in ("aware", "peer", "nccl")]
LONG = "3 round trips exceed the limit of {1} s for each transport ({0} s for this size)"
GPU = Device(index=3, name="GPU X", uuid="u", pci="p", compute_capability="9.0", memory_bytes=1)
NODES = [
    replace(rank, host=f"node{rank.rank}", node=rank.rank, cores=[0, 1, 2, 8], device=GPU, bound_by="nobody")
    for rank in run().ranks
]
TEN_RANKS = [replace(run().ranks[0], rank=number, cores=[0, 1], bound_by="nobody") for number in range(10)]
SHORT = plan(sampling=Sampling(point_time_s=2.0))
BUDGET = plan(launch={"asked": [["--launches", "12"], ["--budget", "1"]]}, budget_s=1.0)
THOUSAND = [number * 1e-6 for number in range(1, 1001)]
VARYING = (1.0, 1.4, 0.9, 1.2, 1.1, 1.3)
FIVE = ["host", "staged/pageable", "staged/pipelined", "aware", "peer"]
INTERRUPTED = [1e-6 + 1e-9 * (number % 7) for number in range(40)] + [1e-4] * 6
TWO_SIZES = [pingpong(SAMPLES), pingpong(SAMPLES, 64)]
NOT_EVERY = [log(pingpong(DRIFTING)), log(pingpong(DRIFTING), pingpong(INTERRUPTED, 64))]

ONLY_MPI = pingpong(
    size=0,
    name="staged/pinned",
    status="skipped",
    reason="a message of 0 B is measured with host, aware and their requests only",
)
EMPTY = [
    log(
        *(pingpong(SAMPLES, size, name) for name in ("host", "aware") for size in (0, 8, 64)),
        *(ONLY_MPI, pingpong(SAMPLES, 8, "staged/pinned"), pingpong(SAMPLES, 0, "null")),
        transports=[*map(transport, ("host", "aware", "staged/pinned")), NULL],
    )
]

NOTES = {
    "empty-messages": EMPTY,
    "empty-messages-alone": [log(pingpong(SAMPLES, 0))],
    "empty-messages-skipped": [log(replace(ONLY_MPI, transport="host"), pingpong(SAMPLES, 8))],
    "one-transport": [log(pingpong(SAMPLES, size=1 << 20))],
    "decimal-points": [log(*(pingpong([t * f for t in SAMPLES], size) for size, f in ((8, 0.3), (64, 7), (512, 40))))],
    "stream": [log(stream([64e-6] * 6, size=1000))],
    "stream-both-ways": [log(stream([64e-6] * 6, [128e-6] * 6, size=1000))],
    "stream-beside-null": [
        log(*(stream([f * 64e-6] * 6, transport=name) for name in ("host", "null")), transports=[transport(), NULL])
        for f in (1, 2)
    ],
    "five-transports": [log(*(pingpong(SAMPLES, size, name) for size in (8, 64) for name in FIVE))],
    "two-requests": [log(pingpong(SAMPLES)), log(stream([1e-6] * 6), the_plan=plan(benchmark="stream"))],
    "tail": [log(pingpong(THOUSAND), the_plan=TAIL)],
    "tail-with-long-exchanges": [log(pingpong(INTERRUPTED, 64), the_plan=TAIL)],
    "tail-of-two": [log(pingpong(THOUSAND), pingpong(THOUSAND, name="aware"), the_plan=TAIL)],
    "failed": [log(pingpong(SAMPLES), pingpong(SAMPLES, 4096, status="failed", reason="it differs", mismatch=WRONG))],
    "guard-bytes": [
        log(
            *(
                pingpong([], size, status="failed", reason="it differs", mismatch=replace(WRONG, offset_bytes=offset))
                for size, offset in GUARDS.items()
            )
        )
    ],
    "skipped": golden("skipped"),
    "skipped-for-one-reason": [
        log(
            pingpong(SAMPLES),
            *(pingpong(size=1 << n, status="skipped", reason="too large " * 20) for n in range(30, 35)),
        )
    ],
    "skipped-for-many-reasons": [
        log(*(pingpong(size=1 << n, status="skipped", reason=f"needs {n}") for n in range(30, 35)))
    ],
    "ping-pong-and-null": golden("pingpong-host"),
    "unavailable": [
        log(pingpong(), transports=[transport(), *MISSING, transport("device", available=False, reason="one GPU only")])
    ],
    "incomplete": golden("incomplete"),
    "cut-before-the-first-point": parse_runs(CUT, BENCHMARKS),
    "without-its-first-record": [changed(log(pingpong(SAMPLES)), run=None, problems=UNREADABLE)],
    "stopped": [changed(log(pingpong(SAMPLES)), end=End(status="stopped", reason="asked to", elapsed_s=1.0))],
    "ended-early": [changed(log(pingpong(SAMPLES)), end=End(status="failed", reason="an exception", elapsed_s=1.0))],
    "second-launch-aborted": [
        log(*TWO_SIZES),
        changed(log(TWO_SIZES[0]), end=None),
        log(*TWO_SIZES),
    ],
    "not-verified": [log(pingpong(SAMPLES, messages_verified=0), the_plan=plan(verify=False))],
    "just-above-the-limit": [log(pingpong([1e-6 * f] * 6), the_plan=SHORT) for f in [0.98996, 1.01004] * 6],
    "two-launches": [log(pingpong([1e-6, 1.1e-6])), log(pingpong([1.2e-6, 1.3e-6]))],
    "one-batch": golden("fixed"),
    "peer-beside-mpi": [
        log(
            pingpong(SAMPLES),
            pingpong(SAMPLES, name="peer"),
            transports=[transport(), transport("peer", mpi=False, memory="device")],
        )
    ],
    "text-of-machines": [log(pingpong(status="skipped", reason=BAD_TEXT), transports=[transport(summary="[red]x")])],
    "two-nodes": [changed(log(pingpong(SAMPLES)), run_ranks=NODES)],
    "ten-ranks": [changed(log(pingpong(SAMPLES)), run_ranks=TEN_RANKS)],
    "fastest-by-size": [sides("ab", (1, 1.001, 9), (2, 1, 3))],
    "fastest-at-every-size": [sides("ab", (1, 1, 3), (2, 2, 4))],
    "fastest-at-one-size": [sides("ab", (1, 1, 3), (2,))],
    "fastest-up-to-a-size": [sides("ab", (1, 9, 9), (2, 1))],
    "no-size-in-common": [log(pingpong(SAMPLES, 8, "a"), pingpong(SAMPLES, 64, "b"))],
    "no-fastest": [log(*(pingpong(SAMPLES, size, name) for size in (8, 64) for name in ("a", "b")))],
    "single-samples": [log(*(pingpong([time], 8, name) for name, time in (("a", 1e-6), ("b", 9e-6))))],
    "ratios-within-launches": [
        log(*(pingpong([t * f] * 6, 8, name) for name, t in (("a", 1.05e-6), ("b", 1e-6)))) for f in VARYING
    ],
    "groups": groups_of(12),
    "groups-in-turn": groups_of(12, 5),
    "groups-of-many": repeated([0.35e-6 if launch % 2 else 0.11e-6 for launch in range(40)]),
    "groups-of-barriers": [log(collective("barrier", [t] * 6)) for t in [0.2e-6] * 9 + [0.3e-6] * 3],
    "barrier-skipped": [log(collective("barrier", [], status="skipped", reason="too long"))],
    "stream-example": golden("stream-uni"),
    "interval-not-reached": [log(pingpong(WIDE, ended_by="time"), the_plan=SHORT)],
    "few-samples": few_samples(),
    "budget-used-up": [log(pingpong(DRIFTING), the_plan=BUDGET)] * 3,
    "drift-and-interruptions": NOT_EVERY,
    "drift-of-3-in-12": drifting(3),
    "drift-of-2-in-12": drifting(2),
    "drift-of-three-transports": [
        log(*(pingpong(DRIFTING, size, name) for name, size in (("a", 8), ("b", 8), ("c", 8), ("c", 64))))
    ],
    "one-warning-is-enough": [log(pingpong(WILD, ended_by="time"))],
    "null-is-not-warned-of": [log(pingpong(WILD, name="null", ended_by="time"), transports=[NULL])],
    "null-has-no-groups": repeated([0.11e-6] * 3 + [0.35e-6] * 9, "null", transports=[NULL]),
    "probe": golden("probe"),
    "probe-of-one-gpu": [
        log(
            the_plan=plan("probe", options={}),
            transports=[transport(), *(replace(each, reason="ranks 0 and 1 are on one GPU") for each in MISSING)],
        )
    ],
    "probe-of-nothing": [log(the_plan=plan("probe", options={}), transports=MISSING)],
    "poor-line": [
        log(
            *curve("host", 1e-6, 1e9, STEPS[:1]),
            pingpong([2e-6 * f for f in SPREAD], STEPS[1], "host"),
            *curve("host", 1e-6, 1e9, STEPS[2:]),
        )
    ],
    "one-curve": [log(*curve("host", 1e-6, 1e9))],
    "a-curve-without-a-line": [log(*curve("host", 1e-6, 1e9), *curve("aware", 1e-6, 1e9, STEPS[:3]))],
    "too-few-sizes-for-a-line": [log(*curve("host", 1e-6, 1e9, STEPS[:4]), *curve("aware", 2e-6, 1e9, STEPS[:4]))],
    "overlapping-intervals": [
        log(
            *curve("staged/pageable", 1e-6, 1e9, STEPS[:2]),
            *curve("aware", 1e-6, 1e9, STEPS[:1]),
            *curve("aware", 0.5e-6, 1e9, STEPS[1:2]),
        )
    ],
    "speed-up-of-single-samples": [
        log(*(pingpong([time], 8, name) for name, time in (("staged/pageable", 8e-6), ("aware", 4e-6))))
    ],
    "host-and-gpu-memory": [
        log(
            *curve("host", 1e-7, 1e9),
            *curve("aware", 1e-6, 1e10),
            *curve("peer", 2e-6, 2e10),
            transports=[transport("host"), *DEVICE],
        )
    ],
    "one-of-each-memory": [
        log(*curve("host", 1e-7, 1e9), *curve("aware", 1e-6, 1e10), transports=[transport("host"), DEVICE[0]])
    ],
    "line-rate": [with_gpus(*AT_THE_LINE)],
    "line-rate-both-ways": [changed(with_gpus(BOTH_WAYS), run_plan=plan("stream"))],
    "without-hardware": [changed(with_gpus(*AT_THE_LINE), hardware=[])],
    "gpu-slowed-down": [with_gpus(*AT_THE_LINE, clocks_event_reasons=["idle", "hardware thermal slowdown"])],
    "gpu-with-memory-errors": [with_gpus(*AT_THE_LINE, ecc_uncorrected=2)],
    "ucx-inversion": ucx(protocols(), INVERTED),
    "ucx-inversion-on-one-gpu": ucx(protocols(), INVERTED, share_device=True),
    "ucx-without-inversion": ucx(protocols(), {8: 7.6, 2048: 7.7, 65536: 8.3}),
    "ucx-inversion-within-a-protocol": ucx(protocols(), {8: 18.2, 2048: 15.6, 4096: 19.0}),
    "ucx-says-nothing": ucx(Protocols(unknown="UCX printed nothing"), INVERTED),
    "ucx-two-accounts": ucx(two_accounts(), INVERTED),
}
count_missing(NOTES["budget-used-up"])
"""All tables and notes, in 80 columns."""

OVERVIEWS = {
    "points-failed": two_transports(status="failed"),
    "points-of-several-failed": [
        log(
            *two_transports(status="failed")[0].records,
            *(pingpong([], size, "aware", status="failed") for size in SIZES[:2]),
        )
    ],
    "uncertain-numbers": two_transports(wide=40),
    "barrier-uncertain": barriers(),
    "none-spreads-little": [log(*(pingpong(WIDE, size, name) for size in SIZES for name in ("a", "b")))],
    "some-spread-little": [
        log(*(pingpong(WIDE if n else SAMPLES, size, name) for n, size in enumerate(SIZES) for name in ("a", "b")))
    ],
    "empty-messages-and-others": [log(*(pingpong(SAMPLES, size, name) for size in (0, *SIZES) for name in "ab"))],
    "nothing-in-common": nothing_in_common(),
    "skipped-by-the-slow": skipped_by_the_slow(),
    "reasons-that-differ-in-a-number": [
        skipping(LONG.format("2.2", "0.5"), LONG.format("0.85", "0.5"), LONG.format("12", "0.5"))
    ],
    "reasons-that-differ-in-two-numbers": [skipping(LONG.format("2.2", "0.5"), LONG.format("0.85", "0.6"))],
    "reasons-of-two-kinds": [skipping("too long", "too long", "too large")],
    "one-transport-of-all-sizes": [log(*curve("host", 1e-6, 10e9, SIZES))],
    "quota": [changed(two_transports()[0], settings=Settings(host=run().ranks[0].host, quota_cpus=1.0))],
    "far-below-the-line-rate": [with_gpus(*FAR_BELOW)],
    "on-two-nodes": on_two_nodes(),
    "overlaps": overlaps(),
}
"""The summary, in 105 columns."""


@pytest.mark.parametrize("name", NOTES)
def test_tables_and_notes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    check_formats(f"points/{name}", NOTES[name], "table", details=Details(full=True))


@pytest.mark.parametrize("name", OVERVIEWS)
def test_overviews(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "105")
    check_formats(f"points/{name}", OVERVIEWS[name], "table")


def test_smallest_sizes_are_no_range() -> None:
    report = shown([skipping("the smallest size is 20 bytes", "the smallest size is 32 bytes")])[0]
    assert ("is 20 bytes" in report, "20 to 32" in report) == (True, False)


def test_one_size_of_each_operation_has_no_peak() -> None:
    operations = ("allreduce", "broadcast")
    one, two = (
        [log(*(collective(each, [1e-6] * 9, size) for each in operations for size in sizes))]
        for sizes in ((8,), (8, 64))
    )
    assert ("peak" in shown(one)[0], "peak" in shown(two)[0]) == (False, True)


KEPT = ["pingpong-all", "pingpong-gpu-initiated", "stream-bi", "stream-uni", "volley", "matrix", "overlap"]


@pytest.mark.parametrize("columns", [80, 105, 200])
@pytest.mark.parametrize("name", KEPT)
def test_the_screen_of_two_h200s(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    logs = read_runs(RECORDS / f"{name}.jsonl", BENCHMARKS)
    check_formats(f"h200-x2/{name}-{columns}", logs, "table")
    text, _ = shown(logs)
    assert name == "matrix" or len(text.splitlines()) <= 48
    for part in text.split("\n\n") if columns == 200 else ():
        assert bool(re.search(r"~\d", part)) == ("~: uncertain: too few launches" in part)


@pytest.mark.parametrize("name", ["h200-x2/volley.jsonl", "h100-x2/volley.jsonl.gz"])
def test_the_screen_of_a_usual_run_is_short_and_begins_with_what_was_found(name: str) -> None:
    text, _ = shown(read_runs(RECORDS.parent / name, BENCHMARKS))
    assert len(text.splitlines()) <= 32
    assert "?" not in text
    assert text.splitlines()[1].startswith("  OK ")


def test_the_rest_is_one_option_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    logs = read_runs(RECORDS / "pingpong-all.jsonl", BENCHMARKS)
    check_formats("h200-x2/pingpong-all-full", logs, "table", details=Details(full=True))


@pytest.mark.parametrize("columns", [30, 60, 250])
def test_transports_that_do_not_fit_go_into_further_blocks(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    check_formats(f"points/five-transports-{columns}", NOTES["five-transports"], "table")


DATA = {
    "ping-pong": ([log(pingpong(SAMPLES, size=1000))], ("csv", "json", "olcf")),
    "both-ways": ([log(stream([64e-6] * 6, [128e-6] * 6, size=1000))], ("csv", "json")),
    "tail": (NOTES["tail"], ("csv",)),
    "speed-up": ([log(*curve("staged/pageable", 1e-6, 1e9), *curve("aware", 2e-6, 1e10))], ("csv", "json")),
    "not-good": (golden("failed"), ("csv", "json", "olcf")),
    "skipped": ([log(pingpong(SAMPLES, status="skipped", reason="why, and\nhow"))], ("csv",)),
    "incomplete": (golden("incomplete"), ("csv", "json")),
    "probe": (golden("probe"), ("csv", "json")),
    "null": (golden("pingpong-host"), ("csv", "olcf")),
    "empty-messages": (EMPTY, ("csv", "olcf")),
    "two-transports": ([log(*(pingpong(SAMPLES, size, name) for size in (64, 8) for name in "ba"))], ("olcf",)),
    "fixed": (golden("fixed"), ("olcf",)),
    "few-samples": (few_samples(), ("csv", "olcf")),
    "line-rate": (NOTES["line-rate"], ("csv",)),
    "line-rate-both-ways": (NOTES["line-rate-both-ways"], ("csv",)),
    "text-of-machines": (
        [log(pingpong(SAMPLES, name="a\x1b[31m"), pingpong(status="skipped", reason="\x1b[2Jx"))],
        ("csv", "json", "olcf"),
    ),
}
"""What programs get, and what else standard error says."""


@pytest.mark.parametrize("name", DATA)
def test_data(name: str) -> None:
    logs, formats = DATA[name]
    check_formats(f"points/data-{name}", logs, *formats)
    if "json" in formats:  # no NaN, which JSON does not have
        json.loads(shown(logs, "json")[0], parse_constant=pytest.fail)


def test_charts_begin_at_the_first_message_with_data() -> None:
    ((report,),) = [reports_of(results_of(EMPTY, BENCHMARKS))]
    assert {mark.x for chart in report.charts for mark in chart.marks} == {8, 64}


# ------------------------------------------------------------------------------------------------------- properties


@pytest.mark.parametrize("path", RECORD_FILES, ids=lambda path: path.stem)
def test_tables_of_golden_examples_fit_80_columns_and_lose_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text, _ = shown(read_runs(path, BENCHMARKS))
    table = [line for line in text.splitlines() if re.match(r"\s*\d+ \w?i?B\b|\s+size|[─-]{20,}$", line)]
    assert all(len(line) <= 80 for line in table)
    assert "…" not in text


def test_a_small_share_of_the_line_rate_is_not_called_none() -> None:
    text, _ = shown([with_gpus(pingpong([1e-6] * 6, 8, "peer"))], "table", details=Details(full=True))
    assert "peak 0.00800 GB/s at 8 B, <1 % of line rate" in text


def test_messages_too_short_for_the_line_rate_are_not_judged_by_it() -> None:
    for max_size, judged in ((1 << 20, False), (64 << 20, False), (128 << 20, True), (1 << 30, True)):
        logs = read_runs(RECORDS / "pingpong-all.jsonl", BENCHMARKS)
        for one in logs:
            one.records = [record for record in one.records if getattr(record, "size_bytes", 0) <= max_size]
        assert bool(re.search(r"^  (OK|SLOW) +.*% of line rate", shown(logs)[0], re.MULTILINE)) == judged


@pytest.mark.parametrize(
    ("asked", "launches", "told"),
    [
        ([["--launches", "6"]], 2, True),
        ([["--launches", "6"]], 6, False),
        ([["--launches", "6"], ["--budget", "9"]], 2, True),
        ([["--launches", "6"], ["--budget", "5"]], 2, False),  # it had no time for another one
        ([], 2, False),
    ],
)
def test_a_run_that_was_killed_between_launches_is_incomplete(
    asked: list[list[str]], launches: int, told: bool
) -> None:
    budget_s = next((float(words[1]) for words in asked if words[0] == "--budget"), None)
    logs = [
        log(
            pingpong([1e-6] * 9),
            the_plan=plan(launch={"asked": asked, "budget_left_s": budget_s and budget_s - 2 * number}),
        )
        for number in range(launches)
    ]
    for each in logs:
        each.times = LaunchTimes(exit_s=2.0)
    count_missing(logs)
    report = shown(logs)[0]
    assert ("INCOMPLETE: the run was stopped after launch 2 of 6" in report) == told
    assert ("within the budget" in report) == (bool(budget_s) and not told)


def test_a_launch_without_its_first_record_is_not_missing() -> None:
    logs = [log(pingpong([1e-6] * 9), the_plan=plan(launch={"asked": [["--launches", "2"]]})) for _ in range(2)]
    logs[0].run = None
    count_missing(logs)
    assert "INCOMPLETE" not in shown(logs)[0]


def test_colour_repeats_what_the_words_say_and_no_text_is_obeyed() -> None:
    for logs in (golden("failed"), NOTES["text-of-machines"]):
        colored, plain = (shown(logs, details=Details(color=color))[0] for color in (True, None))
        assert "\x1b[" in colored
        assert "\x1b" not in plain
        assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == plain.split()


def test_a_format_that_does_not_exist_or_shows_something_else_names_the_others() -> None:
    for name, format_name in (("fixed", "xml"), ("stream-uni", "olcf"), ("probe", "olcf")):
        with pytest.raises(UserError, match="choose " + ", ".join(list(FORMATS)[:3])):
            shown(golden(name), format_name)


@given(st.integers(1, 2**40), st.floats(1e-9, 1e4))
def test_the_line_of_olcf_is_what_the_tutorials_printf_gives(size: int, time: float) -> None:
    """Python's % follows C's printf for these conversions."""
    template = "Transfer size (B): %10i, Transfer Time (s): %15.9f, Bandwidth (GB/s): %15.9f\n"
    assert line(size, time) == template % (size, time, float(size) / float(1 << 30) / time)
