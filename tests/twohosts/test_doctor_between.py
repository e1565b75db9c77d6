"""``volley doctor --hosts`` on pretended hosts names what keeps MPI from one to the other, and the remedy ends it."""

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
ANY = "unset OMPI_MCA_pml OMPI_MCA_btl;"
"""Open MPI chooses interfaces itself."""


STATES = (
    ("ports", NAMES[1:], f"ip route replace blackhole {ADDRESSES[0]}", f"ip route replace {ADDRESSES[0]} dev link0"),
    ("interfaces", NAMES, BRIDGE, None),
)
"""Each with the hosts that are in it and what ends it: ``None`` for the remedy that doctor names."""


@pytest.mark.alone
@pytest.mark.long
def test_what_is_between_two_hosts_is_named(join_hosts: Callable[[Wire], Lab]) -> None:
    """One state after the other: what finds the next one sees that the remedy has ended the one before."""
    lab = join_hosts(WIRE)
    for number, (check, hosts, state, remedy) in enumerate(STATES):
        for host in hosts:
            done = lab.run(["sh", "-c", state], timeout_s=30, host=host)
            if done.returncode:
                pytest.skip(f"this kernel cannot make the state: {done.stderr.strip()}")
        found = doctor(lab)
        assert problems(found) == [check]
        assert all(found[before]["status"] == "good" for before, *_ in STATES[:number])
        for host in hosts if remedy else ():
            assert lab.run(["sh", "-c", remedy], timeout_s=30, host=host).returncode == 0
    again = doctor(lab, f"{found['interfaces']['remedy']};")
    assert problems(again) == []
    assert again["MPI between hosts"]["status"] == "good"
    assert "TCP over link0" in again["MPI between hosts"]["said"]


def problems(found: dict[str, dict[str, str]]) -> list[str]:
    between = [each for each in found.values() if each["layer"] == "between hosts" and each["evidence"]]
    return [each["check"] for each in between if not each["said"].startswith("fix first")]


def doctor(lab: Lab, before: str = "") -> dict[str, dict[str, str]]:
    """The findings of the first host over both, by check."""
    command = f'{ANY} {before} exec "$0" -m volley doctor --format json --timeout 15 --hosts {",".join(NAMES)}'
    done = lab.run(["sh", "-c", command, sys.executable], timeout_s=200)
    assert done.returncode in {0, 1}, done.stderr
    return {each["check"]: each for each in json.loads(done.stdout)["findings"]}
