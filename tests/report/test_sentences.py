"""No sentence says more than its interval: whatever is measured, each claim of a report holds by the times themselves.

Each benchmark gives at least ``RESULTS`` generated results, from equal to far apart and from quiet to noisy, of one
launch and of several.  A sentence that claims something must be known here: a new one needs its check.
"""

import itertools
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any

import msgspec
import numpy as np
import pytest

import example_records
import gpu_records
import jacobi_records
import message_rate_records
import overlap_records
from example_records import transport
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.jacobi.records import JacobiParts
from volley.benchmarks.matrix.records import GpuMatrixRow, RankMatrixPlan, RankMatrixRow
from volley.compare.comparison import Side, compare
from volley.compare.finding import headline, verdict_words
from volley.compare.options import FailOn
from volley.machine.line_rate import LineRate
from volley.records.record_types import Run
from volley.records.run_log import RunLog
from volley.report import columns
from volley.report.cells import cells_of, percent, written
from volley.report.model import Report
from volley.run.render import reports_of, results_of
from volley.statistics.estimates import Estimate
from volley.statistics.launches import FEASIBLE, Repeated, of_numbers, ratio
from volley.units import format_sig, format_size, parse_size

RESULTS = 2000

SIZES = (8, 4096, 1 << 16, 1 << 20, 1 << 24, 1 << 28)
NAMES = ("host", "aware", "peer", "staged/pinned")
LAUNCHES = (1, 2, 3, 6, 8)
EFFECTS = (1.0, 1.0, 1.02, 0.9, 1.3, 3.0)
NOISES = (0.0, 0.003, 0.03, 0.4)

Draw = random.Random
Medians = dict[int, list[float]]
"""The samples of each launch."""
Rule = tuple[str, Callable[..., bool]]
"""A pattern of a sentence, and whether what it says holds, from its groups."""

CLAIM = re.compile(
    r"fastest|is faster|hide|hidden|nothing|overlap shown|largest share|the most|slow|longer|times as long|\breach|"
    r"of line rate|one pair alone|certain|CHANGED|SAME|CHANGE SHOWN|no slow pair"
)
"""Words of sentences that judge."""


def number(text: str) -> float:
    return float(text.replace(",", ""))


def samples(draw: Draw, time_s: float, noise: float, launches: int) -> Medians:
    """The samples of each launch: launches differ by ``noise``, their samples by a tenth of it."""
    found = {}
    for launch in range(1, launches + 1):
        middle = time_s * math.exp(draw.gauss(0, noise))
        found[launch] = [middle * math.exp(draw.gauss(0, noise / 10)) for _ in range(7)]
    return found


def above(numerator: Medians, denominator: Medians) -> bool:
    """Whether the whole interval of a ratio is above 1."""
    found = ratio(Repeated.of(numerator), Repeated.of(denominator))
    return found is not None and found.above(1)


def bounds(launches: int, values: Sequence[float], interval: Estimate) -> tuple[str, float, float]:
    """What people see of the bounds of a median: of fewer than six launches the smallest and the largest value."""
    if 1 < launches < 6:
        return "range", min(values), max(values)
    return "95 % CI" if launches > 1 else "within one launch", interval.low, interval.high


def sentences(report: Report) -> Iterator[str]:
    """Every finding: those of the summary with their verdict, and the lines below tables that claim something."""
    for note in report.sentences:
        yield f"{note.verdict} {note.text}".lstrip()
    for table in report.tables:
        yield from (line for line in table.legend if re.search("times as long", line))


NEUTRAL = (
    r"(NOISY )?\d+ points? of .* (vary|varies|less certain)", r"many samples took far longer", r"the samples drifted",
    r".*: launches cluster around", r"no fitted curves",
    r"line rate in each direction", r"\S+( \S+)?: ([\d.e-]+ µs at .*|peak .*|t\(n\) .*)", r"one launch cannot show",
    r".*fastest.*: not known", r"exchange: .*; compute: [\d.]+( to [\d.]+)? times as long; both: at once",
)  # fmt: skip
"""Sentences that describe numbers and their spread, or ask for more launches."""


