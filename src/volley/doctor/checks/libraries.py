"""GDRCopy and UCX."""

from __future__ import annotations

from volley.doctor.checks.common import NO_GPU, container, has_gpu, sends_gpu_memory
from volley.doctor.facts import Facts, Gdrcopy
from volley.doctor.findings import Verdict, answered, broken, good, lost, not_applicable, not_tested, warning
from volley.doctor.remedies import AWARE_WHEELS, install, sudo, system_of
from volley.text import several

_CUDA_COMPONENTS = ("cuda_cpy", "cuda_ipc", "gdr_copy")
"""UCX's components that take GPU memory (ucx_info -d)."""


def gdrcopy(facts: Facts) -> Verdict:
    """Judge GDRCopy by a mapping, and say which part of it is missing."""
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    if facts.gdrcopy.value is None:
        return lost(facts.gdrcopy, "GDRCopy", install(facts, "gdrcopy"))
    found = facts.gdrcopy.value
    if found.mapped:
        return good(f"GPU memory was mapped, written and read back; library {found.library}, module {found.module}")
    if found.mapped is False:
        return broken(
            "GDRCopy is there, and a mapping fails", answered(facts.gdrcopy, found.map_error or "failed"),
            f"{sudo(system_of(facts))}rmmod gdrdrv; {sudo(system_of(facts))}modprobe gdrdrv",
        )  # fmt: skip
    return _incomplete(facts, found)


def _incomplete(facts: Facts, found: Gdrcopy) -> Verdict:
    """Something of GDRCopy is not there; small messages then take the way through CUDA's copies."""
    parts = {
        "device node": found.node == "ok",
        "module": found.module is not None,
        "library": found.library is not None,
    }
    missing = [name for name, there in parts.items() if not there]
    if not missing:
        return not_tested(found.map_error or "no device to map")
    evidence = answered(facts.gdrcopy, f"/dev/gdrdrv {found.node}, module {found.module or 'not loaded'}, "
                        f"libgdrapi.so.2 {found.library or 'not found'}")  # fmt: skip
    remedy = install(facts, "gdrcopy")
    if container(facts) and "device node" in missing:
        remedy = "on the host: load gdrdrv; then docker run --device /dev/gdrdrv"
    elif "module" in missing and found.library:
        remedy = f"{sudo(system_of(facts))}modprobe gdrdrv"
    return warning(f"no {several(missing)}: small messages of GPU memory take longer", evidence, remedy)


def ucx(facts: Facts) -> Verdict:
    """Judge UCX by the components that it can open."""
    if facts.ucx.value is None:
        verdict = lost(facts.ucx, "UCX", AWARE_WHEELS)
        if facts.ucx.skipped is None:
            return verdict
        if not has_gpu(facts) or sends_gpu_memory(facts):
            return not_applicable("no UCX, and nothing here needs it")
        return warning("no UCX: Open MPI needs it for GPU memory", answered(facts.ucx, facts.ucx.skipped), AWARE_WHEELS)
    found = facts.ucx.value
    usable = [each.name for each in found.components if each.resources]
    cuda = [name for name in usable if name in _CUDA_COMPONENTS]
    said = f"UCX {found.version} with {several(usable)}"
    if has_gpu(facts) and not cuda:
        return warning(
            f"UCX {found.version} has no CUDA: it cannot take GPU memory",
            answered(facts.ucx, several(usable)),
            AWARE_WHEELS,
        )
    return good(said)


def ucx_transfer(facts: Facts) -> Verdict:
    """Judge UCX by messages that ucx_perftest sent."""
    if facts.ucx_transfer.value is None:
        if facts.ucx_transfer.skipped is not None:
            return not_tested(facts.ucx_transfer.skipped, install(facts, "ucx") if has_gpu(facts) else "")
        return lost(facts.ucx_transfer, "a transfer by UCX alone", "UCX_LOG_LEVEL=info ucx_perftest")
    found = facts.ucx_transfer.value
    memory = "GPU" if found.memory == "cuda" else "host"
    if found.status == 0:
        return good(f"ucx_perftest sent {memory} memory between two processes")
    last = found.said.splitlines()[-1] if found.said else f"status {found.status}"
    said = f"ucx_perftest cannot send {memory} memory"
    return broken(said, answered(facts.ucx_transfer, last), AWARE_WHEELS if memory == "GPU" else "ucx_info -d")
