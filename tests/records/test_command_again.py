"""Commands that reports recommend: typed, they measure the same as the run but for what they change."""

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from volley.benchmarks import BENCHMARKS, plain, read
from volley.benchmarks.pair import PINGPONG
from volley.launch.engine import About, TransportAbout
from volley.records.command_again import asked, command_again, options_of
from volley.records.plan import Plan
from volley.records.records_file import read_runs
from volley.run.benchmark import Benchmark
from volley.run.jobs import JobContext

ROOT = Path(__file__).parents[2]

TRANSPORTS = tuple(
    TransportAbout(name=name, summary="example", mpi=True, memory=memory, halos=True)
    for name, memory in (("host", "host"), ("aware", "device"), ("staged/pinned", "device"), ("nccl", "device"))
)
SITE = JobContext(About(transports=TRANSPORTS))

GIVEN = {
    "pingpong": "-t host -t aware -s 8:64k --fresh-buffers --ci 2% --no-verify --hosts a,b --gpus 1,0 --watchdog 9",
    "stream": "--direction bi --window 16 --size-time 2 --share-gpu --launcher-arg x --launcher-arg=--mca",
    "message_rate": "--pairs 1,2 --window 16 -n 4 --point-time 0.5",
    "gpu_matrix": "--section uni --gpus 1,0 --point-time 0.2",
    "rank_matrix": "--ranks 8 --mode loaded --visits 2 --latency 8 --bandwidth none --no-remeasure",
    "jacobi": "--grid 2 2 --domain 64 32 --precision float -t aware --check-every 10 "
    "--no-overlap --tolerance 1e-3 --threads 2",
    "collective": "--operation allreduce,barrier --element int -n 6 -s 1k:1M",
    "overlap": "--computation memory --progress-calls 3 -s 1M",
    "probe": "--watchdog 30 --hosts a,b",
    "replay": f"{ROOT}/tests/trace/two-ranks.trace --gaps --memory device",
}
"""Options that are not the defaults."""

CHANGES: dict[str, dict[str, Any]] = {
    "gpu_matrix": {"point_time": 0.3},
    "rank_matrix": {"point_time": 0.3},
    "probe": {"watchdog": 9},
    "replay": {"time": 0.2},
}
"""What the repetition changes; for others the number of launches and the transport."""


def planned(words: list[str]) -> tuple[Benchmark, Plan]:
    """The benchmark of a command line, and the plan of its first launch as the engine gets it."""
    benchmark, options = read(words)
    plan = benchmark.jobs(options, SITE).planned[0].plan
    return benchmark, msgspec.structs.replace(plan, launch={"asked": asked(options.typed)})


