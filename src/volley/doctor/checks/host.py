"""What a process gets from its shell and its host: folders, variables, compilers, and the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from shlex import quote

from msgspec.structs import replace

from volley.doctor.findings import (
    JOBS,
    NO_GPU,
    OF_FILES,
    DoctorFinding,
    broken,
    good,
    not_applicable,
    not_tested,
    require,
    warning,
)
from volley.doctor.remedies import end_of_job, end_of_refusal, install_volley, settings_for
from volley.machine.facts import DriverFacts, Facts
from volley.machine.hardware import OLDEST_DRIVERS
from volley.machine.job_facts import TrialFacts
from volley.machine.place import OF_JOBS, Need, place_of, without_needless
from volley.machine.variables import names_no_device
from volley.text import count, join_few, join_words

_OF_DRIVER = ("GDRCopy", "UCX")
"""What finds no GPU memory without the driver or its library."""
_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")
"""The device nodes that every use of CUDA opens, beside those of its GPUs."""
_OLDEST_CUDA = 12
"""Older compilers have no C++20 (OLDEST_NVCC in build_backend/machine.py)."""
_OF_NCCL = ("NCCL", "NCCL between hosts")
_BETWEEN = ("hosts", "MPI between hosts")
_LOOPBACK = (
    ("unreachable|assign requested", "lo is down", "{sudo}ip link set lo up"),
    ("timed out|refused", "lo is behind a firewall", "{sudo}iptables -I INPUT -i lo -j ACCEPT"),
    ("not permitted", "lo is behind a firewall", "{sudo}iptables -I OUTPUT -o lo -j ACCEPT"),
    ("", "", "ip address show lo; ulimit -n; {sudo}iptables -S"),
)
"""Words of an error of this host's connection to itself, what they say of the interface, and what ends it."""


# ------------------------------------------------------------------------------------------------ shell


def folder(facts: Facts) -> DoctorFinding:
    """Writes 1 MiB to the folder for temporary files and starts a program there."""
    found = require(facts.surroundings, "this shell", "env")
    its = quote(found.folder)
    remedy = place_of(facts).or_in_container(
        "tmp", f"df -h {its}; {{sudo}}chmod 1777 {its}; free space, or mount it rw"
    )
    remedy = f"export TMPDIR={quote(found.other_folder)}" if found.other_folder else remedy
    if found.folder_error:
        said = f"cannot write to {found.folder}, the folder for temporary files: {found.folder_error}"
        evidence = f"1 MiB written to {found.folder}: {found.folder_error}"
        return warning(said, evidence, remedy, JOBS)
    if found.folder_run_error:
        said = f"cannot run programs from {found.folder}, the folder for temporary files"
        return warning(said, f"a script in {found.folder}: {found.folder_run_error}", remedy)
    if found.home_error:
        said = f"cannot write to the home folder: {found.home_error}; records of volley go to another folder"
        return warning(said, f"1 MiB written to ~: {found.home_error}", "df -h ~; quota; remove what is not needed")
    return good(f"{found.folder} is writable, and programs run from there")


def host_name(facts: Facts) -> DoctorFinding:
    """Looks up the addresses of this host's own name."""
    found, job = require(facts.surroundings, "this shell", "env"), facts.mpi_host.value
    if found.host_error is None:
        return good(f"{found.host} resolves to an address")
    if job and job.complete:
        return good(f"{found.host} does not resolve to an address; MPI works without one")
    said = f"the name of this host, {found.host}, does not resolve to an address"
    return warning(said, f"getaddrinfo({found.host}): {found.host_error}", place_of(facts).add_host(found.host), JOBS)


def loopback(facts: Facts) -> DoctorFinding:
    """Connects from this host to itself, at 127.0.0.1."""
    error = require(facts.surroundings, "this shell", "env").loopback_error
    if error is None:
        return good("127.0.0.1 answers")
    why, remedy = next(end for words, *end in _LOOPBACK if re.search(words, error))
    said = f"processes of this host cannot connect to each other: {why or error}"
    return warning(said, f"connect(127.0.0.1): {error}", place_of(facts).admin(remedy), JOBS)


