"""What NVML, the NVIDIA driver's own library, says of the GPUs of this node.

Reading it takes a fraction of a second and a loaded driver, so it is done only for a job that uses GPUs, before its
first point and after its last, never while one measures.  Names and numbers of constants are those of ``nvml.h``
(NVIDIA, *NVML API Reference Guide*).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any, Literal, TypeVar

import msgspec

from volley.machine.hardware import Gpu, Hardware, NvLink, PeerStatus
from volley.text import harmless

_Value = TypeVar("_Value")
Nvml = Any
"""The module ``pynvml`` of nvidia-ml-py, which has no types."""

When = Literal["before", "after"]

_MEGA = 10**6
_SM, _MEMORY = 1, 2
"""nvmlClockType_t: NVML_CLOCK_SM, NVML_CLOCK_MEM."""
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
_MEMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal"}
"""nvmlValueType_t of whole numbers without sign: the member of nvmlValue_t that holds one."""


def read(when: When, uuids: Collection[str] | None = None) -> Hardware:
    """Read the GPUs of this node; nothing is raised: what cannot be read is null, with the reason.

    Args:
        when: goes into the record.
        uuids: read these GPUs only; all of them where it is ``None``.
    """
    host = os.uname().nodename
    try:
        with _nvml() as nvml:
            return _read(nvml, when, host, uuids)
    except Exception as error:
        return Hardware(when=when, host=host, reason=_said(error))


def of(hardware: Hardware, uuids: Collection[str]) -> Hardware:
    """Return the record with these GPUs only, and the pairs of them."""
    gpus = [gpu for gpu in hardware.gpus if gpu.uuid in uuids]
    peers = [peer for peer in hardware.peers if peer.first in uuids and peer.second in uuids]
    lost = None if gpus or hardware.reason else "NVML lists none of the GPUs that the ranks use"
    return msgspec.structs.replace(hardware, gpus=gpus, peers=peers, reason=hardware.reason or lost)


@contextmanager
def _nvml() -> Iterator[Nvml]:
    from importlib import import_module  # noqa: PLC0415  start-up: only where GPUs are used

    nvml = import_module("pynvml")
    nvml.nvmlInit()
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _said(error: Exception) -> str:
    """Say what went wrong in NVML's words, or in Python's."""
    if isinstance(error, ModuleNotFoundError):
        return "nvidia-ml-py is not installed: pip install nvidia-ml-py"
    return harmless(str(error)) or type(error).__name__


def _read(nvml: Nvml, when: When, host: str, uuids: Collection[str] | None) -> Hardware:
    found: list[tuple[Any, Gpu]] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        if uuids is None or uuid in uuids:
            found.append((handle, _gpu(nvml, handle, index, uuid)))
    return Hardware(
        when=when,
        host=host,
        driver_version=_text(nvml.nvmlSystemGetDriverVersion()),
        gpus=[gpu for _, gpu in found],
        peers=[_peers(nvml, *pair) for pair in combinations(found, 2)],
        reason=None if found else "NVML lists no GPU that is used here",
    )


class _Asked:
    """Questions about one GPU: an answer that does not come is ``None``, and its reason is kept."""

    def __init__(self) -> None:
        self.unread: dict[str, str] = {}

    def __call__(self, key: str, question: Callable[[], _Value]) -> _Value | None:
        try:
            return question()
        except Exception as error:
            self.unread[key] = _said(error)
            return None


def _gpu(nvml: Nvml, handle: Any, index: int, uuid: str) -> Gpu:
    ask = _Asked()
    links = ask("nvlinks", lambda: _links(nvml, handle))
    active, inactive = links if links is not None else (None, 0)
    return Gpu(
        index=index,
        uuid=uuid,
        name=ask("name", lambda: _text(nvml.nvmlDeviceGetName(handle))),
        pci=ask("pci", lambda: pci(_text(nvml.nvmlDeviceGetPciInfo(handle).busId))),
        nvlinks=active,
        nvlinks_inactive=inactive,
        pcie_generation=ask("pcie_generation", lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        pcie_generation_max=ask("pcie_generation_max", lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        pcie_width=ask("pcie_width", lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        pcie_width_max=ask("pcie_width_max", lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        sm_clock_hz=ask("sm_clock_hz", lambda: nvml.nvmlDeviceGetClockInfo(handle, _SM) * _MEGA),
        sm_clock_max_hz=ask("sm_clock_max_hz", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, _SM) * _MEGA),
        memory_clock_hz=ask("memory_clock_hz", lambda: nvml.nvmlDeviceGetClockInfo(handle, _MEMORY) * _MEGA),
        memory_clock_max_hz=ask("memory_clock_max_hz", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, _MEMORY) * _MEGA),
        clocks_event_reasons=ask("clocks_event_reasons", lambda: _reasons(nvml, handle)),
        ecc=ask("ecc", lambda: bool(nvml.nvmlDeviceGetEccMode(handle)[0])),
        # NVML_MEMORY_ERROR_TYPE_CORRECTED 0, _UNCORRECTED 1; NVML_VOLATILE_ECC 0
        ecc_corrected=ask("ecc_corrected", lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0)),
        ecc_uncorrected=ask("ecc_uncorrected", lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0)),
        power_w=ask("power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),  # NVML: milliwatts
        power_limit_w=ask("power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
        temperature_c=ask("temperature_c", lambda: nvml.nvmlDeviceGetTemperature(handle, 0)),  # NVML_TEMPERATURE_GPU
        mig=ask("mig", lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0])),
        unread=ask.unread,
    )


def _text(value: str | bytes) -> str:
    """Return a text of NVML's: older modules give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def pci(address: str) -> str:
    """Return a PCI address as CUDA and Linux write it, with a domain of four digits: NVML's has eight.

    >>> pci("00000000:1B:00.0")
    '0000:1b:00.0'
    """
    domain, _, rest = address.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _reasons(nvml: Nvml, handle: Any) -> list[str]:
    """Return what holds the clocks down, as words; drivers before 535 know the function under its first name."""
    read_now = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    try:
        bits = read_now(handle) if read_now else nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    except nvml.NVMLError_FunctionNotFound:
        bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    known = [word for bit, word in _REASONS.items() if bits & bit]
    rest = bits & ~sum(_REASONS)
    return [*known, f"unknown reason {rest:#x}"] if rest else known


