"""What doctor sets, and tells people to set, for each MPI: one table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_interface

from volley.machine.job_facts import HostFacts
from volley.machine.paths import ONLY_HERE

Changes = tuple[dict[str, str], ...]
"""Variables that are set together, one job after another."""


@dataclass(frozen=True, kw_only=True)
class MpiSettings:
    talk: str = ""
    """What makes it say what it tries."""
    bind: str = "srun --cpu-bind=cores --cpus-per-task=1"
    """What makes its launcher bind ranks."""
    around: Changes = ()
    """What avoids a network, or shared memory."""
    on_gpus: Changes = ()
    """What makes it send GPU memory."""
    shared_memory: Mapping[str, Changes] = field(default_factory=dict)
    """By major version: what fails, and says why, where shared memory cannot be used."""
    interfaces: tuple[str, ...] = ()
    """Variables that leave interfaces out (Open MPI), or name the one that is taken (the others)."""
    of_others: re.Pattern[str] = re.compile(r"$")
    """Variables that it does not read."""


_OB1 = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_mtl": "^ofi"}
_OF_OPEN_MPI = re.compile(r"(OMPI|OPAL|PRTE)_")
_SETTINGS = {
    "openmpi": MpiSettings(
        talk="OMPI_MCA_pml_base_verbose=100 OMPI_MCA_btl_base_verbose=100",
        bind="mpirun --bind-to core",
        around=({**_OB1, "OMPI_MCA_btl": "^ofi,openib,uct"}, {**_OB1, "OMPI_MCA_btl": "self,tcp"}),
        on_gpus=({"OMPI_MCA_pml": "ucx"},),
        shared_memory={
            "4": ({**_OB1, "OMPI_MCA_btl": "self,vader"},),
            "5": ({**_OB1, "OMPI_MCA_btl": "self,sm"},),
        },
        interfaces=("OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_exclude"),
        of_others=re.compile(r"MPICH|MPIEXEC|MPIR_|HYDRA|I_MPI"),
    ),
    "mpich": MpiSettings(
        talk="HYDRA_DEBUG=1 UCX_LOG_LEVEL=info FI_LOG_LEVEL=info",
        bind="mpiexec -bind-to core",
        around=({"UCX_TLS": "self,tcp"}, {"FI_PROVIDER": "tcp"}, {"MPIR_CVAR_NOLOCAL": "1"}),
        on_gpus=({"MPICH_GPU_SUPPORT_ENABLED": "1"}, {"MV2_USE_CUDA": "1"}),  # HPE Cray's, MVAPICH2
        interfaces=("FI_TCP_IFACE", "UCX_NET_DEVICES", "HYDRA_IFACE"),
        of_others=_OF_OPEN_MPI,
    ),
    "intel": MpiSettings(
        talk="I_MPI_DEBUG=10 I_MPI_HYDRA_DEBUG=1",
        bind="I_MPI_PIN_DOMAIN=core mpiexec",
        around=({"I_MPI_FABRICS": "ofi"}, {"FI_PROVIDER": "tcp"}),
        on_gpus=({"I_MPI_OFFLOAD": "1"},),
        interfaces=("FI_TCP_IFACE", "I_MPI_HYDRA_IFACE"),
        of_others=_OF_OPEN_MPI,
    ),
    "nccl": MpiSettings(interfaces=("NCCL_SOCKET_IFNAME",)),
    "ucx": MpiSettings(interfaces=("UCX_NET_DEVICES",)),
}


def settings_of(family: str) -> MpiSettings:
    """Return those of an MPI as ``Facts.mpi_family`` names it; of none, if it is unknown."""
    return _SETTINGS.get(family, MpiSettings())


def without_interfaces(
    family: str, hosts: Sequence[HostFacts], said: Sequence[str], *, choose: bool = False
) -> dict[str, str]:
    """Return the variables that keep an MPI from interfaces that lead to no other host; nothing where there are none,
    or, to ``choose``, those that name the first one that leads to another host.

    They are those of containers and virtual machines, those at no address of which another host arrived, and all but
    the first one of a network: another card than that which was asked may answer, or none.  ``said`` is the text of the
    failed job: where UCX below the MPI says why, the variables are UCX's.
    """
    family = "ucx" if re.search("UCX +ERROR", " ".join(said)) else family
    answers = {target.rpartition(" ")[2]: answer for host in hosts for target, answer in host.reached.items()}
    known = {(name, answers.get(each.partition("/")[0])) for host in hosts for name, each in host.interfaces.items()}
    lost = {name for name, answer in known if answer not in (None, "ok") and (name, "ok") not in known}
    away = (lost | {name for name, _ in known if name.startswith(ONLY_HERE)}) - {"lo"}
    for host in hosts:
        networks = {name: _network(each) for name, each in host.interfaces.items() if name not in away}
        away |= {name for name, its in networks.items() if [*networks.values()].index(its) < [*networks].index(name)}
    others = [name for host in hosts[:1] for name in host.interfaces if name not in {"lo", *away}]
    if not others or not (away or choose):
        return {}
    variables = settings_of(family).interfaces
    if family != "openmpi":
        return dict.fromkeys(variables, others[0])
    if away:
        return dict.fromkeys(variables, ",".join(["127.0.0.0/8", *sorted(away)]))
    return {name.replace("exclude", "include"): _network(hosts[0].interfaces[others[0]]) for name in variables}


def _network(address: str) -> str:
    with suppress(ValueError):  # facts may come from anybody
        return str(ip_interface(address).network)
    return address
