"""A stand-in for the module ``pynvml``: answers from a ``hardware`` record as the driver would."""

# Its functions bear NVML's names and take what NVML's take.
# ruff: noqa: ARG002, N801, N818

from types import SimpleNamespace
from typing import Any

from volley.machine import nvml as reader
from volley.machine.hardware import Gpu, Hardware, NvLink

_VERSIONS = {version: number for number, version in reader.LINK_VERSIONS.items()}
_REMOTES = {"gpu": 0, "other": 1, "switch": 2, "unknown": 255}
_STATUS = {words: number for number, words in reader.PEER_STATUS.items()}
_CAPS = {number: name for name, number in reader.PEER_CAPS.items()}


class NVMLError(Exception):
    """What every call may raise."""


class NVMLError_NotSupported(NVMLError):
    """NVML's words for a question that this GPU has no answer to."""

    def __str__(self) -> str:
        return "Not Supported"


class NVMLError_InvalidArgument(NVMLError):
    """E.g. a link of a number that does not exist."""


class NVMLError_LibraryNotFound(NVMLError):
    """There is no driver."""


class NVMLError_FunctionNotFound(NVMLError):
    """The driver is older than the module."""


def _given(value: Any) -> Any:
    if value is None:
        raise NVMLError_NotSupported
    return value


