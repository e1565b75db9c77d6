"""What a check found: one finding for each layer that passed, and one for each part that did not."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from volley.check.cluster import Case
from volley.check.evidence import ClusterPart, Judgement
from volley.check.options import CLUSTER_S
from volley.check.places import Names
from volley.document import doc
from volley.machine.finding import Finding, Verdict
from volley.machine.transports import without_fault
from volley.records import command_again
from volley.records.plan import OUT_OF_TIME
from volley.records.record_types import cpus_of
from volley.run.machine_notes import OF_ITS_OWN
from volley.text import count, join_few
from volley.units import format_size, numbered

LEARN = "limits of this site, learned on good nodes"
NAMED = 8
"""A sentence names at most this many parts of a list."""


def replaced(names: Iterable[str]) -> set[str]:
    """Return the options that these replace: those of the switches, each of which says where all nodes are, too."""
    its, of_switches = {*names}, {"--switches", "--one-switch"}
    return its if its.isdisjoint(of_switches) else its | of_switches


@dataclass(frozen=True)
class Again:
    """What to type to check again: every command of ``volley check`` that a finding recommends."""

    asked: Sequence[Sequence[str]] = ()
    """The options of the check that is judged, each with its values."""
    longer_s: float = 2 * CLUSTER_S

    def __call__(self, *more: str, without: Sequence[str] = ()) -> str:
        """Return the command with ``more`` options; without some, and without those that ``more`` names."""
        left_out = replaced(["--from", "--budget", *without, *(word for word in more if word.startswith("--"))])
        kept = (command_again.written(words) for words in self.asked if words[0] not in left_out)
        return shlex.join(["volley", "check", *chain.from_iterable(kept), *more])

    @property
    def longer(self) -> str:
        return self("--budget", f"{self.longer_s:.0f}")

    @property
    def learn(self) -> str:
        """What learns the limits of a site, on a good node, without faults on purpose; what was learned from a busy
        machine stays in a file of its own."""
        return self.learn_anew if self._busy else self._learn("")

    @property
    def learn_anew(self) -> str:
        """What learns them into another file."""
        return self._learn("-new")

    @property
    def quiet(self) -> str:
        """The same while nothing else runs."""
        return self.learn_anew if self._busy else self()

    @property
    def _busy(self) -> bool:
        return any(words[0] == "--learn-busy" for words in self.asked)

    def _learn(self, added: str) -> str:
        given = {name: values for name, *values in self.asked}
        file = Path(*given.get("--expect", ["FILE"]))
        names = dict.fromkeys(without_fault(",".join(given.get("--transport", ()))).split(","))
        more = ("-t", ",".join(names)) if "--transport" in given else ()
        more = (*more, "--expect", str(file.with_stem(f"{file.stem}{added}")), "--learn")
        return self(*more, without=("--transport", "--inventory", "--learn-busy"))


class CheckFinding(Finding, frozen=True, kw_only=True):
    """What is known about a layer, or about a part of the cluster in it."""

    status: Verdict = msgspec.field(name="verdict")
    layer: Annotated[str, doc("what was measured.")]
    part: Annotated[str, doc("the part of the machine or cluster; empty: all of it.")] = ""
    said: str = msgspec.field(name="why")
    evidence: Annotated[
        Literal["data", "population", "limits", "reference", "line rate", "link state", "inventory", "none"],
        doc("what it was compared with; `data`: the bytes that arrived."),
    ] = msgspec.field(default="none", name="yardstick")
    remedy: Annotated[str, doc("what would decide it, or what to do.")] = msgspec.field(default="", name="decides")
    nodes: Annotated[tuple[str, ...], doc("the nodes that this is about, as the batch system names them.")] = ()
    drain: Annotated[
        bool, doc("these nodes themselves failed: not a switch, a link or a pair of which one is good.")
    ] = False


def of_cluster(
    judgements: Mapping[Case, Judgement], names: Names, reasons: Mapping[Case, str], again: Again
) -> Iterator[CheckFinding]:
    """Say what the judgements of a cluster are; ``reasons``: why pairs were skipped."""
    for case, judgement in judgements.items():
        transport, pattern, size_bytes = case
        quantity = "latency" if pattern == "pingpong" else "bandwidth"
        finding = partial(CheckFinding, layer=f"{quantity}, {format_size(size_bytes)}, {transport}")
        # Which cores of a machine the system or others use says nothing of the machine.
        parts = [part for part in judgement.parts if part.state == "wrong" or not names.one_node]
        for part in parts:
            yield _of_part(finding, part, names, again)
        if judgement.missing:
            skipped = reasons.get(case, "").partition(":")[0]  # behind it: options of matrix
            rarely = "not measured, or too rarely" if judgement.partners else "not measured"
            why = ": ".join(filter(None, (rarely, skipped)))
            lost, how = names.nodes(judgement.missing), again.longer if skipped in ("", OUT_OF_TIME) else again()
            yield finding(status="UNDECIDED", part=join_few(lost, NAMED), said=why, remedy=how, nodes=tuple(lost))
        elif not parts and names.one_node:
            yield _of_one_machine(finding, judgement, names, again)
        elif not parts:
            total, each = len(set(names.places.node.tolist())), count(judgement.partners, "partner")
            seen = f"a node slower by {_percent(judgement.seen_from)} would have been found"
            unseen = "this does not see a single bad pair (volley matrix), nor what comes and goes and costs less than "
            unseen += f"{_percent(judgement.hit_from)} (volley pingpong --tail)"
            said = f"{seen}, among {total} nodes ({each} each)"
            yield finding(status="PASS", said=said, evidence="population", remedy=unseen)


def _of_one_machine(finding: partial[CheckFinding], judgement: Judgement, names: Names, again: Again) -> CheckFinding:
    """Report the cores of a machine: others may use them, so that a slow one is not judged."""
    ranks, cpus = count(len(names.ranks), "rank"), len(cpus_of(names.ranks))
    if len(names.ranks) > cpus > 0:
        why = f"the data of {ranks} is correct; the speed is not judged, because they share {count(cpus, 'CPU')}"
        how = again("--ranks", str(cpus)) if cpus > 1 else f"{OF_ITS_OWN}: {again.quiet}"
        return finding(status="NOT JUDGED", said=why, remedy=how)
    if not judgement.parts:
        why = f"a rank slower by {_percent(judgement.seen_from)} would have been found, among {ranks} of this machine"
        return finding(status="PASS", said=why, evidence="population")
    slow = [part for part in judgement.bad if part.state == "slow" and part.ranks]
    cores = join_few([f"rank {rank}" for part in slow for rank in part.ranks], NAMED)
    seen = f"; {cores}: {_percent(max(part.slower or 0 for part in slow))} slower than the others" if slow else ""
    why = f"the data of {ranks} is correct{seen}; the speed of single ranks is not judged"
    return finding(status="NOT JUDGED", said=why, remedy=f"{LEARN}: {again.learn}")


def _of_part(finding: partial[CheckFinding], part: ClusterPart, names: Names, again: Again) -> CheckFinding:
    """Say what is wrong with a part, or what would decide it."""
    nodes = names.nodes(part.ranks)
    slower, several, title = _percent(part.slower), join_few(nodes, NAMED), _title(part, names)
    switch = names.switch(part.ranks[0]) if part.ranks else ""
    about = partial(finding, nodes=tuple(nodes), evidence="population")
    inside = f"its nodes are {slower} slower with each other than those of other switches"
    pairs = count(part.pairs, "pair")
    found = f"only a node slower by {slower}" if (part.slower or 0.0) < MOST_TIMES else "no slow node"
    if part.state == "undecided":
        map_file = f"{again('--switches', 'FILE')}, or --one-switch if all nodes are on one"
        more = "nodes of its switch" if part.kind == "node" else "comparable switches"
        why, decides = {
            "few": (
                f"the data is correct; the speed is not judged: of {len(nodes)} nodes nobody can say which one is slow",
                f"four nodes or more: {again('--hosts', 'A,B,C,D', without=('--ranks',))}",
            ),
            "inside": (inside, "a check with nodes of more switches"),
            "misplaced": (
                f"{slower} slower within its switch and good beyond: not on that switch, or slow behind loaded links",
                f"the switches as they are: {again('--switches', 'FILE')}",
            ),
            "lone": (
                f"{slower} slower than the others: slow, or farther away",
                f"a check with more {more}" if switch else map_file,
            ),
            "many": (
                f"{slower} slower than the others, which are too few to be the yardstick",
                f"a check together with nodes that are known to be good{'' if switch else f', or {map_file}'}",
            ),
            "alike": (
                f"{slower} slower than their neighbors, all alike: another kind of hardware, or slow",
                "a comparison of their NICs, firmware and settings with those of the others",
            ),
            "unsure": (f"perhaps {slower} slower than comparable nodes, but not for certain", again.longer),
            "coarse": (
                f"the pairs differ so much that {found} would have been found",
                f"a check with more nodes, or this one while the network is idle: {again()}",
            ),
        }[part.reason]
        if part.reason == "few":
            return about(status="NOT JUDGED", said=why, evidence="none", remedy=decides)
        title = f"switch {switch}" if part.reason == "inside" else title
        return about(status="UNDECIDED", part=title, said=why, remedy=decides)
    title, why = {
        "wrong node": (title, f"wrong data arrived in {pairs}"),
        "wrong group": (f"a link of switch {switch}", f"wrong data arrived in {pairs}"),
        "wrong pair": (f"the pair {several}", "wrong data arrived: one of the two is at fault"),
        "at times": (
            title,
            f"at times {slower} slower than usual ({count(part.pairs, 'visit')}), more often than other nodes",
        ),
        "neighbors": (title, f"{slower} slower than its neighbors towards the same places ({pairs})"),
        "beyond": (
            f"a link of switch {switch}",
            f"{several} is {slower} slower with nodes of other switches, and good with those of its own",
        ),
        "far": (title, f"{slower} slower than the slowest of the others: more than any distance"),
        "uplinks": (
            f"the links of switch {switch} to other switches",
            f"{slower} slower than comparable switches towards others",
        ),
        "inside": (f"switch {switch}", inside),
    }[f"wrong {part.kind}" if part.state == "wrong" else part.reason or part.state]
    itself = part.kind == "node" and part.reason != "beyond"
    evidence = "data" if part.state == "wrong" else "population"
    return about(status="FAIL", part=title, said=why, evidence=evidence, drain=itself)


MOST_TIMES = 1000
"""A slowdown is told up to here: pairs that scatter widely give numbers that mean nothing."""


def _percent(share: float | None) -> str:
    share = share or 0.0
    if share < 10:
        return f"{share * 100:.0f} %"
    return f"{share + 1:.0f} times" if share < MOST_TIMES else f"more than {MOST_TIMES} times"


def _title(part: ClusterPart, names: Names) -> str:
    """Name a node, or the ranks of it that are meant."""
    if names.one_node:
        return join_few([f"rank {rank}" for rank in part.ranks], NAMED)
    if part.kind == "group":
        return join_few(names.nodes(part.ranks), NAMED)
    if len(part.ranks) == names.ranks_on[names.node(part.ranks[0])]:
        return f"node {names.node(part.ranks[0])}"
    return f"{numbered('rank', part.ranks)} of {names.node(part.ranks[0])} and the NIC there"
