"""GPUs: whether all are visible, whether two ranks can use them, and how they are connected."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from shlex import quote

from volley.doctor.findings import (
    ONE_GPU,
    DoctorFinding,
    MissingFacts,
    broken,
    fails_between_gpus,
    good,
    not_applicable,
    not_tested,
    peer_table,
    require,
    warning,
)
from volley.doctor.remedies import SEND, install_volley
from volley.machine.facts import CudaDevice, Facts
from volley.machine.hardware import Gpu
from volley.machine.health import C2C, GpuFault, faults, of_xids
from volley.machine.place import place_of
from volley.text import count, grouped, join_words

_IN_FRONT = ("LD_LIBRARY_PATH", "ldconfig -p | grep libcuda shows a library in front of the driver's")
_ON_ERROR: dict[int, tuple[str, str]] = {
    2: ("", "ulimit -S -v unlimited; if memory is the problem: nvidia-smi shows the processes that have it"),
    34: _IN_FRONT,
    46: ("", "nvidia-smi -q -d COMPUTE,PIDS shows the process that has a GPU for itself: wait for its end"),
    101: ("CUDA_VISIBLE_DEVICES", "nvidia-smi -L shows the GPUs that the driver has"),
    100: ("", "nvidia-smi -L shows the GPUs that the driver has"),
    214: ("", "nvidia-smi -q -d ECC,ROW_REMAPPER shows which GPU its administrator must reset or replace"),
    220: ("", "nvidia-smi nvlink -e shows the link at fault; an administrator must reset its GPUs"),
    804: _IN_FRONT,
    805: ("CUDA_MPS_PIPE_DIRECTORY", "nvidia-cuda-mps-control -d, or remove the pipe of the one that ended"),
    **dict.fromkeys((808, 809), ("", "MPS takes no more clients: wait for the end of some, or start fewer ranks")),
    **dict.fromkeys((806, 807), ("", "echo quit | nvidia-cuda-mps-control; nvidia-cuda-mps-control -d")),
}
"""By CUresult (cuda.h): the variable behind it, and what this user can do where that is not set.  No memory, or no
address space to reserve; a stub, or a compatibility library, in front of the driver's; a GPU for one process; no
device; a memory error, an error of NVLink; an MPS that has ended, that is full, or that is not ready."""
_NO_MEMORY, _NOT_ALLOWED, _NOT_READY, _TWO_VERSIONS, _UNKNOWN = 2, 304, 802, 803, 999
"""CUresult: no memory; a call of the system failed; NVSwitches without their manager; driver and library of two
versions; e.g. after suspend."""
_NO_GPU_SHOWN = 100
_EXCLUSIVE, _PROHIBITED = 3, 2
"""CUcomputemode."""
_TRANSLATE = ("intel_iommu=on", "amd_iommu=on", "iommu=force", "iommu=nopt")
_REDIRECT = 0x04 | 0x08
"""ACS control: P2P Request Redirect and P2P Completion Redirect (PCI Express Base Specification 7.7.12.3)."""
_WITHOUT_PEERS = {
    "chipset": "put both under one PCIe switch, or into slots of one processor: nvidia-smi topo -m",
    "GPU not": "none: NVIDIA's driver gives this product no peer access; NCCL and staged/pinned go through the host",
    "registry": "look for NVreg_RegistryDwords in /etc/modprobe.d, which switches peer access off",
}
"""By words of NVML's status of two GPUs (nvml.h, nvmlGpuP2PStatus_t)."""
_RESEAT = "reseat the card, use a slot with all lanes, or raise the slot's speed in the firmware"
_JOBS_ON_GPUS = ("MPI, GPU memory", "MPI, GPU speed", "GPU of each rank", "CUDA IPC", "peer copies")
_OF_NVML = ("MIG", "memory errors", "GPU clocks", "NVLink")
_OF_PEERS = ("GPUs", "peer access", "NVLink", "MPI, GPU speed", "GPU of each rank", "CUDA IPC", "peer copies")