def job(facts: Facts) -> DoctorFinding:
    """Compares the hosts of a batch job, as its variables name them, with this host; repeats a failed job without."""
    found = require(facts.surroundings, "this shell", "env")
    place, names = place_of(facts), join_few(found.job_hosts)
    prefixes = place.prefixes
    on = f" on {names}" if names else ""
    elsewhere = "" if found.in_job else f"; or start volley{on}, in that job"
    follows = (*JOBS, "MPI library", "binding", *_BETWEEN)
    for trial in _ended(facts):
        evidence = f"{join_few(trial.settings, 3)}; {_why(facts)}"
        if facts.mpi_host.skipped is not None:
            said = f"this shell has variables of a rank ({join_few(trial.settings, 2)}), but no launcher started it"
            return broken(said, evidence, trial.change, follows)
        if not any(each.startswith(prefixes) for each in trial.settings) or (found.in_job and len(trial.settings) == 1):
            continue
        if facts.mpi_host.value and facts.mpi_host.value.complete and not facts.fails_on_gpus:
            said = f"the job{on} has fewer CPUs than two ranks need: they take turns"
            return warning(said, evidence, place.more("cpuset", "ask for two tasks"), follows)
        where = "" if found.in_job else f"; this host is {found.host}"
        said = f"this shell has {'* and '.join(prefixes)}* variables of a job{on} that the launcher cannot reach{where}"
        # Without its variables, a job on this host would take what the batch system granted to others.
        remedy = place.launch_here() if found.in_job else f"{without_needless(prefixes)}{elsewhere}"
        if found.in_job and found.step_error:
            remedy = end_of_refusal(found.step_error, found.host, facts)[1]
        return broken(said, evidence, remedy, follows)
    if not found.batch_system or (found.in_job and not found.step_error):
        return good(f"{found.batch_system}: {names or 'unknown hosts'}" if found.batch_system else "none")
    names = names or "unknown hosts"
    if not found.in_job:
        said = f"this shell has the variables of a job on {names}, but this host is {found.host}"
        return warning(said, f"{found.batch_system}: {names}", f"{without_needless(prefixes)}{elsewhere}")
    why, remedy = end_of_refusal(found.step_error, found.host, facts)
    said, evidence = "srun starts no process in this job", f"srun --ntasks=1 true: {why}"
    if found.batch_system != "slurm":
        said, evidence = "the hosts of this job are unknown: volley starts ranks on this host alone", found.step_error
        remedy = "ask the site to make the file readable; --hosts names hosts without it"
    return warning(said, evidence, remedy, _BETWEEN)


def settings(facts: Facts) -> DoctorFinding:
    """Repeats a job that failed, or was slow, without the variables of MPI, UCX and libfabric that the shell has."""
    found = require(facts.surroundings, "the environment", "env")
    for trial in _ended(facts):
        of_job = [each for each in trial.settings if each.startswith(OF_JOBS)]
        if facts.mpi_host.skipped is not None or (of_job and (len(trial.settings) > 1 or not found.in_job)):
            continue
        it = "it" if len(trial.settings) == 1 else "them"
        where = "" if trial.change.startswith(("mv ", "export ")) else " in this shell"  # else it is in a file
        if facts.mpi_host.value and facts.mpi_host.value.sends and not facts.fails_on_gpus:
            said = f"{join_words(trial.settings)}: without {it}, MPI sends much faster"
            return warning(said, _why(facts), trial.change, ("MPI, host memory",))
        what = "MPI on GPU memory" if facts.fails_on_gpus else "MPI"
        said = f"{join_words(trial.settings)}{where}: {what} fails with {it} and works without {it}"
        more = OF_FILES if "ulimit -f" in said else ()
        end = end_of_job(facts.mpi_host.value, facts) if facts.mpi_host.value and "_GPU_SUPPORT" in said else ""
        remedy = f"{end}; without GPU memory, {trial.change} is enough" if end else trial.change
        return broken(said, "; ".join([_why(facts), *_failed_otherwise(facts)]), remedy, (*JOBS, *more))
    unread = [*_unread(facts, found.devices)]
    unclear = "" if facts.trials.value else "; ".join(_not_judged(facts, " ".join(each.said for each in unread)))
    not_judged = f"not judged: {unclear}" if unclear else ""
    if unread:
        follows = dict.fromkeys(check for each in unread for check in each.explains)
        also = (*(f"{each.said}; {each.remedy}" for each in unread[1:]), not_judged)
        return replace(unread[0], explains=tuple(follows), also=tuple(filter(None, also)))
    if facts.trials.value:
        return good("none of them causes the failure")
    if not_judged:
        return not_tested(not_judged)
    return good("MPI works with them")


