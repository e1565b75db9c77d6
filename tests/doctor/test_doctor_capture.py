"""The half of doctor that tries things: whatever happens in a probe, it becomes a fact and doctor goes on."""

import ctypes
import faulthandler
import json
import os
import pwd
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from doctor_states import GOOD, state
from fake_engine import install, use
from machine_facts import changed
from the_command import gone
from volley.command.options import JobOptions
from volley.doctor.checks import diagnose
from volley.doctor.findings import DoctorFinding
from volley.doctor.probes import attempts, capture, gpus, host, jobs, trials
from volley.errors import MachineError, UserError
from volley.launch import inside_launcher
from volley.machine import capture as machine
from volley.machine import facts as f
from volley.machine.capture import Skip, isolated, without_home
from volley.machine.job_facts import HostFacts, JobFacts, PointFacts, TrialFacts
from volley.machine.mpi_choice import Choice
from volley.machine.variables import captured
from volley.setup import wheels

# ----------------------------------------------------------------------------------------- a process of its own


def test_a_probe_returns_its_value() -> None:
    probe = isolated("call", lambda: f.UcxComponent(name="tcp", resources=3), f.UcxComponent, 10)
    assert probe == f.Probe(call="call", value=f.UcxComponent(name="tcp", resources=3))


def test_a_crash_is_a_fact() -> None:
    def crash() -> None:
        faulthandler.disable()  # pytest's
        ctypes.string_at(0)

    probe = isolated("call", crash, int, 10)
    assert (probe.value, probe.error) == (None, "it crashed: SIGSEGV")


def test_an_end_without_a_word_is_a_fact() -> None:
    assert isolated("call", lambda: os._exit(7), int, 10).error == "it ended with status 7 and said nothing"


@pytest.mark.slow
def test_a_hang_is_a_fact_and_ends_with_all_it_started(tmp_path: Path) -> None:
    def hang() -> None:
        child = subprocess.Popen(["sleep", "600"])
        (tmp_path / "pid").write_text(str(child.pid))
        os.write(1, b"about to hang")
        time.sleep(600)

    probe = isolated("call", hang, int, 3)
    assert probe.error == "no answer within 3 s"
    assert probe.said == "about to hang"
    gone(int((tmp_path / "pid").read_text()))


def test_what_an_error_says_is_kept() -> None:
    def stumble() -> None:
        os.write(2, b"\x1b[31mbefore\x1b[0m")
        raise ValueError("unexpected")

    probe = isolated("call", stumble, int, 10)
    assert (probe.error, probe.said) == ("ValueError: unexpected", "before")

    def refuse() -> None:
        raise MachineError("there is no engine", "build it")

    refused = isolated("call", refuse, int, 10)
    assert (refused.error, refused.remedy) == ("there is no engine", "build it")


def test_a_probe_may_have_nothing_to_try() -> None:
    def skip() -> None:
        raise Skip("no GPU")

    probe = isolated("call", skip, int, 10)
    assert (probe.skipped, probe.error, probe.value) == ("no GPU", None, None)


def test_nothing_is_printed_on_our_streams(capfd: pytest.CaptureFixture[str]) -> None:
    isolated("call", lambda: os.write(1, b"noise") and os.write(2, b"noise"), int, 10)
    assert capfd.readouterr() == ("", "")


# --------------------------------------------------------------------------------------------- all of it


@pytest.mark.slow
def test_an_mpi_that_hangs_in_init_is_a_finding_and_doctor_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, install(tmp_path / "bin"))
    monkeypatch.setenv("VOLLEY_FAKE", "silent")
    tried: list[str] = []
    facts = capture(2.0, tried.append)
    assert len(tried) == len(attempts(2.0)) + 1  # the last: the job again, with changes
    assert not any(trial.works for trial in facts.trials.value or [])
    assert facts.mpi_host.error == "no answer within 2 s"
    findings = {finding.check: finding for finding in diagnose(facts).findings}
    assert findings["MPI, host memory"].status == "broken"
    assert findings["launcher"].said == "fix first: MPI, host memory"
    assert findings["CMA"].status in {"good", "warning"}


@pytest.mark.slow
def test_an_engine_that_does_not_start_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, install(tmp_path / "bin"))
    monkeypatch.setenv("VOLLEY_FAKE", "broken")
    facts = capture(20.0)
    findings = {finding.check: finding for finding in diagnose(facts).findings}
    assert findings["engine"].status == "broken"
    assert "error while loading shared libraries" in findings["engine"].evidence
    assert findings["MPI, host memory"].said == findings["MPI library"].said == "fix first: engine"


