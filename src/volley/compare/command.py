"""What ``volley compare`` and ``volley references`` do."""

from __future__ import annotations

import sys

from volley.benchmarks import BENCHMARKS
from volley.compare import against, live, page
from volley.compare.comparison import Comparison
from volley.compare.comparison import compare as compare_sides
from volley.compare.options import CompareOptions, ReferencesOptions
from volley.compare.runs import read_side, read_sides
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.references import add, named, own, published
from volley.run.render import render_reports
from volley.run.run_outcome import worst
from volley.statistics.two_runs import min_to_decide
from volley.text import escape_controls, join_few, join_words

_ONLY_FOR_FILES = {"--fail-on": "fail_on", "--paired": "paired", "--within": "within"}
"""Options that need intervals, by their names."""


def compare(options: CompareOptions) -> int:
    """Compare what the options name, show the report, and return the exit code.

    Raises:
        UserError: if the options do not fit together, or a file cannot be read or compared.
    """
    _check(options)
    if options.reference is not None:
        side = read_side(options.records[0])
        reference = named(options.reference, BENCHMARKS)
        found = against.beside(side, reference, options.reference)
        slow = against.slower(found, options.tolerance)
        report = against.report(side, reference, options.reference, found, slow, full=options.output.full)
        render_reports([report], options.output.format, sys.stdout)
        failed = options.tolerance is not None and side.failed > 0
        return EXIT_FAILED if slow or failed else EXIT_GOOD
    if options.live:
        first, second, code = live.measure(
            live.parse(options.records, options.pairs), options.keep, quiet=options.output.quiet
        )
        return worst((code, _show(compare_sides(first, second, options.within, paired=True), options)))
    return _show(compare_sides(*read_sides(options.records), options.within, paired=options.paired), options)


def _check(options: CompareOptions) -> None:
    """Refuse options that do not fit together."""
    given = {name: getattr(options, place) for name, place in _ONLY_FOR_FILES.items() if place in options.given}
    if options.live and options.reference is not None:
        raise UserError("--live compares two command lines, and --with one file of records: leave out one of them")
    if options.live and options.pairs < (needed := min_to_decide(paired=True)):
        raise UserError(f"--pairs {options.pairs}: so few pairs cannot show a change: write --pairs {needed} or more")
    if options.reference is not None and given:
        raise UserError(f"{join_words(given)} needs two runs: a reference has no intervals; use --tolerance")
    if options.reference is not None and len(options.records) != 1:
        raise UserError(
            f"--with {options.reference} compares one file of records with a reference, not {len(options.records)}"
        )
    if not options.live and (unused := [f"--{name}" for name in ("pairs", "keep") if name in options.given]):
        raise UserError(f"{join_words(unused).replace('--keep', '-o')} is only for --live")
    if options.tolerance is not None and options.reference is None:
        raise UserError("--tolerance is for --with; for two runs use --fail-on slower:5%")
    if options.live or options.reference is not None:
        return
    if len(options.records) != 2:
        raise UserError(
            f"volley compare takes two files of records, not {len(options.records)}: write volley compare "
            "monday.jsonl tuesday.jsonl, or volley compare 2 1 for the last two runs of volley list, or compare one "
            "with a reference: volley compare monday.jsonl --with summit"
        )
    if options.records.count("-") > 1:
        raise UserError("standard input can be read once: write - once")


def _show(comparison: Comparison, options: CompareOptions) -> int:
    render_reports([page.report(comparison, full=options.output.full)], options.output.format, sys.stdout)
    if options.fail_on is None:
        return EXIT_GOOD
    if comparison.lost:
        print(f"volley: --fail-on: {escape_controls('; '.join(comparison.lost))}", file=sys.stderr)
        return EXIT_FAILED
    if not comparison.possible:
        raise UserError(f"--fail-on needs a verdict, and {page.too_few(comparison)}")
    failing = comparison.failing(options.fail_on)
    if failing.size:
        points = join_few(page.point_words(comparison, point) for point in failing.tolist())
        print(f"volley: --fail-on: {escape_controls(points)}", file=sys.stderr)
    return EXIT_FAILED if failing.size else EXIT_GOOD


def references(options: ReferencesOptions) -> int:
    """List the references, show one, or add one; return the exit code.

    Raises:
        UserError: if there is none of that name, or the file cannot become one.
    """
    if options.add is not None:
        if len(options.name) != 1:
            raise UserError("--add takes a name and one file of records: volley references --add our-cluster run.jsonl")
        path = add(options.add, options.name[0], BENCHMARKS)
        print(f"volley: {path} is the reference {options.add}: volley compare RECORDS --with {options.add}")
        return EXIT_GOOD
    if len(options.name) > 1:
        raise UserError(f"volley references shows one reference at a time: volley references {options.name[0]}")
    shown = [against.one_report(name, named(name, BENCHMARKS)) for name in options.name]
    render_reports(shown or [against.list_report(published(), own())], options.output.format, sys.stdout)
    return EXIT_GOOD
