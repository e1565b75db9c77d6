"""Writes the facts of composed machines: ``python tests/machines/compose.py``.  A test compares, so they cannot drift.

What is known of each machine, and what was assumed, stands in its note.  ``no-gpu`` was captured and is not written
here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import machine_known as known
import machine_variants as variants

from volley.doctor import facts as f

HERE = Path(__file__).parent

MACHINES: dict[str, Callable[[], f.Facts]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(known.t4x4, known.summit, known.abci_v, known.abci_a, variants.h200x2_no_gdrcopy, variants.acs_on),
        *(variants.container_without_ipc, variants.driver_too_old, variants.openmpi_without_ucx, variants.mig),
        *(variants.slurm_duplicate_gpu, variants.slurm_gpus_per_task, variants.no_driver, variants.mpi_hangs),
    )
}


def main() -> None:
    """Write all of them."""
    for name, compose in MACHINES.items():
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        (folder / "facts.json").write_bytes(f.encode(compose()))


if __name__ == "__main__":
    main()
