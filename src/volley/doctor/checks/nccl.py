"""NCCL: what a job of it goes through on one host, and between two hosts."""

from __future__ import annotations

import re

from volley.doctor.findings import (
    DoctorFinding,
    good,
    job_failed,
    not_applicable,
    not_tested,
    peer_table,
    require,
    warning,
)
from volley.doctor.remedies import SEND, end_of_job, settings_for
from volley.machine.facts import Facts
from volley.machine.job_facts import DEVICE_SIZES, NcclFacts
from volley.machine.place import place_of
from volley.text import join_words

_NOT_DIRECT = re.compile(r"NCCL_(P2P|SHM|CUMEM)_|NCCL_NET$")
"""Variables that keep NCCL from the memory of a peer GPU, or from shared memory."""


def alone(facts: Facts) -> DoctorFinding:
    """Sends by NCCL between two GPUs; NCCL says its version, its plugin and what each channel goes through."""
    if facts.nccl.skipped is not None:
        return (
            not_applicable(facts.nccl.skipped) if "two GPUs" in facts.nccl.skipped else not_tested(facts.nccl.skipped)
        )
    found = require(facts.nccl, "NCCL", f"NCCL_DEBUG=INFO {SEND} --transport nccl")
    if ended := _failed(found, facts):
        return ended
    reaches = bool(facts.cuda.value and facts.cuda.value.peers) and all(map(all, peer_table(facts)))
    way, nearer = ("host memory", "the GPUs have peer access") if reaches else ("a network", "both are on this host")
    farther = [each for each in found.channels if not each.startswith("P2P" if reaches else ("P2P", "SHM"))]
    if farther:
        said = f"NCCL goes through {way} ({join_words(farther)}), although {nearer}"
        unset = place_of(facts).unset(name for name in facts.environment if _NOT_DIRECT.match(name))
        return warning(said, _words(found), unset or "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH shows why")
    return good(_words(found))


def _failed(found: NcclFacts, facts: Facts) -> DoctorFinding | None:
    job = found.job
    if job is None:
        return not_tested("no job of NCCL was started")
    refused = [each.reason for each in job.transports if not each.available]
    if refused:
        remedy = "pip install nvidia-nccl-cu13 (or -cu12), or NCCL_HOME=/path/to/nccl and install volley again"
        return warning(f"NCCL cannot be used: {refused[0]}", f"{job.command_line}: {refused[0]}", remedy)
    if not job.complete or not job.delivered("nccl"):
        unset = place_of(facts).unset(settings_for(facts, "nccl"))
        newer = f"try a newer NCCL than {found.version or 'this one'}: pip install -U nvidia-nccl-cu13 (or -cu12)"
        look = f"; NCCL_DEBUG=INFO {SEND} --transport nccl shows why"
        known = end_of_job(job, facts, look=not unset) or f"{unset or newer}{look}"
        return job_failed(job, "NCCL does not work", known, DEVICE_SIZES[-1])
    return None


def _words(found: NcclFacts) -> str:
    plugin = f", plugin {found.plugin}" if found.plugin else ""
    networks = f"; networks {join_words(found.networks)}" if found.networks else ""
    return f"NCCL {found.version or '(version unknown)'}{plugin}, through {join_words(found.channels) or '?'}{networks}"


def between(facts: Facts) -> DoctorFinding:
    """Sends by NCCL between GPUs of two hosts; its channels say whether they use RDMA and GPUDirect."""
    found = facts.hosts.value.nccl if facts.hosts.value else None
    if found is None:
        return not_tested("no job of NCCL was started between the hosts")
    if ended := _failed(found, facts):
        return ended
    rdma = facts.rdma_devices
    over = [each for each in found.channels if each.startswith("NET")]
    choose = ("NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_HCA", "NCCL_NET_GDR_LEVEL")
    unset = place_of(facts).unset(choose)
    if rdma and over and all("Socket" in each for each in over):
        said = f"NCCL sends over sockets ({join_words(over)}), although there is {join_words(rdma)}"
        look = "ibstat; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET shows why"
        if all(each.startswith("rdmap") for each in rdma):
            look = "install the plugin aws-ofi-nccl, without which NCCL does not use EFA"
        return warning(said, _words(found), unset or look)
    if rdma and over and not any("GDR" in each for each in over):
        said = f"NCCL uses RDMA without GPUDirect ({join_words(over)}): GPU memory is copied through the host"
        module = "" if facts.cards_read_gpus else place_of(facts).admin("{sudo}modprobe nvidia_peermem")
        remedy = unset or module or f"NCCL_NET_GDR_LEVEL=SYS {SEND} --transport nccl, with these hosts, shows more"
        return warning(said, _words(found), remedy)
    return good(_words(found))
