"""Writes the facts of composed machines and the pictures of some: ``python tests/machines/compose.py``.

Tests compare, so they cannot drift.

What is known of each machine, and what was assumed, stands in its note.  ``no-gpu`` and ``h200x2-captured`` were
captured and are not written here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import machine_known as known
import machine_variants as variants

from volley.machine import facts as f
from volley.topo.message_path import path_of
from volley.topo.picture import picture
from volley.topo.topology import topology_of

HERE = Path(__file__).parent

MACHINES: dict[str, Callable[[], f.Facts]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(known.t4x4, known.summit, known.abci_v, known.abci_a, variants.h200x2_no_gdrcopy, variants.h200x4),
        *(variants.acs_on, variants.container_without_ipc, variants.driver_too_old, variants.openmpi_without_ucx),
        variants.mig,
        *(variants.slurm_duplicate_gpu, variants.slurm_gpus_per_task, variants.no_driver, variants.mpi_hangs),
    )
}

PICTURES: dict[str, tuple[str | None, tuple[int, int] | None]] = {
    "summit/topo-staged.svg": ("staged/pageable", (0, 3)),
    "summit/topo-staged-near.svg": ("staged/pageable", (0, 1)),
    "summit/topo-aware.svg": ("aware", (0, 1)),
}
"""The pictures that are kept: transport and GPUs by file."""


def drawn(file: str) -> str:
    """Draw a picture of the machine that it lies beside."""
    facts = (HERE / file).with_name("facts.json")
    machine = topology_of(f.decode(facts.read_bytes(), str(facts)))
    transport, gpus = PICTURES[file]
    return picture(machine, path_of(machine, transport, gpus) if transport else None)


def main() -> None:
    """Write all of them."""
    for name, compose in MACHINES.items():
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        (folder / "facts.json").write_bytes(f.encode(compose()))
    for file in PICTURES:
        (HERE / file).write_text(drawn(file), "utf-8")


if __name__ == "__main__":
    main()
