"""What a check found: one finding for each layer that passed, and one for each part that did not; and its formats."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Annotated, Literal, TextIO
from xml.sax.saxutils import quoteattr

import numpy as np
from msgspec import Meta

from volley.check.cluster import PARTNERS, Case, Names
from volley.check.evidence import GOOD_BELOW, ClusterPart
from volley.check.judgement import Judgement
from volley.document import Frozen, readable_json
from volley.errors import EXIT_FAILED, EXIT_GOOD, EXIT_MACHINE, EXIT_UNDECIDED
from volley.records.record_types import Rank
from volley.report.columns import SCHEMA
from volley.report.prometheus import escaped
from volley.text import count, escape_controls, grouped, join_few
from volley.units import format_size, slower_or_faster

Verdict = Literal["FAIL", "UNDECIDED", "NOT POSSIBLE", "PASS"]
EXIT_CODES: dict[Verdict, int] = {
    "FAIL": EXIT_FAILED, "UNDECIDED": EXIT_UNDECIDED, "NOT POSSIBLE": EXIT_MACHINE, "PASS": EXIT_GOOD
}  # fmt: skip
"""The most important first."""
THIRD = "a check with a third one; on one machine also limits: volley check --expect FILE --learn"
"""What decides about two nodes or ranks."""
NAMED = 8
"""A sentence names at most this many parts of a list."""


class CheckFinding(Frozen, frozen=True, kw_only=True):
    """What is known about a layer, or about a part of the cluster in it."""

    verdict: Verdict
    layer: Annotated[str, Meta(description="what was measured.")]
    part: Annotated[str, Meta(description="the part of the machine or cluster; empty: all of it.")] = ""
    why: str
    yardstick: Annotated[
        Literal["data", "population", "limits", "reference", "link state", "none"],
        Meta(description="what it was compared with; `data`: the bytes that arrived."),
    ] = "none"
    decides: Annotated[str, Meta(description="what would decide it, or what to do.")] = ""
    nodes: Annotated[tuple[str, ...], Meta(description="the nodes that a batch system should drain.")] = ()


def exit_code(findings: Sequence[CheckFinding]) -> int:
    """Return the exit code: 0 only if there are findings and all of them are PASS."""
    return EXIT_CODES[in_order(findings)[0].verdict] if findings else EXIT_MACHINE


def in_order(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Return the findings, the most important first."""
    return sorted(findings, key=lambda each: [*EXIT_CODES].index(each.verdict))


def of_cluster(
    judgements: Mapping[Case, Judgement],
    ranks: Sequence[Rank],
    switch_of: Mapping[str, str],
    reasons: Mapping[Case, str] = MappingProxyType({}),
) -> Iterator[CheckFinding]:
    """Say what the judgements of a cluster are; ``reasons``: why pairs were skipped."""
    names = Names(ranks, switch_of)
    what = "ranks" if names.one_node else "nodes"
    for (transport, pattern, size_bytes), judgement in judgements.items():
        skipped = reasons.get((transport, pattern, size_bytes), "").partition(":")[0]  # behind it: options of matrix
        quantity = "latency" if pattern == "pingpong" else "bandwidth"
        finding = partial(CheckFinding, layer=f"{quantity}, {format_size(size_bytes)}, {transport}")
        among = partial(finding, yardstick="population")
        for part in judgement.bad:
            nodes: tuple[str, ...] = ()
            if part.kind in ("node", "rank") and not names.one_node:
                nodes = tuple(dict.fromkeys(names.ranks[rank].host for rank in part.ranks))
            bad = partial(finding, verdict="FAIL", part=_title(part, names), nodes=nodes)
            if part.state == "wrong":
                where = f" in {count(part.visits, 'pair')}" if part.visits else ""
                yield bad(why=f"wrong data arrived{where}", yardstick="data")
            else:
                yield bad(why=slower_words(part, what), yardstick="population")
        for part in judgement.open:
            if part.kind == "some":
                why, decides = f"with two {what} the data cannot show whether one is slow", THIRD
                if part.slower is not None:
                    slower = f"{_percent(part.slower)} slower than the other {what}"
                    why = f"{slower}; the data cannot show which of the two are good"
                    decides = f"a check together with {what} that are known to be good"
                yield among(verdict="UNDECIDED", part=_title(part, names), why=why, decides=decides)
        if unsure := [part for part in judgement.open if part.kind != "some"]:
            shares = [part.slower or 0.0 for part in unsure]
            ends = dict.fromkeys(slower_or_faster(1 + share) for share in (min(shares), max(shares)))
            counted = f"{len(unsure)} {what}: " if len(unsure) > NAMED else ""
            part_names = counted + join_few([_title(part, names) for part in unsure], NAMED)
            why = f"neither slow nor good for certain: {' to '.join(ends)} than the other {what}"
            yield among(verdict="UNDECIDED", part=part_names, why=why, decides="a longer --budget")
        if judgement.missing:
            lost = join_few(dict.fromkeys(names.node(ranks[rank]) for rank in judgement.missing), NAMED)
            decides = "a longer --budget, or the reason why the run ended"
            why = f"not measured: {skipped}" if skipped else "not measured, or too rarely"
            yield finding(verdict="UNDECIDED", part=lost, why=why, decides=decides)
        if not judgement.bad and not judgement.open and not judgement.missing:
            total, met = len(set(names.places.node.tolist())), min(PARTNERS, len(ranks) - 1)
            good = f"none of {total} {what} is {_percent(np.expm1(GOOD_BELOW))} slower than the others"
            unseen = "this does not see a single bad pair (volley matrix), nor what comes and goes and costs less than "
            unseen += f"{_percent(judgement.hit_from)} (volley pingpong --tail)"
            yield among(verdict="PASS", why=f"{good} ({count(met, 'partner')} each)", decides=unseen)


