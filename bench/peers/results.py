"""volley's own records as figures, in the units of the other programs' figures."""

from collections.abc import Iterator, Sequence

from volley.benchmarks.collective.results import CollectivePoint
from volley.benchmarks.jacobi.results import scaling_chains, solutions
from volley.benchmarks.matrix import results as matrix
from volley.benchmarks.message_rate import results as message_rate
from volley.benchmarks.message_rate.results import MessageRatePoint
from volley.benchmarks.points.results import PointResult, results
from volley.records.run_log import RunLog
from volley.statistics.estimates import median


def figures(logs: Sequence[RunLog]) -> dict[str, float]:
    """Return what the runs measured.

    ``TRANSPORT SIZE`` is a half round trip, or of a stream bytes per second (both ways: the total); ``TRANSPORT SIZE
    FIRST SECOND`` the same of a pair of ranks; ``OPERATION TRANSPORT SIZE`` the seconds of a collective, with ``ranks``
    behind it the mean over the ranks; ``N pairs TRANSPORT SIZE`` the messages per second of so many pairs, with
    ``senders`` behind it as osu_mbw_mr defines them; ``SECTION FIRST SECOND`` that of a pair of GPUs; ``TRANSPORT
    updates`` the lattice updates per second of a solution, that of the largest grid where there are several;
    ``TRANSPORT beyond`` the seconds that its iteration took beyond an equal share of one process's.
    ``work s`` is the time from the start of measuring to the end of the last run.
    ``settled`` is the share of points whose interval came to what was asked for.  What is not ``ok`` has no figure.
    """
    points = [point for series in results(logs) for point in series.points]
    found = {_name(point): value for point in points for value in _value(point)}
    found.update(each for log in logs for record in log.of(CollectivePoint) for each in _of_ranks(record))
    of_pairs = [log for log in logs if log.of(MessageRatePoint)]
    rates = [each for one in message_rate.results(of_pairs) for each in one.points if each.messages and each.total]
    found.update({f"{each.pairs} pairs {each.transport} {each.size_bytes}": each.total for each in rates})
    found.update(each for log in logs for record in log.of(MessageRatePoint) for each in _of_senders(record))
    found.update(each for case in matrix.cases_of(logs) for each in _ranks(case))
    found.update(each for series in matrix.results(logs) for case in series.gpu_cases for each in _gpus(case))
    # a grid has a log of its own
    solved = [each for log in logs for each in solutions([log]) if each.point.status == "ok"]
    for each in sorted(solved, key=lambda each: each.ranks):
        if each.overall_updates_per_s:
            found[f"{each.transport} updates"] = each.overall_updates_per_s
    for chain in scaling_chains(solved):
        if chain[-1].beyond_s is not None:
            found[f"{chain[-1].solution.transport} beyond"] = chain[-1].beyond_s
    if logs and logs[-1].end:
        found["work s"] = logs[-1].end.elapsed_s
    if points:
        found["settled"] = sum(point.status == "ok" and point.ended_by == "ci" for point in points) / len(points)
    return found


def _of_senders(record: MessageRatePoint) -> Iterator[tuple[str, float]]:
    if record.status == "ok" and record.sender_window_s:
        rate = record.pairs * record.window / median(record.sender_window_s)
        yield f"{record.pairs} pairs {record.transport} {record.size_bytes} senders", rate


def _of_ranks(record: CollectivePoint) -> Iterator[tuple[str, float]]:
    if record.status == "ok" and record.rank_operation_s:
        yield f"{record.operation} {record.transport} {record.size_bytes} ranks", median(record.rank_operation_s)


def _name(point: PointResult) -> str:
    operation = f"{point.operation} " if point.operation else ""
    return f"{operation}{point.transport} {point.size_bytes}"


def _value(point: PointResult) -> Iterator[float]:
    value = point.latency.median if point.latency else point.bandwidth_Bps
    if point.status == "ok" and value is not None:
        yield value


def _ranks(case: matrix.RankMatrixCase) -> Iterator[tuple[str, float]]:
    for pair, time_s in case.times.items():
        value = time_s if case.row.pattern == "pingpong" else case.rate_Bps(pair)
        if value is not None:
            yield f"{case.row.transport} {case.row.size_bytes} {pair[0]} {pair[1]}", value


def _gpus(case: matrix.GpuMatrixCase) -> Iterator[tuple[str, float]]:
    for pair, time_s in case.times.items():
        value = case.rate_Bps(pair) if case.moved_bytes else time_s
        if value is not None:
            yield f"{case.row.section} {pair[0]} {pair[1]}", value