def _not_judged(facts: Facts, known: str) -> Iterator[str]:
    """Yield the settings of which no job says anything, nor what is ``known``, and why: they may be misspelt."""
    job, hosts = facts.mpi_host.value, facts.hosts.value
    between = hosts.job if hosts else None
    used = {
        "UCX": job and (job.protocols or job.unused),
        "NCCL": facts.nccl.value,
        "FI": between and between.complete and facts.mpi_family != "openmpi",  # ranks of one host do without it
    }
    named = facts.stack.value.misspelt if facts.stack.value else {}
    settings = [each for each in settings_for(facts, "MPI", "nccl") if each not in known]
    for begin in (each for each, is_used in used.items() if not is_used):
        if those := [each for each in settings if each.startswith(f"{begin}_")]:
            yield f"{join_few(those)}, because {'libfabric' if begin == 'FI' else begin} was not used"
    if unnamed := [each for each, near in named.items() if not near and each in facts.environment]:
        yield f"{join_few(unnamed)}, because this MPI names no such variable"


_PARAMETER_FILES = "~/.openmpi/mca-params.conf, or openmpi-mca-params.conf of the site"


def _unread(facts: Facts, devices: Sequence[str]) -> Iterator[DoctorFinding]:
    """Yield variables that nothing can use: of a device that is not here, or misspelt."""
    for name, value in facts.environment.items():
        if names_no_device(name, value, devices):
            said = f"{name}={value} names no device of this host: it has {join_few(devices)}"
            follows = _OF_NCCL if name.startswith("NCCL") else JOBS
            yield warning(
                said, f"ls /sys/class/net /sys/class/infiniband: {join_few(devices)}", f"unset {name}", follows
            )
    for name, near in (facts.stack.value.misspelt if facts.stack.value else {}).items():
        known, library, tried = "variable", "MPI", "the names in its library"
        if name.startswith("OMPI_MCA_"):
            known, library, tried = "parameter", "Open MPI", "ompi_info --parsable --all"
        elif name.startswith("NCCL_"):
            library = "NCCL"
        remedy = f'export {near}="${name}"; unset {name}'
        if name not in facts.environment:
            wrong, right = (quote(each.removeprefix("OMPI_MCA_")) for each in (name, near))
            remedy = f"write {right} for {wrong} in {_PARAMETER_FILES}"
        if near:
            yield warning(f"{name} is no {known} of this {library}; {near} is one", tried, remedy)
    job = facts.mpi_host.value
    if job and job.unused:
        said = f"UCX did not use {join_few(job.unused)}: misspelt, or of a transport that this host does not have"
        yield warning(said, f"{job.command_line}: unused env variables", f"unset {' '.join(job.unused)}")
    for each in job.invalid if job else ():  # Open MPI names the parameter by its first name
        value = each.partition("=")[2]
        ours = {name: its for name, its in facts.environment.items() if name.startswith(("OMPI_MCA_", "PRTE_MCA_"))}
        names = [name for name, its in ours.items() if its == value]
        said = f"{join_words(f'{name}={value}' for name in names) or each}: Open MPI knows no such value"
        remedy = f"unset {' '.join(names)}" if names else f"correct {each} in {_PARAMETER_FILES}"
        yield warning(said, f"{facts.mpi_host.call}: an invalid value was supplied for {each}", remedy)