@pytest.mark.parametrize(
    ("behaviour", "complete", "reason"),
    [
        ("good", True, None),
        ("cut", False, "SIGKILL"),
        ("refuses", False, "this job has 1 rank, the plan needs 2"),
        ("failing", False, "the job ended with status 1"),
        ("lossy", True, None),
        ("headless", False, "before any record"),
    ],
)
def test_a_job_is_kept_as_it_ended(
    behaviour: str, complete: bool, reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, install(tmp_path / "bin"))
    monkeypatch.setenv("VOLLEY_FAKE", behaviour)
    job = jobs.mpi_host(JobOptions(watchdog=20.0))
    assert job.complete == complete
    assert (reason is None) == (job.reason is None)
    assert (reason or "") in (job.reason or "")
    assert job.wanted_ranks == 2


def test_a_slow_start_leaves_out_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine no time was left of a launch's budget when the ranks had met."""
    monkeypatch.setitem(jobs._QUICK, "budget", 1e-6)
    assert [point.status for point in jobs.mpi_host(JobOptions(watchdog=20.0)).points] == ["ok"] * 2


def test_a_job_that_left_everything_out_says_why() -> None:
    point = PointFacts(transport="host", size_bytes=8, status="skipped", reason="there is no memory")
    assert JobFacts(launcher="", command=[], wanted_ranks=2, complete=True, points=[point]).why == "there is no memory"


def test_an_engine_without_gpu_transports_is_not_asked_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, install(tmp_path / "bin"))
    monkeypatch.setattr(jobs, "has_driver", lambda: True)
    with pytest.raises(Skip, match="built without CUDA"):
        jobs._on_gpus("aware", "peer")
    assert [way.transport for way in jobs.launcher(JobOptions(watchdog=20.0)).transports] == ["host"]


def test_a_job_that_fails_on_gpu_memory_alone_is_the_one_that_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    facts, works = state("UCX without a transport for GPU memory"), GOOD.mpi_device.value
    monkeypatch.setenv("UCX_TLS", "tcp,self")
    monkeypatch.setattr(jobs, "mpi_device", lambda _: facts.mpi_device.value if "UCX_TLS" in os.environ else works)
    tried = trials.on_this_host(facts, JobOptions(), 20.0)[-1]
    assert (tried.change, tried.works) == ("unset UCX_TLS", True)
    mpich = changed(facts, stack={"mpi_family": "mpich"})
    asked = "MPICH_GPU_SUPPORT_ENABLED"
    monkeypatch.setattr(jobs, "mpi_device", lambda _: works if asked in os.environ else facts.mpi_device.value)
    assert trials.on_this_host(mpich, JobOptions(), 20.0)[-1] == TrialFacts(change=f"{asked}=1", works=True)
    monkeypatch.setattr(jobs, "mpi_device", lambda _: facts.mpi_device.value)
    assert not any(each.works for each in trials.on_this_host(facts, JobOptions(), 20.0))


def repeat(monkeypatch: pytest.MonkeyPatch, facts: f.Facts, works: Callable[[], bool]) -> TrialFacts:
    """The last trial, if a job between two ranks works as a function says."""
    good, bad = GOOD.mpi_host.value, state("MPI fails for a reason of its own").mpi_host.value
    monkeypatch.setattr(jobs, "mpi_host", lambda _: good if works() else bad)
    return trials.on_this_host(facts, JobOptions(), 20.0)[-1]


def test_other_load_is_not_taken_for_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = state("inherited settings make MPI slow")
    slow, good = facts.mpi_host.value, GOOD.mpi_host.value
    monkeypatch.setenv("OMPI_MCA_btl", "self,tcp")
    monkeypatch.setattr(jobs, "mpi_host", lambda _: slow if "OMPI_MCA_btl" in os.environ else good)
    assert trials.on_this_host(facts, JobOptions(), 20.0)[-1].works
    monkeypatch.setenv("OMPI_MCA_mpi_yield_when_idle", "1")  # slow beside other programs alone
    monkeypatch.setattr(jobs, "mpi_host", lambda _: slow if "OMPI_MCA_mpi_yield_when_idle" in os.environ else good)
    assert not any(each.works for each in trials.on_this_host(facts, JobOptions(), 20.0))
    answers = iter([slow, good, slow])  # then slow for good
    monkeypatch.setattr(jobs, "mpi_host", lambda _: next(answers, slow))
    assert not any(each.works for each in trials.on_this_host(facts, JobOptions(), 20.0))


