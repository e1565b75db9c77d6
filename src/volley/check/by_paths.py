"""What carried the bytes of each node, compared with the other nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from shlex import quote

from volley.check.findings import NAMED, CheckFinding
from volley.check.places import Names
from volley.machine import paths
from volley.machine.fallbacks import fallback
from volley.records.run_log import RunLog
from volley.text import count, grouped, join_few
from volley.units import format_size


def by_paths(log: RunLog, names: Names) -> Iterator[CheckFinding]:
    """Yield a finding for each transport: the nodes whose messages go another way than those of most nodes.

    Two ways differ if one is RDMA and the other is not, or in the rate of the device: names may differ between nodes.
    One message between two nodes says of both what it says of one, so that nothing here fails.
    """
    plan = log.run.plan if log.run else None
    for transport, those in grouped(
        paths.of_plan(plan.launch).paths if plan else (), lambda path: path.transport
    ).items():
        largest = max(path.size_bytes for path in those)
        of_node = {
            names.node(end.rank): (path.kind, max((each.rate_bits_per_s or 0 for each in end.devices), default=0), path)
            for path in those
            if path.size_bytes == largest and path.apart
            for end in path.ends
        }
        if len(of_node) < 3:
            continue
        ways = Counter((kind, rate) for kind, rate, _ in of_node.values())
        usual = ways.most_common(1)[0][0]
        like = [node for node, (kind, rate, _) in of_node.items() if (kind, rate) == usual]
        others = tuple(node for node in of_node if node not in like)
        most = of_node[like[0]][2]
        said = f"{len(like)} of {count(len(of_node), 'node')}: {most.in_short()}"
        slow = fallback(most, log.run.environment if log.run else {}, format_size(largest))
        finding = partial(CheckFinding, layer=f"path, {format_size(largest)}, {transport}", evidence="population")
        if others:
            why = f"{of_node[others[0]][2].in_short()}; {said}"
            decides = f"volley doctor --hosts {quote(f'{others[0]},{like[0]}')}"
            yield finding(status="UNDECIDED", part=join_few(others, NAMED), said=why, remedy=decides, nodes=others)
        elif slow or not most.kind:
            decides = f"volley doctor --hosts {quote(','.join(like[:2]))}"
            yield finding(status="NOT JUDGED", said=slow.text if slow else said, remedy=decides)
        else:
            yield finding(status="PASS", said=said)