def devices(facts: Facts) -> DoctorFinding:
    """Calls cuInit; compares the GPUs of /sys/bus/pci with those that CUDA shows."""
    place = place_of(facts)
    if facts.cuda.error and not facts.cuda.own:
        return broken(f"CUDA: {facts.cuda.error}", f"{facts.cuda.call}: {facts.cuda.error}", _log(facts), ("launcher",))
    cuda, on_bus = require(facts.cuda, "CUDA", _log(facts)), len(facts.gpus_on_bus)
    shown = facts.environment.get("CUDA_VISIBLE_DEVICES")
    if shown is not None and not cuda.devices and cuda.status in (0, _NO_GPU_SHOWN):
        hides = f"CUDA_VISIBLE_DEVICES={shown or chr(39) * 2}"
        said, remedy = f"{hides} hides every GPU", place.unset(["CUDA_VISIBLE_DEVICES"])
        if place.batch:
            said = f"this job of {place.batch_name} was granted no GPU: {hides}"
        evidence = f"{cuda.failed_call or 'cuDeviceGetCount'}: no device"
        return broken(said, evidence, remedy or place.more("gpus", _ON_ERROR[_NO_GPU_SHOWN][1]))
    if cuda.status:
        said = f"{cuda.status_name} ({cuda.status})"
        evidence, remedy = f"{cuda.failed_call}: {said}", _end_of(cuda.status, facts)
        why = ", as where NVSwitches, or this machine's partition of them, are not set up"
        return broken(f"CUDA does not start: {said}{why if cuda.status == _NOT_READY else ''}", evidence, remedy)
    if len({device.pci for device in cuda.devices}) < on_bus:
        return _hidden_gpus(facts, len(cuda.devices), on_bus)
    kinds = Counter(device.name for device in cuda.devices)
    shown = ", ".join(f"{times} × {name}" for name, times in kinds.items())
    return _unusable_gpus(facts) or good(f"{shown}, all GPUs on the PCI bus visible" if on_bus else shown)


def _end_of(status: int, facts: Facts) -> str:
    """Return what ends an error of CUDA here."""
    place = place_of(facts)
    if status == _NOT_READY:
        where = "; in a virtual machine, the host or a service VM may have to start it" if place.virtual else ""
        start = "{sudo}systemctl enable --now nvidia-fabricmanager; it must be of the driver's version"
        start += "; with confidential computing, {sudo}nvidia-smi conf-compute -srs 1"
        return place.admin(f"{start}{where}", "all processes of its GPUs")
    if status == _TWO_VERSIONS:
        compatible = "compat" in facts.environment.get("LD_LIBRARY_PATH", "")
        return place.unset(["LD_LIBRARY_PATH"]) if compatible else place.one_version()
    if status == _NO_MEMORY and facts.limits.value and "ulimit -Hv" in " ".join(facts.limits.value.low):
        return place.raise_limit("v", "unlimited", hard=True)
    if status == _UNKNOWN:
        again = "{sudo}rmmod nvidia_uvm; {sudo}modprobe nvidia_uvm, as after suspend and resume"
        return f"{place.admin(again, 'all processes that use CUDA')}; if that does not help: {_log(facts)}"
    name, otherwise = _ON_ERROR.get(status, ("", _log(facts)))
    if status == _NO_GPU_SHOWN or (status == _NOT_ALLOWED and place.container):
        # A driver that cannot start its GPUs says why in the kernel's messages.
        return place.more("gpus", f"{otherwise}; {_log(facts)}" if facts.open_gpus else otherwise)
    return place.unset([name]) or otherwise


def _unusable_gpus(facts: Facts) -> DoctorFinding | None:
    nvml, load = facts.nvml, facts.pcie_load
    if nvml.error and not nvml.own:
        remedy = place_of(facts).one_version() if "mismatch" in nvml.error else f"nvidia-smi; {_log(facts)}"
        return warning(f"NVML does not answer: {nvml.error}", f"{nvml.call}: {nvml.error}", remedy, _OF_NVML)
    if "OUT_OF_MEMORY" in (load.error or ""):
        remedy = "nvidia-smi shows the processes that have it: wait for their end, or take other GPUs with --gpus"
        follows = (*_JOBS_ON_GPUS, "PCIe", "GDRCopy")
        return warning("other processes have all memory of a GPU", f"{load.call}: {load.error}", remedy, follows)
    return None


