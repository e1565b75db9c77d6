"""Several hosts: whether each answers, whether they find and reach each other, are alike, and what MPI took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from msgspec.structs import replace

from volley.doctor.findings import (
    DoctorFinding,
    MissingFacts,
    broken,
    good,
    job_failed,
    not_applicable,
    not_tested,
    require,
    warning,
)
from volley.doctor.mpi_settings import without_interfaces
from volley.doctor.remedies import SEND, end_of_job, end_of_refusal, install_volley
from volley.machine.facts import Facts
from volley.machine.fallbacks import fallback
from volley.machine.job_facts import BETWEEN_SIZES, HostFacts, HostsFacts
from volley.machine.mpi_words import limit_in, lost_host
from volley.machine.paths import RunPath
from volley.machine.place import place_of
from volley.machine.variables import names_no_device, port_range
from volley.text import join_few, join_words
from volley.units import format_cpulist, format_sig, format_size, parse_cpulist

_JOB = "MPI between hosts"
_MOST_DIFFERENCES = 10
_LATE_S, _TIMES = 8.0, 5
"""A host that needs longer than this to start a process, and so many times as long as the first one, is slow."""


def _hosts(facts: Facts) -> HostsFacts:
    """Return what is known of the hosts; where nothing is, the first check says why."""
    if facts.hosts.value is None:
        raise MissingFacts(not_tested("the hosts were not looked at"))
    return facts.hosts.value


def _answered(facts: Facts) -> list[HostFacts]:
    """Return the hosts that answered.

    Raises:
        MissingFacts: if there are fewer than two.
    """
    found = [host for host in _hosts(facts).hosts if not host.error]
    if len(found) < 2:
        raise MissingFacts(not_tested("fewer than two hosts answered"))
    return found


def answers(facts: Facts) -> DoctorFinding:
    """Starts a process on each host, a bounded number at a time, with srun or ssh; each has a deadline of its own."""
    found = require(facts.hosts, "other hosts", f"{SEND} --hosts A,B --dry-run").hosts
    silent = [host for host in found if host.error]
    if not found:
        return not_tested("no host was named")
    if not silent and (late := [host for host in found if host.answer_s > max(_LATE_S, _TIMES * found[0].answer_s)]):
        shown = join_few(f"{host.name} needs {host.answer_s:.0f} s" for host in late)
        look = "; ".join(f"time {each}" for each in ("id", "getent hosts $(hostname)", "ls ~", "python3 -c 0"))
        said = f"{shown} to start a process: its login, resolver, home folder or file system is slow"
        return warning(said, f"{found[0].name} needs {found[0].answer_s:.1f} s", f"on {quote(late[0].name)}: {look}")
    if not silent:
        return good(f"{join_few(host.name for host in found)} answer{'s' * (len(found) == 1)}")
    (first, said, remedy), *rest = ((host, *end_of_refusal(host.error, host.name, facts)) for host in silent)
    also = tuple(f"{host.name}: {words.rstrip('.')}; {its}" for host, words, its in rest[:_MOST_DIFFERENCES])
    many = f"{len(silent)} of {len(found)} hosts: " if len(silent) > 1 else ""
    names = join_few((host.name for host in silent), _MOST_DIFFERENCES)
    finding = broken(f"cannot start volley on {many}{names}", f"{first.name}: {said}", remedy)
    others = len(found) - len(silent) > 1  # the layers above were tried between these
    return replace(finding, also=also, explains=() if others else ("names", "ports", "alike", "interfaces", _JOB))


def names(facts: Facts) -> DoctorFinding:
    """Looks up the name of each host on each host; compares the answer with the addresses that it has."""
    found = _answered(facts)
    own = {host.name: {each.partition("/")[0] for each in host.interfaces.values()} for host in found}
    if _hosts(facts).job.complete and len(found) <= _hosts(facts).job.wanted_ranks:
        return good("MPI works between all of them by their names")
    told = facts.mpi_family in ("mpich", "intel") and "refused" in _hosts(facts).job.why
    for host in found:
        for name, addresses in host.names.items():
            if name not in own or name == "localhost" or (own[name] == own[host.name] and addresses and not told):
                continue  # its own name, which Hydra tells the other hosts as an address
            strangers = [each for each in addresses if each not in own[name] or each.startswith("127.")]
            if strangers or not addresses:
                known = sorted(each for each in own[name] if not each.startswith("127.")) or ["ADDRESS"]
                wrong = f"resolves to {join_words(strangers)}, not its own address" if strangers else "does not resolve"
                line = place_of(facts).add_host(name, known[0])
                return warning(
                    f"on {host.name}, the name {name} {wrong}",
                    f"getaddrinfo({name}) on {host.name}; {name} has {join_few(known)}",
                    f"on {quote(host.name)}: {line}, and remove the existing line for that name",
                    ("ports", _JOB),
                )
    return good("each host resolves the names of the others")


def ports(facts: Facts) -> DoctorFinding:
    """Sends data from hosts to a port of others, at each of their addresses that are not of one host only."""
    hosts = _answered(facts)
    wanted = port_range(facts.environment)
    which = f"the TCP ports {wanted[0]}-{wanted[1]} that MPI is told to use" if wanted else "all TCP ports"
    found: dict[str, DoctorFinding] = {}
    """The first of each host that another one does not reach."""
    reached = {target.partition(" ")[0] for host in hosts for target, answer in host.reached.items() if answer == "ok"}
    for host in hosts:
        tried: dict[str, list[str]] = {}
        for target, answer in host.reached.items():
            tried.setdefault(target.partition(" ")[0], []).append(f"{target}, {answer}")
        for name, answers in tried.items():
            if name in found or any(answer.endswith(", ok") for answer in answers):
                continue
            evidence, place = f"connect on {host.name}: {join_words(answers)}", place_of(facts)
            if any(answer.endswith("data does not cross: timed out") for answer in answers):
                said = f"{host.name} connects to {name}, but data does not cross: the MTU of the path may be smaller"
                remedy = place.admin(
                    "on both hosts: ip link; {sudo}ip link set dev NAME mtu 1500, or jumbo frames on every switch"
                )
                found[name] = broken(said, evidence, remedy, (_JOB,))
                continue
            said = f"{host.name} answers, but cannot open a TCP connection to {name}: a firewall, or no route"
            if any("data does not cross" in answer for answer in answers):
                said = f"{host.name} connects to {name}, but something ends the connection, such as a firewall"
            remedy = place.admin(
                f"open {which} between {quote(host.name)} and {quote(name)} in the firewall of {quote(name)}"
            )
            if place.container in ("docker", "podman") and name == hosts[0].name:  # where doctor was started
                remedy = f"{place.start_with('network')}; or {remedy}"
            found[name] = broken(said, evidence, remedy, (_JOB,))
    if found:  # a host that is cut off reaches none of the others, which reach each other
        first, *rest = [found[name] for name in found if name not in reached] or [*found.values()][:1]
        return replace(first, also=tuple(f"{each.said}; {each.remedy}" for each in rest[:_MOST_DIFFERENCES]))
    return good(f"every host that was tried connects to the others, e.g. to port {hosts[0].port}")


def alike(facts: Facts) -> DoctorFinding:
    """Compares the versions of volley, MPI, UCX and the driver, and the limits, of all hosts."""
    hosts = _answered(facts)
    found = []
    for name in dict.fromkeys(name for host in hosts for name in host.settings):
        values = {host.name: host.settings.get(name, "") or "none" for host in hosts}
        present = [value for value in values.values() if value != "none"]
        usual = Counter(present).most_common(1)[0][0] if present else "none"
        others = [host for host, value in values.items() if value != usual]
        if others:
            remedy = f"give {join_few(others)} the {name} of the other hosts, or leave it out: {usual}"
            if name == "volley":
                remedy = f"on {join_few(map(quote, others))}: {install_volley(facts)}"
            elif name == "limit of locked memory":
                remedy = f"where it is not unlimited: {place_of(facts).raise_limit('l', 'unlimited')}"
            elif name == "limit of open files":
                most = max(values.values(), key=lambda each: (len(each), each))  # decimal numbers
                remedy = f"where it is less than {most}: {place_of(facts).raise_limit('n', most)}"
            elif name == "nvidia_peermem":
                remedy = f"on {join_few(map(quote, others))}: {place_of(facts).admin('{sudo}modprobe nvidia_peermem')}"
            shown = join_few(f"{value} on {host}" for host, value in values.items())
            found.append((f"{name} differs: {shown}", remedy))
    if not found:
        return good("versions and limits are the same on all hosts")
    met = {"ulimit -n": "limit of open", "ulimit -l": "limit of locked"}.get(limit_in(_hosts(facts).job.text), "?")
    found.sort(key=lambda each: (not each[0].startswith(met), "locked" in each[0]))  # that which the job met first
    (said, remedy), *rest = found
    also = tuple(f"{each}; {its}" for each, its in rest[:_MOST_DIFFERENCES])
    return replace(warning(said, "the same query on each host", remedy, (_JOB, "NCCL between hosts")), also=also)


def interfaces(facts: Facts) -> DoctorFinding:
    """Compares the interfaces of all hosts; repeats a failed job without variables and interfaces that do not fit."""
    found, hosts = _hosts(facts), _answered(facts)
    shared = Counter(each for host in hosts for name, each in host.interfaces.items() if name != "lo")
    twice = [each for each, times in shared.items() if times > 1]
    trial, why = None if found.job.complete else found.trial, f"{found.job.command_line}: {found.job.why}"
    if trial and trial.works and not trial.goes_around:
        it = "it" if len(trial.settings) == 1 else "them"
        said = f"{join_words(trial.settings)}: MPI fails with {it} between the hosts and works without {it}"
        if not trial.settings:
            why_not = f": several hosts have {join_words(twice)}" * bool(twice)
            said = f"MPI uses an interface that does not reach the other hosts{why_not}"
        named = (each.partition("=")[::2] for each in trial.settings)
        return broken(next(_names_nothing(named, hosts), said), why, trial.remedy, (_JOB,))
    crossed = found.job.complete or found.job.crossed(BETWEEN_SIZES[-1])
    asked = [each for each in facts.environment.items() if not crossed or each[0].startswith("NCCL_SOCKET")]
    for said in _names_nothing(asked, hosts):
        remedy = f"unset {said.partition('=')[0]}"
        return (warning if crossed else broken)(said, f"ip address; {why}", remedy, () if crossed else (_JOB,))
    if not (crossed or found.trial) and (without := without_interfaces(facts.mpi_family, hosts, found.job.text)):
        lost = [f"{host.name} to {each}: {answer}" for host in hosts for each, answer in host.reached.items()]
        evidence = join_few(each for each in lost if not each.endswith(": ok")) or f"ip address: {join_words(twice)}"
        change = " ".join(f"{name}={each}" for name, each in without.items())
        said = f"MPI fails, and some interfaces lead to no other host, or to a network that another leads to: {change}"
        return broken(said, f"{evidence}; {why}", f"export {change}", (_JOB,))
    also = f"; {join_words(twice)} on several hosts, which MPI does not use" if twice else ""
    names = join_few(f"{name} ({each})" for name, each in hosts[0].interfaces.items() if name != "lo")
    return good(f"{hosts[0].name}: {names}{also}")


def _names_nothing(settings: Iterable[tuple[str, str]], hosts: Sequence[HostFacts]) -> Iterator[str]:
    """Say of each variable that names no interface of a host."""
    for name, value in settings:
        for host in hosts:
            if names_no_device(name, value, host.interfaces):
                yield f"{name}={value} names no interface of {host.name}, which has {join_few(host.interfaces)}"


def between(facts: Facts) -> DoctorFinding:
    """Verified messages between two ranks on different hosts; the counters of the devices say which one they took."""
    found = _hosts(facts)
    job, points = found.job, found.job.delivered("host")
    names = [host.name for host in found.hosts if not host.error] or ["A", "B"]
    if not job.complete or not points:
        around = found.trial.remedy if found.trial and found.trial.works and found.trial.goes_around else ""
        known = "; until then, ".join(filter(None, [end_of_job(job, facts), around]))
        again = f"{SEND if len(names) == 2 else 'volley collective'} --hosts {quote(','.join(names))}"
        lost = lost_host(job.text)
        look = f"on {quote(lost)}: volley doctor" if lost in names[1:] else f"{again}  # shows the whole output"
        remedy = known or look
        return job_failed(job, "MPI does not work between the hosts", remedy, BETWEEN_SIZES[-1])
    on_gpus, alone = found.device_job, facts.mpi_device.value
    if on_gpus and not on_gpus.sends_gpu_memory and (alone is None or alone.sends_gpu_memory):
        again = f"{SEND} -t aware --hosts {quote(','.join(names))}  # shows the whole output"
        remedy = end_of_job(on_gpus, facts) or again
        said = "MPI sends host memory between the hosts, but not GPU memory"
        return job_failed(on_gpus, said, remedy, BETWEEN_SIZES[-1])
    path = next((each for each in reversed(found.paths) if each.transport == "host"), None)
    said = "all-to-all of " * (len(names) > 2)
    said += f"{format_size(points[0].size_bytes)} in {format_sig(job.first_time_s * 1e6, 3)} µs"
    said += f"; {format_size(path.size_bytes)}: {path.words()}" if path else "; what carried the bytes is unknown"
    evidence = f"counters of the network devices of both hosts during {job.command_line}"
    if path and (slow := fallback(path, facts.environment, format_size(path.size_bytes))):
        place = place_of(facts)
        other = f"{slow.change} {SEND} --hosts {quote(','.join(names[:2]))}"
        remedy = place.unset(slow.unset) or f"{other}  # shows the other way"
        unknown = facts.limits.value is None or facts.limits.value.rdma_errors is None  # whether it is in the container
        if place.container and unknown and path.idle[0].rdma and not slow.unset:
            remedy = f"{place.start_with('rdma')}; then {remedy}"
        return warning(f"MPI works between the hosts, but {slow.text}", evidence, remedy)
    if path and path.library == "UCX" and (far := _far_card(path, facts)):
        return far
    rdma = facts.rdma_devices
    if path and path.kind == "TCP" and rdma:
        look = f"ibstat on each host shows whether a port of {join_words(rdma)} is up"
        said = f"MPI works between the hosts, but not over RDMA: {join_words(rdma)} carried nothing; {said}"
        return warning(said, evidence, look)
    return good(said)


def _far_card(path: RunPath, facts: Facts) -> DoctorFinding | None:
    """Return the finding about a card of this host that is far from the cores of its rank, while a near one is idle."""
    here = facts.surroundings.value.host if facts.surroundings.value else ""
    places = facts.topology.value.places if facts.topology.value else []
    for rank in _hosts(facts).job.ranks:
        used = [each.name for end in path.ends if end.rank == rank.rank for each in end.devices if each.rdma]
        near = {
            name: any(core in part for part in parse_cpulist(place.cores) for core in rank.cores)
            for place in places
            for name in place.names
            if place.cores
        }
        better = [each.name for each in path.idle if each.rdma and near.get(each.name)]
        if rank.host == here and used and better and not any(near.get(name, True) for name in used):
            said = f"{join_words(used)} carried the bytes, far from rank {rank.rank}, and {better[0]} is near it"
            evidence = f"sched_getaffinity: {format_cpulist(rank.cores)}; local_cpulist of the cards"
            return warning(said, evidence, f"export UCX_NET_DEVICES={better[0]}:1")
    return None


def gpudirect(facts: Facts) -> DoctorFinding:
    """Reads in UCX's words how GPU memory went to another host; looks for the module that lets cards read it."""
    if not require(facts.bus, "the RDMA devices", "ls /sys/class/infiniband").infiniband:
        return not_applicable("no RDMA device")
    job = _hosts(facts).device_job
    if job is None:
        return not_tested("MPI was not tried on GPU memory between the hosts")
    direct = [line for line in job.protocols if "zero-copy" in line and "/cuda" not in line]
    if direct:
        return good(f"used: {direct[-1]}")
    if not facts.cards_read_gpus:
        said = "not used: the module nvidia_peermem is not loaded, so network cards cannot read GPU memory"
        modules = join_words(facts.driver.value.modules if facts.driver.value else [])
        remedy = place_of(facts).admin("{sudo}modprobe nvidia_peermem")
        return warning(said, f"/proc/modules: {modules or 'none of NVIDIA'}", remedy)
    if not job.protocols:
        return not_tested("UCX did not report how it sent GPU memory")
    evidence = f"{job.command_line}: {job.protocols[-1]}"
    unset = place_of(facts).unset(["UCX_TLS", "UCX_NET_DEVICES"])
    return warning(f"not used: {job.protocols[-1]}", evidence, "; ".join(filter(None, [unset, "ucx_info -d"])))
