"""The state of this node around launches: its settings, and its GPUs before and after each launch that uses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from volley.machine import settings
from volley.machine.hardware import Hardware, Settings
from volley.machine.nvidia_driver import has_driver
from volley.records.record_types import Run, cpus_of


@dataclass
class NodeState:
    wanted: bool
    """False: nothing is read."""
    all_gpus: bool
    """One process uses all GPUs, and no record says which ranks have which."""
    _unused: bool = False
    """The ranks of the launches so far had no GPU: NVML is not asked again, which would delay each launch."""
    _latest: tuple[int, Hardware | None] = (0, None)
    """The number of ranks of the last launch, and the state of their GPUs after it: that before the next one."""
    _settings: Settings | None = None

    def read_before(self, ranks: int, *, on_gpus: bool) -> None:
        """Read the state before a launch; all GPUs, because those of the ranks are not known yet."""
        size, latest = self._latest
        if latest and latest.reason is None and size == ranks:
            self._latest = ranks, msgspec.structs.replace(latest, when="before")
        else:
            self._latest = ranks, self._gpus("before", None) if on_gpus else None
        self._settings = settings.read() if self.wanted else None

    def before(self, run: Run) -> Iterator[Settings | Hardware]:
        """Yield the records of the state before a launch, which its ``run`` record needs."""
        here = self._settings
        cpus = cpus_of(rank for rank in run.ranks if here and rank.host == here.host)
        if here and cpus:
            yield settings.of(here, cpus)
        yield from self._of_ranks(self._latest[1], run)

    def after(self, run: Run | None, *, on_gpus: bool) -> Iterator[Hardware]:
        """Read and yield the state of the GPUs after a launch; of one without a ``run`` record nothing is known."""
        hardware = self._gpus("after", run) if on_gpus and run else None
        self._latest = self._latest[0], hardware
        if run:
            yield from self._of_ranks(hardware, run)

    def _gpus(self, when: Literal["before", "after"], run: Run | None) -> Hardware | None:
        if not self.wanted or self._unused or not has_driver():
            return None
        from volley.machine import nvml  # noqa: PLC0415  start-up: only if GPUs are used

        return nvml.read(when, _uuids(run) if run and not self.all_gpus else None)

    def _of_ranks(self, hardware: Hardware | None, run: Run) -> Iterator[Hardware]:
        """Yield the state of the GPUs that ranks use, if there are any."""
        uuids = _uuids(run)
        self._unused = not (uuids or self.all_gpus)
        if hardware is None or not uuids:
            return
        from volley.machine import nvml  # noqa: PLC0415  start-up: already loaded

        yield hardware if self.all_gpus else nvml.of(hardware, uuids)


def _uuids(run: Run) -> set[str]:
    return {rank.device.uuid for rank in run.ranks if rank.device}