def contradictions(found: Sequence[str], rules: Sequence[Rule]) -> list[str]:
    """Return the sentences that do not hold, or of which nobody knows whether they do."""
    wrong = []
    for text in found:
        matched = [(check, hit) for pattern, check in rules if (hit := re.fullmatch(pattern, text))]
        if matched:
            wrong += [text for check, hit in matched if not check(**hit.groupdict())]
        elif CLAIM.search(text) and not any(re.match(pattern, text) for pattern in NEUTRAL):
            wrong.append(f"unknown: {text}")
    return wrong


def reports(logs: Sequence[RunLog]) -> list[Report]:
    return reports_of(results_of(logs, BENCHMARKS))


# --------------------------------------------------------------------------------------------------------- points


def point_times(draw: Draw) -> tuple[int, dict[str, dict[int, Medians]]]:
    launches, noise = draw.choice(LAUNCHES), draw.choice(NOISES)
    names = NAMES[: draw.choice((2, 3, 4))]
    return launches, {
        name: {
            size: samples(draw, (1e-6 + size / 1e10) * draw.choice(EFFECTS), noise, launches)
            for size in SIZES
            if draw.random() < 0.95
        }
        for name in names
    }


def made_points(draw: Draw, benchmark: str) -> tuple[list[RunLog], list[Rule], int]:
    launches, times = point_times(draw)
    rate = LineRate("NVLink", "18 links", one_way_Bps=draw.choice((1.1e10, 1.4e10, 1.6e10)), both_ways_Bps=3e10)
    logs = []
    for launch in range(1, launches + 1):
        points: list[Any] = []
        for name, by_size in times.items():
            for size, those in by_size.items():
                if benchmark == "pingpong":
                    points.append(example_records.pingpong(those[launch], size, name))
                elif benchmark == "stream":
                    points.append(example_records.stream(those[launch], size=size, transport=name, ended_by="ci"))
                else:
                    points.append(example_records.collective("allreduce", those[launch], size, transport=name))
        memories = {"host": "host"}
        listed = [transport(name, memory=memories.get(name, "device")) for name in times]
        log = example_records.log(*points, transports=listed)
        log.line_rate = lambda name, _: None if name == "host" else rate
        logs.append(log)
    moved = {"pingpong": 1, "stream": 64, "collective": 1}[benchmark]

    def fastest(leads: str, **_: str) -> bool:
        parts = [
            re.fullmatch(r"(?P<names>.*?)(?: \(undecided\))?(?: (?:from|at) (?P<size>[\d.]+ \w*B).*| at .*)", each)
            for each in leads.split(", then ")
        ]
        starts = [0 if part is None or part["size"] is None else parse_size(part["size"]) for part in parts]
        for part, (start, end) in zip(parts, pairwise([*starts, 1 << 62]), strict=True):
            ahead = re.split(", | or ", part["names"])
            device = {name for name in times if (name == "host") == (ahead[0] == "host")}
            rivals = device if len(device) > 1 and len(times) > 2 else set(times)
            for size in SIZES:
                here = {name: times[name][size] for name in rivals if size in times[name]}
                if "every size" in leads and len(here) == 1:
                    return False
                if start <= size < end and len(here) > 1:
                    best = [here[name] for name in ahead if name in here]
                    beaten = [those for name, those in here.items() if name not in ahead]
                    if not all(any(above(those, one) for one in best) for those in beaten):
                        return False
        return True

    def overtakes(faster: str, steps: str, **_: str) -> bool:
        for names, again, at in re.findall(r"than (.*?)( again)? from ([\d.]+ \w+)(?:, |$)", steps):
            size = parse_size(at)
            for slower in re.split(", | and ", names):
                common = sorted(set(times[faster]) & set(times[slower]))
                leads = [above(times[slower][each], times[faster][each]) for each in common]
                trails = [above(times[faster][each], times[slower][each]) for each in common]
                place = common.index(size)
                if not leads[place] or not any(trails[:place]):
                    return False
                if again and not any(lead and any(trails[number:place]) for number, lead in enumerate(leads[:place])):
                    return False
        return True

    def share(
        verdict: str, name: str, at: str, gain: str | None, over: str | None, where: str | None, **_: str
    ) -> bool:
        those = times[name][parse_size(at)]
        time = Repeated.of(those).estimate
        work = parse_size(at) * moved
        if benchmark == "collective":
            return False  # it has no line rate
        sure = time.interval is not None
        low, high = (work / seconds / rate.one_way_Bps for seconds in (time.interval or (0.1, 0.1))[::-1])
        holds = {"OK": sure and low >= 0.7, "SLOW": sure and high < 0.7}.get(verdict, not sure or low < 0.7 <= high)
        if gain and over:
            size = parse_size(where or at)
            slower, faster = (over, name) if number(gain) > 1 else (name, over)
            holds = holds and above(times[slower][size], times[faster][size])
        return holds

    def violates(name: str, at: str, pieces: str | None, other: str, what: str) -> bool:
        """Whether the whole interval of the ratio lies above 1.05, over launches."""
        own, others = (times[name][parse_size(each)] for each in (at, other))
        instead = {launch: [int(pieces or 1) * each for each in those] for launch, those in others.items()}
        found = ratio(Repeated.of(own), Repeated.of(instead))
        known = "range" if launches < 6 else "95 % CI"
        return found is not None and launches > 1 and found.above(1.05) and what == known

    rules: list[Rule] = [
        (
            (
                r"(?:SLOW )?(?:allreduce )?(?P<name>\S+) of (?P<at>\S+ \w+) takes \S+ times as long as "
                r"(?:(?P<pieces>\d+) messages of )?(?P<other>\S+ \w+) "
                r"\((?P<what>95 % CI|range) [^)]*\)(?:: volley tune .*)?"
            ),
            violates,
        ),
        (r"fastest(?: for allreduce)?(?: between buffers in \w+ memory)?[^:]*: (?P<leads>(?!not known).*)", fastest),
        (r"(?:allreduce: )?(?P<faster>\S+) is faster (?P<steps>than .*?)(?:, within one launch)?", overtakes),
        (
            (
                r"(?P<verdict>OK|SLOW\??|NOISY) (?P<name>\S+) reaches \S+ GB/s at (?P<at>\S+ \w+): \d+ % of line rate "
                r"\(NVLink\)(?:, (?P<gain>\S+) × (?P<over>\S+?)(?: at (?P<where>[\d.]+ \w+))?)?"
                r"(?:; (?:may be above or below|too few launches to tell whether that is above) 70 %.*)?"
            ),
            share,
        ),
    ]
    return logs, rules, sum(map(len, times.values()))


