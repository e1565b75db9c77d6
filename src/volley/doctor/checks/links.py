"""The ways between GPUs: peer access, NVLink, PCIe, IOMMU and ACS, and whether the bytes arrive."""

from __future__ import annotations

from volley.doctor.checks.common import NO_GPU, ONE_GPU, container, has_gpu, is_virtual, last_words, without_peers
from volley.doctor.facts import Bus, Facts, LoadedLink, Nvml, PairJob
from volley.doctor.findings import Verdict, broken, good, lost, not_applicable, not_tested, warning
from volley.doctor.remedies import boot_with, sudo, system_of
from volley.text import count, several

_REDIRECT = 0x04 | 0x08
"""ACS control: P2P Request Redirect and P2P Completion Redirect (PCI Express Base Specification 7.7.12.3)."""


def peer_access(facts: Facts) -> Verdict:
    """Read the table of peer access."""
    if alone := without_peers(facts):
        return alone
    table = facts.cuda.value.peers if facts.cuda.value else []
    reach = [(one, other) for one, row in enumerate(table) for other, yes in enumerate(row) if yes and one < other]
    pairs = len(table) * (len(table) - 1) // 2
    if len(reach) == pairs:
        return good(f"each of {len(table)} GPUs reaches every other")
    evidence = f"cuDeviceCanAccessPeer: {len(reach)} of {pairs} pairs{_why_not(facts.nvml.value)}"
    if not reach:
        return warning(
            "no GPU reaches another: every message goes through the host's memory", evidence, "nvidia-smi topo -p2p r"
        )
    shown = several([f"{one}–{other}" for one, other in reach])
    first = ",".join(map(str, reach[0]))
    return warning(
        f"only {shown} reach each other; all other pairs go through the host's memory",
        evidence,
        f"put ranks that talk most on such a pair, as volley pingpong --gpus {first}; nvidia-smi topo -p2p r says why",
    )


def _why_not(nvml: Nvml | None) -> str:
    """Return what NVML calls the pairs without."""
    words = {word for row in (nvml.p2p if nvml else []) for word in row} - {"ok"}
    return f"; NVML: {several(sorted(words))}" if words else ""


def nvlink(facts: Facts) -> Verdict:
    """Count the NVLinks that are up."""
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    if facts.nvml.value is None:
        return lost(facts.nvml, "NVML", "nvidia-smi nvlink -s")
    found = facts.nvml.value.devices
    if not any(device.links for device in found):
        return not_applicable("these GPUs show no NVLink")
    down = {device.index: [link.link for link in device.links if not link.active] for device in found}
    shown = [
        f"GPU {index}: {len(links)} of {len(found[at].links)} down"
        for at, (index, links) in enumerate(down.items())
        if links
    ]
    if shown:
        root = sudo(system_of(facts))
        return warning(
            several(shown),
            f"nvmlDeviceGetNvLinkState: {several(shown)}",
            f"{root}dmesg | grep -i xid; behind an NVSwitch: {root}systemctl restart nvidia-fabricmanager",
        )
    counts = sorted({len(device.links) for device in found})
    return good(f"{several([str(each) for each in counts])} links a GPU, all up")


def pcie(facts: Facts) -> Verdict:
    """Hold each PCIe link under load against what device and slot can do."""
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    if facts.pcie_load.value is None:
        return lost(facts.pcie_load, "PCIe under load", "nvidia-smi -q -d PCIE")
    most = _possible(facts.nvml.value, facts.bus.value)
    slow, fine = [], set()
    for link in facts.pcie_load.value:
        generation, width = most.get(link.pci, (None, None))
        if None in (link.generation, link.width, generation, width):
            continue
        if (link.generation or 0) < (generation or 0) or (link.width or 0) < (width or 0):
            slow.append(f"{link.pci} at {_written(link)} of {generation}.0 ×{width}")
        else:
            fine.add(_written(link))
    if slow:
        return warning(
            f"{count(len(slow), 'link')} below what is possible: {several(slow)}",
            "current_link_speed and current_link_width while copies ran",
            "reseat the card or use a slot with all lanes; look for the slot's speed in the firmware's settings",
        )  # fmt: skip
    if not fine:
        return not_tested("the links' speed cannot be read here" + (": a virtual machine" if is_virtual(facts) else ""))
    return good(f"{several(sorted(fine))} under load, the most that is possible")


def _possible(nvml: Nvml | None, bus: Bus | None) -> dict[str, tuple[int | None, int | None]]:
    """Return generation and width at most by address: NVML's count the slot too, sysfs's the device alone."""
    found = {device.address: (device.generation_max, device.width_max) for device in (bus.gpus if bus else [])}
    for each in nvml.devices if nvml else []:
        if each.pcie_generation_max and each.pcie_width_max:
            found[each.pci] = (each.pcie_generation_max, each.pcie_width_max)
    return found


def _written(link: LoadedLink) -> str:
    return f"PCIe {link.generation}.0 ×{link.width}"


