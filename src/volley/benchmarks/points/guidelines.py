"""What an MPI violates against itself: an operation that takes longer than others that do the same together.

No user should gain by writing an operation as others of the same library (J. L. Träff, W. D. Gropp and R. Thakur,
Self-Consistent MPI Performance Guidelines, IEEE TPDS 21 (2010) 698-709).  The ratio is formed within each launch; a
violation is one whose whole interval lies above ``WORTH``, with those of all that were compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

from volley.benchmarks.points.results import PointResult
from volley.report.cells import bounds_of
from volley.report.model import Note, finding
from volley.statistics.curves import above_of_many
from volley.statistics.estimates import Estimate
from volley.statistics.launches import of_ratios
from volley.text import grouped, join_words
from volley.units import format_sig, format_size

WORTH = 1.05
"""Equal times differ by a few per cent, and many pairs are compared."""

IN_CACHE_BYTES = 256 << 10
"""A ping-pong sends the same buffer again and again.  A longer message would not be in the caches as its pieces are, so
only up to this size may pieces be compared with the whole."""

_PARTS = (
    ("allreduce", ("reduce-scatter", "allgather")),
    ("allreduce", ("reduce", "broadcast")),
    ("reduce", ("allreduce",)),
    ("reduce-scatter", ("allreduce",)),
    ("allgather", ("all-to-all",)),
)
"""An operation, and operations of the same size that give the same result one after the other, and more."""


_OF_LIBRARIES = ("host", "aware", "nccl")
"""Transports whose messages a library sends, which has settings."""


Violation = tuple[str, PointResult, str, Estimate]
"""Its kind, the point, what takes less time in its place (``64 KiB``, ``reduce-scatter and allgather``), and how many
times as long the point takes."""


def violations(points: Iterable[PointResult]) -> list[Note]:
    """Return the largest violation of each kind by each transport, the largest of all first."""
    named = (point for point in points if point.transport.partition("/")[0] in _OF_LIBRARIES)
    timed = [point for point in named if point.latency and point.repeated and point.sends]
    tried = grouped([*_by_parts(timed), *_by_size(timed)], lambda each: each[1].transport).values()
    found = [each for those in tried for each in compress(those, above_of_many([each[3] for each in those], WORTH))]
    found.sort(key=lambda each: -each[3].median)
    worst = {(kind, point.name): (point, instead, ratio) for kind, point, instead, ratio in reversed(found)}
    return [_conclusion(*each) for each in sorted(worst.values(), key=lambda each: -each[2].median)]


def _conclusion(point: PointResult, instead: str, ratio: Estimate) -> Note:
    """Return the sentence, and the command line that looks for settings without the violation."""
    longer = f"takes {format_sig(ratio.median, 3)} times as long as {instead}"
    ranks = f" --ranks {len(point.ranks)}" if len(point.ranks) > 2 else ""
    what = f"collective --operation {point.operation}" if point.operation else point.benchmark
    return finding(
        "SLOW",
        f"{point.name} of {format_size(point.size_bytes)} {longer} ({bounds_of(ratio)})",
        f"volley tune {what} -t {point.transport}{ranks}",
    )


def _by_parts(timed: Sequence[PointResult]) -> Iterator[Violation]:
    known = {(point.transport, point.size_bytes, point.operation): point for point in timed}
    for operation, parts in _PARTS:
        for point in (each for each in timed if each.operation == operation):
            others = [known.get((point.transport, point.size_bytes, part)) for part in parts]
            if all(others):
                yield from _compared("parts", point, join_words(parts), [each for each in others if each])


def _by_size(timed: Sequence[PointResult]) -> Iterator[Violation]:
    for those in grouped(timed, lambda point: (point.name, point.ranks)).values():
        ordered = sorted((point for point in those if point.rate), key=lambda point: point.size_bytes)
        for number, small in enumerate(ordered):
            for large in ordered[number + 1 :]:
                yield from _compared("longer", small, format_size(large.size_bytes), [large])
                times, rest = divmod(large.size_bytes, small.size_bytes)
                if not rest and small.operation is None and large.size_bytes <= IN_CACHE_BYTES:
                    instead = f"{times} messages of {format_size(small.size_bytes)}"
                    yield from _compared("split", large, instead, [small], times)


def _compared(
    kind: str, point: PointResult, instead: str, parts: Sequence[PointResult], times: int = 1
) -> Iterator[Violation]:
    """Yield how many times as long the point takes as the parts together, that many times; one launch is too few."""
    own, *others = [each.repeated.medians if each.repeated else {} for each in (point, *parts)]
    common = sorted(set(own).intersection(*others))
    ratio = of_ratios([own[at] / sum(each[at] for each in others) / times for at in common]) if common else None
    if ratio and ratio.interval:
        yield kind, point, instead, ratio
