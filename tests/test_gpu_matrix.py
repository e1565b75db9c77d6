"""Matrices between GPUs as reports show them, from records: no GPU is needed."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from elftools.elf.elffile import ELFFile

import gpu_records as made
from example_records import golden, pingpong, run
from fake_engine import install
from volley import benchmarks, cli
from volley.benchmarks import BENCHMARKS
from volley.benchmarks import matrix as options
from volley.benchmarks.jacobi.records import JacobiPlan
from volley.benchmarks.matrix import MatrixOptions
from volley.benchmarks.matrix.gpu_jobs import jobs
from volley.benchmarks.matrix.gpu_records import GpuMatrixGpus, GpuMatrixPlan, GpuMatrixRow
from volley.benchmarks.matrix.results import results
from volley.errors import MachineError, UserError
from volley.machine.mpi_stack import read_facts
from volley.report.model import Details
from volley.run import engine_path
from volley.run.commandline import declared
from volley.run.engine import About
from volley.run.jobs import Site
from volley.run.options import OutputOptions
from volley.run.plan import Plan
from volley.run.records import End, Run
from volley.run.records_file import LineReader
from volley.run.render import render
from volley.run.run_log import RunLog


def shown(log: RunLog, format_name: str = "table") -> str:
    out, err = io.StringIO(), io.StringIO()
    render([log], BENCHMARKS, format_name, out, err=err)
    return out.getvalue() + err.getvalue()


def data(log: RunLog, format_name: str, *more: RunLog) -> str:
    """Standard output alone, of one launch or more."""
    out = io.StringIO()
    render([log, *more], BENCHMARKS, format_name, out, err=io.StringIO())
    return out.getvalue()


def devices(count: int) -> list[made.Device]:
    return [made.device(number) for number in range(count)]


def with_rows(section: str, rows: list[GpuMatrixRow], count: int = 4) -> RunLog:
    return made.log(count, [section], changed={section: rows})


def summary(text: str, name: str) -> list[str]:
    """The cells of a row of the summary."""
    (row,) = re.findall(rf"^{re.escape(name)}  +(.*)$", text, re.MULTILINE)
    return str(row).split()


def test_every_section_has_its_numbers_and_its_share_of_the_line_rate() -> None:
    text = shown(made.log())
    assert summary(text, "CE write, peer access on") == ["12", "394", "394", "394", "GB/s", "82", "%"]
    assert summary(text, "CE write both ways, peer access on") == ["12", "783", "783", "783", "GB/s", "82", "%"]
    assert summary(text, "CE write, peer access off") == ["12", "38.0", "38.0", "38.0", "GB/s", "60", "%"]
    assert summary(text, "host to GPU") == ["4", "55.5", "55.5", "55.5", "GB/s", "88", "%"]
    assert summary(text, "SM load") == ["12", "0.830", "0.830", "0.830", "µs"]
    assert "line: share of the line rate of 63.02 GB/s over PCIe" in text
    assert text.count("all verified") == 3
    assert "FAILED" not in text


def test_a_link_that_is_slower_than_comparable_links_is_named() -> None:
    slow = made.rows("uni", devices(4), slow={(0, 2): 1 / 0.61})
    text = shown(with_rows("uni", slow))
    assert "CE write, peer access on: GPU 0 → 2 reaches 61 % of what its 10 comparable links reach" in text
    assert text.count("comparable links") == 1


def test_a_latency_that_is_longer_than_comparable_ones_is_named() -> None:
    slow = made.rows("load", devices(4), slow={(3, 1): 1.5})
    assert "SM load: GPU 3 → 1 takes 1.50 times as long as its 10 comparable links" in shown(with_rows("load", slow))


def test_a_pair_whose_interval_reaches_back_to_comparable_pairs_is_not_named() -> None:
    wide = made.cell(made.uuid(2), made.time_s(made.facts_of("uni"), False, 1.2), peer_access=True)
    changed = made.rows(
        "uni", devices(4), other={(0, 2): made.msgspec.structs.replace(wide, low_s=wide.median_s * 0.8)}
    )
    assert "comparable links" not in shown(with_rows("uni", changed))


def test_of_several_launches_cells_are_medians() -> None:
    first, *more = (
        with_rows("uni", made.rows("uni", devices(2), slow={(0, 1): slowness, (1, 0): slowness}), count=2)
        for slowness in (1.0, 4.0, 2.0)
    )
    text = data(first, "table", *more)
    assert summary(text, "CE write, peer access on")[:4] == ["2", "197", "197", "197"]
    assert "each cell is the median of the medians of 3 launches" in text
    row = next(each for each in csv.DictReader(io.StringIO(data(first, "csv", *more))) if each["second"] == "1")
    usual_us = made.time_s(made.facts_of("uni"), False) * 1e6
    assert float(row["time_us"]) == pytest.approx(2 * usual_us)
    assert float(row["time_low_us"]) < usual_us < 4 * usual_us < float(row["time_high_us"])
    assert (row["launches"], row["samples"]) == ("3", "18")


def test_one_failure_fails_the_cell_of_all_launches() -> None:
    bad = {(0, 1): made.failed(made.uuid(1), "wrong data")}
    first = with_rows("uni", made.rows("uni", devices(2), other=bad), count=2)
    assert "GPU 0 → 1: wrong data" in data(first, "table", made.log(2, ["uni"]))


def test_two_gpus_have_nothing_to_be_compared_with() -> None:
    slow = made.rows("uni", devices(2), slow={(0, 1): 2.0})
    assert "comparable links" not in shown(with_rows("uni", slow, 2))


def test_pairs_with_and_without_peer_access_are_of_different_kinds() -> None:
    """The machine with four T4: 0 and 1 reach each other, and 2 and 3."""

    def access(pair: made.Pair) -> bool:
        return pair[0] // 2 == pair[1] // 2

    log = made.log(4, ["uni", "load"], links=0, access=access)
    text = shown(log)
    assert "no peer access is possible: 8 pairs" in text
    assert summary(text, "CE write, peer access on (peer access, PCIe 5.0 x16)")[:2] == ["4", "394"]
    assert summary(text, "CE write, peer access on (through the host, PCIe 5.0 x16)")[:2] == ["8", "38.0"]
    assert "SM load skipped 8 pairs: there is no peer access between the two" in text
    assert "comparable links" not in text
    assert {cell["peer_access"] for cell in csv.DictReader(io.StringIO(data(log, "csv")))} == {"on", "off", ""}


def test_a_failed_cell_shows_no_number_and_its_reason() -> None:
    wrong = made.failed(made.uuid(0), "the data differs from what was sent in 1 byte")
    log = with_rows("bi", made.rows("bi", devices(4), other={(1, 0): wrong}))
    text = shown(log)
    assert (
        "FAILED: CE write both ways, peer access on, GPU 1 → 0: the data differs from what was sent in 1 byte" in text
    )
    assert summary(text, "CE write both ways, peer access on")[0] == "11"
    (cell,) = [row for row in csv.DictReader(io.StringIO(data(log, "csv"))) if row["status"] == "failed"]
    assert (cell["first"], cell["second"], cell["time_us"], cell["bandwidth_GBps"]) == ("1", "0", "", "")


def test_json_has_every_cell() -> None:
    document = json.loads(data(made.log(2, ["uni", "host-to-gpu"]), "json"))
    (series,) = document["series"]
    uni = [row for row in series["data"] if row["section"] == "uni"]
    assert [(row["first"], row["second"]) for row in uni] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert uni[1]["bandwidth_GBps"] == pytest.approx(394)
    assert uni[1]["of_line_rate"] == pytest.approx(394 / 478.116, rel=1e-3)
    assert [row["first"] for row in series["data"] if row["section"] == "host-to-gpu"] == ["host", "host"]
    assert series["gpus"][0]["device"]["uuid"] == made.uuid(0)


@pytest.mark.parametrize("links", [18, None], ids=["NVML", "no NVML"])
def test_labels_do_not_depend_on_cudas_order(links: int | None) -> None:
    turned = [made.device(1, index=0), made.device(0, index=1)]
    slow = made.rows("uni", turned, slow={(0, 1): 2.0})  # CUDA's 0 → 1
    log = made.log(2, ["uni"], devices=turned, links=links, changed={"uni": slow})
    ((case,),) = (each.gpu_cases for each in results([log]))
    rates = {pair: case.rate_Bps(pair) for pair in ((0, 1), (1, 0))}
    assert rates == {(1, 0): pytest.approx(197e9), (0, 1): pytest.approx(394e9)}
    assert f"GPU 1: NVIDIA H200 {made.uuid(1)} (CUDA's 0)" in shown(log)


def test_one_gpu_is_a_matrix_of_one_cell() -> None:
    lines = shown(made.log(1)).splitlines()
    assert "one GPU: there are no pairs" in lines
    assert sum("─────" in line for line in lines) == 1  # the summary has all numbers
    assert any(line.startswith("CE write, peer access on (within a GPU)") for line in lines)


def test_a_slice_of_a_gpu_says_so() -> None:
    slice_ = made.device(0, name="NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    assert "one slice of a GPU (MIG)" in shown(made.log(devices=[slice_]))


def test_without_gpus_the_reason_is_given() -> None:
    log = made.log(0, ["uni"])
    log.records[:] = [GpuMatrixGpus(devices=[], reason="CUDA sees no device")]
    assert f"no GPU can be used: CUDA sees no device; {options.HINT}" in shown(log)


@pytest.mark.parametrize("can_access", [[[True]], [[True, True, True]] * 3])
def test_access_of_another_shape_than_the_gpus_is_refused(can_access: list[list[bool]]) -> None:
    with pytest.raises(ValueError, match="`can_access` has not one row and one column for each of `devices`"):
        msgspec.structs.replace(made.log(2, ["uni"]).records[0], can_access=can_access)


def test_unknown_access_is_said() -> None:
    log = made.log(2, ["uni"])
    log.records[0] = msgspec.structs.replace(log.records[0], can_access=[])
    assert "does not say for every pair of GPUs whether peer access is possible" in shown(log)
    assert "Device=0 CAN Access Peer Device=1" not in shown(log, "cuda-samples")


def test_a_run_that_was_aborted_is_shown() -> None:
    log = made.log(2, ["uni"])
    log.end = None
    del log.records[0]
    text = shown(log)
    assert "INCOMPLETE: this run was aborted" in text
    assert "394" in text


# --------------------------------------------------------------------------------------------- cuda-samples

SAMPLE = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA H200, pciBusID: 1b, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA H200, pciBusID: 1c, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=1 CAN Access Peer Device=0

***NOTE: In case a device doesn't have P2P access to other one, it falls back to normal memcopy procedure.
So you can see lesser Bandwidth (GB/s) and unstable Latency (us) in those cases.

P2P Connectivity Matrix
     D\\D     0     1
     0\t     1     1
     1\t     1     1
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1\x20
     0 4100.00  38.00\x20
     1  38.00 4100.00\x20
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1\x20
     0 4100.00 394.00\x20
     1 394.00 4100.00\x20
Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1\x20
     0 4100.00  53.00\x20
     1  53.00 4100.00\x20
Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1\x20
     0 4100.00 783.00\x20
     1 783.00 4100.00\x20
P2P=Disabled Latency Matrix (us)
   GPU     0      1\x20
     0   9.00  15.00\x20
     1  15.00   9.00\x20

   CPU     0      1\x20
     0   2.58   4.30\x20
     1   4.30   2.58\x20
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1\x20
     0   1.32   2.20\x20
     1   2.20   1.32\x20

   CPU     0      1\x20
     0   0.78   1.30\x20
     1   1.30   0.78\x20
"""
"""p2pBandwidthLatencyTest's own text, with its trailing blanks; a copy within a GPU counts twice."""