# ---------------------------------------------------------------------------------------------------- message rate


def made_message_rates(draw: Draw, _: str) -> tuple[list[RunLog], list[Rule], int]:
    launches, noise, names = draw.choice(LAUNCHES), draw.choice(NOISES), NAMES[: draw.choice((2, 4))]
    times = {
        (name, size, pairs): samples(draw, 1e-5 * draw.choice(EFFECTS) * draw.choice((1, 1, pairs)), noise, launches)
        for name in names
        for size in SIZES[:4]
        for pairs in (1, 2, 4)
    }
    logs = []
    for launch in range(1, launches + 1):
        points = [
            message_rate_records.point(pairs, those[launch], size, transport=name)
            for (name, size, pairs), those in times.items()
        ]
        log = message_rate_records.launches({1: 1e-5})[0]
        log.transports = [transport(name, memory="host" if name == "host" else "device") for name in names]
        log.records = list(points)
        logs.append(log)

    def most(name: str, at: str, pairs: str, others: str | None, **_: str) -> bool:
        size, own = parse_size(at), int(pairs)
        memory = [each for each in names if (each == "host") == (name == "host")]
        rivals = [key for key in times if key[0] in memory and key[0] != name and key[1] == size]
        return others is None or all(_scaled_above(times[key], own / key[2], times[name, size, own]) for key in rivals)

    def sends(share: str | None, **given: str) -> bool:
        return most(**given) and (share is None or kept(share=share, **given))

    def kept(name: str, at: str, most: str, share: str, what: str, low: str, high: str, **_: str) -> bool:
        one, several = (Repeated.of(times[name, parse_size(at), each]) for each in (1, int(most)))
        found = ratio(one, several)
        kind, *ends = bounds(launches, [one.medians[n] / several.medians[n] for n in one.medians], found)
        shown = (number(low) / 100, number(share) / 100, number(high) / 100)
        right = shown == pytest.approx((ends[0], found.median, ends[1]), rel=0.01)
        return right and what == kind and shown[0] <= shown[1] <= shown[2]

    rules: list[Rule] = [
        (
            (
                r"(?:OK )?(?:\w+ memory: )?(?P<name>\S+) sends \S+ million .* of (?P<at>\S+ \w+) with (?P<pairs>\d+) "
                r"pairs?(?P<others>, the most in \w+ memory)?(?:; each of (?P<most>\d+) pairs keeps (?P<share>\S+) "
                r"% of the rate of one pair alone \((?P<what>.*) (?P<low>\S+) to (?P<high>\S+) %\))?"
            ),
            sends,
        )
    ]
    return logs, rules, len(times)


