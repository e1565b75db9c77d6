"""Notes on the state of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from example_records import golden, log, pingpong, transport
from fake_behaviours import with_devices
from test_hardware import H200, changed, machine
from test_points_page import shown
from volley.machine.hardware import Device, Settings
from volley.records.record_types import Usage
from volley.records.run_log import RunLog

SAMPLES = [1.000e-6, 1.001e-6, 1.002e-6, 1.003e-6, 1.004e-6, 1.005e-6]


def launch(**usage: Any) -> RunLog:
    """One launch of two ranks, with what the system did to rank 1."""
    one = log(pingpong(SAMPLES))
    facts = {"elapsed_s": 1.0, "cpu_s": 1.0, "total_ticks": 1000, "steal_ticks": 0, **usage}
    counts = dict.fromkeys(("voluntary_switches", "involuntary_switches", "minor_faults", "major_faults"), 0)
    assert one.end
    one.end = replace(one.end, usage=[Usage(rank=1, **{**counts, **facts})])
    return one


def on(settings: Settings, **rank: object) -> str:
    """What is shown of a run with these settings."""
    one = log(pingpong(SAMPLES))
    assert one.run
    one.run = replace(one.run, ranks=[replace(each, **rank) for each in one.run.ranks])
    one.settings = replace(settings, host=one.run.ranks[0].host)
    return shown([one])


# --------------------------------------------------------------------------------------------------- environment


def with_variables(variables: dict[str, str], name: str, command: Sequence[str] = (), **transport_facts: Any) -> str:
    """What is shown of a run of this transport with these variables."""
    one = log(pingpong(SAMPLES, name=name), transports=[transport(name, **transport_facts)])
    assert one.run
    plan = replace(one.run.plan, launch={**one.run.plan.launch, "command": list(command)})
    one.run = replace(one.run, environment=variables, plan=plan)
    return shown([one])


def test_variables_that_steer_what_was_measured_are_named_in_one_line() -> None:
    variables = {
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_ALGO": "Ring",
        "NCCL_DEBUG": "INFO",
        "UCX_TLS": "tcp",
        "CUDA_PATH": "/a",
    }
    line = "NCCL_ALGO=Ring, NCCL without NVLink SHARP: NCCL_NVLS_ENABLE=0 in the environment"
    assert line in with_variables(variables, "nccl/device", mpi=False).replace("\n", " ")
    assert "UCX_TLS=tcp in the environment" in with_variables(variables, "host")
    assert "in the environment" not in with_variables({"NCCL_DEBUG": "INFO", "OMPI_MCA_ess": "x"}, "host")
    assert "in the environment" not in with_variables({"NVSHMEM_DISABLE_NVLS": "1"}, "host")


def test_what_volley_passes_to_mpirun_is_not_of_the_environment() -> None:
    variables = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_btl": "^ofi"}
    assert "OMPI_MCA_btl=^ofi in the environment" in with_variables(variables, "host", ["--mca", "pml", "ucx"])
    own = ["mpirun", "--mca", "pml", "ucx", "--mca", "btl", "^ofi"]
    assert "in the environment" not in with_variables(variables, "host", own)


def test_many_variables_are_counted() -> None:
    variables = {f"UCX_{number}": "y" for number in range(9)}
    assert "UCX_5=y and 3 more in the environment" in with_variables(variables, "host").replace("\n", " ")


# --------------------------------------------------------------------------------------------------- CPUs


def test_a_clock_held_at_its_lowest_is_named_with_the_remedy() -> None:
    slow = Settings(host="", clock_driver="acpi-cpufreq", governors={"powersave": "0-1"})
    assert "held at its lowest (CPU 0-1, governor powersave): sudo cpupower frequency-set" in on(slow)
    assert "powersave" not in on(replace(slow, clock_driver="intel_pstate"))


def test_a_quota_below_what_the_ranks_use_is_named() -> None:
    small = Settings(host="", quota_cpus=1.5)
    assert "the control group on example-node allows 1.50 CPUs and the ranks use 2" in on(small)
    assert "control group" not in on(replace(small, quota_cpus=2.0))
    assert "control group" not in on(replace(small, quota_cpus=2.0), bound_by="nobody", cores=list(range(64)))
    assert "the ranks use 2:" in on(small, bound_by="nobody", cores=list(range(64)))


def test_ranks_on_two_hardware_threads_of_one_core_are_named() -> None:
    shared = Settings(host="", siblings=[[0, 1]])
    assert "ranks 0-1 share a core of example-node (hardware threads 0-1)" in on(shared)
    assert "share a core" not in on(replace(shared, siblings=[[0, 64], [1, 65]]))
    assert "share a core" not in on(shared, cores=[0, 1, 2, 3])
    assert "share a core" not in on(shared, cores=[])


def test_many_shared_cores_are_one_note() -> None:
    one = log(pingpong(SAMPLES))
    assert one.run
    first = one.run.ranks[0]
    one.run = replace(one.run, ranks=[replace(first, rank=rank, local_rank=rank, cores=[rank]) for rank in range(6)])
    one.settings = Settings(host=first.host, siblings=[[0, 3], [1, 4], [2, 5]])
    text = shown([one])
    assert "ranks 0,3 share a core of example-node (hardware threads 0,3), and so do the ranks on 2 more cores:" in text
    assert text.count("share a core") == 1


def test_more_ranks_than_cpus_are_named() -> None:
    said = "2 ranks take turns on 1 CPU of example-node, and times include the waiting: start at most 1 rank there"
    assert said in on(Settings(host=""), cores=[0], bound_by="nobody")
    assert "take turns" not in on(Settings(host=""), cores=[0, 1], bound_by="nobody")
    assert "take turns" not in on(Settings(host=""), cores=[])
    assert "take turns" not in on(Settings(host="", siblings=[[0, 1]]), cores=[0])  # they share a core


def test_ranks_that_share_a_gpu_are_named() -> None:
    one = log(pingpong(SAMPLES, name="aware"), transports=[transport("aware", memory="device")])
    assert one.run
    gpu = Device(index=0, name="H200", uuid="GPU-1", pci="0", compute_capability="9.0", memory_bytes=1)
    ranks = [replace(one.run.ranks[0], rank=rank, local_rank=rank, device=gpu) for rank in range(4)]
    one.run = replace(one.run, ranks=ranks)
    assert "\nranks 0-3 share a GPU: the processes take turns" in shown([one])
    one.run = replace(
        one.run, ranks=[replace(each, device=replace(gpu, uuid=f"GPU-{each.rank // 2}")) for each in ranks]
    )
    assert "\n2 GPUs are shared, one by ranks 0-1: the processes take turns" in shown([one])
    one.run = replace(one.run, ranks=[replace(each, device=replace(gpu, uuid=f"GPU-{each.rank}")) for each in ranks])
    assert "take turns" not in shown([one])
    host = log(pingpong(SAMPLES))  # whose messages stay in host memory
    assert host.run
    host.run = replace(host.run, ranks=ranks)
    assert "take turns" not in shown([host])


def test_stolen_time_is_told_once_with_its_worst_launch() -> None:
    text = shown([launch(steal_ticks=9), launch(steal_ticks=91), launch(steal_ticks=30)])
    assert "took up to 9.1 % of the time of the CPUs of rank 1 on example-node, in 2 of 3 launches" in text
    assert text.count("hypervisor") == 1
    assert "hypervisor" not in shown([launch(steal_ticks=10), launch(total_ticks=0, steal_ticks=9)])
    assert "hypervisor" not in shown([launch(steal_ticks=2, total_ticks=80)])


# --------------------------------------------------------------------------------------------------- GPUs


def with_gpus(**grown: object) -> RunLog:
    """A launch on two GPUs whose counters were 0 before it."""
    one = log(pingpong(SAMPLES))
    assert one.run
    one.run = replace(one.run, ranks=with_devices())
    errors = {"replay": 4, "CRC": 7}
    zero: dict[str, object] = {"nvlink_errors": errors, "power_slowdown_s": 1.0, "thermal_slowdown_s": 0.0}
    one.hardware = [changed(machine(H200), **zero)[0], changed(machine(H200), **{**zero, **grown})[1]]
    return one


def test_link_errors_during_the_launches_are_added_up() -> None:
    text = shown([with_gpus(nvlink_errors={"replay": 6, "CRC": 7}), with_gpus(nvlink_errors={"replay": 5, "CRC": 7})])
    assert text.count("GPU 0 (NVIDIA H200) had NVLink errors during the run (3 replays)") == 1
    assert "CRC" not in text


def test_time_below_the_clocks_counts_from_one_per_cent_on() -> None:
    assert "GPU 1 (NVIDIA H200) ran below its clocks for 20 % of the run because of power" in shown(
        [with_gpus(power_slowdown_s=1.2)]
    )
    assert "below its clocks" not in shown([with_gpus(power_slowdown_s=1.005)])


def test_counters_that_are_unknown_or_step_back_say_nothing() -> None:
    for grown in ({"nvlink_errors": None, "power_slowdown_s": None}, {"nvlink_errors": {"replay": 0}}):
        text = shown([with_gpus(**grown)])
        assert "NVLink errors" not in text
        assert "below its clocks" not in text


@pytest.mark.parametrize("name", ["launches", "gpus", "rank-matrix", "jacobi"])
def test_records_without_these_facts_are_shown_without_them(name: str) -> None:
    text = shown(golden(name))
    assert "control group" not in text
    assert "hypervisor" not in text