def _hidden_gpus(facts: Facts, seen: int, on_bus: int) -> DoctorFinding:
    said, place = f"CUDA sees {seen} of {on_bus} GPUs", place_of(facts)
    if place.batch and seen:
        asked = "" if len(facts.open_gpus) == seen else f"; for more of them, {place.more('gpus', '')}"
        return good(f"{said}: all GPUs of this job{asked}")
    hidden = {gpu.address for gpu in facts.gpus_on_bus} - {device.pci for device in facts.cuda_devices}
    evidence = f"{facts.bus.call}: {on_bus} GPUs, without {join_words(sorted(hidden))}; cuDeviceGetCount: {seen}"
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        if (value := facts.environment.get(name)) not in (None, "all"):
            remedy = place.unset([name]) or place.more("gpus", "")
            return warning(f"{said}: {name} hides the others", f"{name}={value}", remedy or _log(facts))
    if place.container:
        return warning(f"{said}: this container has no more", evidence, place.start_with("gpus"))
    return warning(said, evidence, _log(facts), _OF_NVML)


def _log(facts: Facts) -> str:
    look = "{sudo}dmesg | grep -i -e nvrm -e xid; a GPU that fell off the bus (Xid 79) needs a restart of the machine"
    return place_of(facts).admin(look)


def mig(facts: Facts) -> DoctorFinding:
    """Asks NVML whether a GPU is divided into instances."""
    gpus = require(facts.nvml, "NVML", "nvidia-smi").gpus
    divided = ",".join(str(gpu.index) for gpu in gpus if gpu.mig)
    if not divided:
        return _unread(gpus, "mig") or good("off")
    said = f"MIG is on for GPU {divided}: instances have no peer access and no CUDA IPC with each other"
    place = place_of(facts)
    remedy = place.admin(f"{{sudo}}nvidia-smi -i {divided} -mig 0", f"all users of GPU {divided}")
    if place.batch:
        remedy = f"ask {place.batch_name} for whole GPUs, not for instances; {remedy}"
    return warning(said, f"nvmlDeviceGetMigMode: enabled on {divided}", remedy, _OF_PEERS)


def _unread(gpus: Sequence[Gpu], key: str) -> DoctorFinding | None:
    """Return a finding if NVML could not say something, for another reason than that a GPU does not have it."""
    for gpu in gpus:
        said = gpu.unread.get(key, "")
        if said and not re.search(r"not.supported", said, re.IGNORECASE):
            return not_tested(f"NVML does not report it of GPU {gpu.index}: {said}")
    return None


def _judged(found: Sequence[GpuFault], facts: Facts, call: str, explains: tuple[str, ...] = ()) -> DoctorFinding:
    """Return the finding about faults of one part, at least one, with what ends the worst of them."""
    worst = max(found, key=lambda each: (each.broken, each.end == "replace"))
    alike = grouped(found, lambda each: each.said)
    shown = "; ".join(f"GPU {', '.join(str(each.gpu) for each in those)}: {said}" for said, those in alike.items())
    numbers = ",".join(dict.fromkeys(str(each.gpu) for each in found if each.end == worst.end))
    place, smi = place_of(facts), f"{{sudo}}nvidia-smi -i {numbers}"
    kinds = {gpu.name for gpu in facts.gpus if gpu.index in [each.gpu for each in found]}
    most_w = max((gpu.power_limit_w or 0.0 for gpu in facts.gpus if gpu.name in kinds), default=0.0)
    look = f"{place.admin('{sudo}dmesg | grep -i xid')}; nvidia-smi -q -i {numbers}"
    if "NVLink" in worst.said + worst.part:
        again = place.admin("{sudo}systemctl restart nvidia-fabricmanager", "everybody who uses its GPUs")
        look += f"; nvidia-smi nvlink -e; with an NVSwitch, {again}"
    hot = any("thermal" in each.said or "hardware" in each.said for each in found)
    heat = f"; {place.hardware('look at its cooling and power supply')}" if hot else ""
    remedy = {
        "reboot": place.reboot(),
        "reset": place.admin(f"{smi} -r", f"all processes of GPU {numbers}"),
        "replace": place.hardware(f"replace GPU {numbers}; nvidia-smi -q -d ROW_REMAPPER -i {numbers} shows its rows"),
        "reset clocks": place.admin(f"{smi} -rac; {smi} -rgc", f"whoever set the clocks of GPU {numbers}"),
        "power limit": place.admin(f"{{sudo}}nvidia-smi -i {numbers} -pl {most_w:.0f}", "whoever limited its power"),
        "clocks": f"nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE -i {numbers}{heat}",
        "PCIe": place.hardware(_RESEAT),
        "memory": f"nvidia-smi -q -d ECC,ROW_REMAPPER -i {numbers}: a number that keeps growing is a fault",
    }.get(worst.part if worst.end == "look" else worst.end, look)
    return (broken if worst.broken else warning)(shown, f"{call}: {shown}", remedy, explains)