def _scaled_above(numerator: Medians, factor: float, denominator: Medians) -> bool:
    scaled = {launch: [factor * each for each in those] for launch, those in numerator.items()}
    return above(scaled, denominator)


# --------------------------------------------------------------------------------------------------------- overlap


def made_overlaps(draw: Draw, _: str) -> tuple[list[RunLog], list[Rule], int]:
    launches, noise, names = draw.choice(LAUNCHES), draw.choice(NOISES), NAMES[: draw.choice((2, 3, 4))]
    hidden: dict[tuple[str, str, int], Estimate] = {}
    seen: dict[tuple[str, str, int], tuple[str, float, float]] = {}
    records: dict[int, list[Any]] = {launch: [] for launch in range(1, launches + 1)}
    for name, limit, size in itertools.product(names, ("memory", "arithmetic"), SIZES[:4]):
        exchange, alone = (samples(draw, 1e-4, noise, launches) for _ in range(2))
        both = samples(draw, 1e-4 * draw.choice((1.0, 1.3, 2.0, 2.0, 2.3)), noise, launches)
        for launch, those in records.items():
            apart, beside, together = exchange[launch], alone[launch], both[launch]
            facts = {"exchange_s": apart, "computation_s": beside, "both_s": together, "exchange_alone_s": apart}
            facts |= {"computation_alone_s": beside, "exchange_beside_s": together, "computation_beside_s": beside}
            those.append(overlap_records.point(1, 1, 1, transport=name, computation=limit, size_bytes=size, **facts))
        e, a, b = (Repeated.of(each) for each in (exchange, alone, both))
        shares = [1 - (b.medians[n] - a.medians[n]) / e.medians[n] for n in e.medians]
        if launches > 1:
            found = of_numbers(shares)
        else:
            more = [b.estimate.low - a.estimate.high, b.estimate.high - a.estimate.low]
            ends = [1 - each / whole for each in more for whole in (e.estimate.low, e.estimate.high)]
            found = Estimate(shares[0], min(ends), max(ends), 1, "within")
        hidden[name, limit, size], seen[name, limit, size] = found, bounds(launches, shares, found)
    run = example_records.golden("overlap")[0].run
    logs = [RunLog(run=run, transports=[*map(transport, names)], records=those) for those in records.values()]

    def sure(name: str, limit: str, size: int) -> Estimate | None:
        found = hidden[name, limit, size]
        return found if found.interval else None

    def shown(name: str, limit: str, size: int, what: str, *texts: str) -> bool:
        kind, *ends = seen[name, limit, size]
        middle, low, high = (number(text) / 100 for text in texts)
        right = (middle, low, high) == pytest.approx((hidden[name, limit, size].median, *ends), rel=0.01, abs=1e-6)
        return right and what == kind

    def hides(name: str, limit: str, at: str, share: str, what: str, low: str, high: str, most: str | None) -> bool:
        size, found = parse_size(at), sure(name, limit, parse_size(at))
        others = [sure(other, limit, size) for other in names if other != name]
        largest = found is not None and all(each is not None and each.below(found.interval[0]) for each in others)
        return (
            found is not None
            and found.above(0)
            and (most is None or largest)
            and shown(name, limit, size, what, share, low, high)
        )

    known = "within one launch" if launches == 1 else "range" if launches < 6 else "95 % CI"

    def nothing(listed: str, at: str, what: str, most: str | None) -> bool:
        every = [sure(each, limit, parse_size(at)) for each in words(listed) for limit in ("memory", "arithmetic")]
        highs = [1.0 if each is None else each.interval[1] for each in every]
        of_all = max(highs) == pytest.approx(number(most) / 100, rel=0.05) if most else max(highs) <= 0
        return what == known and of_all and max(highs) <= 0.05

    def unsure(listed: str, at: str, why: str) -> bool:
        for each in words(listed):
            found = [sure(each, limit, parse_size(at)) for limit in ("memory", "arithmetic")]
            if "includes" in why and not why.startswith(known):
                return False
            if "includes" in why and not any(one and not (one.above(0) or one.interval[1] < 0) for one in found):
                return False
            if any(one and one.above(0) for one in found):
                return False
        return True

    rules: list[Rule] = [
        (
            (
                r"(?:OK )?(?P<name>\S+) hides (?P<share>\S+) % of an exchange of (?P<at>[\d.]+ \w+) behind a "
                r"computation bound by (?P<limit>\w+) \((?P<what>.*) (?P<low>\S+) to (?P<high>\S+) %\)"
                r"(?P<most>, the largest share)?"
            ),
            hides,
        ),
        (
            (
                r"(?:SLOW )?no overlap for (?P<listed>.*) at (?P<at>[\d.]+ \w+) \((?P<what>.*): "
                r"(?:0 or less|at most (?P<most>\S+) %)\)(?:: volley .*)?"
            ),
            nothing,
        ),
        (
            r"(?:NOISY )?no overlap shown for (?P<listed>.*) at (?P<at>[\d.]+ \w+) \((?P<why>.*?)\)(?:: volley .*)?",
            unsure,
        ),
    ]
    return logs, rules, len(hidden)


