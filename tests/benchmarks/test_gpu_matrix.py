"""Matrices between GPUs as reports show them, from records: no GPU is needed."""

import dataclasses
import json
import math
import random
import subprocess
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from elftools.elf.elffile import ELFFile

import gpu_records as made
from screens import check_formats, shown
from the_command import LIMIT_S, engine_words
from volley import benchmarks
from volley.benchmarks import matrix as options
from volley.benchmarks.matrix import MatrixOptions
from volley.benchmarks.matrix.jobs import gpu_jobs, next_gpu_job
from volley.benchmarks.matrix.records import GpuMatrixGpus, GpuMatrixPlan
from volley.benchmarks.matrix.results import results
from volley.command.commandline import declared
from volley.command.options import OutputOptions
from volley.errors import MachineError, UserError
from volley.launch.engine import About
from volley.records.plan import Plan
from volley.records.record_types import End, Run
from volley.records.records_file import LineReader
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.run.jobs import JobContext
from volley.statistics.estimates import median


def devices(count: int) -> list[made.Device]:
    return [made.device(number) for number in range(count)]


def with_rows(section: str, count: int = 4, **changes: Any) -> RunLog:
    """A run with one section in which some pairs are slow or have other cells."""
    return made.log(count, [section], changed={section: made.rows(section, devices(count), **changes)})


def slow_pairs() -> RunLog:
    """A slow bandwidth and a slow latency, and a slow pair whose interval reaches back to comparable pairs."""
    wide = made.cell(made.uuid(2), made.time_s(made.facts_of("uni/read"), False, 1.2), peer_access=True)
    wide = msgspec.structs.replace(wide, low_s=(wide.median_s or 0) * 0.8, compared_counts=2, compared_in_flight=2)
    changed = {
        "uni": made.rows("uni", devices(4), slow={(0, 2): 1 / 0.61}),
        "uni/read": made.rows("uni/read", devices(4), other={(0, 2): wide}),
        "load": made.rows("load", devices(4), slow={(3, 1): 1.5}),
    }
    return made.log(4, list(changed), changed=changed)


def slow_gpu() -> RunLog:
    """GPU 3 of eight is slow with all others, with one of them perhaps; so is a pair of others."""
    slow = {pair: 1.5 for pair in permutations(range(8), 2) if 3 in pair} | {(5, 6): 2.0}
    wide = made.cell(made.uuid(0), made.time_s(made.facts_of("uni"), False, 1.5), peer_access=True)
    wide = msgspec.structs.replace(wide, low_s=(wide.median_s or 0) * 0.6)
    return with_rows("uni", 8, slow=slow, other={(3, 0): wide})


def launches() -> list[RunLog]:
    """Three launches with other times, and a pair that failed in one of them."""
    bad = {(1, 0): made.failed(made.uuid(0), "wrong data")}
    return [
        with_rows("uni", 2, slow={(0, 1): slowness}, other=bad if slowness > 3 else {}) for slowness in (1.0, 4.0, 2.0)
    ]


def turned(links: int | None) -> RunLog:
    """CUDA numbers two GPUs the other way round than NVML; its 0 → 1 is slow."""
    those = [made.device(1, index=0), made.device(0, index=1)]
    slow = made.rows("uni", those, slow={(0, 1): 2.0})
    return made.log(2, ["uni"], devices=those, links=links, changed={"uni": slow})


def without(what: str) -> RunLog:
    """A run whose record of GPUs says less, or that ended early."""
    log = made.log(2, ["uni"])
    if what == "access":
        log.records[0] = msgspec.structs.replace(log.records[0], can_access=[])
    elif what == "gpus":
        log.records[:] = [GpuMatrixGpus(devices=[], reason="CUDA sees no device")]
    elif what == "end":
        log.end = None
        del log.records[0]
    return log