def test_a_failure_of_libfabric_is_tried_without_its_own_variables_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without either of the two the job works: the words of the failure decide which of them is named."""
    names = ("I_MPI_FABRICS", "FI_PROVIDER")
    monkeypatch.setattr(os, "environ", {**os.environ, "I_MPI_FABRICS": "ofi", "FI_PROVIDER": "nonsense"})
    text = ["find_provider(3064)...: OFI fi_getinfo() failed (ofi_init.c:3064:find_provider:No data available)"]
    facts = changed(state("MPI fails for a reason of its own"), mpi_host={"text": text}, stack={"mpi_family": "intel"})
    assert repeat(monkeypatch, facts, lambda: not {*names} <= {*os.environ}).change == "unset FI_PROVIDER"


def test_the_part_that_failed_is_tried_away_before_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ["[1.1] [n1:7:0]  mm_xpmem.c:157  UCX  ERROR failed to acquire xpmem segment: Operation not permitted"]
    facts = changed(
        state("MPI fails for a reason of its own"), mpi_host={"text": text}, surroundings={"folder": "/tmp"}
    )
    trial = repeat(monkeypatch, facts, lambda: os.environ.get("UCX_TLS") == "^xpmem")
    assert trial.remedy == "export UCX_TLS='^xpmem'"


def test_what_nccl_warns_of_in_its_file_is_kept_of_a_job_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.setattr(jobs, "cuda_gpu_count", lambda: 2)
    monkeypatch.setattr(jobs, "_on_gpus", lambda *names: names)

    def fails(*_: object) -> JobFacts:
        file = Path(os.environ["NCCL_DEBUG_FILE"].replace("%h.%p", "n1.7"))
        file.write_text("n1:7:7 [0] NCCL INFO x\nn1:7:7 [0] p2p.cc:1 NCCL WARN Cuda failure 'x'\n")
        return JobFacts(launcher="", command=[], wanted_ranks=2, reason="ncclCommInitRank: unhandled cuda error")

    monkeypatch.setattr(jobs, "_send", fails)
    job = jobs.nccl(JobOptions()).job
    assert job.why == "Cuda failure 'x'"


def test_without_a_launcher_the_variables_of_a_rank_are_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = state("variables of a rank, without its launcher")
    for name in ("PMIX_RANK", "PMIX_SECURITY_TOKEN", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr(trials, "has_launcher", lambda: False)
    alone = repeat(monkeypatch, facts, lambda: "PMIX_RANK" not in os.environ)
    assert (alone.works, alone.change) == (True, "unset $(env | grep -oE '^(PMIX_)[A-Za-z0-9_]*')")
    assert sorted(alone.settings) == ["PMIX_RANK=7", "PMIX_SECURITY_TOKEN=…"]
    both = repeat(monkeypatch, facts, lambda: "SLURM_JOB_ID" not in os.environ)
    assert (both.works, both.change) == (True, "unset $(env | grep -oE '^(PMIX_|SLURM_)[A-Za-z0-9_]*' | grep -v _CONF)")
    worked = msgspec.structs.replace(facts, launcher=GOOD.launcher)  # by a launcher that volley does not know
    with pytest.raises(Skip):
        trials.on_this_host(worked, JobOptions(), 20.0)
    monkeypatch.setattr(trials, "has_launcher", lambda: True)
    with pytest.raises(Skip):
        trials.on_this_host(facts, JobOptions(), 20.0)


def test_files_of_the_home_folder_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".openmpi").mkdir()
    (tmp_path / ".openmpi/mca-params.conf").write_text("# mine\n\npml = ucx\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    facts = state("MPI fails for a reason of its own")
    tried = repeat(monkeypatch, facts, lambda: os.environ["HOME"] != str(tmp_path))
    assert tried.settings == ["pml = ucx in ~/.openmpi/mca-params.conf"]
    assert (tried.works, tried.change) == (True, "mv ~/.openmpi/mca-params.conf ~/.openmpi/mca-params.conf.off")


@pytest.mark.parametrize(
    ("family", "version", "variables"),
    [
        ("openmpi", "mpirun (Open MPI) 5.0.11", ["OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_exclude"]),
        ("mpich", "Version: 5.0.2", ["FI_TCP_IFACE", "UCX_NET_DEVICES", "HYDRA_IFACE"]),
        ("mpich", "Intel(R) MPI Library for Linux* OS, Version 2021.18", ["FI_TCP_IFACE", "I_MPI_HYDRA_IFACE"]),
    ],
)
def test_interfaces_are_left_out_in_the_words_of_the_mpi(
    family: str, version: str, variables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(jobs, "over_hosts", lambda *_: GOOD.mpi_host.value)
    interfaces = {"eth0": "192.0.2.1/24", "docker0": "172.17.0.1/16"}
    here = HostFacts(name="a", interfaces=interfaces, settings={"MPI": version})
    trial = trials.between_hosts([here], ("a", "b"), family, [], JobOptions())
    assert [word.partition("=")[0] for word in trial.change.split()] == variables


def test_the_file_of_the_site_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/openmpi-mca-params.conf").write_text("# site\npml = ucx\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    facts = changed(state("MPI fails for a reason of its own"), stack={"mpiexec": str(tmp_path / "bin/mpirun")})
    tried = repeat(monkeypatch, facts, lambda: "OMPI_MCA_mca_base_param_files" in os.environ)
    assert tried.settings == [f"pml = ucx in {tmp_path}/etc/openmpi-mca-params.conf"]
    assert (tried.works, tried.change) == (*(True, "export OMPI_MCA_mca_base_param_files=~/.openmpi/mca-params.conf"),)


def test_low_limits_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {number: (-1, -1) for _, number, _, _ in host.LEAST} | {resource.RLIMIT_STACK: (1 << 17, 1 << 30)}
    limits[resource.RLIMIT_FSIZE] = (1 << 20, 1 << 20)
    monkeypatch.setattr(resource, "getrlimit", lambda number: limits[number])
    monkeypatch.setattr(resource, "setrlimit", lambda number, pair: limits.update({number: pair}))
    facts = state("MPI fails for a reason of its own")
    tried = repeat(monkeypatch, facts, lambda: limits[resource.RLIMIT_STACK] == (8 << 20, 1 << 30))
    assert (tried.works, tried.change, tried.settings) == (True, "ulimit -S -s 8192", ["ulimit -s 128"])
    tried = repeat(monkeypatch, facts, lambda: limits[resource.RLIMIT_FSIZE] == (-1, -1))
    assert (tried.works, tried.change, tried.settings) == (True, "ulimit -f unlimited", ["ulimit -f 1024"])


def test_messages_that_have_no_room_lead_to_the_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a job ends well: nothing was sent."""
    why = "mmap of a message buffer failed: Cannot allocate memory"
    facts = changed(GOOD, mpi_host={"points": [], "reason": why}, limits={"low": ["ulimit -Hv 200000"]})
    monkeypatch.setattr(jobs, "mpi_host", lambda _: facts.mpi_host.value)
    tried = trials.on_this_host(facts, JobOptions(), 20.0)
    assert "TMPDIR" in " ".join(each.change for each in tried)
    assert not any(each.works for each in tried)
    found = findings_after(facts, tried)
    assert found["hard limits"].status == "broken"
    assert "ulimit -Hv" in found["hard limits"].remedy
    assert found["MPI, host memory"].said == "fix first: hard limits"
    soft = TrialFacts(change="ulimit -S -v unlimited", settings=["ulimit -v 200000"], works=True)
    assert "MPI fails with it and works without it" in findings_after(facts, [soft])["inherited settings"].said


