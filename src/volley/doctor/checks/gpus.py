"""GPUs: are all of them there, and in a state that two ranks can work with?"""

from __future__ import annotations

from collections import Counter

from volley.doctor.checks.common import NO_GPU, container, cuda_devices, has_gpu, numbers, open_gpus
from volley.doctor.facts import Cuda, CudaDevice, Facts
from volley.doctor.findings import Verdict, answered, broken, good, lost, not_applicable, not_tested, warning
from volley.doctor.remedies import install_driver, sudo, system_of

_ON_ERROR = {
    100: "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES",
    802: "{sudo}systemctl enable --now nvidia-fabricmanager",
    803: "{sudo}reboot",
    804: "unset LD_LIBRARY_PATH",
    999: "{sudo}nvidia-modprobe -u -c=0",
}
"""CUresult (cuda.h): no device; system not ready (NVSwitch without its manager); driver and library of two versions; a
compatibility library in front of the driver's; unknown, which mostly means that nvidia_uvm is missing."""
_EXCLUSIVE, _PROHIBITED = 3, 2
"""CUcomputemode."""


def devices(facts: Facts) -> Verdict:
    """Hold the GPUs of the PCI bus against those that CUDA shows."""
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    if facts.cuda.value is None:
        return lost(facts.cuda, "CUDA", install_driver(facts))
    cuda, bus = facts.cuda.value, facts.bus.value
    if cuda.status:
        return _no_start(facts, cuda)
    shown = several_kinds(cuda.devices)
    on_bus = len(bus.gpus) if bus else 0
    if len({device.pci for device in cuda.devices}) < on_bus:
        return _hidden(facts, len(cuda.devices), on_bus)
    return good(f"{shown}, all of the PCI bus" if on_bus else shown)


def several_kinds(found: list[CudaDevice]) -> str:
    """Return ``4 × Tesla T4``."""
    return ", ".join(f"{times} × {name}" for name, times in Counter(device.name for device in found).items())


def _no_start(facts: Facts, cuda: Cuda) -> Verdict:
    remedy = _ON_ERROR.get(cuda.status, "nvidia-smi").format(sudo=sudo(system_of(facts)))
    said = f"{cuda.status_name} ({cuda.status})"
    return broken(f"CUDA does not start: {said}", f"{cuda.failed_call}: {said}", remedy)


def _hidden(facts: Facts, seen: int, on_bus: int) -> Verdict:
    said = f"CUDA sees {seen} of {on_bus} GPUs"
    if len(open_gpus(facts.driver.value)) == seen < on_bus and "SLURM_JOB_ID" in facts.environment:
        return good(f"{said}: all that this job was given")
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        if (value := facts.environment.get(name)) not in (None, "all"):
            return warning(f"{said}: {name} hides the others", f"{name}={value}", f"unset {name}")
    evidence = answered(facts.bus, f"{on_bus} GPUs") + f"; cuDeviceGetCount: {seen}"
    if container(facts):
        return warning(f"{said}: this container was given no more", evidence, "docker run --gpus all")
    return warning(said, evidence, f"{sudo(system_of(facts))}dmesg | grep -i -e nvrm -e xid")


def mig(facts: Facts) -> Verdict:
    """Look for GPUs that are cut into instances."""
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    if facts.nvml.value is None:
        return lost(facts.nvml, "NVML", "nvidia-smi")
    cut = [device.index for device in facts.nvml.value.devices if device.mig]
    if not cut:
        return good("off")
    return warning(
        f"MIG is on for GPU {numbers(cut)}: instances have neither peer access nor CUDA IPC with each other",
        f"nvmlDeviceGetMigMode: enabled on {numbers(cut)}",
        f"{sudo(system_of(facts))}nvidia-smi -i {numbers(cut)} -mig 0",
    )


def compute_mode(facts: Facts) -> Verdict:
    """Look for GPUs that take one process only, or none."""
    found = cuda_devices(facts)
    if not found:
        return _without_devices(facts)
    modes = {device.index: device.attributes.get("COMPUTE_MODE", 0) for device in found}
    root = sudo(system_of(facts))
    for mode, said, judge in (
        (_PROHIBITED, "takes no process at all", broken),
        (_EXCLUSIVE, "takes one process: a second rank or a tool beside it is refused", warning),
    ):
        if hit := [index for index, value in modes.items() if value == mode]:
            evidence = f"cuDeviceGetAttribute(COMPUTE_MODE): {mode}"
            return judge(f"GPU {numbers(hit)} {said}", evidence, f"{root}nvidia-smi -i {numbers(hit)} -c DEFAULT")
    return good("default: any number of processes")


def machine_code(facts: Facts) -> Verdict:
    """Ask whether the engine carries machine code for every GPU here."""
    found, stack = cuda_devices(facts), facts.stack.value
    if not found:
        return _without_devices(facts)
    if stack is None:
        return lost(facts.stack, "the engine", "pip install volley-bench")
    if stack.cuda_built is None:
        return broken(
            "the engine was built without CUDA", "volley-engine --about: no CUDA",
            "VOLLEY_CUDA=ON pip install --force-reinstall --no-cache-dir volley-bench",
        )  # fmt: skip
    lacking = sorted({_capability(device) for device in found if not _covered(device, stack.cuda_architectures)})
    carried = f"machine code for {', '.join(stack.cuda_architectures)}"
    if lacking:
        wanted = ";".join(each.replace(".", "") for each in lacking)
        return broken(
            f"the engine has no machine code for compute capability {', '.join(lacking)}",
            f"volley-engine --about: {carried}",
            f"VOLLEY_CUDA_ARCHITECTURES='{wanted}' pip install --force-reinstall --no-cache-dir volley-bench",
        )
    return good(f"compute capability {', '.join(sorted({_capability(device) for device in found}))}: {carried}")


def _capability(device: CudaDevice) -> str:
    return f"{device.attributes.get('COMPUTE_CAPABILITY_MAJOR')}.{device.attributes.get('COMPUTE_CAPABILITY_MINOR')}"


def _covered(device: CudaDevice, architectures: list[str]) -> bool:
    """Machine code runs on the same major capability and the same or a later minor one (CUDA C++ Programming Guide)."""
    major, minor = (device.attributes.get(f"COMPUTE_CAPABILITY_{part}", 0) for part in ("MAJOR", "MINOR"))
    carried = [int("".join(filter(str.isdigit, each)) or 0) for each in architectures]
    return any(each // 10 == major and each % 10 <= minor for each in carried)


def _without_devices(facts: Facts) -> Verdict:
    return not_tested("CUDA shows no device") if has_gpu(facts) else not_applicable(NO_GPU)
