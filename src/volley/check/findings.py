"""What a check found, in words: one finding for each layer that passed, and one for each part that did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from volley.check.cluster import Case, Names
from volley.check.judgement import GOOD_BELOW, ClusterPart, Judgement
from volley.check.schedule import PARTNERS
from volley.document import Frozen
from volley.errors import EXIT_FAILED, EXIT_GOOD, EXIT_MACHINE, EXIT_UNDECIDED
from volley.records.record_types import Rank
from volley.text import count, join_few
from volley.units import format_size

Verdict = Literal["FAIL", "UNDECIDED", "NOT POSSIBLE", "PASS"]
ORDER: tuple[Verdict, ...] = ("FAIL", "UNDECIDED", "NOT POSSIBLE", "PASS")
"""The most important first."""
EXIT_CODES = {"FAIL": EXIT_FAILED, "UNDECIDED": EXIT_UNDECIDED, "NOT POSSIBLE": EXIT_MACHINE, "PASS": EXIT_GOOD}
THIRD = "a check with a third one, or of one machine limits: volley check --expect FILE --learn"
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
    worst = next((verdict for verdict in ORDER if any(each.verdict == verdict for each in findings)), "NOT POSSIBLE")
    return EXIT_CODES[worst]


def in_order(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Return the findings, the most important first."""
    return sorted(findings, key=lambda each: ORDER.index(each.verdict))


def layer_of(case: Case) -> str:
    transport, pattern, size_bytes = case
    quantity = "latency" if pattern == "pingpong" else "bandwidth"
    return f"{quantity}, {format_size(size_bytes)}, {transport}"


def of_cluster(
    judgements: Mapping[Case, Judgement], ranks: Sequence[Rank], switch_of: Mapping[str, str]
) -> Iterator[CheckFinding]:
    """Say what the judgements of a cluster are."""
    names = Names(ranks, switch_of)
    what = "ranks" if names.one_node else "nodes"
    for case, judgement in judgements.items():
        layer = layer_of(case)
        for part in judgement.bad:
            yield _bad(part, layer, names, what)
        for part in judgement.open:
            if part.kind == "some":
                yield _uneven(part, layer, names, what)
        if unsure := [part for part in judgement.open if part.kind != "some"]:
            yield CheckFinding(
                verdict="UNDECIDED",
                layer=layer,
                part=join_few([_title(part, names) for part in unsure], NAMED),
                why=f"neither slow nor good for certain: {_range([part.slower or 0.0 for part in unsure])} slower than "
                f"the other {what}",
                yardstick="population",
                decides="a longer --budget",
            )
        if judgement.missing:
            lost = join_few(dict.fromkeys(names.node(ranks[rank]) for rank in judgement.missing), NAMED)
            yield CheckFinding(
                verdict="UNDECIDED",
                layer=layer,
                part=lost,
                why="not measured, or too rarely",
                decides="a longer --budget, or the reason why the run ended",
            )
        if not judgement.bad and not judgement.open and not judgement.missing:
            total = len(set(names.places.node.tolist()))
            met = min(PARTNERS, len(ranks) - 1)
            yield CheckFinding(
                verdict="PASS",
                layer=layer,
                why=f"none of {total} {what} is {_percent(np.expm1(GOOD_BELOW))} slower than the others, each with "
                f"{count(met, 'partner')}",
                yardstick="population",
                decides="this does not see a single bad pair (volley matrix), nor what comes and goes and costs less "
                "than half (volley pingpong --tail)",
            )


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _range(shares: Sequence[float]) -> str:
    low, high = (f"{share * 100:.0f}".replace("-0", "0") for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _title(part: ClusterPart, names: Names) -> str:
    """Name a part as its reader knows it."""
    ranks = [names.ranks[rank] for rank in part.ranks]
    node = names.node(ranks[0]) if names.one_node else f"node {ranks[0].host}"
    switch = names.switch(ranks[0])
    what, several = "ranks" if names.one_node else "nodes", join_few(dict.fromkeys(map(names.node, ranks)), NAMED)
    return {
        "node": node,
        "rank": f"rank {part.ranks[0]} of {ranks[0].host} and its NIC",
        "switch": switch if names.one_node else f"switch {switch}",
        "link": f"a link of {'' if names.one_node else 'switch '}{switch}",
        "node or link": f"{node}, or a link of {switch}",
        "joint": f"what joins these {what} with the others: {several}",
        "pair": f"the pair {' and '.join(map(names.node, ranks))}",
        "some": f"{len(ranks)} ranks: {several}",
    }[part.kind]


def _bad(part: ClusterPart, layer: str, names: Names, what: str) -> CheckFinding:
    drained: tuple[str, ...] = ()
    if part.kind in ("node", "rank") and not names.one_node:
        drained = tuple(dict.fromkeys(names.ranks[rank].host for rank in part.ranks))
    if part.state == "wrong":
        why = "wrong data arrived" + (f" in {count(part.visits, 'pair')}" if part.visits else "")
    elif part.state == "at times":
        why = f"at times {_percent(part.slower or 0)} slower than the other {what} ({count(part.visits, 'visit')})"
    else:
        why = f"{_percent(part.slower or 0)} slower than the other {what} (median of {count(part.visits, 'visit')})"
    return CheckFinding(
        verdict="FAIL",
        layer=layer,
        part=_title(part, names),
        why=why,
        yardstick="data" if part.state == "wrong" else "population",
        nodes=drained,
    )


def _uneven(part: ClusterPart, layer: str, names: Names, what: str) -> CheckFinding:
    if part.slower is not None:
        why = f"{_percent(part.slower or 0)} slower than the other {what}, and nothing says which of the two are good"
        decides = f"a check together with {what} that are known to be good"
    else:
        why, decides = f"of two {what} nobody can say which one is slow", THIRD
    title = _title(part, names)
    return CheckFinding(verdict="UNDECIDED", layer=layer, part=title, why=why, yardstick="population", decides=decides)