def slower_words(part: ClusterPart, what: str) -> str:
    """Return how slow a bad part is: ``5 % slower than the other nodes (median of 128 visits)``."""
    often, visits = ("at times ", "") if part.state == "at times" else ("", "median of ")
    return f"{often}{_percent(part.slower)} slower than the other {what} ({visits}{count(part.visits, 'visit')})"


def _percent(share: float | None) -> str:
    return f"{(share or 0) * 100:.0f} %"


def _title(part: ClusterPart, names: Names) -> str:
    """Name a part as its reader knows it."""
    ranks = [names.ranks[rank] for rank in part.ranks]
    of_a_node, a_switch, what = ("", "", "ranks") if names.one_node else ("node ", "switch ", "nodes")
    node, switch = f"{of_a_node}{names.node(ranks[0])}", names.switch(ranks[0])
    several = join_few(dict.fromkeys(map(names.node, ranks)), NAMED)
    return {
        "node": node,
        "rank": f"rank {part.ranks[0]} of {ranks[0].host} and its NIC",
        "switch": f"{a_switch}{switch}",
        "link": f"a link of {a_switch}{switch}",
        "node or link": f"{node}, or a link of {switch}",
        "joint": f"what joins these {what} with the others: {several}",
        "pair": f"the pair {' and '.join(map(names.node, ranks))}",
        "some": f"{len(ranks)} ranks: {several}",
    }[part.kind]


# ------------------------------------------------------------------------------------------------------------- formats


MOST_LINES = 60
"""Of the screen, however many findings there are; the other formats have all of them."""
WIDTH = 120


class Document(Frozen, frozen=True, kw_only=True):
    """The findings of a check as JSON."""

    schema: int = SCHEMA
    exit_code: int
    findings: list[CheckFinding]


def render(findings: Sequence[CheckFinding], format_name: str, out: TextIO) -> None:
    """Write the findings in one of the formats."""
    lines = {
        "table": _table, "json": _json, "junit": _junit, "prometheus": _prometheus, "nhc": _nhc, "slurm": _slurm
    }[format_name](findings)  # fmt: skip
    out.write("".join(f"{line}\n" for line in lines))


def _name(finding: CheckFinding) -> str:
    return escape_controls(": ".join(filter(None, (finding.part, finding.layer))))