def _ended(facts: Facts) -> list[TrialFacts]:
    """Return the trials that ended a problem by taking variables away."""
    return [trial for trial in facts.ended_by if trial.settings]


def _failed_otherwise(facts: Facts) -> Iterator[str]:
    """Yield the trials that did not end the problem and had another reason: the words of the job may blame these."""
    job = (facts.mpi_device if facts.fails_on_gpus else facts.mpi_host).value
    for trial in facts.trials.value or ():
        if trial.settings and not trial.works and job and trial.reason not in ("", job.why):
            yield f"{trial.change} alone: {trial.reason}"


def _why(facts: Facts) -> str:
    probe = facts.mpi_device if facts.fails_on_gpus else facts.mpi_host
    if probe.skipped is not None:  # the variables of a launcher, which does not start ranks
        job = facts.launcher.value
        said = job.why if job and not job.complete else facts.launcher.error or "a job of one rank"
        return f"{facts.launcher.call}: {said}"
    if probe.value is None:
        return f"{probe.call}: {probe.error}"
    refused = [each.reason for each in probe.value.transports if each.reason and not each.available]
    if probe.value.complete and not refused:
        return f"{probe.call}: slow"
    return f"{probe.value.command_line}: {refused[0] if probe.value.complete else probe.value.why}"


# ------------------------------------------------------------------------------------------------ driver


def driver(facts: Facts) -> DoctorFinding:
    """Reads /proc/driver/nvidia/version, opens every /dev/nvidia*, loads libcuda.so.1."""
    place = place_of(facts)
    found, on_bus = require(facts.driver, "the driver", place.install_driver()), len(facts.gpus_on_bus)
    if found.version is not None:
        return _loaded_driver(facts, found)
    if facts.cuda_devices:
        return good("CUDA works, although the kernel shows no NVIDIA driver")
    if place.wsl and found.library is None and facts.cuda.value:
        said = "CUDA's library is there, and WSL2 shows it no GPU"
        return broken(said, f"{facts.cuda.value.failed_call}: {facts.cuda.value.status_name}", place.install_driver())
    if not on_bus:
        return not_applicable(NO_GPU)
    other = join_words(sorted({gpu.driver for gpu in facts.gpus_on_bus if gpu.driver} - {"nvidia"}))
    held = f": the driver {other} holds the GPU" if other else ""
    said = f"{count(on_bus, 'NVIDIA GPU')} on the PCI bus but no NVIDIA driver{held}"
    evidence = f"lspci -d 10de: {join_words(gpu.device_id for gpu in facts.gpus_on_bus)}; {facts.driver.call}: none"
    remedy = place.install_driver()
    if "vfio" in other:
        look = "lspci -nnk -d 10de:; grep -r vfio /etc/modprobe.d /proc/cmdline: take the GPU out there"
        remedy = place.reboot(look)
    elif other and found.library is None:
        file, disk = "/etc/modprobe.d/nouveau.conf", "update-initramfs -u (or dracut -f)"
        remedy = place.reboot(f"echo blacklist {quote(other)} | {{sudo}}tee {file}; {{sudo}}{disk}")
    elif found.library is None and not place.container:  # e.g. after an update of the kernel
        said = "the driver's library is installed, but its kernel module is not loaded"
        known = place.distribution
        load = place.admin(f"{known.rebuild_modules(headers=found.headers)}; {{sudo}}modprobe nvidia")
        enroll = place.reboot(
            f"{{sudo}}mokutil --import {known.package('/var/lib/dkms/mok.pub')}, confirmed at the start"
        )
        remedy = f"{load}; if Secure Boot rejects its key: {enroll}"
        if found.unsigned:
            said = "the kernel loads signed modules only (Secure Boot), and refuses that of the driver"
            evidence, remedy = f"{evidence}; {found.unsigned}", enroll
    return broken(said, evidence, remedy, _OF_DRIVER)