def same(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, launch={})


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda each: each.name)
def test_a_command_repeats_the_plan_but_for_its_changes(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.benchmarks.matrix.jobs.has_driver", lambda: True)
    monkeypatch.setattr("volley.run.jobs.JobContext.sees_gpus", True)
    command = benchmark.command
    words = [command, *GIVEN[benchmark.name].split(), "--dry-run", "--quiet", "--format", "csv", "-o", "x.jsonl"]
    found, plan = planned(words)
    assert found is benchmark
    _, again, *typed = shlex.split(command_again(command, plan))
    assert again == command
    assert not {"--dry-run", "--quiet", "--format", "--output"} & {*typed}
    again_benchmark, again_plan = planned([again, *typed])
    assert (again_benchmark, same(again_plan)) == (benchmark, same(plan))

    changes = CHANGES.get(benchmark.name, {"launches": 1, "transport": "host"})
    _, *typed = shlex.split(command_again(command, plan, **changes))
    _, other = planned(typed)
    for name, value in changes.items():
        flag = f"--{name.replace('_', '-')}"
        if name != "transport" and flag in words:
            del words[words.index(flag) : words.index(flag) + 2]
        words.append(f"{flag}={value}")
    _, by_hand = planned(words)
    if "transport" in changes:  # of several --transport all count, and one has no part of a time
        sampling = msgspec.structs.replace(by_hand.sampling, size_time_s=None)
        by_hand = msgspec.structs.replace(by_hand, transports=["host"], sampling=sampling)
    assert same(other) == same(by_hand)
    assert same(other) != same(plan)


def what(plan: Plan) -> Plan:
    """A plan without where, how and how long it measured, and in which order."""
    sizes = {"sizes_bytes": sorted(plan.options.sizes_bytes)} if hasattr(plan.options, "sizes_bytes") else {}
    options = msgspec.structs.replace(plan.options, **sizes)
    usual = Plan(benchmark="", transports=[])
    same = ("launch", "sampling", "watchdog_s", "budget_s", "verify", "share_device")
    return msgspec.structs.replace(plan, options=options, **{name: getattr(usual, name) for name in same})


@pytest.mark.parametrize(
    "benchmark",
    [each for each in BENCHMARKS if each.name != "replay"],
    ids=lambda each: each.name,  # it is new
)
def test_a_plan_without_typed_options_is_repeated_by_options_that_follow_from_it(
    benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volley.benchmarks.matrix.jobs.has_driver", lambda: True)
    monkeypatch.setattr("volley.run.jobs.JobContext.sees_gpus", True)
    command = benchmark.command
    _, plan = planned([command, *GIVEN[benchmark.name].split()])
    launch = {"asked": options_of(plan, benchmark.options)}
    _, *typed = shlex.split(command_again(command, msgspec.structs.replace(plan, launch=launch)))
    found, again = planned(typed)
    assert (found, what(again)) == (benchmark, what(plan))


def test_default_options_are_not_repeated() -> None:
    benchmark, plan = planned(["stream", "--transport", "aware", "--direction", "bi", "--sizes", "8,64k"])
    assert options_of(plan, benchmark.options) == [
        ["--transport", "aware"],
        ["--sizes", "8,64Ki"],
        ["--direction", "bi"],
    ]


def test_records_of_an_earlier_volley_are_repeated_with_the_options_of_their_plan() -> None:
    log = read_runs(ROOT / "results/h200-x2/stream-bi.jsonl", BENCHMARKS)[0]
    found = command_again("stream", log.run.plan, transport="aware", sizes="8")
    assert found == "volley stream --direction bi -t aware -s 8"


def test_more_launches_replace_the_budget_and_leave_a_launcher() -> None:
    _, plan = planned(["message-rate", "--budget", "9", "--window", "4"])
    assert command_again("message-rate", plan, launches=12) == "volley message-rate --window 4 --launches 12"
    inside = msgspec.structs.replace(plan, world_size=16, launch={**plan.launch, "inside": True})
    assert (
        command_again("message-rate", inside, launches=12)
        == "volley message-rate --window 4 -n 16 --launches 12 without a launcher around it"
    )
    assert command_again("message-rate", inside, sizes="8") == "volley message-rate --window 4 --budget 9 -n 16 -s 8"


def test_sizes_are_in_order_and_spelled_in_one_way() -> None:
    _, plan = planned(["pingpong", "-s", "8,16M,64M,64k,1MiB,4k,512"])
    assert command_again("pingpong", plan) == "volley pingpong -s 8,512,4Ki,64Ki,1Mi,16Mi,64Mi"
    assert command_again("pingpong", plan, sizes="8:64k") == "volley pingpong -s 8:64Ki"
    assert command_again("pingpong", plan, sizes=str(1 << 30)) == "volley pingpong -s 1Gi"
    _, plan = planned(["matrix", "--mode", "loaded", "--latency", "64k,8", "--bandwidth", "none"])
    assert command_again("matrix", plan) == "volley matrix --latency 8,64Ki --bandwidth none --mode loaded"


def test_no_command_names_fewer_launches_than_the_run() -> None:
    _, plan = planned(["pingpong", "--budget", "9", "--launches", "12"])
    assert command_again("pingpong", plan, launches=6) == "volley pingpong --launches 12"
    assert command_again("pingpong", plan, launches=24) == "volley pingpong --launches 24"
    assert command_again("pingpong", plan, launches=12, budget=20) == "volley pingpong --launches 12 --budget 20"


def test_plain_volley_is_repeated_as_a_ping_pong() -> None:
    options = plain.pingpong_options(plain.COMMAND.parse(["--budget", "20", "--hosts", "a,b"]))
    plan = PINGPONG.jobs(options, SITE).planned[0].plan
    plan = msgspec.structs.replace(plan, launch={"asked": asked(options.typed)})
    _, *words = shlex.split(command_again("pingpong", plan))
    assert what(planned(words)[1]) == what(plan)
    assert "--hosts a,b" in command_again("pingpong", plan)


def test_a_part_of_a_budget_is_repeated_as_one_would_type_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.benchmarks.matrix.has_driver", lambda: True)
    _, (_, of_ranks) = plain.parts(plain.COMMAND.parse(["--budget", "10"]), gpus=1)
    assert {("--budget", "6.7"), ("--size-time", "0.56")} < {*of_ranks.typed}


@pytest.mark.parametrize("found", [None, 7, "x", {"--sizes": 8}, [], [[]], [7], [["--sizes", 8]]])
def test_a_plan_that_volley_did_not_write_is_repeated_as_far_as_it_can(found: object) -> None:
    plan = Plan(benchmark="pingpong", transports=["host"], launch={"asked": found})
    assert command_again("pingpong", plan, transport="a b") in (
        "volley pingpong -t 'a b'",
        "volley pingpong -s 8 -t 'a b'",
    )
    assert command_again("pingpong", None, tail=True) == "volley pingpong --tail"
