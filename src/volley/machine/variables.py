"""The variables of MPI, UCX, CUDA, NCCL and launchers: which are captured, passed on to ranks and named in reports.

volley sets none of them that changes the performance of what it measures.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

_OF_LIBRARIES = (
    *("UCX_", "MPICH_", "MPIR_CVAR_", "FI_", "I_MPI_", "MV2_", "NCCL_", "NVSHMEM_", "CUDA_"),
    *("NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_LIBRARY_PATH"),
)
"""Variables of libraries in the ranks, by the beginning of their names."""
_OF_OPEN_MPI = ("OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_")
_CAPTURED = (
    *(*_OF_OPEN_MPI, *_OF_LIBRARIES, "NVIDIA_DRIVER_CAPABILITIES", "MPI_HOME"),
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE", "SLURM_JOB_NUM_NODES", "SLURM_GPU"),
    *("SLURM_MEM_PER_", "SLURM_CPUS_PER_", "SLURM_TRES_PER_", "SLURM_JOB_GPUS", "SLURM_MPI_TYPE"),
    *("LSB_JOBID", "PBS_JOBID", "FLUX_JOB_ID", "PE_HOSTFILE", "VOLLEY_ENGINE"),
)
"""No other variable is captured.  The engine records those of libraries and launchers
(engine/src/group/job.cpp)."""
SECRET = re.compile(r"(?<!_P)KEY|TOKEN|SECRET|PASS|CRED|AUTH|JWT|URI|initial_wdir", re.IGNORECASE)
"""Variables with these words in their names may hold secrets and are not captured; a partition key (PKEY) is none."""

OF_ONE_JOB = re.compile(
    r"job_?id|step_id|session_dir|tmpdir_base|precondition_transports|num_procs|uuid|pin_map", re.IGNORECASE
)
"""Variables that a launcher sets for each job: they name it, or count its ranks, and configure nothing."""
OF_ONE_LAUNCHER = re.compile(
    r"(OMPI|PRTE|PMIX)_MCA_(PREFIXES|cpu_type|ess|orte_|prte_|pmix|psec|hwloc_base_binding_policy|mpi_oversubscribe"
    r"|shmem_RUNTIME|mca_base_component_show)|MPIR_CVAR_CH3_INTERFACE_HOSTNAME"
    r"|I_MPI_((PIN_)?INFO|HYDRA_|BIND_WIN_|INTERNAL_|RETURN_)"
)
"""Variables that one launcher sets for its ranks, and another one does not: that they are not set says nothing."""

_OF_ONE_NODE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""A batch system sets these on each node to the GPUs that it granted there."""

_MEANINGS = {
    "NCCL_NVLS_ENABLE=0": "NCCL without NVLink SHARP",
    "NCCL_P2P_DISABLE=1": "NCCL without direct access between GPUs",
    "NCCL_SHM_DISABLE=1": "NCCL without shared memory",
    "NVSHMEM_DISABLE_NVLS=1": "NVSHMEM without NVLink SHARP",
    "NVSHMEM_REMOTE_TRANSPORT=none": "NVSHMEM without a network",
    "NVSHMEM_DISABLE_LOCAL_ONLY_PROXY=1": "NVSHMEM without its proxy thread",
}
_CONCERNS = (
    (re.compile(r"NCCL_"), "nccl"),
    (re.compile(r"NVSHMEM_"), "nvshmem"),
    (re.compile(r"UCX_|MPICH_|MPIR_CVAR_|FI_|I_MPI_|MV2_|OMPI_MCA_(pml|btl|mtl|osc|coll|smsc)(_|$)"), "MPI"),
)
"""Variables that may change the performance, and the library whose transports they concern."""
_READ_BY = tuple(
    (re.compile(name), re.compile(mpi))
    for name, mpi in (
        (r"OMPI_MCA_", r"Open MPI|IBM Spectrum"),
        (r"OMPI_MCA_btl_vader_", r"Open MPI v[1-4]\b|IBM Spectrum"),  # "sm" since Open MPI 5
        (r"MPICH_|MPIR_CVAR_", r"(?!Open MPI|IBM Spectrum)"),  # MPICH, and what is made of it
        (r"I_MPI_", r"Intel"),
        (r"MV2_", r"MVAPICH"),
    )
)
"""Variables, and the beginnings of what the MPIs that read them say of themselves (MPI_Get_library_version)."""
_TALK = re.compile(
    r"LOG|DEBUG|VERBOSE|INFO|WARN|COLOR|VERSION|HOME|PROVIDER_PATH|INTERFACE_HOSTNAME"
    "|I_MPI_(ROOT|HYDRA_|BIND_WIN_|INTERNAL_|PIN_MAPPING|RETURN_)"
)
"""Parts of the names of variables that change only what a library prints, or where it is found; and those with which
hydra tells ranks what it has decided."""