def _of_part(facts: Facts, part: str) -> list[GpuFault]:
    return [each for each in faults(facts.gpus) if each.part == part]


def memory_errors(facts: Facts) -> DoctorFinding:
    """Asks NVML for errors in GPU memory that ECC could not correct, and for rows that are or must be remapped."""
    gpus = require(facts.nvml, "NVML", "nvidia-smi -q -d ECC,ROW_REMAPPER").gpus
    if found := _of_part(facts, "memory"):
        call = "nvmlDeviceGetTotalEccErrors, nvmlDeviceGetRemappedRows"
        return _judged(found, facts, call, _JOBS_ON_GPUS if any(gpu.ecc_uncorrected for gpu in gpus) else ())
    if any(gpu.ecc for gpu in gpus):
        return _unread(gpus, "ecc_uncorrected") or good("none that ECC could not correct")
    return _unread(gpus, "ecc") or not_applicable("ECC is off, or these GPUs have none")


def xids(facts: Facts) -> DoctorFinding:
    """Reads the errors of the hardware (Xid) that the driver wrote into the kernel's messages."""
    driver = require(facts.driver, "the driver", "nvidia-smi")
    if found := list(of_xids(((each.pci, each.number) for each in driver.xids), facts.gpus)):
        explains = ("GPUs", *_OF_NVML, *_JOBS_ON_GPUS) if any(each.broken for each in found) else ()
        return _judged(found, facts, "dmesg", explains)
    if driver.xids_unread:
        return not_tested(driver.xids_unread)
    return good("the kernel's messages have no error of the hardware")


def compute_mode(facts: Facts) -> DoctorFinding:
    """Asks each GPU how many processes it accepts."""
    modes = {device.index: device.attributes.get("COMPUTE_MODE") for device in _shown(facts)}
    for mode, said, judge in (
        (_PROHIBITED, "accepts no process", broken),
        (_EXCLUSIVE, "accepts one process only, and refuses a second rank or a tool", warning),
    ):
        if hit := ",".join(str(index) for index, value in modes.items() if value == mode):
            evidence = f"cuDeviceGetAttribute(COMPUTE_MODE): {mode}"
            remedy = place_of(facts).admin(f"{{sudo}}nvidia-smi -i {hit} -c DEFAULT", f"whoever wants GPU {hit} alone")
            return judge(f"GPU {hit} {said}", evidence, remedy, _JOBS_ON_GPUS)
    if None in modes.values():
        return not_tested("CUDA does not report it")
    return good("default: any number of processes")


def _shown(facts: Facts) -> list[CudaDevice]:
    if facts.cuda_devices:
        return facts.cuda_devices
    raise MissingFacts(not_tested("CUDA shows no device"))


def architectures(facts: Facts) -> DoctorFinding:
    """Compares compute capabilities with the architectures that the engine was compiled for."""
    parts = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR")
    found = sorted({tuple(device.attributes.get(part, 0) for part in parts) for device in _shown(facts)})
    stack = facts.stack.value
    if stack is None:
        return not_tested("the engine was not asked")
    if stack.cuda_built is None:
        remedy = install_volley(facts, variables="VOLLEY_CUDA=ON")
        return broken("the engine was built without CUDA", "volley-engine --about: no CUDA", remedy)
    lacking = [each for each in found if not any(_runs_on(each, name) for name in stack.cuda_architectures)]
    compiled = f"compiled for {', '.join(stack.cuda_architectures)}"
    if lacking:
        wanted = ";".join(f"{major}{minor}" for major, minor in lacking)
        built = tuple(map(int, re.findall(r"\d+", stack.cuda_built)[:2]))
        # CUDA 13 compiles for Turing and later GPUs, 12.8 is the first one for Blackwell (their release notes).
        other = "12" if lacking[0] < (7, 5) and built >= (13,) else ""
        other = "13" if lacking[-1] >= (10, 0) and built < (12, 8) else other
        toolkit = f"CUDACXX=/path/to/cuda-{other}/bin/nvcc " if other else ""
        return broken(
            f"the engine is not compiled for compute capability {_listed(lacking)}",
            f"volley-engine --about: {compiled}",
            install_volley(facts, variables=f"{toolkit}VOLLEY_CUDA_ARCHITECTURES='{wanted}'"),
            _JOBS_ON_GPUS,
        )
    return good(f"compute capability {_listed(found)}: {compiled}")