def _table(findings: Sequence[CheckFinding]) -> list[str]:
    """Show the first findings of each verdict and layer, as many as the screen has room for, and count the others."""
    totals = [
        f"{number} {verdict}" for verdict in EXIT_CODES if (number := sum(each.verdict == verdict for each in findings))
    ]
    sections = list(grouped(findings, lambda each: (each.verdict, each.layer)).values())
    room = MOST_LINES - 2  # without the first and the last line
    for most in range(room, -1, -1):
        lines = [line for place, those in enumerate(sections) for line in _section(those, most or int(place == 0))]
        if len(lines) <= room:
            break
    if any(len(those) > most for those in sections):
        lines = [*lines[:room], f"--format json has all {len(findings)} findings"]
    return [", ".join(totals) or "nothing was measured", *lines]


def _section(findings: Sequence[CheckFinding], most: int) -> list[str]:
    """Return the lines of at most so many findings of one verdict and layer, and a line about the others."""
    lines = []
    for each in findings[:most]:
        yardstick = f" [{each.yardstick}]" if each.yardstick != "none" else ""
        text = f"{each.verdict:<12} {_name(each)}: {escape_controls(each.why)}{yardstick}"
        lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * 13)[:3]
        if each.decides:
            lines += textwrap.wrap(
                f"→ {escape_controls(each.decides)}", WIDTH, initial_indent=" " * 13, subsequent_indent=" " * 15
            )[:2]
    if others := findings[most:]:
        which = ", ".join(escape_controls(each.part or each.why) for each in others[:NAMED])
        which += ", …" if len(others) > NAMED else ""
        text = f"{len(others)}{' more' if most else ''}: {escape_controls(others[0].layer)}: {which}"
        lines.append(f"{others[0].verdict:<12} {textwrap.shorten(text, WIDTH - 13, placeholder=' …')}")
    return lines


def _json(findings: Sequence[CheckFinding]) -> list[str]:
    document = Document(exit_code=exit_code(findings), findings=list(findings))
    return readable_json(document).splitlines()


def _junit(findings: Sequence[CheckFinding]) -> list[str]:
    """A FAIL is a failure; what is undecided or not possible is an error, because it did not pass."""
    failed = sum(each.verdict == "FAIL" for each in findings)
    errors = sum(each.verdict not in ("FAIL", "PASS") for each in findings)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="volley check" tests="{len(findings)}" failures="{failed}" errors="{errors}">',
    ]
    for each in findings:
        tag = "failure" if each.verdict == "FAIL" else "error"
        message = quoteattr(escape_controls(f"{each.verdict}: {each.why}"))
        inside = "" if each.verdict == "PASS" else f"<{tag} message={message}/>"
        lines.append(f"  <testcase classname={quoteattr(each.layer)} name={quoteattr(_name(each))}>{inside}</testcase>")
    return [*lines, "</testsuite>"]


def _prometheus(findings: Sequence[CheckFinding]) -> list[str]:
    lines = [
        "# HELP volley_check_exit_code 0: passed, 1: failed, 3: not possible, 4: undecided.",
        "# TYPE volley_check_exit_code gauge",
        f"volley_check_exit_code {exit_code(findings)}",
        "# HELP volley_check_finding 1 for each layer, or part of the machine in it, with its verdict as a label.",
        "# TYPE volley_check_finding gauge",
    ]
    samples = (
        f'volley_check_finding{{verdict="{each.verdict}",layer="{escaped(each.layer)}",part="{escaped(each.part)}"}} 1'
        for each in findings
    )
    return [*lines, *dict.fromkeys(samples)]


def _nhc(findings: Sequence[CheckFinding]) -> list[str]:
    """Node Health Check shows the line of a check that fails as the reason of the node."""
    if exit_code(findings) == EXIT_GOOD:
        return []
    first = [f"{each.verdict} {_name(each)}: {escape_controls(each.why)}" for each in findings[:1]]
    return [f"ERROR: volley check: {(first or ['nothing was measured'])[0]}"]


def _slurm(findings: Sequence[CheckFinding]) -> list[str]:
    """Return the commands that drain the nodes to blame; volley prints and never runs them."""
    reasons: dict[str, str] = {}
    for each in findings:
        for node in each.nodes if each.verdict == "FAIL" else ():
            reasons.setdefault(node, escape_controls(f"volley: {each.why}, {each.layer}").replace('"', ""))
    return [
        f'scontrol update NodeName={escape_controls(node)} State=DRAIN Reason="{why}"' for node, why in reasons.items()
    ]