def words(listed: str) -> list[str]:
    return re.split(", | and ", listed)


# ---------------------------------------------------------------------------------------------------------- jacobi


def made_solutions(draw: Draw, _: str) -> tuple[list[RunLog], list[Rule], int]:
    launches, noise = draw.choice(LAUNCHES), draw.choice(NOISES)
    names = ("staged/pinned", "aware", "peer")
    times = {name: samples(draw, 1e-3 * draw.choice(EFFECTS), noise, launches) for name in names}
    halos = {name: samples(draw, 1e-4 * draw.choice(EFFECTS), noise, launches) for name in names}
    logs = []
    for launch in range(1, launches + 1):
        points = []
        for name in names:
            batches, halo = times[name][launch], halos[name][launch][0]
            parts = JacobiParts(interior_s=2.0, edges_s=0.2, pack_s=halo / 2, exchange_s=halo / 2, reduction_s=0.1)
            points.append(
                jacobi_records.point(
                    transport=name,
                    batch_iterations=[1, *[10] * len(batches)],
                    batch_s=[1.0, *(10 * each for each in batches)],
                    parts=[parts] * 4,
                    iterations=1 + 10 * len(batches),
                )
            )
        logs.append(jacobi_records.log(*points))

    def longer(**_: str) -> bool:
        return above(times["aware"], times["staged/pinned"])

    def halos_longer(**_: str) -> bool:
        aware, staged = ({n: [each[0]] for n, each in halos[name].items()} for name in ("aware", "staged/pinned"))
        return above(aware, staged) and not longer()

    def caused(cause: str | None) -> bool:
        """Whether halos take longer for certain, by half of what the iteration does: at these times, in µs."""
        aware, staged = ({n: [each[0]] for n, each in halos[name].items()} for name in ("aware", "staged/pinned"))
        return longer() and (cause is None or (launches > 1 and above(aware, staged)))

    rules: list[Rule] = [
        (
            (
                r"aware takes \S+ times as long as staged/pinned \([^)]*\)"
                r"(?P<cause>: packing and exchanging halos takes \S+ µs longer in each iteration)?"
            ),
            caused,
        ),
        (
            r"aware's halos take \S+ times as long as staged/pinned's .*; the iteration is not measurably slower",
            halos_longer,
        ),
    ]
    return logs, rules, len(names)


# ---------------------------------------------------------------------------------------------------------- matrices