OF_DEVICES = re.compile(
    r"UCX_NET_DEVICES|NCCL_(SOCKET_IFNAME|IB_HCA)|FI_TCP_IFACE|\w*_if_include|I_MPI_HYDRA_IFACE|HYDRA_IFACE"
)
"""Variables that name network interfaces and RDMA devices; NCCL takes the beginnings of names."""
_NO_NAME = re.compile(r"^\^|\d\.\d|/")
"""What is left out, and networks by their addresses."""
_PORTS = re.compile(
    r"OMPI_MCA_btl_tcp_port_min_v4|(MPIR_CVAR_CH3|MPICH|MPIEXEC|I_MPI|UCX_TCP)_PORT_RANGE|FI_TCP_PORT_LOW_RANGE"
)
"""Variables that set the TCP ports of an MPI, or the first of them."""


def names_no_device(name: str, value: str, devices: Collection[str]) -> bool:
    """Return whether a variable names network devices, none of which is among these."""
    if not devices or not OF_DEVICES.fullmatch(name) or _NO_NAME.search(value):
        return False
    words = value.replace("=", "").split(",")
    return not any(each.startswith(word.partition(":")[0]) for each in (*devices, "all") for word in words)


_NO = "=(0|no|n|off|false|f|disable)$"
_SINGLE_COPY_OFF = {
    "openmpi 4": r"OMPI_MCA_btl_vader_single_copy_mechanism=(none|emulated)$",
    "openmpi 5": r"OMPI_MCA_smsc=\^(.*,)?cma(,|$)",
    "mpich": rf"MPIR_CVAR_CH4_CMA_ENABLE{_NO}",
    "intel": rf"I_MPI_SHM_CMA{_NO}",
    "UCX": r"UCX_TLS=(\^(.*,)?(cma|sm|shm)(,|$)|(?!\^)(?!(.*,)?(all|sm|shm|cma|knem|xpmem)(,|$)))",
}
"""By the family of an MPI, and UCX: settings with which it does not copy a message from one rank's memory to another's
(Open MPI 4, opal/mca/btl/vader, and 5, opal/mca/smsc; MPICH and Intel MPI as their libraries name them; UCX, where
``sm`` and ``shm`` are all transports of one node)."""


def without_single_copy(environment: Mapping[str, str], libraries: Collection[str]) -> list[str]:
    """Return the variables that tell these libraries, keys of ``_SINGLE_COPY_OFF``, to copy messages on one node twice.

    >>> without_single_copy({"UCX_TLS": "posix,self", "OMPI_MCA_smsc": "^cma"}, {"UCX"})
    ['UCX_TLS']
    """
    patterns = [pattern for library, pattern in _SINGLE_COPY_OFF.items() if library in libraries]
    return [
        name
        for name, value in sorted(environment.items())
        if any(re.match(pattern, f"{name}={value}", re.IGNORECASE) for pattern in patterns)
    ]


_OF_PRRTE = ("plm",)
"""A framework of Open MPI's launcher, which ompi_info does not list since version 5, with the letters of another."""
NEAR = 0.9
"""Names that are so alike (``difflib``) differ in one or two letters."""
NEAR_FRAMEWORK = 0.85
"""Those of a framework, which are short, in one letter too many or too few: ``pmll`` and ``pml``."""
_NAMED = ("OMPI_MCA_", "MPIR_CVAR_", "I_MPI_", "NCCL_")
"""The beginnings of variables whose names an MPI, or NCCL, has in its files."""


