"""``volley doctor``: capture or read facts, judge them, show the findings.

On a terminal these are the problems with evidence and remedy, then what is fine in one line a layer; or all.  Or what
CUDA says of every GPU, in the layout of the CUDA sample deviceQuery.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from volley.doctor.checks import diagnose
from volley.doctor.findings import NO_GPU, Diagnosis, Finding, Status
from volley.doctor.options import DoctorOptions
from volley.document import readable_json
from volley.errors import EXIT_GOOD, MachineError, UserError
from volley.files import refuse_existing, refuse_unwritable, write_file
from volley.machine.facts import CudaDevice, CudaFacts, Facts, encode, read_facts
from volley.report.terminal import console_on, print_hanging, print_line
from volley.text import ascii_json, escape_controls, grouped

_SHORTEST_S = 1.0


def run(options: DoctorOptions) -> int:
    """Run the command; return the exit code: 1 if something is broken."""
    if options.source is not None and options.capture:
        raise UserError("--from and --capture cannot be combined: --from judges facts that --capture saved")
    if options.timeout < _SHORTEST_S:
        raise UserError(f"--timeout {options.timeout:g}: each test needs at least one second, e.g. --timeout 60")
    if options.capture and str(options.capture) != "-":  # before anything is tried
        refuse_existing(options.capture, force=options.force)
        refuse_unwritable(options.capture, "facts")
    facts = read_facts(options.source) if options.source is not None else _capture(options)
    if options.capture and str(options.capture) == "-":
        sys.stdout.write(ascii_json(encode(facts)))
        return EXIT_GOOD
    if options.capture:
        write_file(options.capture, encode(facts), "facts")
        print(f"facts: {escape_controls(str(options.capture))}", file=sys.stderr)
    if options.device_query:
        return _devices(facts, as_json=options.format == "json")
    diagnosis = diagnose(facts)
    if options.format == "json":
        sys.stdout.write(readable_json(diagnosis))
    else:
        render(diagnosis, facts, sys.stdout, verbose=options.verbose)
    return diagnosis.exit_code


def _capture(options: DoctorOptions) -> Facts:
    from volley.doctor.probes import capture  # noqa: PLC0415  start-up: judging kept facts does without
    from volley.launch.allocation import allocation  # noqa: PLC0415  start-up: judging kept facts does without

    granted = allocation(os.environ)
    names = options.hosts or tuple(granted.hosts if granted else ())
    drawn = sys.stderr.isatty()

    def watch(call: str) -> None:
        if drawn:
            sys.stderr.write(f"\r\x1b[Ktrying {escape_controls(call)[:100]}")
            sys.stderr.flush()

    try:
        return capture(options.timeout, watch, names, options.job.mpi)
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _devices(facts: Facts, *, as_json: bool) -> int:
    cuda = facts.cuda.value
    if cuda is None or not cuda.devices:
        answer = f"{cuda.failed_call}: {cuda.status_name}" if cuda and cuda.status else "CUDA shows no device"
        raise MachineError(escape_controls(facts.cuda.skipped or facts.cuda.error or answer))
    if as_json:
        sys.stdout.write(readable_json(cuda))
    else:
        stack = facts.stack.value
        lines = device_query(cuda, stack.cuda_built if stack else None)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return EXIT_GOOD


# --------------------------------------------------------------------------------------------- the findings

_ORDER: tuple[Status, ...] = ("broken", "warning", "not tested")
"""Problems, the worst first."""

_STYLES: dict[Status, str] = {
    "good": "green",
    "warning": "yellow",
    "broken": "bold red",
    "not applicable": "dim",
    "not tested": "cyan",
}
_FINE: tuple[Status, ...] = ("good", "not applicable")
_GAP = 2
"""Blanks between columns."""


def render(diagnosis: Diagnosis, facts: Facts, out: TextIO, *, verbose: bool) -> None:
    """Show the findings on ``out``, and the counts last; if ``verbose``, all of them in the order of the layers."""
    console = console_on(out)
    system = facts.system.value
    about = [system.os_name, f"Linux {system.kernel}", system.architecture, system.container] if system else []
    print_line(console, f"volley doctor: {', '.join(filter(None, about))}" if about else "volley doctor", wrap=True)
    if facts.note:
        print_line(console, facts.note, "dim", wrap=True)
    if verbose:
        for layer, findings in groupby(diagnosis.findings, key=lambda each: each.layer):
            console.print(Text(f"\n{layer}", "bold"))
            _print(console, list(findings), diagnosis)
    else:
        if not facts.has_gpu:
            print_line(console, f"{NO_GPU}: GPU checks do not apply", wrap=True)
        problems = [each for each in diagnosis.findings if each.status not in _FINE]
        if problems:
            console.print()
            _print(console, _together(sorted(problems, key=lambda each: _ORDER.index(each.status))), diagnosis)
        console.print()
        _print_fine_layers(console, diagnosis)
    said = () if verbose or facts.has_gpu else ("not applicable",)
    counts = ", ".join(f"{times} {each}" for each, times in diagnosis.counts.items() if times and each not in said)
    console.print(Text(f"\n{counts}" + ("" if verbose else "; -v shows every finding")))


def _together(problems: Sequence[Finding]) -> list[Finding]:
    """Make one finding of those that were not tested for one reason; what they said is a consequence."""
    found = []
    for each in grouped(problems, lambda one: one if one.status != "not tested" else one.said + one.remedy).values():
        names = "; ".join(one.check for one in each)
        first = msgspec.structs.replace(each[0], evidence=each[0].evidence if each[0].status != "not tested" else "")
        several = {"check": f"{len(each)} checks", "said": f"{first.said} ({names})"} if len(each) > 1 else {}
        found.append(msgspec.structs.replace(first, **several))
    return found


def _print(console: Console, findings: Sequence[Finding], diagnosis: Diagnosis) -> None:
    # Fixed columns, so that all tables stand in line with each other.
    first = max(len(each.status) for each in diagnosis.findings)
    second = max(len(each.check) for each in diagnosis.findings)
    for finding in findings:
        said = Text(escape_controls(finding.said), "dim" if finding.status == "not applicable" else "")
        start = Text.assemble(
            (finding.status.ljust(first + _GAP), _STYLES[finding.status]), finding.check.ljust(second + _GAP)
        )
        print_hanging(console, start, said, wrap=True)
        if finding.status in _ORDER:
            more = (("also", each, "") for each in finding.also)
            for word, text, style in (("tried", finding.evidence, "dim"), ("do", finding.remedy, "bold"), *more):
                if text:
                    line = Text.assemble((f"{word}: ", "dim"), (escape_controls(text), style))
                    print_hanging(console, Text(" " * len(start)), line, wrap=True)


def _print_fine_layers(console: Console, diagnosis: Diagnosis) -> None:
    width = max(len(each.layer) for each in diagnosis.findings) + _GAP
    for layer, findings in groupby(diagnosis.findings, key=lambda each: each.layer):
        found = grouped(findings, lambda finding: finding.status)
        parts = [
            Text(f"{status}: {'; '.join(finding.check for finding in found[status])}", _STYLES[status])
            for status in _FINE
            if status in found
        ]
        if parts:
            start = Text.assemble((layer.ljust(width), "bold"))
            print_hanging(console, start, Text("; ").join(parts), wrap=True)


# ------------------------------------------------------------------------------------------------- deviceQuery

_MODES = (
    "Default (multiple host threads can use ::cudaSetDevice() with device simultaneously)",
    "Exclusive (only one host thread in one process is able to use ::cudaSetDevice() with this device)",
    "Prohibited (no host thread can use ::cudaSetDevice() with this device)",
    "Exclusive Process (many threads in one process is able to use ::cudaSetDevice() with this device)",
)
"""By the number of ``CUcomputemode``."""

_CORES = {(5, 0): 128, (6, 0): 64, (6, 1): 128, (7, 0): 64, (8, 0): 64, (8, 6): 128}
"""FP32 cores of a multiprocessor, from this compute capability on (CUDA C++ Programming Guide, "Compute
capabilities")."""

_PCI = re.compile(r"(?P<domain>[0-9a-fA-F]+):(?P<bus>[0-9a-fA-F]+):(?P<slot>[0-9a-fA-F]+)\.")

_LINES = """
CUDA Capability Major/Minor version number: | {COMPUTE_CAPABILITY_MAJOR}.{COMPUTE_CAPABILITY_MINOR}
Total amount of global memory: | {mebibytes:.0f} MBytes ({bytes} bytes)
({MULTIPROCESSOR_COUNT:03}) Multiprocessors, ({cores:03}) CUDA Cores/MP: | {all_cores} CUDA Cores
GPU Max Clock rate: | {megahertz:.0f} MHz ({gigahertz:.2f} GHz)
Memory Clock rate: | {memory_megahertz:.0f} Mhz
Memory Bus Width: | {GLOBAL_MEMORY_BUS_WIDTH}-bit
L2 Cache Size: | {L2_CACHE_SIZE} bytes
Maximum Texture Dimension Size (x,y,z) | 1D=({MAXIMUM_TEXTURE1D_WIDTH}), 2D=({MAXIMUM_TEXTURE2D_WIDTH}, \
{MAXIMUM_TEXTURE2D_HEIGHT}), 3D=({MAXIMUM_TEXTURE3D_WIDTH}, {MAXIMUM_TEXTURE3D_HEIGHT}, {MAXIMUM_TEXTURE3D_DEPTH})
Maximum Layered 1D Texture Size, (num) layers | 1D=({MAXIMUM_TEXTURE1D_LAYERED_WIDTH}), \
{MAXIMUM_TEXTURE1D_LAYERED_LAYERS} layers
Maximum Layered 2D Texture Size, (num) layers | 2D=({MAXIMUM_TEXTURE2D_LAYERED_WIDTH}, \
{MAXIMUM_TEXTURE2D_LAYERED_HEIGHT}), {MAXIMUM_TEXTURE2D_LAYERED_LAYERS} layers
Total amount of constant memory: | {TOTAL_CONSTANT_MEMORY} bytes
Total amount of shared memory per block: | {MAX_SHARED_MEMORY_PER_BLOCK} bytes
Total shared memory per multiprocessor: | {MAX_SHARED_MEMORY_PER_MULTIPROCESSOR} bytes
Total number of registers available per block: | {MAX_REGISTERS_PER_BLOCK}
Warp size: | {WARP_SIZE}
Maximum number of threads per multiprocessor: | {MAX_THREADS_PER_MULTIPROCESSOR}
Maximum number of threads per block: | {MAX_THREADS_PER_BLOCK}
Max dimension size of a thread block (x,y,z): ({MAX_BLOCK_DIM_X}, {MAX_BLOCK_DIM_Y}, {MAX_BLOCK_DIM_Z})
Max dimension size of a grid size    (x,y,z): ({MAX_GRID_DIM_X}, {MAX_GRID_DIM_Y}, {MAX_GRID_DIM_Z})
Maximum memory pitch: | {MAX_PITCH} bytes
Texture alignment: | {TEXTURE_ALIGNMENT} bytes
Concurrent copy and kernel execution: | {yes[ASYNC_ENGINE_COUNT]} with {ASYNC_ENGINE_COUNT} copy engine(s)
Run time limit on kernels: | {yes[KERNEL_EXEC_TIMEOUT]}
Integrated GPU sharing Host Memory: | {yes[INTEGRATED]}
Support host page-locked memory mapping: | {yes[CAN_MAP_HOST_MEMORY]}
Alignment requirement for Surfaces: | {yes[SURFACE_ALIGNMENT]}
Device has ECC support: | {ecc}
Device supports Unified Addressing (UVA): | {yes[UNIFIED_ADDRESSING]}
Device supports Managed Memory: | {yes[MANAGED_MEMORY]}
Device supports Compute Preemption: | {yes[COMPUTE_PREEMPTION_SUPPORTED]}
Supports Cooperative Kernel Launch: | {yes[COOPERATIVE_LAUNCH]}
Supports MultiDevice Co-op Kernel Launch: | {yes[COOPERATIVE_MULTI_DEVICE_LAUNCH]}
Device PCI Domain ID / Bus ID / location ID: | {domain} / {bus} / {slot}
Compute Mode:\\n     < {mode} >
UUID: | {uuid}
Shared memory per block, at most: | {MAX_SHARED_MEMORY_PER_BLOCK_OPTIN} bytes
Registers per multiprocessor: | {MAX_REGISTERS_PER_MULTIPROCESSOR}
Supports GPUDirect RDMA: | {yes[GPU_DIRECT_RDMA_SUPPORTED]}
Supports Memory Pools: | {yes[MEMORY_POOLS_SUPPORTED]}
"""
"""Label and value: deviceQuery's own in its order, then what it does not show.  A line whose fact nobody has is left
out; ``yes`` has every attribute as ``Yes`` or ``No``."""


def device_query(cuda: CudaFacts, runtime: str | None) -> Iterator[str]:
    """Yield the lines; ``runtime`` is the CUDA runtime of the engine, if it has one."""
    driver = f"{cuda.driver_version // 1000}.{cuda.driver_version % 1000 // 10}"
    yield from (" CUDA Device Query (driver API, by volley doctor)", "")
    yield f"Detected {len(cuda.devices)} CUDA Capable device(s)"
    for device in cuda.devices:
        yield from ("", f'Device {device.index}: "{escape_controls(device.name)}"')
        yield f"  {'CUDA Driver Version / Runtime Version':47}{driver} / {runtime or 'none'}"
        values = _values(device)
        for line in _LINES.strip().split("\n"):
            label, _, value = line.replace(r"\n", "\n").partition(" | ")
            with suppress(KeyError):
                yield f"  {label.format_map(values):47}{value.format_map(values)}".rstrip()
    names = [escape_controls(device.name) for device in cuda.devices]
    for one, row in enumerate(cuda.peers):
        for other, reaches in enumerate(row):
            if one != other:
                answer = "Yes" if reaches else "No"
                yield f"> Peer access from {names[one]} (GPU{one}) -> {names[other]} (GPU{other}) : {answer}"
    versions = f"CUDA Driver Version = {driver}, CUDA Runtime Version = {runtime or 'none'}"
    yield from ("", f"deviceQuery, CUDA Driver = CUDART, {versions}, NumDevs = {len(cuda.devices)}", "Result = PASS")


def _values(device: CudaDevice) -> dict[str, object]:
    """Return what the lines name: attributes, and what follows from them."""
    known = device.attributes
    values: dict[str, object] = {**known, "yes": {name: "Yes" if value else "No" for name, value in known.items()}}
    if place := _PCI.match(device.pci):
        values |= {name: int(number, 16) for name, number in place.groupdict().items()}
    values |= {"uuid": escape_controls(device.uuid)}
    values |= {"bytes": device.memory_bytes, "mebibytes": device.memory_bytes / (1 << 20)}
    if "CLOCK_RATE" in known:
        values |= {"megahertz": known["CLOCK_RATE"] / 1e3, "gigahertz": known["CLOCK_RATE"] / 1e6}
    if "MEMORY_CLOCK_RATE" in known:
        values["memory_megahertz"] = known["MEMORY_CLOCK_RATE"] / 1e3
    if "ECC_ENABLED" in known:
        values["ecc"] = "Enabled" if known["ECC_ENABLED"] else "Disabled"
    if known.get("COMPUTE_MODE", -1) in range(len(_MODES)):
        values["mode"] = _MODES[known["COMPUTE_MODE"]]
    capability = (known.get("COMPUTE_CAPABILITY_MAJOR", 0), known.get("COMPUTE_CAPABILITY_MINOR", 0))
    cores = [count for since, count in _CORES.items() if since <= capability]
    if cores and "MULTIPROCESSOR_COUNT" in known:
        values |= {"cores": cores[-1], "all_cores": cores[-1] * known["MULTIPROCESSOR_COUNT"]}
    return values