def matrix_ratios(draw: Draw, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
    noise = draw.choice(NOISES[:3])
    slow = draw.sample(list(pairs), draw.choice((0, 1, 3)))
    return {
        pair: math.exp(draw.gauss(0, noise)) * (draw.choice((1.04, 1.3, 2.0)) if pair in slow else 1.0)
        for pair in pairs
    }


def made_rank_matrix(draw: Draw, _: str) -> tuple[list[RunLog], list[Rule], int]:
    ranks = draw.choice((4, 8, 17))
    pairs = list(permutations(range(ranks), 2))
    times = matrix_ratios(draw, pairs)
    options = RankMatrixPlan(latency_sizes_bytes=[8], bandwidth_sizes_bytes=[])
    plan = example_records.plan("rank_matrix", world_size=ranks, options=options)
    run: Run = example_records.run(plan, ranks=example_records.ranks(ranks))
    whole = RunLog(run=run, transports=[transport()], records=[*example_records.rows(ranks, slow=times)])
    logs, noise = [whole], draw.choice(NOISES[:3])
    repeats: list[dict[tuple[int, int], float]] = []
    if draw.random() < 0.7:
        part = msgspec.structs.replace(options, pairs=[list(pair) for pair in pairs], repeats=24)
        again = msgspec.structs.replace(run, plan=msgspec.structs.replace(plan, options=part))
        records: list[Any] = []
        for repeat in range(24):
            repeats.append({pair: times[pair] * math.exp(draw.gauss(0, noise)) for pair in pairs})
            records += example_records.rows(ranks, slow=repeats[-1], repeat=repeat)
        logs.append(RunLog(run=again, transports=[transport()], records=records))

    def confirmed(count: str, low: str, ratio: str, **_: str) -> bool:
        return int(count) == len(repeats) and number(low) > 1.03 and number(low) <= number(ratio)

    rules: list[Rule] = [
        (
            (
                r"(?:SLOW )?.*: rank \d+ → \d+ takes (?P<ratio>\S+) times .* comparable pairs \(.*measured "
                r"again (?P<count>\d+) times, (?P<low>\S+) to \S+\)"
            ),
            confirmed,
        ),
        (
            r"(?:OK )?.*took longer than comparable pairs at first; measuring.* again did not confirm it",
            lambda: bool(repeats),
        ),
        (r"(?:SLOW\? )?.*undecided after up to \d+ repeats.*", lambda: bool(repeats)),
        (r"(?:SLOW\? )?.* took .* as long .*not confirmed: not measured again.*", lambda: True),
        (r"(?:SLOW\? )?.*vary too much to single any out.*", lambda: True),
        (r"(?:SLOW )?.*of them measured again, (?P<sure>[1-9]\d*) slow for certain\).*", lambda **_: bool(repeats)),
        (r"(?:SLOW\? )?.*of them measured again, 0 slow for certain\).*", lambda: bool(repeats)),
        (
            r"(?:SLOW\? )?.*pairs take .* times as long as comparable pairs \(not confirmed: not measured again\).*",
            lambda: True,
        ),
        (r"OK no slow pair found: \d+ pairs were compared with comparable ones", lambda: True),
    ]
    return logs, rules, len(pairs) // 3


def made_gpu_matrix(draw: Draw, _: str) -> tuple[list[RunLog], list[Rule], int]:
    gpus, section = draw.choice((4, 8)), draw.choice(("uni", "load"))
    pairs = list(permutations(range(gpus), 2))
    ratios, width = matrix_ratios(draw, pairs), draw.choice((0.001, 0.02, 0.2))
    devices = [gpu_records.device(each) for each in range(gpus)]
    facts = gpu_records.facts_of(section)
    cells = {}
    for pair, factor in ratios.items():
        time_s = gpu_records.time_s(facts, False, factor)
        bounds = {"low_s": time_s * (1 - width), "high_s": time_s * (1 + width)}
        cells[pair] = gpu_records.cell(gpu_records.uuid(pair[1]), time_s, peer_access=True, **bounds)
    log = gpu_records.log(gpus, [section], changed={section: gpu_records.rows(section, devices, other=cells)})

    def slow(first: str, second: str, **_: str) -> bool:
        pair = int(first), int(second)
        rest = [factor for other, factor in ratios.items() if other not in (pair, pair[::-1])]
        return ratios[pair] * (1 - width) > float(np.median(rest))

    rules: list[Rule] = [
        (r"(?:SLOW )?.*GPU (?P<first>\d+) → (?P<second>\d+) (?:reaches|takes) .* the \d+ comparable links.*", slow),
        (r"(?:SLOW\? )?.*vary too much to single any out.*", lambda: True),
        (r"OK no slow pair found: \d+ pairs were compared with comparable ones", lambda: True),
    ]
    return [log], rules, len(pairs)


MADE: Mapping[str, Callable[[Draw, str], tuple[list[RunLog], list[Rule], int]]] = {
    "pingpong": made_points,
    "stream": made_points,
    "collective": made_points,
    "message_rate": made_message_rates,
    "overlap": made_overlaps,
    "jacobi": made_solutions,
    "rank_matrix": made_rank_matrix,
    "gpu_matrix": made_gpu_matrix,
}


MANY = pytest.mark.parametrize("asked", [400, pytest.param(RESULTS, marks=pytest.mark.long)])
"""So many results."""


@MANY
@pytest.mark.parametrize("benchmark", MADE)
def test_no_sentence_of_a_report_says_more_than_its_interval(benchmark: str, asked: int) -> None:
    draw, results, claims = random.Random(benchmark), 0, 0
    while results < asked:
        logs, rules, made = MADE[benchmark](draw, benchmark)
        found = [text for report in reports(logs) for text in sentences(report)]
        assert contradictions(found, rules) == []
        results += made
        claims += sum(bool(CLAIM.search(text)) for text in found)
    assert claims > asked / 100


WITH_BOUNDS = ("pingpong", "stream", "collective", "message_rate", "jacobi")


@MANY
@pytest.mark.parametrize("benchmark", WITH_BOUNDS)
def test_the_bounds_that_people_see_are_those_of_the_data_of_the_same_quantity(benchmark: str, asked: int) -> None:
    draw, seen = random.Random(benchmark), 0
    while seen < asked:
        logs, _, _ = MADE[benchmark](draw, benchmark)
        for report in reports(logs):
            known = {bound for row in report.data.rows for bound in bounds_in(row)}
            for number, shown in bounds_of_cells(report):
                assert (number, shown) in known
                seen += 1


def bounds_of_cells(report: Report) -> Iterator[tuple[str, str]]:
    """Yield each number of the tables that has bounds, and these, as they are written."""
    for table in report.tables:
        for left, place in pairwise(range(len(table.columns))):
            if table.columns[place].unit == "± %" or table.columns[place].title == "range":
                rows = [cells_of(row) for row in table.rows if cells_of(row)[place].text]
                yield from ((written(row[left], table.columns[left]), str(row[place].text)) for row in rows)


def bounds_in(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what tables may write of the quantities of a row: with ±, and with the range."""
    factors = {"_s": 1e6, "_Bps": 1e-9, "_per_s": 1e-6}
    for name, low in row.items():
        base, high = columns.base(name), row.get(name.replace("_low", "_high"))
        if "_low" in name and low is not None and row[base]:
            unit = next(unit for unit in ("_per_s", "_Bps", "_s", "") if base.endswith(unit))
            for factor in (factors.get(unit, 100), 1e3):
                number, ends = row[base] * factor, [format_sig(each * factor, 4) for each in (low, high)]
                width = max(high - row[base], row[base] - low) / row[base]
                yield format_sig(number, 4), percent(width, 1).removesuffix(" %")
                yield format_sig(number, 4), "–".join(dict.fromkeys(ends))


def failed(draw: Draw, record: Any) -> Any:
    """A record whose data was wrong, or as it is."""
    if isinstance(record, RankMatrixRow):
        return example_records.edited(record, failed={record.ranks[0]: "differs"}) if record.ranks else record
    if isinstance(record, GpuMatrixRow):
        cells = [msgspec.structs.replace(record.cells[0], status="failed", reason="differs", median_s=None, low_s=None,
                                         high_s=None, samples=0), *record.cells[1:]]  # fmt: skip
        return msgspec.structs.replace(record, cells=cells)
    return msgspec.structs.replace(record, status="failed", reason="differs") if hasattr(record, "status") else record


@MANY
@pytest.mark.parametrize("benchmark", MADE)
def test_nothing_is_called_all_verified_beside_a_failure(benchmark: str, asked: int) -> None:
    draw, results = random.Random(benchmark), 0
    while results < asked:
        logs, _, made = MADE[benchmark](draw, benchmark)
        log = logs[0]
        place = draw.choice([number for number, each in enumerate(log.records) if failed(draw, each) is not each])
        log.records[place] = failed(draw, log.records[place])
        for report in reports(logs):
            lines = [line for table in report.tables for line in table.lines()]
            lines += [column.all_true for table in report.tables for column in table.columns]
            lines += [report.overview.line, *report.overview.table.lines()] if report.overview else []
            assert any(note.level == "error" for note in report.sentences)
            assert not [line for line in lines if re.search(r"\ball\b.*verified", line)]
        results += made


@MANY
def test_the_parts_of_a_whole_are_not_more_than_the_whole(asked: int) -> None:
    draw, results = random.Random(1), 0
    while results < asked:
        logs, _, made = made_solutions(draw, "jacobi")
        memory = draw.choice(("host", "device"))
        for log in logs:
            log.records = [msgspec.structs.replace(each, memory=memory) for each in log.records]
        for report in reports(logs):
            for row in report.data.rows:
                assert sum(value or 0 for name, value in row.items() if name.endswith("_share")) <= 1 + 1e-12
            for table in report.tables:
                shares = [place for place, each in enumerate(table.columns) if each.group == "of the ranks' time"]
                for row in map(cells_of, table.rows):
                    assert sum(float(row[place].value or 0) for place in shares) <= 100 + 1e-9
            for chart in report.charts:
                assert chart.kind != "bars" or chart.overlap == (memory == "device")
        results += made


# ---------------------------------------------------------------------------------------------------------- compare


def test_no_sentence_of_a_comparison_says_more_than_its_interval() -> None:
    draw, results, kinds = random.Random(1), 0, set()
    while results < RESULTS:
        sides = []
        noise, effects = draw.choice(NOISES), [draw.choice(EFFECTS) if draw.random() < 0.5 else 1.0 for _ in NAMES]
        order = draw.sample(SIZES, len(SIZES))
        for side, launches in enumerate((draw.choice(LAUNCHES), draw.choice(LAUNCHES))):
            logs = []
            for _ in range(launches):
                drift = math.exp(draw.gauss(0, noise))
                logs.append(
                    example_records.log(
                        *(
                            example_records.pingpong(
                                [1e-6 * drift * (effect if side else 1) * math.exp(draw.gauss(0, noise / 5))] * 3,
                                size,
                                name,
                            )
                            for name, effect in zip(NAMES, effects, strict=True)
                            for size in order
                        )
                    )
                )
            sides.append(Side.of("ab"[side], logs))
        found = compare(sides[0], sides[1], 0.05)
        results += len(found.at)
        text, low, high = headline(found), found.differences.low, found.differences.high
        kinds.add(text.partition(":")[0])
        if text.startswith(("SAME", "NO CHANGE SHOWN")) and (within := re.search(r"within (\d+) %", text)):
            most = 1 + int(within[1]) / 100
            same = found.of("same")
            assert (high[same] <= most + 1e-9).all()
            assert (1 / low[same] <= most + 1e-9).all()
            assert text.startswith("NO CHANGE") or same.size == len(found.at)
        for name, way, changed, whole, first, last in re.findall(
            r"(\S+) is [\d.]+ (?:%|×) (slower|faster) at (\d+) of (\d+) points \((.*?)(?: to (.*?))?\)", text
        ):
            points = found.by_series()[name]
            shown = [each for each in points if (low[each] > 1 if way == "slower" else high[each] < 1)]
            places = [parse_size(found.at[each]) for each in found.by_series(found.of("changed"))[name]]
            assert int(whole) == points.size
            assert int(changed) <= len(shown)
            assert (first, last or first) == (format_size(min(places)), format_size(max(places)))
        for point in range(len(found.at)):
            said = verdict_words(found, point)
            assert all(int(launches) <= FEASIBLE for launches in re.findall(r"(\d+) launches", said))
            if said.endswith(("slower", "faster")):
                assert low[point] > 1 if said.endswith("slower") else high[point] < 1
        for share in (0.01, 0.02, 0.3, 2.0):  # as large as the true changes: half of the estimates are above
            either, slower = (FailOn("", share, either_way=either_way) for either_way in (True, False))
            for point in found.failing(either).tolist():
                assert low[point] >= 1 + share or high[point] <= 1 / (1 + share)
            for point in found.failing(slower).tolist():
                assert low[point] >= 1 + share
            assert not set(found.failing(slower)) & set(found.undecided(slower))
            for point in set(range(len(found.at))) - set(found.failing(slower)) - set(found.undecided(slower)):
                assert high[point] < 1 + share
    assert {"CHANGED", "NO VERDICT", "SAME", "NO CHANGE SHOWN"} <= kinds