def two_islands() -> RunLog:
    """The machine with four T4: 0 and 1 reach each other, and 2 and 3."""
    return made.log(4, ["uni", "load"], links=0, access=lambda pair: pair[0] // 2 == pair[1] // 2)


WRONG = {
    (1, 0): msgspec.structs.replace(
        made.failed(made.uuid(0), "the data differs from what was sent in 1 byte"),
        messages_verified=4, compared_counts=0, compared_in_flight=0,
    )
}  # fmt: skip
"""A pair whose wrong data ended it before the pass that compares every message."""
SCREENS: dict[str, tuple[list[RunLog], tuple[str, ...]]] = {
    "four": ([made.log()], ("table",)),
    "slow-pairs": ([slow_pairs()], ("table",)),
    "slow-gpu": ([slow_gpu(), slow_gpu()], ("table",)),
    "launches": (launches(), ("table", "csv")),
    "two-islands": ([two_islands()], ("table", "csv")),
    "failed": ([with_rows("bi", other=WRONG)], ("table", "csv", "cuda-samples")),
    "turned": ([turned(18)], ("table", "csv")),
    "turned-without-nvml": ([turned(None)], ("table", "csv")),
    "one": ([made.log(1)], ("table",)),
    "with-host": ([made.log(4, options.WITH_HOST)], ("table",)),
    "mig": ([made.log(devices=[made.device(0, name="NVIDIA A100-SXM4-40GB MIG 1g.5gb")])], ("table",)),
    "no-gpus": ([without("gpus")], ("table",)),
    "unknown-access": ([without("access")], ("table", "cuda-samples")),
    "aborted": ([without("end")], ("table",)),
    "broken-off": ([RunLog(run=made.log(2, ["uni"]).run)], ("table", "csv", "json", "cuda-samples")),
    "other-gpus": ([made.log(1, ["uni"]), made.log(2, ["uni"])], ("table",)),
    "cuda-samples": ([made.log(2, options.OF_THE_SAMPLE)], ("cuda-samples",)),
}
"""The text of cuda-samples is p2pBandwidthLatencyTest's own, with its trailing blanks."""


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str) -> None:
    logs, formats = SCREENS[name]
    check_formats(f"gpu-matrix/{name}", logs, *formats, details=Details(full=True))


@pytest.mark.parametrize("can_access", [[[True]], [[True, True, True]] * 3])
def test_access_of_another_shape_than_the_gpus_is_refused(can_access: list[list[bool]]) -> None:
    with pytest.raises(ValueError, match="`can_access` has not one row and one column for each of `devices`"):
        msgspec.structs.replace(made.log(2, ["uni"]).records[0], can_access=can_access)


# ------------------------------------------------------------------------------------------- what is asked for

INSIDE = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}


def matrix(*words: str) -> Any:
    """The options of a command line."""
    command = next(each for each in benchmarks.commands() if each.name == "matrix")
    return command.parse(words)


@pytest.mark.parametrize(
    ("words", "environment", "driver", "between_gpus"),
    [
        ([], {}, True, True),
        ([], {}, False, False),
        (["--ranks", "4"], {}, True, False),
        (["--transport", "host", "--gpus", "0,1"], {}, True, False),
        (["--mode", "loaded"], {}, True, False),
        (["--window", "4"], {}, True, False),
        (["--launcher-arg=-v"], {}, True, False),
        (["--warmup", "0"], {}, True, False),
        (["--no-remeasure"], {}, True, True),
        ([], INSIDE, True, False),
        ([], {**INSIDE, "OMPI_COMM_WORLD_SIZE": "1"}, True, True),
        (["--section", "uni"], INSIDE, True, True),
        (["--section", "uni,load", "--gpus", "0,1", "--samples"], {}, True, True),
        (["--format", "cuda-samples"], {}, False, True),
    ],
)
def test_gpus_or_ranks(
    monkeypatch: pytest.MonkeyPatch, words: list[str], environment: dict[str, str], driver: bool, between_gpus: bool
) -> None:
    for name in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(options, "has_driver", lambda: driver)
    assert options.GPUS.wanted(matrix(*words), True) is between_gpus


def test_every_option_is_of_gpus_of_ranks_or_of_both() -> None:
    """A new option has to be in the table of those that only the matrix between ranks has, if it is one."""
    both = {"samples", "remeasure", "ci", "point_time", "budget", "verify", "gpus", "watchdog", "dry_run"}
    output = {f"output.{each.name}" for each in dataclasses.fields(OutputOptions)}
    places = {each.place for each in declared(MatrixOptions)} - output
    assert {place.rpartition(".")[2] for place in places} == {"section", *both, *options.OF_RANKS}


def asked(*words: str) -> MatrixOptions:
    given = matrix(*words, *([] if "--section" in words else ["--section", options.USUAL[0]]))
    assert isinstance(given, MatrixOptions)
    return given


def planned(given: MatrixOptions, monkeypatch: pytest.MonkeyPatch, *, driver: bool = True) -> Plan:
    monkeypatch.setattr("volley.benchmarks.matrix.jobs.has_driver", lambda: driver)
    (job,) = gpu_jobs(given, JobContext(About())).planned
    return job.plan


def test_gpus_that_are_asked_for_by_name_and_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError, match="no NVIDIA driver here"):
        planned(asked(), monkeypatch, driver=False)