def findings_after(facts: f.Facts, tried: list[TrialFacts]) -> dict[str, DoctorFinding]:
    facts = msgspec.structs.replace(facts, trials=f.Probe(call="", value=tried))
    return {each.check: each for each in diagnose(facts).findings}


# ------------------------------------------------------------------------------------------- single probes


def test_limits_are_tried() -> None:
    found = host.limits()
    assert found.shm_bytes > 0
    assert found.shm_error is None
    assert found.cma_error is None or found.cma_error[0].isupper()  # the system's own words


def test_who_may_lock_all_memory_has_no_limit_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65536, 65536))
    for capable, limit in (("0000000000004000", None), ("0000000000080000", 65536)):  # CAP_IPC_LOCK, CAP_SYS_PTRACE
        monkeypatch.setattr(Path, "read_text", lambda *_, its=capable, **__: f"CapEff:\t{its}\n")
        assert host.limits().memlock_bytes == limit


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a bound process can be freed where there are two CPUs")
def test_a_bound_process_knows_the_cpus_that_it_may_be_freed_to_and_stays_bound() -> None:
    own = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(own)})
        found = host.surroundings()
        assert own <= {*found.free_cpus}
        assert (found.cpus, os.sched_getaffinity(0)) == (1, {min(own)})
        os.sched_setaffinity(0, found.free_cpus)
        assert host.surroundings().free_cpus == []
    finally:
        os.sched_setaffinity(0, own)