def test_the_cuda_samples_text_to_the_character() -> None:
    assert data(made.log(2, options.OF_THE_SAMPLE), "cuda-samples") == SAMPLE


def test_a_cell_without_a_number_is_nan_there() -> None:
    rows = made.rows("uni", devices(2), other={(0, 1): made.failed(made.uuid(1), "it hangs")})
    text = shown(with_rows("uni", rows, 2), "cuda-samples")
    assert "     0 4100.00    nan \n" in text
    assert "volley: nan stands for 1 cell without" in text
    assert "volley: not measured, so without a section: Unidirectional P2P=Disabled Bandwidth Matrix (GB/s), " in text
    assert "Enabled Bandwidth (P2P Writes) Matrix (GB/s)," not in text
    assert "volley: FAILED: CE write, peer access on, GPU 0 → 1: it hangs" in text


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
        (["--no-remeasure"], {}, True, False),
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
    both = {"samples", "ci", "point_time", "budget", "verify", "gpus", "watchdog", "dry_run"}
    output = {f"output.{each.name}" for each in dataclasses.fields(OutputOptions)}
    places = {each.place for each in declared(MatrixOptions)} - output
    assert {place.rpartition(".")[2] for place in places} == {"section", *both, *options.OF_RANKS}


def test_options_of_both_are_refused() -> None:
    with pytest.raises(UserError, match=r"--section and --ranks cannot be combined: leave out one or the other"):
        matrix("--section", "uni", "--ranks", "2")


