"""A remedy fits where it stands and harms nobody: invariants over states, places and batch systems."""

import re

import msgspec
import pytest
from msgspec.structs import replace

from doctor_states import GOOD, RANKS, STATES, failed_cuda
from machine_facts import changed
from situations import SITUATIONS
from volley.doctor.checks import diagnose
from volley.doctor.findings import DoctorFinding
from volley.machine.facts import Facts

PLACES = {
    "bare": {},
    "root": {"root": True},
    **{kind: {"container": kind, "root": True} for kind in ("docker", "podman", "kubernetes", "containerd", "lxc")},
    "apptainer": {"container": "apptainer", "root": False},
    "WSL2": {"kernel": "5.15.153.1-microsoft-standard-WSL2"},
    "arm64": {"architecture": "aarch64"},
    "SLES": {"os_id": "sles", "os_like": ["suse"]},
    "RHEL": {"os_id": "rhel", "os_like": ["fedora"]},
    "Debian": {"os_id": "debian", "os_like": []},
}
JOBS = {
    "": {},
    "slurm": {"SLURM_JOB_ID": "7"},
    "slurm, left over": {"SLURM_JOB_ID": "7"},
    "pbs": {"PBS_JOBID": "7.head"},
    "lsf": {"LSB_JOBID": "7"},
    "age": {"PE_HOSTFILE": "/spool/7/pe_hostfile"},
    "flux": {"FLUX_JOB_ID": "f7"},
}
GPU_STATES: dict[str, dict[str, object]] = {
    "no device": {"cuda": failed_cuda(100, "NO_DEVICE")},
    "a GPU is hidden": {"cuda": {"devices": [msgspec.to_builtins(GOOD.cuda_devices[0])], "peers": [[True]]}},
    "no GPU is granted": {
        "environment": {"CUDA_VISIBLE_DEVICES": "NoDevFiles"},
        "cuda": failed_cuda(100, "NO_DEVICE"),
    },
    "memory cannot be locked": {"bus": {"infiniband": ["mlx5_0"]}, "limits": {"memlock_bytes": 1 << 20}},
    "no CMA": {"limits": {"cma_error": "Operation not permitted", "ptrace_scope": 2}},
    **{
        f"device nodes: {said}": {
            "driver": {"nodes": {"/dev/nvidiactl": said, "/dev/nvidia-uvm": said, "/dev/nvidia0": said}}
        }
        for said in ("Operation not permitted", "Permission denied")
    },
    **{
        f"CUDA ends with {status}": {"cuda": failed_cuda(status, "ERROR")}
        for status in (2, 34, 100, 801, 802, 803, 804, 805, 807, 999)
    },
}
HOST = re.compile(
    r"systemctl|\breboot\b|grub|dmesg|modprobe|rmmod|nvidia-smi -i \S+ -|setpci|cpupower|sysctl|ip link set|mokutil"
    r"|mount -|dkms|apt-get"
)
"""Words of commands that nothing inside a container can run."""
WINDOWS = re.compile(
    r"systemctl|\breboot\b|grub|modprobe|rmmod|nvidia-smi -i \S+ -|setpci|cpupower|mokutil|dkms|apt-get"
)
"""And of those that change what Windows has of WSL2."""


Remedy = tuple[str, Facts, DoctorFinding, str]
Findings = dict[str, tuple[str, str, str]]


def placed(change: dict[str, object], system: dict[str, object], job: str, variables: dict[str, str]) -> Facts:
    """A state in a place, in a shell with the variables of a job, which may be one on another host."""
    facts = changed(GOOD, **change)
    known, around = facts.system.value, facts.surroundings.value
    assert known
    assert around
    kind, _, left = job.partition(", ")
    of_job = {"batch_system": kind, "job_hosts": ["gpu07" if left else "node1"], "in_job": not left}
    its = of_job if job and not around.batch_system else {}
    return replace(
        facts,
        system=replace(facts.system, value=replace(known, **{"root": False, **system})),
        environment={**facts.environment, **variables},
        surroundings=replace(facts.surroundings, value=replace(around, **its)),
    )


EVERY = (5, pytest.param(1, marks=pytest.mark.long))
"""Each state is tried in every fifth place, or before a release in every one."""


@pytest.fixture(scope="module", params=EVERY)
def remedies(request: pytest.FixtureRequest) -> list[Remedy]:
    """Remedies for every state in some places, each in a batch system or in none; in all places it meets each."""
    found, batches = [], [*JOBS]
    reported = {name: situation.changes for name, situation in SITUATIONS.items()}
    for number, (name, change) in enumerate({**STATES, **GPU_STATES, **reported}.items()):
        for place, (where, system) in enumerate(PLACES.items()):
            if (number + place) % request.param:
                continue
            batch = batches[(number + place) % len(batches)]
            here = placed(change, system, batch, JOBS[batch])
            for finding in diagnose(here).findings:
                said = filter(None, (finding.remedy, *finding.also))
                found += [(f"{name}; {where}; {batch}", here, finding, each) for each in said]
    assert len(found) > 3500 / request.param
    return found


