"""Notes on the state of the machine: one screen of all that is said, or not said, about it."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

import screens
from example_records import golden, log, pingpong, transport, with_devices
from example_records import run as example_run
from gpu_records import H200, changed, machine
from screens import SCREENS, check_screen
from volley.machine.hardware import Device, Settings
from volley.records.launch_series import LaunchSeries, series_of
from volley.records.record_types import Rank, Usage
from volley.records.run_log import RunLog
from volley.run.machine_notes import machine_notes
from volley.run.report_parts import heading, notes_of

SAMPLES = [1.000e-6, 1.001e-6, 1.002e-6, 1.003e-6, 1.004e-6, 1.005e-6]


def shown(logs: list[RunLog]) -> str:
    return screens.shown(logs)[0]


def launch(**usage: Any) -> RunLog:
    """One launch of two ranks, with what the system did to rank 1."""
    one = log(pingpong(SAMPLES))
    facts = {"elapsed_s": 1.0, "cpu_s": 1.0, "total_ticks": 1000, "steal_ticks": 0, **usage}
    counts = dict.fromkeys(("voluntary_switches", "involuntary_switches", "minor_faults", "major_faults"), 0)
    one.end = replace(one.end, usage=[Usage(rank=1, **{**counts, **facts})])
    return one


def with_threads(*shares: float, cores: Sequence[int] = (1,), **usage: Any) -> list[RunLog]:
    """Launches in which threads of libraries took these shares of the time on the cores of rank 1."""
    made = [launch(other_threads_cpu_s=each, **usage) for each in shares]
    for one in made:
        one.run = replace(one.run, ranks=[replace(each, library_cpus=list(cores)) for each in one.run.ranks])
    return made


def on(settings: Settings, **rank: object) -> list[RunLog]:
    """A run with these settings."""
    one = log(pingpong(SAMPLES))
    one.run = replace(one.run, ranks=[replace(each, **rank) for each in one.run.ranks])
    one.settings = replace(settings, host=one.run.ranks[0].host)
    return [one]


def with_variables(variables: dict[str, str], name: str, command: Sequence[str] = (), **facts: Any) -> list[RunLog]:
    """A run of this transport with these variables."""
    one = log(pingpong(SAMPLES, name=name), transports=[transport(name, **facts)])
    plan = replace(one.run.plan, launch={**one.run.plan.launch, "command": list(command)})
    one.run = replace(one.run, environment=variables, plan=plan)
    return [one]


def with_gpus(**grown: object) -> RunLog:
    """A launch on two GPUs whose counters were 0 before it."""
    one = log(pingpong(SAMPLES))
    one.run = replace(one.run, ranks=with_devices())
    errors = {"replay": 4, "CRC": 7}
    zero: dict[str, object] = {
        "nvlink_errors": errors,
        "power_slowdown_s": 1.0,
        "thermal_slowdown_s": 0.0,
        "ecc_uncorrected": 0,
    }
    one.hardware = [changed(machine(H200), **zero)[0], changed(machine(H200), **{**zero, **grown})[1]]
    return one


def with_ranks(*ranks: Rank, settings: Settings | None = None, of: str = "host", **facts: Any) -> list[RunLog]:
    """A run of these ranks."""
    one = log(pingpong(SAMPLES, name=of), transports=[transport(of, **facts)])
    one.run, one.settings = replace(one.run, ranks=list(ranks)), settings
    return [one]


def share(*uuids: str) -> list[Rank]:
    """Ranks with these GPUs."""
    gpu = Device(index=0, name="H200", uuid="", pci="0", compute_capability="9.0", memory_bytes=1)
    return [
        replace(FIRST, rank=number, local_rank=number, cores=[number], device=replace(gpu, uuid=uuid))
        for number, uuid in enumerate(uuids)
    ]


FIRST = example_run().ranks[0]
SLOW = Settings(host="", clock_driver="acpi-cpufreq", governors={"powersave": "0-1"})
SMALL = Settings(host="", quota_cpus=1.5)
MANY = list(range(64))
OWN = ["mpirun", "--mca", "pml", "ucx", "--mca", "btl", "^ofi"]
OF_NCCL = {"NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Ring", "NCCL_DEBUG": "INFO", "UCX_TLS": "tcp", "CUDA_PATH": "/a"}
OF_OPEN_MPI = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_btl": "^ofi"}
SIX = [replace(FIRST, rank=rank, local_rank=rank, cores=[rank]) for rank in range(6)]
CASES = {
    "variables that steer NCCL": with_variables(OF_NCCL, "nccl/device", mpi=False),
    "variables that steer MPI": with_variables(OF_NCCL, "host"),
    "variables that steer nothing of it": with_variables({"NCCL_DEBUG": "INFO", "OMPI_MCA_ess": "x"}, "host"),
    "variables of another library": with_variables({"NVSHMEM_DISABLE_NVLS": "1"}, "host"),
    "some that volley passes to mpirun": with_variables(OF_OPEN_MPI, "host", ["--mca", "pml", "ucx"]),
    "all that volley passes to mpirun": with_variables(OF_OPEN_MPI, "host", OWN),
    "nine variables": with_variables({f"UCX_{number}": "y" for number in range(9)}, "host"),
    "a clock held at its lowest": on(SLOW),
    "a driver whose powersave follows the load": on(replace(SLOW, clock_driver="intel_pstate")),
    "a quota below what the ranks use": on(SMALL),
    "a quota of two": on(replace(SMALL, quota_cpus=2.0)),
    "a quota of two for ranks that are not bound": on(replace(SMALL, quota_cpus=2.0), bound_by="nobody", cores=MANY),
    "a small quota for ranks that are not bound": on(SMALL, bound_by="nobody", cores=MANY),
    "two hardware threads of a core": on(Settings(host="", siblings=[[0, 1]])),
    "hardware threads that are not used": on(Settings(host="", siblings=[[0, 64], [1, 65]])),
    "ranks on several cores": on(Settings(host="", siblings=[[0, 1]]), cores=[0, 1, 2, 3]),
    "ranks on unknown cores": on(Settings(host="", siblings=[[0, 1]]), cores=[]),
    "three shared cores": with_ranks(*SIX, settings=Settings(host=FIRST.host, siblings=[[0, 3], [1, 4], [2, 5]])),
    "two ranks on one CPU": on(Settings(host=""), cores=[0], bound_by="nobody"),
    "two ranks on one CPU of another node": with_ranks(*[replace(each, cores=[0]) for each in SIX[:2]]),
    "two ranks on two CPUs": on(Settings(host=""), cores=[0, 1], bound_by="nobody"),
    "two ranks on one CPU of a core": on(Settings(host="", siblings=[[0, 1]]), cores=[0]),
    "four ranks on a GPU": with_ranks(*share(*["GPU-1"] * 4), of="aware", memory="device"),
    "four ranks on two GPUs": with_ranks(*share(*"0011"), of="aware", memory="device"),
    "a GPU for each rank": with_ranks(*share(*"0123"), of="aware", memory="device"),
    "messages in host memory": with_ranks(*share(*"0000")),
    "stolen time": [launch(steal_ticks=9), launch(steal_ticks=91), launch(steal_ticks=30)],
    "little stolen time": [launch(steal_ticks=10), launch(total_ticks=0, steal_ticks=9)],
    "cores that others used": [launch(cpu_s=0.3), launch(cpu_s=0.5)],
    "cores of which others used little": [launch(cpu_s=0.95)],
    "cores that others used for a moment": [launch(elapsed_s=0.03, cpu_s=0.01), launch(elapsed_s=0.05, cpu_s=0.01)],
    "cores that threads of the ranks used": [launch(cpu_s=0.3, other_threads_cpu_s=0.65)],
    "cores that others used, and threads of the ranks": with_threads(0.02, cpu_s=0.3),
    "a rank that slept": [launch(cpu_s=0.3, voluntary_switches=9)],
    "cores that others used, of which a hypervisor took a part": [launch(cpu_s=0.3, steal_ticks=91)],
    "two stolen ticks": [launch(steal_ticks=2, total_ticks=80)],
    "threads on the core of a rank": with_threads(0.02, 0.001, 0.041),
    "threads on the core of a rank, in one launch": with_threads(0.5),
    "threads on cores of their own": with_threads(0.5, cores=(1, 2)),
    "memory errors": [with_gpus(ecc_uncorrected=1), with_gpus(ecc_uncorrected=2)],
    "memory errors that were there before": [with_gpus(ecc_uncorrected=0)],
    "errors of links": [with_gpus(nvlink_errors={"replay": count, "CRC": 7}) for count in (6, 5)],
    "slowed for a fifth of the time": [with_gpus(power_slowdown_s=1.2)],
    "hardly slowed": [with_gpus(power_slowdown_s=1.005)],
    "counters that are unknown": [with_gpus(nvlink_errors=None, power_slowdown_s=None)],
    "counters that step back": [with_gpus(nvlink_errors={"replay": 0})],
    **{f"{name}, without these facts": golden(name) for name in ("launches", "gpus")},
}


def test_the_machine_is_told_as_it_was_looked_at() -> None:
    """Only what is said about the machine: a note or a line of the heading."""
    parts = []
    for name, logs in CASES.items():
        machine_lines = "\n".join(note.text for note in machine_notes(LaunchSeries(tuple(logs))))
        (settings,) = [heading(series, "pingpong")[2:] for series in series_of(logs)][:1]
        parts.append("\n".join([f"# {name}", *settings, machine_lines]).rstrip() + "\n")
    check_screen(SCREENS / "machine-notes.txt", "\n".join(parts))


def test_memory_errors_are_no_noise() -> None:
    """A machine that is wrong comes before one that is disturbed."""
    (series,) = series_of([with_gpus(ecc_uncorrected=1, power_slowdown_s=1.5)])
    verdicts = [note.verdict for note in machine_notes(series)]
    assert verdicts == ["BROKEN", "BROKEN", "", ""]
    assert [note.verdict for note in notes_of(series, ["host"]) if note.text.startswith("GPU ")] == verdicts