def asked(*words: str) -> MatrixOptions:
    given = matrix(*words, *([] if "--section" in words else ["--section", options.USUAL[0]]))
    assert isinstance(given, MatrixOptions)
    return given


def planned(given: MatrixOptions, monkeypatch: pytest.MonkeyPatch, *, driver: bool = True) -> Plan:
    monkeypatch.setattr("volley.benchmarks.matrix.gpu_jobs.has_driver", lambda: driver)
    (job,) = jobs(given, Site(About())).planned
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


def test_the_tables_are_about_the_sections_of_the_engine(engine: Path) -> None:
    about = subprocess.run([engine, "--about"], capture_output=True, check=True, timeout=60)
    sections = json.loads(about.stdout)["sections"]
    assert list(options.SECTIONS) == [each["name"] for each in sections if not each["test"]]
    assert set(options.TESTS) == {each["name"] for each in sections if each["test"]}
    assert {each["name"] for each in sections if each["ends"] != "gpus"} == options.WITH_HOST


def test_the_help_says_what_sampling_means_for_a_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["matrix", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Measure a pair until the 95 % confidence interval of its median is within" in said
    assert "volley measures no pair after this time" in said
    assert "Launch until" not in said
    assert "starts no launch" not in said


def test_a_format_that_cannot_show_it_names_the_command() -> None:
    with pytest.raises(UserError, match="cannot show volley matrix: choose"):
        shown(made.log(2, ["uni"]), "olcf")


def test_the_usual_sections_and_those_of_the_sample() -> None:
    sample = matrix("--format", "cuda-samples")
    assert MatrixOptions().sections == options.USUAL
    assert sample.sections == options.OF_THE_SAMPLE
    assert asked("--section", "all,uni", "--section", "uni+hang").sections == (*options.SECTIONS, "uni+hang")
    with pytest.raises(UserError, match="there is no 'unidirectional'; choose among host-to-gpu, gpu-to-host"):
        asked("--section", "unidirectional")
    with pytest.raises(UserError, match="GPU 1 is named twice"):
        asked("--gpus", "1,1")


@pytest.mark.parametrize("format_name", ["cuda-samples", "csv", "json", "table"])
def test_a_run_that_broke_off_before_its_gpus_were_ready(format_name: str) -> None:
    log = made.log(2, ["uni"])
    broken = RunLog(run=log.run)
    text = shown(broken, format_name)
    assert "half_round_trip" not in text
    assert "latency_us" not in text


def test_runs_of_other_benchmarks_share_a_table_and_no_run_is_dropped() -> None:
    others = RunLog(run=run(), records=[pingpong([1e-6, 1.1e-6])])
    for first, second in ((made.log(2, ["uni"]), others), (others, made.log(2, ["uni"]))):
        out = io.StringIO()
        render([first, second], BENCHMARKS, "csv", out, err=io.StringIO())
        assert {row["benchmark"] for row in csv.DictReader(io.StringIO(out.getvalue()))} == {"pingpong", "gpu_matrix"}
        out = io.StringIO()
        render([first, second], BENCHMARKS, "json", out, err=io.StringIO())
        assert "pingpong" in out.getvalue()


def test_runs_that_see_other_gpus_are_other_matrices() -> None:
    one, two = made.log(1, ["uni"]), made.log(2, ["uni"])
    for logs in ([one, two], [two, one]):
        out = io.StringIO()
        render(logs, BENCHMARKS, "table", out)
        assert out.getvalue().count("CE write, peer access on") >= 2


# ------------------------------------------------------------------------------------- the engine without MPI


LOCAL = Plan(benchmark="gpu_matrix", world_size=1, transports=[], options=GpuMatrixPlan(sections=["uni"]))


def performed(program: Path, plan: Plan) -> subprocess.CompletedProcess[bytes]:
    """Run a plan in one process."""
    text = msgspec.json.encode(plan)
    return subprocess.run([program, "--plan", "-"], input=text, capture_output=True, check=False, timeout=60)


@pytest.fixture
def local_engine(engine: Path) -> Path:
    """The engine's program for the GPUs of this machine."""
    path = engine.with_name("volley-engine-local")
    if not path.exists() and read_facts(engine).cuda_version is None:
        pytest.skip("this engine was built without CUDA")
    return path


def test_the_local_engine_needs_no_mpi(local_engine: Path) -> None:
    with local_engine.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        needed = [tag.needed for tag in section.iter_tags("DT_NEEDED")]
    assert needed
    assert not [name for name in needed if "mpi" in name or "uc" in name]
    ended = performed(local_engine, LOCAL)
    read = LineReader((options.GPUS,))
    records = [read(line) for line in ended.stdout.splitlines()]
    assert [type(record) for record in (records[0], records[-1])] == [Run, End]
    assert isinstance(records[0], Run)
    assert records[0].mpi is records[0].engine.mpi_built is None
    assert ended.returncode in {0, 3}, ended.stderr  # with GPUs, or without


def test_each_program_of_the_engine_has_benchmarks_of_its_own(engine: Path, local_engine: Path) -> None:
    jacobi = Plan(benchmark="jacobi", world_size=1, transports=["host"], options=JacobiPlan(grid=[1, 1], domain=[8, 8]))
    for program, plan, found in ((engine, LOCAL, b"gpu_matrix"), (local_engine, jacobi, b"jacobi")):
        ended = performed(program, plan)
        assert (ended.returncode, ended.stdout) == (2, b"")
        assert b"plan: $.benchmark: expected one of" in ended.stderr
        assert b'found "' + found in ended.stderr


@pytest.mark.parametrize("color", [False, True])
def test_what_colours_mean_is_said_where_there_are_any(color: bool) -> None:
    out = io.StringIO()
    render([made.log()], BENCHMARKS, "table", out, details=Details(color=color), err=io.StringIO())
    assert ("green: from 96 % of the best pair" in out.getvalue().replace("\n", " ")) is color


def test_an_engine_that_lacks_its_other_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", str(install(tmp_path)))
    (tmp_path / "volley-engine-local").unlink()
    with pytest.raises(
        MachineError,
        match=r"the program .*/volley-engine-local, which measures between GPUs, does not exist: point VOLLEY_ENGINE",
    ):
        engine_path.local_engine_path()


def test_the_golden_example_is_shown_in_every_format() -> None:
    for format_name in ("table", "csv", "json", "cuda-samples"):
        out = io.StringIO()
        render(golden("gpu-matrix"), BENCHMARKS, format_name, out, err=io.StringIO())
        assert out.getvalue()
