"""``volley doctor --hosts`` on pretended hosts names what keeps MPI from one to the other, and the remedy ends it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest
from pretend_hosts import ADDRESSES, NAMES, Lab, Wire

WIRE = Wire(delay_s=100e-6, rate_bps=1e9)
BRIDGE = (
    "ip link add docker0 type veth peer name other && ip addr add 172.17.0.1/16 dev docker0"
    " && ip link set docker0 up && ip link set other up"
)
LOOP = f"sed 's/^{ADDRESSES[0]} /127.0.1.1 /' /etc/hosts >/run/hosts-here && mount --bind /run/hosts-here /etc/hosts"
ANY = "unset OMPI_MCA_pml OMPI_MCA_btl;"
"""Open MPI chooses interfaces itself."""


@pytest.mark.parametrize(
    ("hosts", "state", "finding", "remedy"),
    [
        ((), "true", None, ""),
        (NAMES, BRIDGE, "interfaces", "shown"),
        (
            NAMES[1:],
            f"ip route replace blackhole {ADDRESSES[0]}",
            "ports",
            f"ip route replace {ADDRESSES[0]} dev link0",
        ),
        (NAMES[1:], LOOP, "names", "umount /etc/hosts"),
    ],
)
def test_what_is_between_two_hosts_is_named(
    hosts: tuple[str, ...], state: str, finding: str | None, remedy: str, join_hosts: Callable[[Wire], Lab]
) -> None:
    lab = join_hosts(WIRE)
    for host in hosts:
        done = lab.run(["sh", "-c", state], timeout_s=30, host=host)
        if done.returncode:
            pytest.skip(f"this kernel cannot make the state: {done.stderr.strip()}")
    found = doctor(lab)
    problems = [each for each in found.values() if each["layer"] == "between hosts" and each["evidence"]]
    assert [each["check"] for each in problems if not each["said"].startswith("fix first")] == [finding][
        : bool(finding)
    ]
    if not finding:
        assert "through link0" in found["MPI between hosts"]["said"]
        return
    shown = found[finding]["remedy"]
    if remedy != "shown":
        for host in hosts:
            assert lab.run(["sh", "-c", remedy], timeout_s=30, host=host).returncode == 0
    again = doctor(lab, f"{shown};" if remedy == "shown" else "")
    assert again[finding]["status"] == "good"
    assert again["MPI between hosts"]["status"] == "good"


def doctor(lab: Lab, before: str = "") -> dict[str, dict[str, str]]:
    """The findings of the first host over both, by check."""
    command = f'{ANY} {before} exec "$0" -m volley doctor --format json --timeout 8 --hosts {",".join(NAMES)}'
    done = lab.run(["sh", "-c", command, sys.executable], timeout_s=200)
    assert done.returncode in {0, 1}, done.stderr
    return {each["check"]: each for each in json.loads(done.stdout)["findings"]}
