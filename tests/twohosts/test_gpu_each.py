"""Two pretended hosts with a GPU each, or one that both use: what is for clusters runs there, verified."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pretend_hosts import NAMES, Lab, NoHostsError, Wire, lab

from volley.benchmarks import BENCHMARKS
from volley.machine.nvidia_driver import has_driver
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_driver(), reason="there is no NVIDIA driver here")]

FAST = Wire(delay_s=0, rate_bps=0)
"""As fast as the relay can."""
GPUS = len(list(Path("/dev").glob("nvidia[0-9]*")))
QUICK = ("--launches", "1", "--point-time", "0.05")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, relay: Path) -> Iterator[Lab]:
    try:
        with lab(tmp_path_factory.mktemp("hosts") / "lab", relay, FAST, gpus=GPUS > 1) as made:
            yield made
    except NoHostsError as reason:
        pytest.skip(str(reason))


def volley(hosts: Lab, *words: str) -> tuple[int, str, str]:
    """Run a command on the first host, over both.  MPI chooses what carries its messages itself."""
    command = ["env", "-u", "OMPI_MCA_pml", "-u", "OMPI_MCA_btl", sys.executable, "-m", "volley", *words]
    done = hosts.run([*command, "--hosts", ",".join(NAMES)], timeout_s=300)
    return done.returncode, done.stdout, done.stderr


def measured(hosts: Lab, output: Path, *words: str) -> RunLog:
    code, _, errors = volley(hosts, *words, "-o", str(output))
    assert code in {0, 3}, errors  # 3: a transport that was asked for cannot be used, as `aware` with some MPIs
    (log,) = read_runs(output, BENCHMARKS)
    assert log.complete
    assert [rank.host for rank in log.run.ranks] == list(NAMES)
    uuids = {rank.device.uuid for rank in log.run.ranks if rank.device}
    assert len(uuids) == min(GPUS, len(NAMES))
    assert [(point.transport, point.reason) for point in log.records if point.status == "failed"] == []
    return log


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (("pingpong", "-t", "host,aware,staged,nccl", "-s", "8,64k,1M"), {"host", "staged/pinned", "nccl"}),
        (("collective", "-t", "host,nccl", "--operation", "allreduce", "-s", "8,1M"), {"host", "nccl"}),
        (("overlap", "-t", "host,nccl", "-s", "64k"), {"host", "nccl"}),
        (("jacobi", "-t", "host,staged/pinned,nccl", "--domain", "256", "256", "--iterations", "100"),
         {"host", "staged/pinned", "nccl"}),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)  # fmt: skip
def test_benchmarks_run_between_them(hosts: Lab, tmp_path: Path, words: Sequence[str], needed: set[str]) -> None:
    quick = () if words[0] == "jacobi" else QUICK
    log = measured(hosts, tmp_path / "records.jsonl", *words, *quick)
    assert needed <= {info.transport for info in log.transports if info.available} | {
        point.transport for point in log.records if point.status == "ok"
    }


@pytest.mark.parametrize("words", [("--element", "bfloat16"), ("--element", "half", "--reduction", "max"),
                                   ("--element", "int", "--reduction", "max")], ids=" ".join)  # fmt: skip
def test_nccl_reduces_what_mpi_has_no_type_for(hosts: Lab, tmp_path: Path, words: Sequence[str]) -> None:
    operations = ("--operation", "reduce,allreduce,reduce-scatter")
    job = ("collective", "-t", "nccl,nccl+flip,host", *operations, *words, "-s", "8,100,1000000")
    code, _, errors = volley(hosts, *job, *QUICK, "-o", str(tmp_path / "records.jsonl"))
    assert code in {1, 3}, errors
    (log,) = read_runs(tmp_path / "records.jsonl", BENCHMARKS)
    found = {(point.transport, point.status) for point in log.records}
    assert found == {("nccl", "ok"), ("nccl+flip", "failed"), ("host", "ok" if "int" in words else "skipped")}


def test_doctor_finds_nothing_between_them(hosts: Lab) -> None:
    code, out, errors = volley(hosts, "doctor", "--format", "json")
    assert code in {0, 1}, errors
    between = [each for each in json.loads(out)["findings"] if each["layer"] == "between hosts"]
    assert [each["check"] for each in between if each["status"] == "broken"] == []
    assert any(each["check"] == "MPI between hosts" and each["status"] == "good" for each in between)


def test_check_has_a_verdict(hosts: Lab, tmp_path: Path) -> None:
    code, out, errors = volley(hosts, "check", "--format", "json", "--budget", "60", "-o", str(tmp_path / "r.jsonl"))
    assert code in {0, 4}, errors
    assert not [each for each in json.loads(out)["findings"] if each["verdict"] == "FAIL"]
