"""The GPUs of this machine, as NVML, the NVIDIA driver's library, describes them.  Only this module calls NVML.

A run reads it before its first point and after its last, never while one measures, and only where GPUs are used; doctor
and topo read it as one of their probes.  Names and numbers of constants are those of ``nvml.h`` (NVIDIA, *NVML API
Reference Guide*).  A driver in trouble may not answer at all, so it is always called from a process of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from itertools import combinations
from typing import Any, Literal

import msgspec

from volley.errors import MachineError
from volley.machine.capture import Attempt, Skip, isolated
from volley.machine.facts import NvmlFacts
from volley.machine.hardware import Gpu, Hardware, NvLink, PeerStatus
from volley.machine.sysfs import pci_address
from volley.text import escape_controls

When = Literal["before", "after"]

LIMIT_S = 10.0
"""How long NVML may take; a healthy driver answers within a second."""

_REASONS = {
    0x001: "idle",
    0x002: "applications clocks setting",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clock setting",
    0x200: "board limit",
    0x400: "reliability",
}
"""nvmlClocksEventReason*, once called nvmlClocksThrottleReason*."""
LINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""nvmlNvlinkVersion_t."""
REMOTES: dict[int, Literal["gpu", "switch", "other"]] = {0: "gpu", 1: "other", 2: "switch"}
"""nvmlIntNvLinkDeviceType_t; 1 is IBM's NPU, 255 unknown."""
PEER_CAPS = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3}
"""nvmlGpuP2PCapsIndex_t; in Python's module one of these constants is a tuple by mistake."""
PEER_STATUS = {
    0: "ok",
    1: "chipset not supported",
    2: "GPU not supported",
    3: "topology not supported",
    4: "disabled by registry key",
    5: "not supported",
}
"""nvmlGpuP2PStatus_t."""
_LINK_ERRORS = {"replay": 0, "recovery": 1, "CRC": 2, "CRC of data": 3}
"""nvmlNvLinkErrorCounter_t."""
_MEMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal"}
"""nvmlValueType_t of whole numbers without sign: the member of nvmlValue_t that holds one."""


def read(when: When, uuids: Collection[str] | None = None, limit_s: float = LIMIT_S) -> Hardware:
    """Read the GPUs of this machine; nothing is raised: what cannot be read is null, with the reason."""
    host = os.uname().nodename
    with contextlib.suppress(ImportError):
        import_module("pynvml")  # here: another thread may hold a module's lock when the process forks

    def hardware() -> Hardware:
        try:
            found = facts(uuids)
        except Exception as error:
            return Hardware(when=when, host=host, reason=_error_text(error))
        lost = None if found.gpus else "NVML lists no GPU that is used here"
        return Hardware(when=when, host=host, reason=lost, **msgspec.structs.asdict(found))

    probe = isolated("NVML", hardware, Hardware, limit_s, grace_s=0.0)
    return probe.value or Hardware(when=when, host=host, reason=f"NVML: {probe.error}")


def of(hardware: Hardware, uuids: Collection[str]) -> Hardware:
    gpus = [gpu for gpu in hardware.gpus if gpu.uuid in uuids]
    peers = [peer for peer in hardware.peers if peer.first in uuids and peer.second in uuids]
    lost = None if gpus or hardware.reason else "NVML lists none of the GPUs that the ranks use"
    return msgspec.structs.replace(hardware, gpus=gpus, peers=peers, reason=hardware.reason or lost)


# -------------------------------------------------------------------------------------------------- one GPU


def _error_text(error: Exception) -> str:
    return escape_controls(str(error)) or type(error).__name__


def _remapping(nvml: Any, gpu: Any) -> str:
    """Return the state of faulty rows of memory; GPUs before Ampere retire pages instead."""
    try:
        pending, failed = nvml.nvmlDeviceGetRemappedRows(gpu)[2:4]
    except nvml.NVMLError_NotSupported:
        pending, failed = nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu), 0
    return "failed" if failed else "pending" if pending else "none"


_QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda nvml, gpu: nvml.nvmlDeviceGetName(gpu),
    "pci": lambda nvml, gpu: pci_address(nvml.nvmlDeviceGetPciInfo(gpu).busId),
    "pcie_generation": lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
    "pcie_generation_max": lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
    "pcie_width": lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),
    "pcie_width_max": lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
    # NVML_CLOCK_SM 1, NVML_CLOCK_MEM 2
    "sm_clock_hz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, 1) * 10**6,
    "sm_clock_max_hz": lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, 1) * 10**6,
    "sm_clock_set_hz": lambda nvml, gpu: nvml.nvmlDeviceGetApplicationsClock(gpu, 1) * 10**6,
    "sm_clock_default_hz": lambda nvml, gpu: nvml.nvmlDeviceGetDefaultApplicationsClock(gpu, 1) * 10**6,
    "memory_clock_hz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, 2) * 10**6,
    "memory_clock_max_hz": lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, 2) * 10**6,
    "ecc": lambda nvml, gpu: bool(nvml.nvmlDeviceGetEccMode(gpu)[0]),
    # NVML_MEMORY_ERROR_TYPE_CORRECTED 0, _UNCORRECTED 1; NVML_VOLATILE_ECC 0
    "ecc_corrected": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, 0, 0),
    "ecc_uncorrected": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 0),
    # corrected rows, uncorrected rows, whether one is pending, whether one failed
    "row_remapping": _remapping,
    "processes": lambda nvml, gpu: len(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
    "power_w": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "power_limit_w": lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
    "temperature_c": lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, 0),  # NVML_TEMPERATURE_GPU
    "pcie_replays": lambda nvml, gpu: nvml.nvmlDeviceGetPcieReplayCounter(gpu),
    # NVML_PERF_POLICY_POWER 0, NVML_PERF_POLICY_THERMAL 1; nanoseconds
    "power_slowdown_s": lambda nvml, gpu: nvml.nvmlDeviceGetViolationStatus(gpu, 0).violationTime / 1e9,
    "thermal_slowdown_s": lambda nvml, gpu: nvml.nvmlDeviceGetViolationStatus(gpu, 1).violationTime / 1e9,
    "mig": lambda nvml, gpu: bool(nvml.nvmlDeviceGetMigMode(gpu)[0]),
}
"""By key of the records: how NVML is asked for it."""


class _Device:
    def __init__(self, nvml: Any, index: int) -> None:
        self.nvml, self.index = nvml, index
        self.handle = nvml.nvmlDeviceGetHandleByIndex(index)
        self.unread: dict[str, str] = {}
        self.uuid: str = self.ask("uuid", lambda nvml, gpu: nvml.nvmlDeviceGetUUID(gpu)) or ""

    def ask(self, key: str, question: Callable[..., Any], *arguments: Any) -> Any:
        """Return NVML's answer; ``None`` where there is none, and the reason under the key in ``unread``."""
        try:
            return question(self.nvml, self.handle, *arguments)
        except Exception as error:
            self.unread[key] = _error_text(error)
            return None

    def peer(self, other: _Device, capability: str) -> str | None:
        """Return what this GPU can do with another's memory in NVML's words; ``None`` where it does not say."""
        try:
            status = self.nvml.nvmlDeviceGetP2PStatus(self.handle, other.handle, PEER_CAPS[capability])
        except Exception:
            return None
        return PEER_STATUS.get(status, f"NVML's status {status}")


def _link_states(nvml: Any, gpu: Any) -> list[bool]:
    """Return for each NVLink whether it is active; none where the GPU has no NVLink."""
    states: list[bool] = []
    with contextlib.suppress(nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):  # no link of this number
        for number in range(nvml.NVML_NVLINK_MAX_LINKS):
            states.append(bool(nvml.nvmlDeviceGetNvLinkState(gpu, number)))
    return states


def _link(nvml: Any, gpu: Any, number: int, rate: float | None) -> NvLink:
    def ask(function: str) -> Any:
        try:
            return getattr(nvml, function)(gpu, number)
        except Exception:
            return None  # a hypervisor may hide the other end

    remote, version = ask("nvmlDeviceGetNvLinkRemotePciInfo"), ask("nvmlDeviceGetNvLinkVersion")
    return NvLink(
        link=number,
        version=None if version is None else LINK_VERSIONS.get(version, f"NVML's number {version}"),
        line_rate_bytes_per_s=rate,
        remote=REMOTES.get(ask("nvmlDeviceGetNvLinkRemoteDeviceType"), "unknown"),
        remote_pci=pci_address(remote.busId) if remote else None,
    )