# ------------------------------------------------------------------------------------------- IOMMU and ACS


def iommu(facts: Facts) -> Verdict:
    """Look for an IOMMU that translates the GPUs' addresses."""
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    if facts.iommu.value is None:
        return lost(facts.iommu, "the IOMMU", "ls /sys/class/iommu")
    found = facts.iommu.value
    if not found.units:
        return good("none active" + (" in this virtual machine" if is_virtual(facts) else ""))
    translating = [kind for kind in found.types if kind != "identity"]
    if not translating:
        return good("active, and passes the GPUs' addresses through")
    return warning(
        f"it translates the GPUs' addresses ({several(translating)}): peer copies over PCIe take the way through it",
        f"ls /sys/class/iommu: {several(found.units)}; iommu_group/type: {several(translating)}",
        boot_with(facts, "iommu=pt"),
    )


def acs(facts: Facts) -> Verdict:
    """Look for PCIe bridges that send the traffic between GPUs up to the root complex."""
    if not has_gpu(facts) or (facts.bus.value and len(facts.bus.value.gpus) < 2):
        return not_applicable(ONE_GPU if has_gpu(facts) else NO_GPU)
    if facts.iommu.value is None:
        return lost(facts.iommu, "ACS", "lspci -vvv")
    found = facts.iommu.value
    on = [bridge.address for bridge in found.bridges if (bridge.acs_control or 0) & _REDIRECT]
    if on:
        root = sudo(system_of(facts))
        return warning(
            f"ACS redirects peer traffic through the root complex on {count(len(on), 'bridge')} above the GPUs",
            f"ACS control register: request or completion redirect on {several(on)}",
            f"for b in {' '.join(on)}; do {root}setpci -s $b ECAP_ACS+0x6.w=0000; done",
        )
    if is_virtual(facts):
        return not_tested("a virtual machine does not see its host's bridges")
    if not found.readable:
        return not_tested("the control registers can be read by root only", "sudo volley doctor")
    return good(
        f"off on {count(len(found.bridges), 'bridge')} above the GPUs" if found.bridges else "no bridge above them"
    )


# ------------------------------------------------------------------------------------------------ integrity


def cuda_ipc(facts: Facts) -> Verdict:
    """Ask whether two processes could map each other's GPU memory."""
    early = _before_copies(facts)
    if early:
        return early
    reachable = [pair for pair in facts.peers.value or [] if _reach(facts, pair)]
    if not reachable:
        return not_applicable("no pair of GPUs has peer access")
    ways = [(pair.gpus, way) for pair in reachable for way in pair.job.transports if way.transport == "peer"]
    for (one, other), way in ways:
        if not way.available:
            return broken(
                "two processes cannot map each other's GPU memory: CUDA IPC fails",
                f"GPUs {one} and {other}: {way.reason}",
                _ipc_remedy(facts),
            )
    if not ways:
        return not_tested("the job broke off before it came to this")
    return good(f"{count(len(ways), 'pair')} of processes mapped each other's GPU memory")


def _ipc_remedy(facts: Facts) -> str:
    if container(facts):
        return "run all ranks in one container: docker run --gpus all --ipc=host --pid=host --cap-add=SYS_PTRACE"
    return "unset CUDA_VISIBLE_DEVICES in the ranks and choose with volley --gpus; nvidia-smi topo -p2p r"


def integrity(facts: Facts) -> Verdict:
    """Ask whether every byte that one GPU wrote arrived in the other's memory."""
    early = _before_copies(facts)
    if early:
        return early
    jobs = facts.peers.value or []
    for job in jobs:
        one, other = job.gpus
        if wrong := [point for point in job.job.points if point.status == "failed"]:
            return broken(
                f"GPUs {one} and {other}: {wrong[0].transport} delivered wrong bytes",
                f"volley pingpong --gpus {one},{other} --transport {wrong[0].transport}: {wrong[0].reason}",
                boot_with(facts, "iommu=pt") + "; see the findings on IOMMU and ACS",
            )
        if not job.job.complete:
            return broken(
                f"GPUs {one} and {other}: copies between them broke off",
                last_words(job.job),
                f"volley pingpong --gpus {one},{other} --transport peer,device",
            )
    verified = sum(point.messages_verified for job in jobs for point in job.job.points)
    if not verified:
        return not_tested("no pair of GPUs could copy without the host")
    tried = len([job for job in jobs if job.job.points])
    return good(f"{count(tried, 'pair')} of GPUs, {verified} messages compared byte for byte by the receiving GPU")


def _before_copies(facts: Facts) -> Verdict | None:
    """Say it where no copies were tried."""
    if alone := without_peers(facts):
        return alone
    if facts.peers.value is None:
        return lost(facts.peers, "copies between GPUs", "volley pingpong --transport peer,device")
    return None


def _reach(facts: Facts, job: PairJob) -> bool:
    table = facts.cuda.value.peers if facts.cuda.value else []
    one, other = job.gpus
    return one < len(table) and other < len(table) and table[one][other]
