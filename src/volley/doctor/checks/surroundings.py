"""What a process gets from its shell and its host before MPI starts: causes that look like a fault of MPI."""

from __future__ import annotations

from volley.doctor.findings import Finding, broken, found_by, good, warning
from volley.doctor.remedies import sudo, system
from volley.machine.facts import Facts, SurroundingsFacts, TrialFacts
from volley.text import join_few, join_words

_COMPILERS = ("compiler", "nvcc")
_JOBS = ("engine", "MPI, host memory", "MPI, GPU memory", "launcher", "peer copies", "CUDA IPC")


def folder(facts: Facts) -> Finding:
    """Writes 1 MiB to the folder for temporary files and starts a program there."""
    found = _surroundings(facts)
    remedy = f"export TMPDIR={found.other_folder}" if found.other_folder else f"free space in {found.folder}: df -h"
    if found.folder_error:
        said = f"{found.folder}, the folder for temporary files, cannot be written: {found.folder_error}"
        evidence = f"1 MiB written to {found.folder}: {found.folder_error}"
        return warning(said, evidence, remedy, (*_COMPILERS, *_JOBS, "UCX transfer"))
    if found.folder_run_error:
        said = f"no program can be started in {found.folder}, the folder for temporary files"
        return warning(said, f"a script in {found.folder}: {found.folder_run_error}", remedy, _COMPILERS)
    return good(f"{found.folder} can be written, and programs start there")


def host_name(facts: Facts) -> Finding:
    """Looks up the addresses of this host's own name."""
    found, job = _surroundings(facts), facts.mpi_host.value
    if found.host_error is None:
        return good(f"{found.host} has an address")
    if job and job.complete:
        return good(f"{found.host} has no address; MPI works without one")
    said = f"the name of this host, {found.host}, has no address"
    remedy = f"echo '127.0.1.1 {found.host}' | {sudo(facts)}tee -a /etc/hosts"
    if system(facts).container:
        remedy = f"docker run --add-host={found.host}:127.0.1.1"
    return warning(said, f"getaddrinfo({found.host}): {found.host_error}", remedy, _JOBS)


def job(facts: Facts) -> Finding:
    """Compares the hosts of a batch job, as its variables name them, with this host; repeats a failed job without."""
    found = _surroundings(facts)
    if not found.batch_system:
        return good("none")
    names = join_few(found.job_hosts) or "hosts that they do not name"
    for trial in _ended(facts):
        variables = [setting.partition("=")[0] for setting in trial.settings]
        if any(name.startswith(_PREFIXES.get(found.batch_system, "?")) for name in variables):
            where = "" if found.in_job else f"; this host is {found.host}"
            prefix = _PREFIXES[found.batch_system]
            return broken(
                f"the {prefix}* variables of this shell are of a job that the launcher cannot reach, on {names}{where}",
                f"{join_few(trial.settings, 3)}; {_why(facts)}",
                f"unset $(env | grep -o '^{prefix}[A-Za-z0-9_]*'); or start volley on {names}, in that job",
                (*_JOBS, "hosts", "MPI between hosts"),
            )
    if not found.in_job:
        return warning(
            f"this shell has the variables of a job on {names}, and this host is {found.host}",
            f"{found.batch_system}: {names}",
            "start volley on a host of that job",
        )
    return good(f"{found.batch_system}: {names}")


_PREFIXES = {"slurm": "SLURM_", "lsf": "LSB_", "pbs": "PBS_"}


def settings(facts: Facts) -> Finding:
    """Repeats a job that failed, or was slow, without the variables of MPI, UCX and libfabric that the shell has."""
    found_by(facts.surroundings, "the environment", "env")
    for trial in _ended(facts):
        names = [setting.partition("=")[0] for setting in trial.settings]
        if any(name.startswith(tuple(_PREFIXES.values())) for name in names):
            continue
        ends = "without it" if len(names) == 1 else "without them"
        if facts.mpi_host.value and facts.mpi_host.value.complete and not facts.fails_on_gpus:
            said = f"{join_words(trial.settings)}: {ends}, MPI sends much faster"
            return warning(said, _why(facts), f"unset {' '.join(names)}", ("MPI, host memory",))
        what = "MPI on GPU memory" if facts.fails_on_gpus else "MPI"
        said = f"{join_words(trial.settings)} in this shell: {what} fails with it and works {ends}"
        return broken(said, _why(facts), f"unset {' '.join(names)}", _JOBS)
    if facts.trials.value:
        return good("none of them causes the failure")
    return good("MPI works with them")


def _surroundings(facts: Facts) -> SurroundingsFacts:
    return found_by(facts.surroundings, "this shell", "env")


def _ended(facts: Facts) -> list[TrialFacts]:
    """Return the trials that ended a problem by taking variables away."""
    return [trial for trial in facts.trials.value or [] if trial.works and trial.settings]


def _why(facts: Facts) -> str:
    probe = facts.mpi_device if facts.fails_on_gpus else facts.mpi_host
    if probe.value is None:
        return f"{probe.call}: {probe.error}"
    refused = [each.reason for each in probe.value.transports if each.reason and not each.available]
    if probe.value.complete and not refused:
        return f"{probe.call}: slow"
    return f"{probe.value.command_line}: {refused[0] if probe.value.complete else probe.value.why}"