class FakeNvml:
    """As much of ``pynvml`` as is read; a handle is the GPU itself."""

    retired_pages_pending: int | None = None
    NVMLError = NVMLError
    NVMLError_NotSupported = NVMLError_NotSupported
    NVMLError_InvalidArgument = NVMLError_InvalidArgument
    NVMLError_FunctionNotFound = NVMLError_FunctionNotFound
    NVMLError_LibraryNotFound = NVMLError_LibraryNotFound
    NVML_NVLINK_MAX_LINKS = 36
    NVML_FI_DEV_NVLINK_GET_SPEED = 164
    NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON = 90

    def __init__(self, machine: Hardware) -> None:
        self.machine = machine

    def nvmlInit(self) -> None:
        """Start."""

    def nvmlShutdown(self) -> None:
        """End."""

    def nvmlSystemGetDriverVersion(self) -> str:
        assert self.machine.driver_version
        return self.machine.driver_version

    def nvmlDeviceGetCount(self) -> int:
        return len(self.machine.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        return self.machine.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: Gpu) -> str | None:
        return gpu.name

    def nvmlDeviceGetPciInfo(self, gpu: Gpu) -> SimpleNamespace:
        return SimpleNamespace(busId=f"0000{_given(gpu.pci)}".upper())

    def nvmlDeviceGetCurrPcieLinkGeneration(self, gpu: Gpu) -> int:
        return _given(gpu.pcie_generation)

    def nvmlDeviceGetMaxPcieLinkGeneration(self, gpu: Gpu) -> int:
        return _given(gpu.pcie_generation_max)

    def nvmlDeviceGetCurrPcieLinkWidth(self, gpu: Gpu) -> int:
        return _given(gpu.pcie_width)

    def nvmlDeviceGetMaxPcieLinkWidth(self, gpu: Gpu) -> int:
        return _given(gpu.pcie_width_max)

    def nvmlDeviceGetClockInfo(self, gpu: Gpu, which: int) -> int:
        return _given({1: gpu.sm_clock_hz, 2: gpu.memory_clock_hz}[which]) // 10**6

    def nvmlDeviceGetMaxClockInfo(self, gpu: Gpu, which: int) -> int:
        return _given({1: gpu.sm_clock_max_hz, 2: gpu.memory_clock_max_hz}[which]) // 10**6

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: Gpu) -> int:
        raise NVMLError_FunctionNotFound

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: Gpu) -> int:
        return sum(bit for bit, word in reader._REASONS.items() if word in _given(gpu.clocks_event_reasons))

    def nvmlDeviceGetEccMode(self, gpu: Gpu) -> list[int]:
        return [int(_given(gpu.ecc)), 0]

    def nvmlDeviceGetTotalEccErrors(self, gpu: Gpu, kind: int, _counter: int) -> int:
        return _given((gpu.ecc_corrected, gpu.ecc_uncorrected)[kind])

    def nvmlDeviceGetApplicationsClock(self, gpu: Gpu, _which: int) -> int:
        return _given(gpu.sm_clock_set_hz) // 10**6

    def nvmlDeviceGetDefaultApplicationsClock(self, gpu: Gpu, _which: int) -> int:
        return _given(gpu.sm_clock_default_hz) // 10**6

    def nvmlDeviceGetRemappedRows(self, gpu: Gpu) -> tuple[int, int, int, int]:
        known = _given(gpu.row_remapping)
        return 0, 1, int(known == "pending"), int(known == "failed")

    def nvmlDeviceGetRetiredPagesPendingStatus(self, gpu: Gpu) -> int:
        return _given(self.retired_pages_pending)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: Gpu) -> list[int]:
        return [0] * _given(gpu.processes)

    def nvmlDeviceGetPowerUsage(self, gpu: Gpu) -> float:
        return _given(gpu.power_w) * 1000

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: Gpu) -> float:
        return _given(gpu.power_limit_w) * 1000

    def nvmlDeviceGetTemperature(self, gpu: Gpu, _sensor: int) -> int:
        return _given(gpu.temperature_c)

    def nvmlDeviceGetPcieReplayCounter(self, gpu: Gpu) -> int:
        return _given(gpu.pcie_replays)

    def nvmlDeviceGetViolationStatus(self, gpu: Gpu, which: int) -> SimpleNamespace:
        seconds = _given((gpu.power_slowdown_s, gpu.thermal_slowdown_s)[which])
        return SimpleNamespace(violationTime=round(seconds * 1e9))

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:
        return [int(_given(gpu.mig)), 0]

    def nvmlDeviceGetP2PStatus(self, first: Gpu, second: Gpu, which: int) -> int:
        wanted = (first.uuid, second.uuid)
        (peer,) = (peer for peer in self.machine.peers if (peer.first, peer.second) == wanted)
        return _STATUS[_given(getattr(peer, _CAPS[which]))]

    # -------------------------------------------------------------------------------------- NVLink

    def _link(self, gpu: Gpu, number: int) -> NvLink:
        return next(link for link in gpu.nvlinks or () if link.link == number)

    def nvmlDeviceGetNvLinkState(self, gpu: Gpu, number: int) -> int:
        active = [link.link for link in _given(gpu.nvlinks)]
        if not active and not gpu.nvlinks_inactive:
            raise NVMLError_NotSupported
        if number >= len(active) + gpu.nvlinks_inactive:
            raise NVMLError_InvalidArgument
        return int(number in active)

    def nvmlDeviceGetNvLinkVersion(self, gpu: Gpu, number: int) -> int:
        return _VERSIONS[_given(self._link(gpu, number).version)]

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, gpu: Gpu, number: int) -> int:
        return _REMOTES[self._link(gpu, number).remote]

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu: Gpu, number: int) -> SimpleNamespace:
        return SimpleNamespace(busId=f"0000{_given(self._link(gpu, number).remote_pci)}".upper())

    def nvmlDeviceGetNvLinkErrorCounter(self, gpu: Gpu, number: int, counter: int) -> int:
        kinds = {each: kind for kind, each in reader._LINK_ERRORS.items()}
        whole = _given(_given(gpu.nvlink_errors).get(kinds[counter]))
        return whole if number == _given(gpu.nvlinks)[0].link else 0  # all of them are of the first link

    def nvmlDeviceGetFieldValues(self, gpu: Gpu, fields: list[tuple[int, int]]) -> list[SimpleNamespace]:
        def value(field: int, link: int) -> SimpleNamespace:
            rate = self._link(gpu, link).line_rate_bytes_per_s if field == self.NVML_FI_DEV_NVLINK_GET_SPEED else None
            bare = SimpleNamespace(uiVal=round((rate or 0) / 1e6))
            return SimpleNamespace(nvmlReturn=0 if rate else 3, valueType=1, value=bare)

        return [value(*field) for field in fields]
