"""A finding is a cause: a state of a machine has one, its remedy ends the problem, and nothing else is blamed.

The states are facts (``doctor_states``), and real ones where a namespace can make them.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from doctor_states import GOOD, RANKS, STATES, blamed, state
from machine_facts import NAMES, changed, facts_of
from screens import SCREENS, check_screen
from situations import FINE, SITUATIONS
from the_command import BUSY, FEW, Command
from volley.doctor.checks import CHECKS, diagnose
from volley.doctor.findings import DoctorFinding
from volley.machine import facts as f
from volley.machine import job_facts
from volley.machine.mpi_words import invalid_values, limit_in, reason_in

OUTPUTS = (Path(__file__).parents[1] / "mpi_outputs.txt").read_text("utf-8").strip("\n").split("\n\n")


@pytest.mark.parametrize("output", OUTPUTS, ids=[each.splitlines()[0] for each in OUTPUTS])
def test_the_reason_is_the_sentence_that_says_why(output: str) -> None:
    """Real outputs of each MPI (``> `` the reason), found among what follows from it."""
    title, reason, *lines = output.splitlines()
    said = [line[2:] for line in lines]
    assert reason_in(said) == reason[2:]
    assert limit_in(said) == ("ulimit -n" if "ulimit -n" in title else "")


def test_what_open_mpi_says_of_a_value_is_read_from_a_job_that_worked() -> None:
    rule, said = "-" * 74, "An invalid value was supplied for an enum variable."
    lines = [rule, said, "", "  Variable     : mpi_preconnect_mpi", "  Value        : x", "  Valid values : 0|f", rule]
    assert invalid_values([*lines, *lines]) == ["mpi_preconnect_mpi=x"]
    assert invalid_values([line.strip() for line in lines if line]) == ["mpi_preconnect_mpi=x"]
    binds = [rule, "The specified binding policy is not recognized:", "", "   Policy: foo", "", "Please check …", rule]
    binds += [rule, "The binding request contains an unrecognized modifier:", "", "   Request: core:foo", rule]
    asked = [f"hwloc_default_binding_policy={value}" for value in ("foo", "core:foo")]
    assert invalid_values(binds) == asked
    environment = {"PRTE_MCA_hwloc_default_binding_policy": "foo"}
    facts = changed(GOOD, environment=environment, mpi_host={"invalid": asked[:1]})
    (found,) = (each for each in diagnose(facts).findings if each.status == "warning")
    assert found.remedy == "unset PRTE_MCA_hwloc_default_binding_policy"


def test_a_warning_does_not_hide_what_is_known() -> None:
    warned = "libibverbs: Warning: couldn't open config directory '/etc/libibverbs.d'."
    job = job_facts.JobFacts(launcher="", command=[], wanted_ranks=2, reason="no answer within 60 s", text=[warned])
    assert job.why == "no answer within 60 s"
    assert replace(job, reason="the job ended with status 1").why == warned


def test_a_state_of_a_machine_is_one_finding() -> None:
    """And its remedy is the one that was looked at."""
    parts = []
    for name in STATES:
        (cause,) = (each for each in diagnose(state(name)).findings if each.status in {"warning", "broken"})
        later = {each.said for each in diagnose(state(name)).findings if each.said.startswith("fix first")}
        assert cause.evidence
        assert later <= {f"fix first: {cause.check}"}
        more = "".join(f"  also: {each}\n" for each in cause.also)
        parts.append(f"# {name}\n{cause.check}: {cause.said}\n  {cause.remedy}\n{more}")
    check_screen(SCREENS / "doctor/states.txt", "\n".join(parts))


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_reported_situation_has_the_answer_that_was_written_down_before(name: str) -> None:
    situation = SITUATIONS[name]
    found = diagnose(changed(GOOD, **situation.changes)).findings
    (cause,) = (each for each in found if each.status in {"warning", "broken"})
    assert (cause.check, cause.status) == (situation.check, situation.status)
    assert re.search(situation.remedy, cause.remedy), cause.remedy
    assert not re.search(situation.never, cause.remedy), cause.remedy
    assert re.search(situation.said, cause.said)


@pytest.mark.parametrize("name", FINE)
def test_what_looks_like_a_reported_situation_is_fine(name: str) -> None:
    assert blamed(changed(GOOD, **FINE[name])) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"nccl": None},
            "UCX_TSL, because UCX was not used; NCCL_IB_DISABLED, because NCCL was not used; FI_PROVIDER, because libf",
        ),
        (
            {"nccl": None, "mpi_host": {"protocols": ["0..inf: short"]}, "stack": {"misspelt": {"I_MPI_FOO": ""}}},
            "not judged: NCCL_IB_DISABLED, because NCCL was not used; FI_PROVIDER, because libfabric was not used",
        ),
        (
            {"environment": {"I_MPI_FOO": "1", "MPI_HOME": "/"}, "stack": {"misspelt": {"I_MPI_FOO": ""}}},
            "not judged: I_MPI_FOO, because this MPI names no such variable",
        ),
        ({"environment": {"OMPI_MCA_pml": "ob1", "UCX_LOG_LEVEL": "info", "FI_PROVIDER_PATH": "/opt"}}, ""),
    ],
)
def test_variables_of_a_library_that_was_not_used_are_not_judged(changes: dict[str, object], said: str) -> None:
    asked = {"environment": {"UCX_TSL": "tcp", "NCCL_IB_DISABLED": "1", "FI_PROVIDER": "tpc"}, **changes}
    (found,) = (each for each in diagnose(changed(GOOD, **asked)).findings if each.check == "inherited settings")
    assert found.status == ("not tested" if said else "good")
    assert said in found.said


def test_a_setting_that_the_words_of_the_job_blame_in_vain_is_told_with_what_came_without_it() -> None:
    tried = [
        {"change": "unset UCX_TLS", "settings": ["UCX_TLS=x"], "reason": "No components in pml"},
        {"change": "unset OMPI_MCA_pml", "settings": ["OMPI_MCA_pml=ucx"], "works": True},
    ]
    failed = changed(state("MPI fails for a reason of its own"), trials=tried)
    (found,) = (each for each in diagnose(failed).findings if each.check == "inherited settings")
    assert found.remedy == "unset OMPI_MCA_pml"
    assert found.evidence.endswith("; unset UCX_TLS alone: No components in pml")


def test_a_warning_about_a_variable_says_what_else_is_misspelt_or_not_judged() -> None:
    names = {"OMPI_MCA_blt": "OMPI_MCA_btl", "NCCL_IB_DISABLED": "NCCL_IB_DISABLE", "OMPI_MCA_foo": ""}
    asked = changed(GOOD, environment=dict.fromkeys([*names, "UCX_TSL"], "1"), stack={"misspelt": names})
    (found,) = (each for each in diagnose(asked).findings if each.check == "inherited settings")
    assert found.remedy == 'export OMPI_MCA_btl="$OMPI_MCA_blt"; unset OMPI_MCA_blt'
    also = [re.findall("NCCL_IB_DISABLED(?= is)|UCX_TSL|OMPI_MCA_foo", each) for each in found.also]
    assert also == [["NCCL_IB_DISABLED"], ["UCX_TSL", "OMPI_MCA_foo"]]


@pytest.mark.parametrize("family", ["openmpi", "mpich", "intel"])
def test_remedies_are_in_the_words_of_the_mpi_in_use(family: str) -> None:
    words = {"openmpi": r"OMPI_MCA|PRTE_MCA|mpirun|openmpi|pmix|\[cuda", "mpich": r"MPIR_CVAR|\bHYDRA|UCX_|FI_LOG"}
    words |= {"intel": r"I_MPI"}
    others = "|".join(each for name, each in words.items() if name != family)
    library = "Intel(R) MPI Library 2021.18" if family == "intel" else None
    ranks = [{**each, "bound_by": "nobody", "cores": [0, 1]} for each in RANKS]
    unaware = state("an MPI without CUDA")
    more = {
        "ranks do not start": changed(GOOD, launcher="no answer within 60 s"),
        "ranks start alone": changed(GOOD, launcher={"inside": True, "complete": False, "ranks": []}),
        "ranks are not bound": changed(GOOD, launcher={"inside": True, "ranks": ranks}),
        "no UCX": changed(unaware, ucx=None),
        "a wheel without CUDA": changed(unaware, stack={"mpi_source": "wheel", "prepared": False}),
    }
    for name, facts in {**{name: state(name) for name in STATES}, **more}.items():
        assert facts.mpi_host.value or facts.mpi_host.skipped is None or facts.trials.value
        if facts.trials.value or facts.mpi_host.value is None or facts.stack.value is None:
            continue  # what a trial found is in the words of the MPI that it tried
        stack = f.Probe(call="", value=replace(facts.stack.value, mpi_family="mpich" if library else family))
        job = f.Probe(call="", value=replace(facts.mpi_host.value, library=library))
        for finding in diagnose(
            replace(facts, stack=stack, mpi_host=job, hosts=f.Probe(call="", skipped="one"))
        ).findings:
            own = re.sub(
                "|".join([*facts.environment, *facts.stack.value.misspelt.values()]) or "$", "", finding.remedy
            )
            # What is set may be named, and what it should be.
            assert not re.search(others, own), name


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_that_works_has_no_cause_in_its_shell(name: str) -> None:
    findings = {each.check: each for each in diagnose(facts_of(name)).findings}
    assert {findings[check.name].status for check in CHECKS if check.layer == "shell and host"} <= {
        "not tested",
        "good",
    }


def test_hosts_that_do_not_answer_in_time_are_one_finding() -> None:
    late = replace(state("docker0 on both hosts"), hosts=f.Probe(call="ssh b", error="no answer within 60 s"))
    assert blamed(late) == ["hosts"]


def test_what_doctor_itself_cannot_do_is_nobodys_fault() -> None:
    """A socket or a folder of a probe: the compiler, UCX and MPI are not blamed for it."""
    own = f.Probe(call="tried", error="OSError: [Errno 28] No space left on device", own=True)
    changes = dict.fromkeys(("ucx", "gdrcopy", "limits", "mpi_host"), own)
    findings = {each.check: each for each in diagnose(replace(GOOD, **changes)).findings}
    assert [each.check for each in findings.values() if each.status in {"warning", "broken"}] == []
    assert findings["shared memory"].said.startswith("doctor's own test failed: OSError")


def test_every_captured_fact_is_judged() -> None:
    """Each field of the facts is read by a check, a remedy or a page; records of a run are kept whole."""
    package = Path(f.__file__).parent.parent
    readers = [*package.glob("doctor/**/*.py"), *package.glob("topo/*.py"), *package.glob("machine/[fhjp][aeol]*.py")]
    text = "\n".join(path.read_text("utf-8") for path in readers if "probes" not in path.parts)
    kinds = {each for module in (f, job_facts) for each in vars(module).values() if isinstance(each, type)}
    fields = [
        f"{kind.__name__}.{field}"
        for kind in kinds
        if issubclass(kind, f.Fact) and kind not in (f.Fact, f.Probe)
        for field in kind.__struct_fields__
    ]
    assert "RankFacts.bound_by" in fields
    assert [each for each in fields if not re.search(rf"\.{each.partition('.')[2]}\b", text)] == []


# ------------------------------------------------------------------------------------- states that are made for real


def namespace(script: str) -> list[str]:
    """A command before which ``script`` changes the mounts or the name of a host of its own."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can make this state, with unshare")
    if subprocess.run(["unshare", "-mu", "true"], check=False).returncode:
        pytest.skip("this machine allows no namespaces")
    return ["unshare", "-mu", "sh", "-ec", f'{script}; exec "$@"', "sh"]


