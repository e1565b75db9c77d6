"""The limits that a site learned from good nodes.

A limit is the end of the prediction interval of a check of one further good node (G. J. Hahn, W. Q. Meeker, Statistical
Intervals, 4.8), of logarithms: mean + t · s · √(1 + 1/n) over n nodes.  Checks of a few nodes do not show how good
nodes differ: these judge a node of which there are enough by its own checks, and let no other one fail.  The
probability of a false alarm is divided by the number of times that are judged.
"""

from __future__ import annotations

import fcntl
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import numpy as np

from volley.check.cluster import TOGETHER
from volley.check.findings import NAMED, Again, CheckFinding
from volley.document import UNREADABLE, Frozen, NonNegative, PositiveSeconds, other_version, part_of, why_unreadable
from volley.errors import UserError
from volley.files import cannot_write, mistaken, write_file
from volley.machine.finding import Verdict
from volley.machine.transports import without_fault
from volley.run.machine_notes import Busy
from volley.statistics.by_group import student
from volley.statistics.estimates import median
from volley.statistics.two_runs import Floats
from volley.text import count, grouped, join_few, join_words
from volley.units import format_sig

FALSE_ALARM = 0.01
"""The probability that a good node is above any of its limits."""
FEWEST = 5
"""Good nodes, or checks of one, that a limit needs."""
WIDEST = 1.5
"""A limit above this many times the usual time was learned from checks that differ too much, and judges nothing."""
APART = math.log(1.05)
"""One check is left out if it is this far from all others, and three times as far as these are from each other."""
ROOM_BYTES = 1 << 14
"""More than a check adds to a file: a line for each of some dozens of times."""

T = TypeVar("T")


class Machine(Frozen, frozen=True, kw_only=True):
    """What a machine is."""

    cpu: str = ""
    gpus: tuple[str, ...] = ()
    ranks: NonNegative = 0


class Checked(Frozen, frozen=True, kw_only=True):
    """What one check of a good node measured."""

    host: str
    machine: Machine
    seconds: dict[str, PositiveSeconds]


class Limits(Frozen, frozen=True, kw_only=True):
    """The checks of good nodes."""

    version: Literal[2] = 2
    checks: list[Checked]

    def of(self, machine: Machine) -> Limits:
        """Return the checks of machines with these processors and GPUs, of any number of ranks."""
        same = [each for each in self.checks if (each.machine.cpu, each.machine.gpus) == (machine.cpu, machine.gpus)]
        return Limits(checks=same)

    def of_nodes(self, name: str, host: str) -> tuple[list[list[float]], bool]:
        """Return the seconds of each node, of ``host`` alone where it has enough checks and there are few nodes; and
        whether they tell that ``host`` is slow."""
        those = grouped((each for each in self.checks if name in each.seconds), attrgetter("host"))
        nodes = {node: [each.seconds[name] for each in its] for node, its in those.items()}
        own = nodes.get(host, [])
        if len(nodes) < FEWEST <= len(own):
            return [own], True
        return [*nodes.values()], len(nodes) >= FEWEST


def limit_s(nodes: Sequence[Sequence[float]], judged: int) -> tuple[float, float] | None:
    """Return the longest and the usual time of a check of a good node, by the checks of each node.

    ``None`` of fewer than ``FEWEST`` checks.  Of fewer nodes than that each check counts as a node.
    """
    nodes = nodes if len(nodes) >= FEWEST else [[each] for each in chain.from_iterable(nodes)]
    if len(nodes) < FEWEST:
        return None
    logs = [np.log(each) for each in nodes]
    means = _without_one_bad(np.sort([each.mean() for each in logs]))
    # The mean of a node differs less than one check of it.
    spare = sum(map(len, logs)) - len(logs)
    inside = sum(float(((each - each.mean()) ** 2).sum()) for each in logs) / max(spare, 1)
    inside *= 1 - float(np.mean([1 / len(each) for each in logs]))
    t = student(1 - FALSE_ALARM / max(judged, 1), len(means) - 1)
    error = math.sqrt(float(means.var(ddof=1)) * (1 + 1 / len(means)) + inside)
    return float(np.exp(means.mean() + t * error)), float(np.exp(np.median(means)))


def _without_one_bad(logs: Floats) -> Floats:
    """Leave out the fastest or slowest if it is far from all others: one of five good ones may be a bad one."""
    for one, others in ((logs[-1], logs[:-1]), (logs[0], logs[1:])):
        if np.abs(others - one).min() > max(APART, 3 * (others.max() - others.min())):
            return others
    return logs