def test_a_remedy_unsets_only_what_is_set_and_takes_nothing_that_was_not_granted(remedies: list[Remedy]) -> None:
    wrong = []
    for name, facts, _, remedy in remedies:
        tried = {each.partition("=")[0] for trial in facts.trials.value or [] for each in trial.settings}
        tried |= {
            each.partition("=")[0]
            for trial in [facts.hosts.value.trial if facts.hosts.value else None]
            if trial
            for each in trial.settings
        }
        for unset in re.findall(r"unset ([A-Z][\w ]*)", remedy):
            wrong += [
                (name, remedy)
                for each in unset.split()
                if each.isupper() and each not in facts.environment.keys() | tried
            ]
        around = facts.surroundings.value
        in_job = around and around.batch_system and around.in_job
        if in_job and re.search(
            r"unset (\S+ )*(CUDA|NVIDIA)_VISIBLE|unset \$\(env \| grep -oE '\^\((SLURM|PBS|LSB|PE|FLUX)", remedy
        ):
            wrong.append((name, remedy))
    assert wrong == []


def test_a_remedy_inside_a_container_leaves_the_host_to_its_administrator(remedies: list[Remedy]) -> None:
    wrong = []
    for name, facts, _, remedy in remedies:
        known = facts.system.value
        pattern = HOST if known.container else WINDOWS if "microsoft" in known.kernel else None
        found = pattern.search(remedy) if pattern else None
        if found and "on the host" not in remedy[: found.start()]:
            wrong.append((name, remedy))
    assert wrong == []


def test_words_about_ssh_follow_words_of_ssh(remedies: list[Remedy]) -> None:
    said = re.compile(
        r"ssh|publickey|Host key|HOST IDENTIF|Connection (closed|reset)|channel \d: open failed|kex_exchange"
        r"|sign_and_send_pubkey|Load key"
    )
    assert [
        (name, r) for name, _, finding, r in remedies if re.search(r"\bssh\b", r) and not said.search(finding.evidence)
    ] == []


@pytest.mark.parametrize("kind", ["reset", "mig", "compute mode", "fabric manager"])
def test_what_disturbs_others_says_so_first(kind: str, remedies: list[Remedy]) -> None:
    command = {
        "reset": " -r\\b",
        "mig": "-mig 0",
        "compute mode": "-c DEFAULT",
        "fabric manager": "nvidia-fabricmanager",
    }[kind]
    found = [remedy for *_, remedy in remedies if re.search(command, remedy)]
    assert found
    assert [each for each in found if "this disturbs" not in each[: re.search(command, each).start()]] == []  # type: ignore[union-attr]


def test_what_works_is_not_broken() -> None:
    """Doctor's own attempt at a port does not count where MPI sent its messages."""
    good = changed(GOOD, **STATES["a firewall between hosts"])
    hosts = msgspec.to_builtins(good.hosts.value)
    facts = changed(good, hosts={**hosts, "job": msgspec.to_builtins(GOOD.mpi_host.value)})
    assert "broken" not in {each.status for each in diagnose(facts).findings if each.layer == "between hosts"}


def test_a_name_that_is_no_variable_is_never_typed_into_a_shell() -> None:
    """Facts may come from anybody."""
    facts = changed(GOOD, **SITUATIONS["NCCL_P2P_LEVEL=LOC"].changes)
    for name in ("NCCL_P2P_;reboot", "NCCL_P2P_$(reboot)", ";reboot;_if_include"):
        said = diagnose(replace(facts, environment={name: "x", "UCX_TLS;reboot": "x"})).findings
        assert [each.remedy for each in said if "reboot" in each.remedy] == []


MIG = {"nvml": {"gpus": [{**msgspec.to_builtins(gpu), "mig": True} for gpu in GOOD.gpus]}}
FAR = {
    "topology": {
        "places": [{"kind": "gpu", "address": each["device"]["pci"], "cores": str(each["rank"])} for each in RANKS]
    },
    "launcher": {
        "inside": True,
        "ranks": [{**each, "bound_by": "srun", "cores": [60 + each["rank"]]} for each in RANKS],
    },
}


def _findings(change: dict[str, object], system: dict[str, object], job: str, variables: dict[str, str]) -> Findings:
    """Return what doctor says by check."""
    here = placed(change, system, job, variables)
    return {each.check: (each.status, each.said, each.remedy) for each in diagnose(here).findings}


@pytest.mark.parametrize("every", EVERY)
def test_variables_that_another_job_left_in_the_shell_change_no_other_finding(every: int) -> None:
    wrong = []
    reported = {name: situation.changes for name, situation in SITUATIONS.items()}
    changes = {**STATES, **GPU_STATES, **reported, "MIG": MIG, "cores far from the GPU": FAR}
    for number, (name, change) in enumerate(changes.items()):
        around = changed(GOOD, **change).surroundings.value
        if around is None or around.batch_system:
            continue
        for place, where in enumerate(("bare", "root", "docker", "apptainer")):
            if (number + place) % every:
                continue
            without = _findings(change, PLACES[where], "", {})
            left = _findings(change, PLACES[where], "slurm, left over", JOBS["slurm"])
            wrong += [(name, check) for check in without if check != "job variables" and left[check] != without[check]]
    assert wrong == []


@pytest.mark.parametrize("job", [each for each in JOBS if each and "," not in each])
@pytest.mark.parametrize(
    ("change", "check", "words"),
    [
        (GPU_STATES["a GPU is hidden"], "GPUs", "of this job"),
        (GPU_STATES["no GPU is granted"], "GPUs", "was granted no GPU"),
        (MIG, "MIG", "for whole GPUs, not for instances"),
        (FAR, "binding", "for cores near the GPUs"),
    ],
)
def test_within_a_job_a_finding_says_what_the_job_was_granted_and_whom_to_ask_for_more(
    change: dict[str, object], check: str, words: str, job: str
) -> None:
    assert words in " ".join(_findings(change, {}, job, JOBS[job])[check])
    assert words not in " ".join(_findings(change, {}, "", {})[check])