def _line_rates(nvml: Any, gpu: Any, links: Sequence[int]) -> dict[int, float]:
    """Return the line rate of each link in one direction, in bytes per second, as far as NVML tells.

    NVML_FI_DEV_NVLINK_GET_SPEED, "NVLink Speed in MBps" of one link, is what ``nvidia-smi nvlink --status`` shows
    (26562 becomes 26.562 GB/s, so M is 10^6); older drivers know NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON only, that of
    all active links.
    """
    if not links:
        return {}
    try:
        fields = [(nvml.NVML_FI_DEV_NVLINK_GET_SPEED, link) for link in links]
        fields.append((nvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0))
        *each, common = (
            int(getattr(field.value, _MEMBERS[field.valueType]))
            if field.nvmlReturn == 0 and field.valueType in _MEMBERS
            else None
            for field in nvml.nvmlDeviceGetFieldValues(gpu, fields)
        )
    except (nvml.NVMLError, AttributeError):  # an older driver, an older module
        return {}
    speeds = {link: speed or common for link, speed in zip(links, each, strict=True)}
    return {link: float(speed * 10**6) for link, speed in speeds.items() if speed}


def _clock_reasons(nvml: Any, gpu: Any) -> list[str]:
    """Return what holds the clocks down, as words; drivers before 535 know the function under its first name."""
    try:
        bits = nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)
    except Exception:
        bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
    known = [word for bit, word in _REASONS.items() if bits & bit]
    rest = bits & ~sum(_REASONS)
    return [*known, f"unknown reason {rest:#x}"] if rest else known


# ------------------------------------------------------------------------------------------------- all GPUs


def facts(uuids: Collection[str] | None = None) -> NvmlFacts:
    """Return these GPUs, or all; raise ``Skip`` where there is no NVML.  Call it in a separate process."""
    try:
        nvml: Any = import_module("pynvml")  # of nvidia-ml-py, which has no types; start-up: only where GPUs are used
    except ImportError:
        raise Skip("nvidia-ml-py is not installed: pip install nvidia-ml-py") from None
    try:
        nvml.nvmlInit()
        devices = [_Device(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        used = [device for device in devices if uuids is None or device.uuid in uuids]
        return NvmlFacts(
            driver_version=nvml.nvmlSystemGetDriverVersion(),
            gpus=[_gpu(device) for device in used],
            peers=[
                PeerStatus(first=one.uuid, second=other.uuid, **{key: one.peer(other, key) for key in PEER_CAPS})
                for one, other in combinations(used, 2)
            ],
        )
    except nvml.NVMLError_LibraryNotFound:
        raise Skip("there is no NVML (libnvidia-ml.so.1)") from None
    except nvml.NVMLError as error:
        raise MachineError(_error_text(error)) from None
    finally:
        with contextlib.suppress(nvml.NVMLError):  # it did not start
            nvml.nvmlShutdown()


def _gpu(device: _Device) -> Gpu:
    answers = {key: device.ask(key, question) for key, question in _QUESTIONS.items()}
    states = device.ask("nvlinks", _link_states)
    active = [number for number, state in enumerate(states or ()) if state]
    rates = _line_rates(device.nvml, device.handle, active)
    links = [_link(device.nvml, device.handle, number, rates.get(number)) for number in active]
    counters = _LINK_ERRORS.items() if active else ()
    errors = {
        kind: device.ask(
            "nvlink_errors",
            lambda nvml, gpu, counter=counter: sum(
                int(nvml.nvmlDeviceGetNvLinkErrorCounter(gpu, link, counter)) for link in active
            ),
        )
        for kind, counter in counters
    }
    return Gpu(
        index=device.index,
        uuid=device.uuid,
        nvlinks=None if states is None else links,
        nvlinks_inactive=len(states or ()) - len(active),
        nvlink_errors={kind: total for kind, total in errors.items() if total is not None} or None,
        clocks_event_reasons=device.ask("clocks_event_reasons", _clock_reasons),
        unread=device.unread,
        **answers,
    )


NVML = Attempt("nvml", "nvmlInit, nvmlDeviceGetNvLinkState, nvmlDeviceGetP2PStatus", facts)
