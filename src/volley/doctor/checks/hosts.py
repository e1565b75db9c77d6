"""Several hosts: whether each answers, whether they find and reach each other, are alike, and what MPI took."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from volley.doctor.findings import Finding, broken, good, not_applicable, not_tested, require, warning
from volley.doctor.remedies import SEND, install_volley, raise_limit, sudo
from volley.machine.facts import Facts, HostsFacts
from volley.text import join_few, join_words
from volley.units import format_sig, format_size

_JOB = "MPI between hosts"
_MOST_DIFFERENCES = 10
_SHARE_BYTES = 1 << 24
"""The job over the hosts sends more than this, and nothing else does in its time."""


def _hosts(facts: Facts) -> HostsFacts:
    return require(facts.hosts, "other hosts", f"{SEND} --hosts A,B --dry-run")


def answers(facts: Facts) -> Finding:
    """Starts a process on each host, with srun or ssh, as the launcher does."""
    silent = [host for host in _hosts(facts).hosts if host.error]
    if not silent:
        return good(f"{join_few(host.name for host in _hosts(facts).hosts)} answer")
    said = f"cannot start volley on {join_few(host.name for host in silent)}"
    last = silent[0].error.splitlines()[-1]
    remedy = f"ssh {silent[0].name} true must work without a password"
    if "volley" in last or "No such file" in last or "not found" in last:
        remedy = f"install volley at the same path on {silent[0].name}: {install_volley(facts)}"
    return broken(said, f"{silent[0].name}: {last}", remedy, ("names", "ports", "alike", "interfaces", _JOB))


def names(facts: Facts) -> Finding:
    """Looks up the name of each host on each host; compares the answer with the addresses that it has."""
    found = [host for host in _hosts(facts).hosts if not host.error]
    own = {host.name: {each.partition("/")[0] for each in host.interfaces.values()} for host in found}
    for host in found:
        for name, addresses in host.names.items():
            if name not in own or (name == host.name and addresses):
                continue
            strangers = [each for each in addresses if each not in own[name] or each.startswith("127.")]
            if strangers or not addresses:
                known = sorted(each for each in own[name] if not each.startswith("127.")) or ["ADDRESS"]
                wrong = f"resolves to {join_words(strangers)}, not its own address" if strangers else "does not resolve"
                line = f"echo '{known[0]} {name}' | {sudo(facts)}tee -a /etc/hosts"
                return warning(
                    f"on {host.name}, the name {name} {wrong}",
                    f"getaddrinfo({name}) on {host.name}; {name} has {join_few(known)}",
                    f"on {host.name}: {line}, and remove the existing line for that name",
                    ("ports", _JOB),
                )
    return good("each host resolves the names of the others")


def ports(facts: Facts) -> Finding:
    """Connects from each host to a port of each other one, at each of its addresses that are not of one host only."""
    hosts = _hosts(facts).hosts
    for host in hosts:
        tried: dict[str, list[str]] = {}
        for target, answer in host.reached.items():
            tried.setdefault(target.partition(" ")[0], []).append(f"{target}, {answer}")
        for name, answers in tried.items():
            if not any(answer.endswith(", ok") for answer in answers):
                said = f"{host.name} answers, but cannot open a TCP connection to {name}: a firewall, or no route"
                opened = f"open all TCP ports between {host.name} and {name} in the firewall of {name}"
                return broken(said, f"connect on {host.name}: {join_words(answers)}", opened, (_JOB,))
    return good(f"every host connects to every other host, e.g. to port {hosts[0].port}")


def alike(facts: Facts) -> Finding:
    """Compares the versions of MPI, UCX and the driver, and the limits, of all hosts."""
    hosts = [host for host in _hosts(facts).hosts if not host.error]
    found = []
    for name in hosts[0].settings if hosts else ():
        values = {host.name: host.settings.get(name, "") or "none" for host in hosts}
        usual = Counter(values.values()).most_common(1)[0][0]
        others = [host for host, value in values.items() if value != usual]
        if others:
            remedy = f"give {join_few(others)} the {name} of the other hosts: {usual}"
            if name == "limit of locked memory":
                remedy = f"where it is not unlimited: {raise_limit(facts, 'memlock', 'unlimited')}"
            elif name == "limit of open files":
                most = max(values.values(), key=lambda each: (len(each), each))  # decimal numbers
                remedy = f"where it is less than {most}: {raise_limit(facts, 'nofile', most)}"
            shown = join_few(f"{value} on {host}" for host, value in values.items())
            found.append((f"{name} differs: {shown}", remedy))
    if not found:
        return good("versions and limits are the same on all hosts")
    (said, remedy), *rest = found
    also = tuple(f"{each}; {its}" for each, its in rest[:_MOST_DIFFERENCES])
    return replace(warning(said, "the same query on each host", remedy, (_JOB,)), also=also)


def interfaces(facts: Facts) -> Finding:
    """Compares the interfaces of all hosts; repeats a failed job without those that lead to containers only."""
    found = _hosts(facts)
    shared = Counter(each for host in found.hosts for name, each in host.interfaces.items() if name != "lo")
    twice = [each for each, times in shared.items() if times > 1]
    trial = found.trial
    if trial and trial.works:
        said = f"{join_words(twice)} is the address of several hosts" if twice else "it exists on one host only"
        said = f"MPI uses an interface that does not reach the other hosts: {said}"
        return broken(said, f"{found.job.command_line}: {found.job.why}", f"export {trial.change}", (_JOB,))
    also = f"; {join_words(twice)} on several hosts, which MPI does not use" if twice else ""
    names = join_few(f"{name} ({each})" for name, each in found.hosts[0].interfaces.items() if name != "lo")
    return good(f"{found.hosts[0].name}: {names}{also}")


def between(facts: Facts) -> Finding:
    """Verified messages between two ranks on different hosts; the counters of the devices say which one they took."""
    found = _hosts(facts)
    job, points = found.job, found.job.delivered("host")
    if not job.complete or not points:
        remedy = f"{SEND} --hosts {','.join(host.name for host in found.hosts)} shows the whole output"
        return broken(f"MPI does not work between the hosts: {job.why}", f"{job.command_line}: {job.why}", remedy)
    took = [f"{name} ({number / 1e6:.0f} MB)" for name, number in found.carried.items() if number > _SHARE_BYTES]
    time_us = format_sig(job.first_time_s * 1e6, 3)
    return good(
        f"{format_size(points[0].size_bytes)} in {time_us} µs, through {join_words(took) or 'an unknown interface'}"
    )


def gpudirect(facts: Facts) -> Finding:
    """Reads in UCX's words how GPU memory went to another host; looks for the module that lets cards read it."""
    if not require(facts.bus, "the RDMA devices", "ls /sys/class/infiniband").infiniband:
        return not_applicable("no RDMA device")
    job = _hosts(facts).job
    direct = [line for line in job.protocols if "zero-copy" in line and "/cuda" not in line]
    if direct:
        return good(f"used: {direct[-1]}")
    modules = facts.driver.value.modules if facts.driver.value else []
    by_module = {"nvidia_peermem", "nv_peer_mem"} & set(modules)
    by_dmabuf = any(device.attributes.get("DMA_BUF_SUPPORTED") for device in facts.cuda_devices)
    if not by_module and not by_dmabuf:
        said = "not used: the module nvidia_peermem is not loaded, so network cards cannot read GPU memory"
        evidence = f"/proc/modules: {join_words(modules) or 'none of NVIDIA'}"
        return warning(said, evidence, f"{sudo(facts)}modprobe nvidia_peermem")
    if not job.protocols:
        return not_tested("UCX did not report how it sent GPU memory")
    evidence = f"{job.command_line}: {job.protocols[-1]}"
    return warning(f"not used: {job.protocols[-1]}", evidence, "unset UCX_TLS UCX_NET_DEVICES; ucx_info -d")