_REFUSED = "Operation not permitted"
"""EPERM: a control group of devices refuses, whoever asks; the mode of a node refuses with EACCES."""


def _loaded_driver(facts: Facts, found: DriverFacts) -> DoctorFinding:
    call, place = facts.driver.call, place_of(facts)
    shut = [node for node, said in found.nodes.items() if said != "ok"]
    if shut and (set(_CONTROL) & set(shut) or not facts.open_gpus):
        nodes = join_words(f"{node} ({found.nodes[node]})" for node in shut)
        refused = [node for node in shut if found.nodes[node] == _REFUSED]
        said = f"the driver is loaded, but this user cannot open {nodes}"
        remedy = place.admin(f"{{sudo}}chmod 666 {' '.join(map(quote, shut))}")
        remedy = place.more("gpus", remedy) if place.batch or refused else remedy
        if refused and place.container and not place.batch:
            said = f"this container has lost its GPUs: its control group of devices refuses {nodes}"
            remedy = f"{place.start_with('gpus')}; it lost them when services of the host were loaded again"
            if place.container in ("docker", "podman"):
                remedy += ", which --device=/dev/nvidiactl --device=/dev/nvidia-uvm --device=/dev/nvidia0 … prevents"
        elif refused and not place.batch:
            said = f"the control group of this session refuses {nodes}"
            remedy = place.admin("log in again; {sudo}systemctl show -p DeviceAllow user.slice shows what is refused")
        return broken(said, f"{call}: {nodes}", remedy, _OF_DRIVER)
    if "/dev/nvidia-uvm" not in found.nodes and not facts.cuda_devices:
        said = "the driver is loaded, but /dev/nvidia-uvm is missing: CUDA does not start without it"
        evidence = f"{call}: {f'only {join_words(found.nodes)}' if found.nodes else 'no /dev/nvidia*'}"
        lacks: Need = "uvm" if found.nodes else "gpus"
        return broken(said, evidence, place.or_in_container(lacks, "{sudo}nvidia-modprobe -u -c=0"), _OF_DRIVER)
    if found.library:
        remedy = place.start_with("driver") if place.container else place.install_driver()
        said = "the driver is loaded, but its library is missing"
        return broken(said, f"{call}: {found.library}", remedy, _OF_DRIVER)
    if not facts.cuda_devices and not place.drives(version := found.version or ""):
        kinds = ("proprietary", "open") if "Open" in version else ("open", "proprietary")
        said = "these GPUs need the {} kernel modules of the driver, and the {} are loaded".format(*kinds)
        return broken(said, f"{call}: {version}; {facts.bus.call}", place.install_driver())
    return good(found.version or "")


def driver_age(facts: Facts) -> DoctorFinding:
    """Compares cuDriverGetVersion with the CUDA that the engine was built with."""
    place, cuda = place_of(facts), facts.cuda.value
    if cuda is None or cuda.driver_version == 0:
        return not_tested(facts.cuda.skipped or facts.cuda.error or "the driver does not report its version")
    major = cuda.driver_version // 1000
    said = f"supports CUDA {major}.{cuda.driver_version % 1000 // 10}"
    if not (facts.stack.value and place.cuda):
        return not_tested(f"the driver {said}; the engine was built without CUDA")
    built_with = f"the engine was built with {facts.stack.value.cuda_built}"
    if major >= place.cuda:
        return good(f"the driver {said}; {built_with}")
    remedy = place.install_driver()
    if major >= _OLDEST_CUDA:
        again = install_volley(facts, variables="CUDACXX=/path/to/cuda-12/bin/nvcc")
        remedy += f"; or, without root, reinstall volley with the CUDA {major} toolkit: {again}"
    which = f", which needs driver {OLDEST_DRIVERS[place.cuda]} or newer" if place.cuda in OLDEST_DRIVERS else ""
    evidence = f"cuDriverGetVersion: {cuda.driver_version}"
    return broken(f"the driver is too old: it {said}, {built_with}{which}", evidence, remedy)