def test_reading_memory_that_is_not_there_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_hold_pattern", _lie)
    assert host.cma_error() == "Bad address"


def _lie(answers: object) -> None:
    answers.send(8)
    time.sleep(5)


def test_acs_control_is_found_behind_other_capabilities() -> None:
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")
    space[0x140:0x144] = (0x000D | 1 << 16).to_bytes(4, "little")
    space[0x146:0x148] = (0x1D).to_bytes(2, "little")
    assert gpus.acs_control(bytes(space)) == 0x1D
    assert gpus.acs_control(bytes(space[:64])) is None
    space[0x140:0x144] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")  # a list that bites its tail
    assert gpus.acs_control(bytes(space)) is None


# ------------------------------------------------------------------------------------------------- privacy


def test_only_variables_of_libraries_and_launchers_are_captured() -> None:
    environment = {
        "UCX_TLS": "all",
        "OMPI_MCA_pml": "ucx",
        "CUDA_VISIBLE_DEVICES": "0",
        "SLURM_GPUS_PER_TASK": "1",
        "OMPI_MCA_initial_wdir": "/somewhere",
        "NCCL_AUTH_TOKEN": "secret",
        "SLURM_JWT": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "USER": "somebody",
    }
    assert list(dict(captured(environment))) == [
        "CUDA_VISIBLE_DEVICES",
        "OMPI_MCA_pml",
        "SLURM_GPUS_PER_TASK",
        "UCX_TLS",
    ]


def test_the_home_folder_is_not_named() -> None:
    folder = Path(__file__).parents[1] / "machines" / "no-gpu" / "facts.json"
    facts = f.decode(folder.read_bytes(), "no-gpu")
    hidden = without_home(facts, "/opt/volley")
    assert "/opt/volley" in json.dumps(json.loads(f.encode(facts)))
    assert "/opt/volley" not in f.encode(hidden).decode()
    assert hidden.stack.value.mpiexec == "~/bin/mpirun"
    assert without_home(facts, "/") == facts
    assert without_home(facts, "/opt/vol") == facts  # another folder, which only begins alike
    paths = {"LD_LIBRARY_PATH": "/home/al:/home/alice/x:/mnt/home/al/y:/home/al+b:/home/al/é:/home/alé"}
    shown = without_home(msgspec.structs.replace(facts, environment=paths), "/home/al").environment
    assert shown["LD_LIBRARY_PATH"] == "~:/home/alice/x:/mnt/home/al/y:/home/al+b:~/é:/home/alé"


def test_a_user_without_a_name_and_a_home_folder_gets_the_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> object:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert machine.capture([]).captured_at
    with pytest.raises(UserError, match="the home folder is unknown: set XDG_STATE_HOME"):
        _ = wheels.PythonEnvironment(None).folders


def test_the_other_ranks_know_when_a_child_has_met_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside_launcher, "_joined", False)
    started: list[object] = []
    monkeypatch.setattr(subprocess, "run", lambda *words, **_: started.append(words))
    inside_launcher.note_joined()
    inside_launcher.release("openmpi", "")
    assert started == []


def test_a_copy_of_the_launcher_under_another_name_is_no_other_mpi(tmp_path: Path) -> None:
    for name in ("mpirun", "mpiexec.hydra"):
        (tmp_path / name).write_text("#!/bin/sh\nexec hydra\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mpirun").write_text("#!/bin/sh\nexec hydra\n")
    mpich = Choice("libmpi.so.12", str(tmp_path / "mpiexec.hydra"), "mpich", "wheel")
    assert jobs._same(str(tmp_path / "mpirun"), mpich)
    assert not jobs._same(str(tmp_path / "other/mpirun"), mpich)