FULL = "mount -t tmpfs -o size=8k tmpfs /mnt; dd if=/dev/zero of=/mnt/x bs=1k count=20 2>/dev/null || true"
OTHER_JOB = {
    **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), "7"),
    **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), "gpu07"),
    **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), "1"),
    **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_NTASKS", "SLURM_JOB_CPUS_PER_NODE"), "2"),
}
UCX = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_pml_ucx_tls": "any", "OMPI_MCA_pml_ucx_devices": "any", "UCX_TLS": "rc"}
SITE = (
    "mount -t tmpfs tmpfs /mnt; echo pml=ucx >/mnt/site; prefix=$(dirname $(dirname $(realpath $(which mpirun))));"
    " mount --bind /mnt/site $prefix/etc/openmpi-mca-params.conf"
)
REAL = {
    "variables of a job on another host": ("", OTHER_JOB, "job variables"),
    "a parameter of Open MPI 4": ("", {"OMPI_MCA_btl": "openib,self,vader"}, "inherited settings"),
    "a layer that finds no device": ("", {"OMPI_MCA_pml": "ucx"}, "inherited settings"),
    "UCX without a transport": ("", UCX, "inherited settings"),
    "a parameter of PMIx": ("", {"PMIX_MCA_gds": "nosuch"}, "inherited settings"),
    "variables of a rank": ("", {"PMIX_RANK": "0", "PMIX_NAMESPACE": "x@1"}, "job variables"),
    "little address space": ("ulimit -S -v 200000", {}, "inherited settings"),
    "few open files": ("ulimit -S -n 20", {}, "inherited settings"),
    "an interface that is not there, beside another variable": (
        *("", {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "eth9"}, "inherited settings"),
    ),
    "a layer without its card": ("", {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "psm2"}, "inherited settings"),
    "a component in the file of the site": (SITE, {}, "inherited settings"),
    "a component in a file of the home folder": (
        "mount -t tmpfs tmpfs /mnt; export HOME=/mnt; mkdir /mnt/.openmpi; echo pml=ucx >/mnt/.openmpi/mca-params.conf",
        {},
        "inherited settings",
    ),
    "TMPDIR without exec": (*("mount -t tmpfs -o noexec,size=1g tmpfs /mnt", {"TMPDIR": "/mnt"}, "temporary files"),),
    "TMPDIR is full": (FULL, {"TMPDIR": "/mnt"}, "temporary files"),
    "TMPDIR is read-only": ("mount -t tmpfs -o ro tmpfs /mnt", {"TMPDIR": "/mnt"}, "temporary files"),
    "/dev/shm is small": ("mount -t tmpfs -o size=4m tmpfs /dev/shm", {}, "shared memory"),
    "/dev/shm is read-only": ("mount -t tmpfs -o ro tmpfs /dev/shm", {}, "shared memory"),
    "lo is down": ('exec unshare -n "$@"', {}, "loopback"),
}
"""What makes a state, the variables of the shell, and the finding."""
ONLY_COMPILERS = "TMPDIR without exec"
"""A warning: nothing that volley starts needs to run from there."""
SOON = (
    "variables of a rank",
    "few open files",
    "an interface that is not there, beside another variable",
    "lo is down",
)
"""One of each kind: the others take as long, and are tried before a release."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SOON else pytest.mark.long) for name in REAL]
)
def test_a_real_state_is_found_and_its_remedy_ends_it(name: str, volley: Command) -> None:
    script, variables, check = REAL[name]
    before = namespace(script) if script else []
    found = doctor(volley, before, variables)
    broken = [each.check for each in found.values() if each.status == "broken"]
    assert broken == ([] if name == ONLY_COMPILERS else [check])
    cause = found[check]
    assert cause.status in {"broken", "warning"}
    assert cause.evidence
    assert not set(cause.evidence) <= set("-= ")
    before = [*before, "sh", "-c", f'{cause.remedy.partition("; or ")[0]}; exec "$@"', "sh"]
    if not script:  # MPI failed, and works with the remedy
        assert volley("pingpong", "-t", "host", *FEW, before=before, **variables).code == 0
        return
    again = doctor(volley, before, variables)
    assert [each for each in again.values() if each.status == "broken"] == []
    assert again["MPI, host memory"].status == "good"


def test_a_run_that_fails_names_the_inherited_setting(volley: Command) -> None:
    done = volley("pingpong", "-t", "host", "-s", "8", "--launches", "1", OMPI_MCA_pml="ucx")
    assert done.code == 3
    assert "in this shell: OMPI_MCA_pml=ucx; volley doctor tries without" in done.err.splitlines()[-1]


def doctor(here: Command, before: Sequence[str], variables: dict[str, str]) -> dict[str, DoctorFinding]:
    """The findings on this machine, in a state; their remedies are not for the host of a container."""
    done = here("doctor", "--capture", "-", "--timeout=30", before=before, **BUSY, **variables)
    assert done.code == 0, done.err
    facts = changed(f.decode(done.out.encode(), "facts"), system={"container": None})
    return {each.check: each for each in diagnose(facts).findings}