def misspelt(environment: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Return variables of an MPI, or of NCCL, that it does not know, each with the one that is nearly spelt so.

    A name of an MPI that is like none has an empty text: a launcher, or another version, may know it.  NCCL's plugins
    have names of their own.

    Args:
        environment: the variables that are set.
        known: the names of all variables that this MPI and this NCCL read.
    """
    import difflib  # noqa: PLC0415  start-up: only doctor needs it

    found: dict[str, str] = {}
    for name in environment:
        begin = next((each for each in _NAMED if name.startswith(each)), None)
        if begin is None or name in known or OF_ONE_LAUNCHER.match(name) or OF_ONE_JOB.search(name):
            continue
        words = [each.removeprefix(begin) for each in known if each.startswith(begin)]
        word = name.removeprefix(begin)
        if begin == "OMPI_MCA_":  # else a parameter of a component that was not built is like that of another
            framework, _, rest = word.partition("_")
            turned = (each for each in words if sorted(each.partition("_")[0]) == sorted(framework))
            if framework not in _OF_PRRTE and (near := [each for each in turned if each.partition("_")[2] == rest]):
                found[name] = begin + near[0]
                continue
            words = [each for each in words if each.partition("_")[0] == framework or "_" not in word + each]
        cutoff = NEAR_FRAMEWORK if begin == "OMPI_MCA_" and "_" not in word else NEAR
        if near := difflib.get_close_matches(word, words, 1, cutoff):
            found[name] = begin + near[0]
        elif begin != "NCCL_" and any(each.startswith(begin) for each in known):
            found[name] = ""
    return found


def port_range(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the first and the last TCP port that an MPI is told to use; ``None`` if it may use any.

    >>> port_range({"OMPI_MCA_btl_tcp_port_min_v4": "20000", "OMPI_MCA_btl_tcp_port_range_v4": "500"})
    (20000, 20499)
    """
    for name, value in environment.items():
        if _PORTS.fullmatch(name) and (numbers := [int(each) for each in re.findall(r"\d{1,5}", value)]):
            last = numbers[-1] if len(numbers) > 1 else int(environment.get("FI_TCP_PORT_HIGH_RANGE", numbers[0]))
            if many := environment.get("OMPI_MCA_btl_tcp_port_range_v4", "") if name.startswith("OMPI") else "":
                last = numbers[0] + int(many) - 1 if many.isdecimal() else last
            return numbers[0], last
    return None


def captured(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(environment.items()):
        if name.startswith(_CAPTURED) and not SECRET.search(name):
            yield name, value


def to_pass_on(environment: Mapping[str, str], *, allocated: bool) -> Iterator[str]:
    """Yield the variables that ranks on other hosts need and that Open MPI's mpirun does not pass on unasked.

    It passes on its own; the others only to daemons that inherit them, which ssh does not start.
    """
    for name in sorted(environment):
        if name.startswith(_OF_LIBRARIES) and not (allocated and name in _OF_ONE_NODE):
            yield name


def tuned(environment: Mapping[str, str], libraries: Collection[str], mpi: str = "") -> list[str]:
    """Return the settings that may change the performance of the transports of these libraries, with their meaning.

    Args:
        environment: the variables that are set.
        libraries: ``MPI``, ``nccl``, ``nvshmem``.
        mpi: what the MPI says of itself; what it does not read is left out.  Empty: it is unknown.

    >>> tuned({"OMPI_MCA_btl": "tcp,self", "MPIR_CVAR_CH4_CMA_ENABLE": "0"}, {"MPI"}, "Open MPI v5.0.11")
    ['OMPI_MCA_btl=tcp,self']
    """
    settings = []
    for name, value in sorted(environment.items()):
        if _TALK.search(name) or not any(pattern.match(name) and of in libraries for pattern, of in _CONCERNS):
            continue
        if mpi and any(pattern.match(name) and not of.match(mpi) for pattern, of in _READ_BY):
            continue
        setting = f"{name}={value}"
        settings.append(f"{_MEANINGS[setting]}: {setting}" if setting in _MEANINGS else setting)
    return settings
