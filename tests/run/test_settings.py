"""The settings of a node that decide how fast its CPUs run, read from pretended folders of sysfs and procfs."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from fake_engine import install, use
from volley.benchmarks import BENCHMARKS
from volley.benchmarks import read as read_command
from volley.machine import settings
from volley.machine.hardware import Settings
from volley.records.records_file import read_runs
from volley.run import session

CPU = "sys/devices/system/cpu"
V2 = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw"
V1 = "29 28 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct"


def node(root: Path, files: Mapping[str, str]) -> Settings:
    """What is read of a machine with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="ascii")
    return settings.read(root)


def cores(*siblings: str, governor: str = "performance", driver: str = "acpi-cpufreq") -> dict[str, str]:
    """CPUs with their clocks, by the list of hardware threads of the core of each."""
    return {
        name: text
        for number, those in enumerate(siblings)
        for name, text in (
            (f"{CPU}/cpu{number}/topology/thread_siblings_list", those),
            (f"{CPU}/cpu{number}/cpufreq/scaling_governor", governor),
            (f"{CPU}/cpu{number}/cpufreq/scaling_driver", driver),
        )
    }


def test_nothing_is_known_of_an_empty_machine(tmp_path: Path) -> None:
    found = settings.read(tmp_path)
    assert found == Settings(host=found.host, unread={"quota_cpus": "no control group of this process is mounted"})


def test_a_node_with_hardware_threads(tmp_path: Path) -> None:
    found = node(
        tmp_path,
        {
            **cores("0,2", "1,3", "0,2", "1,3"),
            f"{CPU}/cpu3/cpufreq/scaling_governor": "schedutil",
            f"{CPU}/cpufreq/boost": "1",
            f"{CPU}/smt/active": "1",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
            "proc/sys/kernel/numa_balancing": "1",
        },
    )
    assert found == Settings(
        host=found.host,
        clock_driver="acpi-cpufreq",
        governors={"performance": "0-2", "schedutil": "3"},
        boost=True,
        smt=True,
        siblings=[[0, 2], [1, 3]],
        transparent_huge_pages="madvise",
        numa_balancing=True,
        unread={"quota_cpus": "no control group of this process is mounted"},
    )


def test_only_the_cpus_of_the_ranks_are_kept(tmp_path: Path) -> None:
    found = settings.of(node(tmp_path, cores("0,2", "1,3", "0,2", "1,3")), {1, 3})
    assert (found.governors, found.siblings) == ({"performance": "1,3"}, [[1, 3]])
    assert settings.of(found, {7}).governors == {}


def test_siblings_may_be_written_as_a_range(tmp_path: Path) -> None:
    assert node(tmp_path, cores("0-1", "0-1")).siblings == [[0, 1]]


@pytest.mark.parametrize(("switch", "boost"), [("0", True), ("1", False)])
def test_intels_switch_says_no_turbo(tmp_path: Path, switch: str, boost: bool) -> None:
    assert node(tmp_path, {f"{CPU}/intel_pstate/no_turbo": switch}).boost is boost


@pytest.mark.parametrize(
    ("driver", "cpus"), [("acpi-cpufreq", "0-1"), ("intel_cpufreq", "0-1"), ("intel_pstate", None)]
)
def test_powersave_is_the_lowest_clock_unless_the_driver_follows_the_load(
    tmp_path: Path, driver: str, cpus: str | None
) -> None:
    found = node(tmp_path, cores("0", "1", governor="powersave", driver=driver))
    assert (f"(CPU {cpus}, governor powersave)" in (found.slow_clock() or "")) is (cpus is not None)


# ------------------------------------------------------------------------------------------------ CPU quota


IN_TWO_VERSIONS = "5:memory:/other\n4:cpu,cpuacct:/job\n0::/"
OF_MEMORY = "30 28 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
HALF = {"cpu,cpuacct/job/cpu.cfs_quota_us": "50000", "cpu,cpuacct/job/cpu.cfs_period_us": "100000"}
TWO = {"cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
OF_ALL = {"job/step/cpu.max": "max 100000", "job/cpu.max": "150000 100000", "cpu.max": "400000 100000"}
SENSELESS = ("rubbish", "100000", "0 100000", "100000 0")


@pytest.mark.parametrize(
    ("mount", "group", "files", "cpus"),
    [
        (V2, "0::/job/step", OF_ALL, 1.5),  # the smallest of all groups above
        (V2, "0::/job", {"job/cpu.max": "max 100000"}, None),
        # the first version has two files
        (f"{OF_MEMORY}\n{V1}", IN_TWO_VERSIONS, HALF, 0.5),
        (V1, IN_TWO_VERSIONS, {**HALF, "cpu,cpuacct/job/cpu.cfs_quota_us": "-1"}, None),
        # a container sees its own group as the mount
        (V1.replace(" / ", " /docker/1234 ", 1), "4:cpu,cpuacct:/docker/1234", TWO, 2.0),
        (V2, "0::/../outside", {"cpu.max": "300000 100000"}, 3.0),
        (V2, "0::/", {}, None),  # the topmost group has no limit
        # what may be a limit and cannot be read
        *((f"short line\n{V2}", "0::/\nrubbish", {"cpu.max": text}, "allows") for text in SENSELESS),
        ("", "0::/", OF_ALL, "no control group"),
        (V2, "0::/job", {"job/cpu.max/a folder": "max"}, "Is a directory"),
    ],
)
def test_the_quota_of_the_control_groups(
    tmp_path: Path, mount: str, group: str, files: Mapping[str, str], cpus: float | str | None
) -> None:
    about = {"proc/self/mountinfo": mount, "proc/self/cgroup": group}
    found = node(tmp_path, {**about, **{f"sys/fs/cgroup/{name}": each for name, each in files.items()}})
    if isinstance(cpus, str):
        assert cpus in found.unread["quota_cpus"]
    else:
        assert (found.quota_cpus, found.unread) == (cpus, {})


# ------------------------------------------------------------------------------------------------- the seam


def test_the_settings_stand_behind_the_run_where_a_rank_is_on_this_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, install(tmp_path / "bin"))
    output = tmp_path / "r.jsonl"
    words = ["pingpong", "-t", "host", "--sizes", "8", "--launches", "1", "--format", "csv", "--force"]
    words += ["-o", str(output)]
    for host, kinds in (("example-node", ["run", "settings", "transport"]), ("login-node", ["run", "transport"])):
        known = Settings(host=host, governors={"performance": "0-7"}, siblings=[[0, 4], [3, 7]])
        monkeypatch.setattr(settings, "read", lambda known=known: known)
        assert session.measure(read_command(words)) == 0
        lines = output.read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["record"] for line in lines][: len(kinds)] == kinds
        (log,) = read_runs(output, BENCHMARKS)
        assert log.settings == (settings.of(known, {0, 1}) if "settings" in kinds else None)
