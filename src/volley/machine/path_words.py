"""What MPI, UCX, libfabric and NCCL say of the path of messages in a launch that asks them to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from volley.machine import nccl_words, ucx_protocols
from volley.machine.paths import BY_PEER_ACCESS, PEER_ACCESS, PathCounts, Said
from volley.text import join_words

VARIABLES = {
    **ucx_protocols.VARIABLES,
    "OMPI_MCA_pml_base_verbose": "10",
    "OMPI_MCA_btl_base_verbose": "5",
    "OMPI_MCA_bml_base_verbose": "5",
    "OMPI_MCA_smsc_base_verbose": "10",
    "OMPI_MCA_opal_common_ofi_verbose": "1",
    "I_MPI_DEBUG": "4",
    "MPIR_CVAR_DEBUG_SUMMARY": "1",
    **nccl_words.VARIABLES,
}
"""With these, libraries say what they choose; they choose nothing else because of them."""

_PML = re.compile(r"\bselected (\w+) best priority")
_BTL = re.compile(r"mca: bml: Using (\w+) btl for send")
_SINGLE_COPY = re.compile(r"selected shared-memory single-copy component: (\w+)")
_REASONS = {
    "init returned failure for component ucx": "Open MPI found no device that its UCX can use",
    "NET/IB : No device found": "NCCL found no RDMA device",
    "Failed to open libibverbs": "NCCL cannot load libibverbs",
}
"""Words of Open MPI (ompi/mca/pml/base/pml_base_select.c) and NCCL (net_ib, ibvwrap), and what they mean."""
_OFI = re.compile(r"mtl:ofi:prov: (\S+)|(?:libfabric )?provider: (\S+)")


def said_of(counts: PathCounts, lines: Sequence[str], mpi: str) -> Said:
    """Return what the library of a transport said of messages of one size.

    Args:
        counts: the messages.
        lines: all text of the launch.
        mpi: the first line of MPI_Get_library_version.
    """
    if counts.transport in BY_PEER_ACCESS:
        return Said("CUDA", PEER_ACCESS)
    nccl = counts.transport.startswith("nccl")
    reasons = (each for words, each in _REASONS.items() for line in lines if words in line)
    reason = next((each for each in reasons if each.startswith("NCCL") == nccl), "")
    if nccl:
        said = nccl_words.parse(lines)
        return Said(f"NCCL {said.version}".strip() if said.channels else "", join_words(said.channels), reason)
    if counts.transport in ("host", "aware"):  # of one-sided calls libraries do not say it
        return Said(*_said_by_mpi(counts, lines, mpi), reason)
    return Said()


def _said_by_mpi(counts: PathCounts, lines: Sequence[str], mpi: str) -> tuple[str, str]:
    name = next((each for each in ("Open MPI", "MPICH", "MPI") if each in mpi), "MPI")
    name = "Intel MPI" if mpi.startswith("Intel") else name
    memory = "cuda" if counts.transport.startswith("aware") else "host"
    pml = next((found[1] for line in lines if (found := _PML.search(line))), "")
    provider = next((found[1] or found[2] for line in lines if (found := _OFI.search(line))), "")
    if pml == "ob1":
        btls = dict.fromkeys(found[1] for line in lines if (found := _BTL.search(line)))
        used = [each for each in btls if each != "self"]
        copies = [found[1] for line in lines if (found := _SINGLE_COPY.search(line))] if "sm" in used else []
        return "Open MPI ob1", " and ".join([*used, *(f"{each} for large messages" for each in copies[:1])])
    if provider:
        return f"{name} with libfabric", provider
    if not counts.apart and not pml and memory == "host":
        return name, "its own shared memory"
    calls = "(fast-completion)" if pml == "ucx" else ""  # Open MPI, ompi/mca/pml/ucx/pml_ucx.c
    protocol = ucx_protocols.sent_by(lines, memory, counts.size_bytes, calls, apart=counts.apart)
    return ("UCX" if protocol else f"Open MPI {pml}" if pml else ""), protocol