def test_the_format_of_the_sample_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, usual = (planned(asked("--format", name), monkeypatch) for name in ("cuda-samples", "table"))
    assert (quick.options.quick, usual.options.quick) == (True, False)
    assert quick.sampling.point_time_s < usual.sampling.point_time_s
    assert quick.sampling.min_visits == 1
    chosen = planned(asked("--format", "cuda-samples", "--point-time", "0.5"), monkeypatch)
    assert chosen.sampling.point_time_s == 0.5


@pytest.mark.parametrize("lasts", [True, False])
def test_a_section_with_slow_pairs_is_measured_again_in_the_opposite_order(lasts: bool) -> None:
    slow = with_rows("uni", slow={(0, 2): 1.2})
    first = made.log(4, ["uni", "load"], changed={"uni": made.rows("uni", devices(4), slow={(0, 2): 1.2})})
    again = next_gpu_job([first], math.inf)
    assert (again.plan.options.sections, again.plan.options.gpus) == (["uni"], [3, 2, 1, 0])
    logs = [first, slow if lasts else with_rows("uni", slow={(0, 2): 0.98})]
    assert next_gpu_job(logs, math.inf) is None
    (found,) = results(logs)
    assert [case.launches for case in found.gpu_cases] == [2, 1]
    assert [each.pair for each in found.gpu_cases[0].suspects] == [(0, 2)] * lasts


def test_the_tables_are_about_the_sections_of_the_engine(engine: Path) -> None:
    about = subprocess.run([engine, "--about"], capture_output=True, check=True, timeout=LIMIT_S)
    sections = json.loads(about.stdout)["sections"]
    assert list(options.SECTIONS) == [each["name"] for each in sections if not each["test"]]
    assert set(options.TESTS) == {each["name"] for each in sections if each["test"]}
    assert {each["name"].partition("+")[0] for each in sections if each["ends"] != "gpus"} == {*options.WITH_HOST}


def test_the_usual_sections_and_those_of_the_sample() -> None:
    sample = matrix("--format", "cuda-samples")
    assert MatrixOptions().sections == options.USUAL
    assert sample.sections == options.OF_THE_SAMPLE
    assert asked("--section", "all,uni", "--section", "uni+hang").sections == (*options.SECTIONS, "uni+hang")
    with pytest.raises(UserError, match="there is no 'unidirectional'; choose among host-to-gpu, gpu-to-host"):
        asked("--section", "unidirectional")
    with pytest.raises(UserError, match="GPU 1 is named twice"):
        asked("--gpus", "1,1")


# ------------------------------------------------------------------------------------- the engine without MPI


LOCAL = Plan(benchmark="gpu_matrix", world_size=1, transports=[], options=GpuMatrixPlan(sections=["uni"]))


def performed(words: Sequence[str], plan: Plan) -> subprocess.CompletedProcess[bytes]:
    """Run a plan in one process."""
    return subprocess.run(words, input=msgspec.json.encode(plan), capture_output=True, check=False, timeout=LIMIT_S)


def test_the_engine_needs_no_mpi_between_gpus(engine: Path) -> None:
    with engine.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        needed = [tag.needed for tag in section.iter_tags("DT_NEEDED")]
    assert needed
    assert not [name for name in needed if "mpi" in name or "uc" in name]


@pytest.mark.parametrize("mpi", [False, True])
def test_one_process_measures_the_gpus_of_its_machine_without_mpi_or_as_its_rank(engine: Path, mpi: bool) -> None:
    ended = performed(engine_words(engine) if mpi else [str(engine), "--plan", "-"], LOCAL)
    assert ended.returncode in {0, 3}, ended.stderr  # with GPUs, or without
    read = LineReader((options.GPUS,))
    first, *_, last = (read(line) for line in ended.stdout.splitlines())
    assert (type(first), type(last)) == (Run, End)
    assert (first.mpi is not None) == mpi


@pytest.mark.parametrize("color", [False, True])
def test_what_colours_mean_is_said_where_there_are_any(color: bool) -> None:
    text, _ = shown([made.log()], details=Details(color=color))
    assert ("green: from 96 % of the best pair" in text.replace("\n", " ")) is color


def test_of_equal_gpus_with_much_noise_few_matrices_name_one() -> None:
    """Six samples of each cell, which scatter by 12 %: the interval holds for all pairs together."""
    dice, named = random.Random(1), 0
    for _ in range(60):
        cells = {}
        for pair in permutations(range(8), 2):
            times_s = sorted(1e-3 * dice.lognormvariate(0, 0.12) for _ in range(6))
            cells[pair] = made.cell(
                made.uuid(pair[1]), median(times_s), low_s=times_s[0], high_s=times_s[-1], peer_access=True
            )
        (result,) = results([with_rows("uni", 8, other=cells)])
        named += bool(result.gpu_cases[0].suspects)
    assert named <= 6