def read_limits(path: Path) -> Limits:
    """Return the limits of a file.

    Raises:
        UserError: if it cannot be read, or is no such file.
    """
    return read(path, Limits, "--expect", "a file of limits", "--learn makes one, on a node that is good")


def read(path: Path, kind: type[T], option: str, what: str, hint: str) -> T:
    """Return the content of a file that an option names; ``hint``: how one is made."""
    document, found = b"", None
    try:
        document = path.read_bytes()
        found = msgspec.json.decode(document)  # that it was cut is told before a wrong type
        return msgspec.json.decode(document, type=kind)
    except FileNotFoundError:
        raise UserError(f"{option} {path}: there is no such file; {hint}") from None
    except OSError as error:
        raise UserError(f"{option}: cannot read {path}: {error.strerror}") from None
    except UNREADABLE as error:
        version = part_of(found, int, "version") if kind is Limits else None
        if apart := other_version("limits", version, Limits(checks=[]).version, "learn again, into another file"):
            raise UserError(f"{option} {path}: {apart}") from None
        other, why = mistaken(document, str(path), ""), why_unreadable(error, document)
        raise UserError(f"{option}: {other}" if other else f"{option} {path} is not {what}: {why}; {hint}") from None


def refuse(path: Path) -> None:
    """Raise a UserError if a check could not be added to a file: that is known before anything is measured."""
    from tempfile import TemporaryFile  # noqa: PLC0415  start-up: few checks learn

    if not path.parent.is_dir():
        raise UserError(f"--expect {path}: there is no folder {path.parent}")
    size_bytes = 0
    if path.exists():
        read_limits(path)
        size_bytes = path.stat().st_size
    try:
        if size_bytes:
            path.open("r+b").close()
        with TemporaryFile(dir=path.parent) as file:
            file.write(bytes(ROOM_BYTES + size_bytes))
    except OSError as error:
        raise cannot_write(path, "limits", error) from None


