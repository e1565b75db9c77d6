"""The GPUs of a machine, as the CUDA runtime describes them to a rank and as the front reads them through NVML; and the
settings of its CPUs."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from volley.document import RECORD_VERSION, Frozen, NonNegative, Number, PositiveNumber, Version, doc
from volley.text import count, join_words
from volley.units import format_sig

SLOWDOWNS = (
    "software power cap",
    "hardware slowdown",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "hardware power brake",
)
"""NVML's reasons for reduced clocks that are power or heat; the low clocks of an idle GPU are none of them."""
_SCALED_BY_LOAD = ("intel_pstate", "amd-pstate-epp")
"""With these drivers, ``powersave`` is the name of a governor that follows the load (Linux, admin-guide/pm/intel_pstate
and amd-pstate).  With all others it is the lowest clock."""
RAISE_CLOCK = "cpupower frequency-set -g performance"


class Device(Frozen, frozen=True, kw_only=True):
    """The GPU that a rank uses, as the CUDA runtime describes it."""

    index: NonNegative
    name: str
    uuid: str
    pci: str
    compute_capability: str
    memory_bytes: NonNegative


class NvLink(Frozen, frozen=True, kw_only=True):
    """One active NVLink of a GPU."""

    link: Annotated[NonNegative, doc("its number on this GPU.")]
    version: Annotated[str | None, doc("of NVLink, e.g. `4.0`.")] = None
    line_rate_bytes_per_s: Annotated[PositiveNumber | None, doc("in one direction, packet overhead included.")] = None
    remote: Annotated[
        Literal["gpu", "switch", "other", "unknown"], doc("what is at the other end; `switch`: NVSwitch.")
    ] = "unknown"
    remote_pci: str | None = None


class Gpu(Frozen, frozen=True, kw_only=True):
    """A GPU at one moment, as NVML describes it.  What could not be read is null, and `unread` says why."""

    index: Annotated[NonNegative, doc("NVML's; CUDA may count in another order.")]
    uuid: str
    name: str | None = None
    pci: str | None = None
    nvlinks: Annotated[list[NvLink] | None, doc("those that are active; empty where the GPU has none.")] = None
    nvlinks_inactive: NonNegative = 0
    nvlink_errors: Annotated[
        dict[str, NonNegative] | None,
        doc(
            "since the driver was loaded, all active links together: `replay`, `recovery`, `CRC` "
            "(of flits), `CRC of data`; those that NVML counts."
        ),
    ] = None
    pcie_generation: Annotated[NonNegative | None, doc("at this moment; a link that idles may step down.")] = None
    pcie_generation_max: Annotated[NonNegative | None, doc("the most that GPU and slot allow together.")] = None
    pcie_width: Annotated[NonNegative | None, doc("lanes at this moment.")] = None
    pcie_width_max: NonNegative | None = None
    pcie_replays: Annotated[NonNegative | None, doc("packets that PCIe sent again.")] = None
    sm_clock_hz: NonNegative | None = None
    sm_clock_max_hz: NonNegative | None = None
    sm_clock_set_hz: Annotated[NonNegative | None, doc("the applications clock that is set (`nvidia-smi -ac`).")] = None
    sm_clock_default_hz: Annotated[NonNegative | None, doc("that of the product.")] = None
    memory_clock_hz: NonNegative | None = None
    memory_clock_max_hz: NonNegative | None = None
    clocks_event_reasons: Annotated[
        list[str] | None, doc("what holds the clocks down at this moment (throttle reasons).")
    ] = None
    power_slowdown_s: Annotated[
        Number | None, doc("time below the application's clocks because of power; it only grows.")
    ] = None
    thermal_slowdown_s: Annotated[Number | None, doc("the same because of heat.")] = None
    ecc: bool | None = None
    ecc_corrected: Annotated[NonNegative | None, doc("errors since the driver was loaded.")] = None
    ecc_uncorrected: NonNegative | None = None
    row_remapping: Annotated[
        Literal["none", "pending", "failed"] | None,
        doc("of faulty rows of memory: `pending` until the next reset, or `failed`."),
    ] = None
    processes: Annotated[NonNegative | None, doc("processes that compute on it.")] = None
    power_w: Number | None = None
    power_limit_w: Number | None = None
    temperature_c: int | None = None
    mig: Annotated[bool | None, doc("divided into instances (MIG).")] = None
    unread: Annotated[dict[str, str], doc("keys that are null, and what NVML said.")] = {}

    @property
    def slowdowns(self) -> str:
        """What of power and heat holds the clocks down, in words; empty if nothing does, or if NVML does not say."""
        return join_words(reason for reason in self.clocks_event_reasons or () if reason in SLOWDOWNS)