def _runs_on(capability: tuple[int, ...], architecture: str) -> bool:
    """Return whether a GPU runs what was compiled for ``90``, or, as PTX, for ``90-virtual``.

    Machine code runs on the same major capability and the same or a later minor one; the driver compiles PTX for any
    later one (CUDA C++ Programming Guide).
    """
    major, minor = divmod(int("".join(filter(str.isdigit, architecture)) or 0), 10)
    newer = (major, minor) <= capability
    return newer and (major == capability[0] or architecture.endswith("-virtual"))


def _listed(capabilities: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in capabilities)


def clocks(facts: Facts) -> DoctorFinding:
    """Asks NVML what limits the clocks of each GPU: power, heat, or a setting."""
    gpus = require(facts.nvml, "NVML", "nvidia-smi -q -d PERFORMANCE").gpus
    if found := _of_part(facts, "clocks"):
        return _judged(found, facts, "nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetClockInfo")
    if any(gpu.clocks_event_reasons is None for gpu in gpus):
        return not_tested("NVML does not report what limits the clocks")
    return good("not limited by power, heat or a setting")


# --------------------------------------------------------------------------------------------- interconnect


def peer_access(facts: Facts) -> DoctorFinding:
    """Calls cuDeviceCanAccessPeer for every ordered pair; NVML says why not."""
    table = peer_table(facts)
    reach = [(one, other) for one, row in enumerate(table) for other, yes in enumerate(row) if yes and one < other]
    pairs = len(table) * (len(table) - 1) // 2
    if len(reach) == pairs:
        return good(f"all {len(table)} GPUs can access each other's memory")
    reasons = {pair.read for pair in (facts.nvml.value.peers if facts.nvml.value else []) if pair.read} - {"ok"}
    why = f"; NVML: {join_words(sorted(reasons))}" if reasons else ""
    evidence = f"cuDeviceCanAccessPeer: {len(reach)} of {pairs} pairs{why}"
    if not reach:
        said = "no GPU can access another's memory: every message goes through host memory"
        remedy = next((end for words, end in _WITHOUT_PEERS.items() if words in why), "nvidia-smi topo -p2p r")
        return warning(said, evidence, remedy, ("MPI, GPU speed", "CUDA IPC", "peer copies"))
    shown = join_words(f"{one}–{other}" for one, other in reach)
    return warning(
        f"only GPUs {shown} can access each other's memory; messages of all other pairs go through host memory",
        evidence,
        f"put the ranks that communicate most on such a pair, e.g. {SEND} --gpus {reach[0][0]},{reach[0][1]}; "
        "nvidia-smi topo -p2p r shows the reason",
        ("MPI, GPU speed",),
    )


def nvlink(facts: Facts) -> DoctorFinding:
    """Asks NVML for the state and the errors of every link; compares them with the product, and with the other GPUs."""
    gpus = require(facts.nvml, "NVML", "nvidia-smi nvlink -s").gpus
    if found := _of_part(facts, "NVLink"):
        call = "nvmlDeviceGetNvLinkState, nvmlDeviceGetNvLinkErrorCounter"
        return _judged(
            found, facts, call, ("peer access", "MPI, GPU speed") if any(each.broken for each in found) else ()
        )
    active = {gpu.index: len(gpu.nvlinks or ()) for gpu in gpus}
    total = {gpu.index: active[gpu.index] + gpu.nvlinks_inactive for gpu in gpus}
    if unread := _unread(gpus, "nvlinks"):
        return unread
    if not any(total.values()):
        return not_applicable("these GPUs have no NVLink")
    counts = join_words(map(str, sorted({*active.values()})))
    if active == total:
        return good(f"{counts} links per GPU, all up")
    if not any(active.values()):
        return good("no link is connected, as on a GPU without an NVLink bridge")
    alike = all(times > 1 for times in Counter(gpu.name for gpu in gpus).values())
    known = "GPUs of the same model do not differ" if alike else "no other GPU shows how many this model connects"
    return good(f"{counts} of {join_words(map(str, sorted({*total.values()})))} links per GPU are up; {known}")


