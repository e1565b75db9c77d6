"""What carried the bytes of each node, compared with the other nodes, or with what a link between two can carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from shlex import quote

import msgspec

from volley.check.cluster import BANDWIDTH_BYTES, TOGETHER, WINDOW
from volley.check.findings import NAMED, CheckFinding
from volley.check.machine import OF_LINE_RATE
from volley.check.places import Names
from volley.machine import paths
from volley.machine.fallbacks import fallback
from volley.records.run_log import RunLog
from volley.statistics.estimates import median
from volley.text import count, grouped, join_few
from volley.units import format_size


def _apart(log: RunLog) -> dict[str, list[paths.RunPath]]:
    """Return the paths between nodes of the longest messages of each transport."""
    found = grouped(paths.of_plan(log.run.plan.launch).paths if log.run else (), lambda path: path.transport)
    largest = {name: max(path.size_bytes for path in its) for name, its in found.items()}
    return {
        name: [path for path in its if path.size_bytes == largest[name] and path.apart] for name, its in found.items()
    }


def by_paths(log: RunLog, names: Names) -> Iterator[CheckFinding]:
    """Yield a finding for each transport: the nodes whose messages go another way than those of most nodes.

    Two ways differ if one is RDMA and the other is not, or in the rate of the device: names may differ between nodes.
    One message between two nodes says of both what it says of one, so that nothing here fails.
    """
    for transport, those in _apart(log).items():
        of_node = {
            names.node(end.rank): (path.kind, max((each.rate_bits_per_s or 0 for each in end.devices), default=0), path)
            for path in those
            for end in path.ends
        }
        if len(of_node) < 3:
            continue
        ways = Counter((kind, rate) for kind, rate, _ in of_node.values())
        usual = ways.most_common(1)[0][0]
        like = [node for node, (kind, rate, _) in of_node.items() if (kind, rate) == usual]
        others = tuple(node for node in of_node if node not in like)
        most, size = of_node[like[0]][2], format_size(those[0].size_bytes)
        said = f"{len(like)} of {count(len(of_node), 'node')}: {most.in_short()}"
        slow = fallback(most, log.run.environment if log.run else {}, size)
        finding = partial(CheckFinding, layer=f"path, {size}, {transport}", evidence="population")
        if others:
            why = f"{of_node[others[0]][2].in_short()}; {said}"
            decides = f"volley doctor --hosts {quote(f'{others[0]},{like[0]}')}"
            yield finding(status="UNDECIDED", part=join_few(others, NAMED), said=why, remedy=decides, nodes=others)
        elif slow or not most.kind:
            decides = f"volley doctor --hosts {quote(','.join(like[:2]))}"
            yield finding(status="NOT JUDGED", said=slow.text if slow else said, remedy=decides)
        else:
            yield finding(status="PASS", said=said)


def by_line_rate(
    found: Iterable[CheckFinding], log: RunLog, times: Mapping[str, Sequence[float]]
) -> Iterator[CheckFinding]:
    """Judge the bandwidth between two nodes by the rate of the RDMA devices that carried it.

    It is no FAIL: of two nodes nobody can say which one is slow, and others may use the network.
    """
    size, paths_of = format_size(BANDWIDTH_BYTES), _apart(log)
    for finding in found:
        transport = finding.layer.removeprefix(f"bandwidth, {size}, ")
        seconds = times.get(f"stream {TOGETHER} 2 ranks: {transport}, {size}")
        ends = [end for path in paths_of.get(transport, ()) for end in path.ends]
        rate = min((sum(each.rate_bits_per_s or 0 for each in end.devices if each.rdma) for end in ends), default=0)
        share = 8 * WINDOW * BANDWIDTH_BYTES / median(seconds) / rate if seconds and rate else 0.0
        if finding.status != "NOT JUDGED" or share < OF_LINE_RATE:
            yield finding
            continue
        said = f"{share * 100:.0f} % of the line rate between the nodes"
        said += f"; less than {OF_LINE_RATE * 100:.0f} % would not pass"
        yield msgspec.structs.replace(finding, status="PASS", said=said, evidence="line rate", remedy="")