# -------------------------------------------------------------------------------------------------- NVLink


def _links(nvml: Nvml, handle: Any) -> tuple[list[NvLink], int]:
    """Return the active links and the number of the others; a GPU without NVLink has none of either."""
    active: list[int] = []
    inactive = 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link):
                active.append(link)
            else:
                inactive += 1
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            break  # no NVLink at all, or no link of this number
    rates = line_rates(nvml, handle, active)
    return [_link(nvml, handle, link, rates.get(link)) for link in active], inactive


def _link(nvml: Nvml, handle: Any, link: int, rate: float | None) -> NvLink:
    ask = _Asked()
    version = ask("version", lambda: nvml.nvmlDeviceGetNvLinkVersion(handle, link))
    kind = ask("remote", lambda: nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))
    address = ask("remote_pci", lambda: pci(_text(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)))
    return NvLink(
        link=link,
        version=None if version is None else LINK_VERSIONS.get(version, f"NVML's number {version}"),
        line_rate_bytes_per_s=rate,
        remote="unknown" if kind is None else REMOTES.get(kind, "unknown"),
        remote_pci=address,
    )


def line_rates(nvml: Nvml, handle: Any, links: list[int]) -> dict[int, float]:
    """Return the line rate of each link in one direction, in bytes per second, as far as NVML tells.

    NVML_FI_DEV_NVLINK_GET_SPEED, "NVLink Speed in MBps" of one link, is what ``nvidia-smi nvlink --status`` shows
    (26562 becomes 26.562 GB/s, so M is 10^6); older drivers know NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON only, that of
    all active links.
    """
    if not links:
        return {}
    fields = [(nvml.NVML_FI_DEV_NVLINK_GET_SPEED, link) for link in links]
    fields.append((nvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0))
    try:
        *each, common = map(_whole, nvml.nvmlDeviceGetFieldValues(handle, fields))
    except nvml.NVMLError:
        return {}
    speeds = {link: speed or common for link, speed in zip(links, each, strict=True)}
    return {link: float(speed * _MEGA) for link, speed in speeds.items() if speed}


def _whole(field: Any) -> int | None:
    """Return a field's value; ``None`` where NVML has none."""
    member = _MEMBERS.get(field.valueType)
    return int(getattr(field.value, member)) if field.nvmlReturn == 0 and member else None


def _peers(nvml: Nvml, first: tuple[Any, Gpu], second: tuple[Any, Gpu]) -> PeerStatus:
    ask = _Asked()
    found: dict[str, str | None] = {}
    for key, index in PEER_CAPS.items():
        status = ask(key, lambda index=index: nvml.nvmlDeviceGetP2PStatus(first[0], second[0], index))  # type: ignore[misc]
        found[key] = None if status is None else PEER_STATUS.get(status, f"NVML's status {status}")
    return PeerStatus(first=first[1].uuid, second=second[1].uuid, **found)