def learn(path: Path, host: str, machine: Machine, times: Mapping[str, Sequence[float]]) -> str:
    """Add a check to a file, which is made if there is none; return a sentence about what the file can tell."""
    seconds = {name: median(each) for name, each in times.items()}
    try:
        with path.with_name(f".{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # others may learn at the same time
            known = read_limits(path).checks if path.exists() else []
            limits = Limits(checks=[*known, Checked(host=host, machine=machine, seconds=seconds)])
            write_file(path, msgspec.json.format(msgspec.json.encode(limits), indent=1) + b"\n", "limits")
    except OSError as error:
        raise UserError(f"--expect {path}: {error.strerror}") from None
    same = limits.of(machine)
    hosts = len({each.host for each in same.checks})
    words = f"{path}: {count(len(same.checks), 'check')} of {count(hosts, 'node')} of this kind"
    if len(same.checks) < FEWEST:
        return f"{words}; limits need {FEWEST}"
    others = f"; to judge other nodes they need checks of {FEWEST} nodes" * (hosts < FEWEST)
    return f"{words}; {_finds(same, seconds, host)}{others}"


def _finds(limits: Limits, names: Iterable[str], host: str) -> str:
    """Say what the limits can find."""
    names = [*names]
    known = [limit_s(limits.of_nodes(without_fault(name), host)[0], len(names)) for name in names]
    shares = sorted(limit[0] / limit[1] - 1 for limit in known if limit and limit[0] <= WIDEST * limit[1])
    few, wide = known.count(None), len(known) - known.count(None) - len(shares)
    reasons = {"the checks differ too much": wide, f"they are fewer than {FEWEST}": few}
    number_of = {reason: f" ({count(number, 'time')})" * bool(wide and few) for reason, number in reasons.items()}
    why = join_words(f"because {reason}{number_of[reason]}" for reason, number in reasons.items() if number)
    if not shares:
        return f"they judge none of {count(len(names), 'time')}, {why}"
    percents = dict.fromkeys(f"{share * 100:.0f} %" for share in (shares[0], shares[-1]))
    found = f"they find what is slower by {' to '.join(percents)}"
    return f"{found}, and do not judge {wide + few} of {len(names)} times, {why}" if why else found


@dataclass(frozen=True)
class Site:
    """What a check is judged by: the limits of such machines, for so many times as it has."""

    limits: Limits
    judged: int
    again: Again
    host: str
    """The node that is judged."""

    def judge(
        self, layer: str, times: Mapping[str, Sequence[float]], busy: Busy | None = None, ranks: int | None = None
    ) -> CheckFinding:
        """Compare the seconds of each place, in several launches or repetitions, with the limits.

        ``busy`` says why ranks had no core of their own: then nothing is slow for certain; ``ranks``: how many
        measured together, if the times depend on that.
        """
        finding, again = partial(CheckFinding, layer=layer, evidence="limits"), self.again
        learned = {each.machine.ranks for each in self.limits.checks}
        if ranks is not None and learned and ranks not in learned:
            others = join_few(sorted(map(str, learned)), NAMED)
            why = f"the limits are of {others} ranks together, and this check has {ranks}: they do not judge it"
            return finding(status="NOT JUDGED", said=why, evidence="none", remedy=again("--ranks", str(max(learned))))
        over, open_, unknown, wide, sure = [], [], [], [], True
        for name, seconds in times.items():
            nodes, tells = self.limits.of_nodes(without_fault(name), self.host)
            sure, limit = sure and tells, limit_s(nodes, self.judged)
            if limit is None:
                unknown.append(name)
            elif limit[0] > WIDEST * limit[1]:
                wide.append(f"{name} ({format_sig(limit[0] / limit[1], 3)} times the usual)")
            elif min(seconds) > limit[0]:
                over.append(f"{name} {(median(seconds) / limit[0] - 1) * 100:.0f} % above its limit")
            elif median(seconds) > limit[0]:
                open_.append(name)
        verdict: Verdict = "UNDECIDED"
        hosts = join_few(dict.fromkeys(each.host for each in self.limits.checks), 2)
        few = "" if sure else f"the good checks are of {hosts} alone and do not show how good nodes differ"
        if over and (busy or few):
            why = f"{busy.said if busy else few}: {join_few(over, NAMED)}"
            how = f"{busy.without}: {again.quiet}" if busy else f"on {FEWEST} good nodes or more: {again.learn}"
        elif over:
            verdict, why, how = "FAIL", join_few(over, NAMED), ""
        elif unknown:
            why = f"fewer than {FEWEST} good checks of such a machine measured {join_few(unknown, 2)}"
            how = f"on good nodes: {again.learn}"
        elif wide:
            why = f"the limit judges nothing, because the good checks differ too much: {join_few(wide, 2)}"
            how = f"on nodes where nothing else runs, into a new file: {again.learn_anew}"
        elif open_:
            why, how = f"some launches are above the limit: {join_few(open_, NAMED)}", again()
        else:
            why = f"within this site's limits (a good node fails them once in {1 / FALSE_ALARM:.0f} checks)"
            why = why if sure else f"as fast as good checks of {hosts}"
            verdict, why, how = "PASS", f"{why}; {_finds(self.limits, times, self.host)}", ""
        return finding(status=verdict, said=why, remedy=how)


def missing(
    machine: Machine, times: Iterable[str], limits: Limits, asked: Callable[[str], bool], again: Again
) -> Iterator[CheckFinding]:
    """Name what the good nodes had and this machine does not: GPUs, or something that was measured there.

    ``times``: what this check measured; ``asked``: whether it was to measure something, and had the time for it.
    """
    finding = partial(CheckFinding, status="FAIL", layer="what must be there", evidence="limits")
    same = [each for each in limits.checks if each.machine.cpu == machine.cpu]
    fewest = min((len(each.machine.gpus) for each in same), default=0)
    if len(machine.gpus) < fewest:
        why = f"{count(len(machine.gpus), 'GPU')} of {fewest} that the good nodes with this processor have"
        yield finding(part="GPUs", said=why)
    known = limits.of(machine).checks
    # What all ranks measured together has their number in its name.
    usual = [{name for name in each.seconds if TOGETHER not in name} for each in known]
    usual = [{*each.seconds} for each in known if each.machine.ranks == machine.ranks] or usual
    if absent := sorted(filter(asked, set.intersection(*usual) - {*map(without_fault, times)})) if usual else []:
        yield finding(part=join_few(absent, NAMED), said="measured on every good node, and not here")
    if limits.checks and not known and len(machine.gpus) >= fewest:
        kinds = join_few(dict.fromkeys(_words(each.machine) for each in limits.checks), 2)
        why = f"the limits are of other machines: {kinds}; this one is {_words(machine)}"
        yield finding(status="UNDECIDED", said=why, remedy=f"on good nodes of this kind: {again.learn}")


def _words(machine: Machine) -> str:
    return machine.cpu + (f", {len(machine.gpus)} × {machine.gpus[0]}" if machine.gpus else "")