OLDEST_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""By major version of CUDA (CUDA Toolkit Release Notes, "CUDA Minor Version Compatibility")."""


def extra_for(driver: str | None) -> str | None:
    """Return the set of optional dependencies that a driver can use: ``cuda13``, ``cuda12`` or, before 525, none.

    Args:
        driver: a text that holds its version, such as the first line of /proc/driver/nvidia/version.  A driver that is
            not known counts as a new one.
    """
    branch = re.search(r"\b(\d{3})\.\d+", driver or "")
    if branch is None:
        return "cuda13"
    return next((f"cuda{major}" for major in (13, 12) if int(branch[1]) >= int(OLDEST_DRIVERS[major][:3])), None)


class PeerStatus(Frozen, frozen=True, kw_only=True):
    """What NVML says two GPUs can do with each other's memory: `ok`, or why not."""

    first: Annotated[str, doc("UUID.")]
    second: Annotated[str, doc("UUID.")]
    read: str | None = None
    write: str | None = None
    nvlink: str | None = None
    atomics: str | None = None


class Hardware(Frozen, frozen=True, kw_only=True, tag_field="record", tag="hardware"):
    """The GPUs of a run on the front's own node, read through NVML before its first point and after its last.

    The front writes it; the engine knows nothing of it.  It is there only where a transport on GPU memory was asked
    for and an NVIDIA driver is loaded.
    """

    version: Version = RECORD_VERSION
    when: Literal["before", "after"]
    host: str
    driver_version: str | None = None
    gpus: list[Gpu] = []
    peers: Annotated[list[PeerStatus], doc("one entry a pair of those GPUs.")] = []
    reason: Annotated[str | None, doc("why nothing could be read.")] = None


class Settings(Frozen, frozen=True, kw_only=True, tag_field="record", tag="settings"):
    """How the front end's own node runs its CPUs, read before the plan is sent; other nodes may differ.

    Keys are null where Linux does not say: a virtual machine hides most of them.
    """

    version: Version = RECORD_VERSION
    host: str
    clock_driver: Annotated[str | None, doc("what sets the CPU clock, e.g. `intel_pstate`.")] = None
    governors: Annotated[
        dict[str, str], doc('CPUs of the ranks by the governor of their clock, as in `{"performance": "0-3"}`.')
    ] = {}
    boost: Annotated[bool | None, doc("clocks above the nominal one are allowed (turbo).")] = None
    smt: Annotated[bool | None, doc("cores run several hardware threads.")] = None
    siblings: Annotated[
        list[list[NonNegative]],
        doc("hardware threads of one core: one list for each core of the ranks that has several."),
    ] = []
    transparent_huge_pages: Annotated[str | None, doc("`always`, `madvise` or `never`.")] = None
    numa_balancing: Annotated[bool | None, doc("Linux moves pages to the node that uses them.")] = None
    quota_cpus: Annotated[
        PositiveNumber | None, doc("CPUs' worth of time that the front end's control group may use; null: no limit.")
    ] = None
    unread: Annotated[dict[str, str], doc("keys that could not be read, and why.")] = {}

    def slow_clock(self) -> str | None:
        """Return a sentence about CPUs that are held at their lowest clock; ``None``: there are none."""
        slow = None if self.clock_driver in _SCALED_BY_LOAD else self.governors.get("powersave")
        return f"the CPU clock of {self.host} is held at its lowest (CPU {slow}, governor powersave)" if slow else None

    def small_quota(self, cpus: int) -> str | None:
        """Return a sentence about a control group that allows less than ranks need on this many CPUs, if it does."""
        if self.quota_cpus is None or self.quota_cpus >= cpus:
            return None
        allowed = f"the control group on {self.host} allows {format_sig(self.quota_cpus, 3)} CPUs"
        return f"{allowed} and the ranks use {cpus}: Linux throttles them repeatedly"


QUOTA = "docker run --cpus, systemd CPUQuota"
"""What sets a quota."""


def sharing_cores(ranks: int, places: str) -> str:
    """Return what the user is told of more ranks than cores."""
    return f"oversubscribed: {count(ranks, 'rank')} on {places}, so times include waiting"