def pcie(facts: Facts) -> DoctorFinding:
    """Copies to each GPU and reads the state of its link during the copy: generation and width, now and possible."""
    links = require(facts.pcie_load, "PCIe under load", "nvidia-smi -q -d PCIE")
    if chips := sorted({device.name for device in facts.cuda_devices if C2C.search(device.name)}):
        return not_applicable(f"{join_words(chips)}: NVLink-C2C joins processor and GPU")
    if found := _of_part(facts, "PCIe"):
        return _judged(found, facts, "nvmlDeviceGetCurrPcieLinkWidth, nvmlDeviceGetMaxPcieLinkWidth")
    # NVML's maximum is that of GPU and slot together, that of sysfs of the device alone.
    most = {gpu.address: (gpu.generation_max, gpu.width_max) for gpu in facts.gpus_on_bus}
    for each in facts.gpus:
        if each.pci and each.pcie_generation_max and each.pcie_width_max:
            most[each.pci] = (each.pcie_generation_max, each.pcie_width_max)
    slow, fine, unknown = [], set(), []
    for link in links:
        generation, width = most.get(link.pci, (None, None))
        shown = f"PCIe {link.generation}.0 ×{link.width}"
        if link.generation is None or link.width is None or generation is None or width is None:
            unknown.append(link.pci)
        elif link.generation < generation or link.width < width:
            slow.append(f"{link.pci} at {shown} of {generation}.0 ×{width}")
        else:
            fine.add(shown)
    if slow:
        return warning(
            f"{count(len(slow), 'link')} below the maximum: {join_words(slow)}",
            "current_link_speed and current_link_width while copies ran",
            place_of(facts).hardware(_RESEAT),
        )
    if unknown or not fine:
        where = "in a virtual machine" if place_of(facts).virtual else "here"
        which = f" of {join_words(unknown)}" if fine else ""
        return not_tested(f"link speeds{which} cannot be read {where}")
    return good(f"{join_words(sorted(fine))} under load, the maximum")


def iommu(facts: Facts) -> DoctorFinding:
    """Looks for IOMMUs and at the domain types of the GPUs' groups."""
    found = require(facts.iommu, "the IOMMU", "ls /sys/class/iommu")
    if not found.units:
        return good("none active" + (" in this virtual machine" if place_of(facts).virtual else ""))
    translating = join_words(kind for kind in found.types if kind != "identity")
    said = f"it translates the GPUs' addresses ({translating}): peer copies over PCIe go through it"
    evidence = f"iommu_group/type: {translating}"
    if not found.types:  # a kernel before 5.11 does not say
        on = [word for word in found.parameters if word in _TRANSLATE]
        if not on or "iommu=pt" in found.parameters:
            shown = f", and was started with {join_words(found.parameters)}" if found.parameters else ""
            return not_tested(f"active; this kernel does not report whether it translates the GPUs' addresses{shown}")
        said = f"the kernel was started with {join_words(on)} and without iommu=pt: it translates the GPUs' addresses"
        evidence = f"/proc/cmdline: {join_words(found.parameters)}; no iommu_group/type"
    elif not translating:
        return good("active; it does not translate the GPUs' addresses")
    # The kernel switches ACS on for the isolation of what it translates.
    return warning(
        said,
        f"ls /sys/class/iommu: {join_words(found.units)}; {evidence}",
        place_of(facts).boot_without_translation(),
        ("ACS", *fails_between_gpus(facts)),
    )


def acs(facts: Facts) -> DoctorFinding:
    """Reads the ACS control register of every bridge above a GPU (root only)."""
    if facts.bus.value and len(facts.gpus_on_bus) < 2:
        return not_applicable(ONE_GPU)
    found = require(facts.iommu, "ACS", "lspci -vvv")
    on = [bridge.address for bridge in found.bridges if (bridge.acs_control or 0) & _REDIRECT]
    if on:
        bridges = " ".join(map(quote, on))
        return warning(
            f"ACS redirects peer traffic through the root complex on {count(len(on), 'bridge')} above the GPUs",
            f"ACS control register: request or completion redirect on {join_words(on)}",
            place_of(facts).admin(f"for b in {bridges}; do {{sudo}}setpci -s $b ECAP_ACS+0x6.w=0000; done"),
            fails_between_gpus(facts),
        )
    if place_of(facts).virtual:
        return not_tested("a virtual machine cannot see the PCIe bridges of its host")
    if not found.readable:
        return not_tested("only root can read the control registers", place_of(facts).admin("{sudo}volley doctor"))
    number = len(found.bridges)
    return good(f"off on {count(number, 'bridge')} above the GPUs" if number else "no bridge above the GPUs")
