"""What ``volley compare`` and ``volley references`` do."""

from __future__ import annotations

import sys

from volley.benchmarks import BENCHMARKS
from volley.compare import live, page
from volley.compare.comparison import Comparison, read_sides
from volley.compare.comparison import compare as compare_sides
from volley.compare.options import CompareOptions, FailOn, ReferencesOptions
from volley.errors import EXIT_GOOD, UserError
from volley.records.records_file import read_runs
from volley.references import add, list_report, one_report, own, published
from volley.run.outcome import worst
from volley.run.render import render, render_reports
from volley.statistics.two_runs import min_to_decide
from volley.text import did_you_mean, escape_controls, join_words

_ONLY_FOR_FILES = {"--fail-on": "fail_on", "--paired": "paired", "--within": "within"}
"""Options that need intervals, by their names."""


def compare(options: CompareOptions) -> int:
    _check(options)
    if options.live:
        lines = live.parse(options.records)
        first, second, code = live.measure(lines, options.pairs, options.keep, quiet=options.output.quiet)
        return worst((code, _show(compare_sides(first, second, options.within, paired=True), options)))
    against = () if options.reference is None else (options.reference,)
    sides = read_sides((*against, *options.records), one_number=bool(against))
    return _show(compare_sides(*sides, options.within, paired=options.paired and sides[0].repeats), options)


def _check(options: CompareOptions) -> None:
    given = {name: getattr(options, place) for name, place in _ONLY_FOR_FILES.items() if place in options.given}
    if options.live and options.reference is not None:
        raise UserError("--live compares two command lines, and --with one file of records: leave out one of them")
    if options.live and options.pairs < (needed := min_to_decide(paired=True)):
        raise UserError(f"--pairs {options.pairs}: so few pairs cannot show a change: write --pairs {needed} or more")
    if options.reference is not None and given:
        raise UserError(f"{join_words(given)} needs two runs: leave out --with, or use --tolerance")
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
            "monday.jsonl tuesday.jsonl, or volley compare 2 1 for the last two runs of volley list, or volley compare "
            "summit monday.jsonl for one run and a reference"
        )
    if options.records.count("-") > 1:
        raise UserError("standard input can be read once: write - once")


def _show(comparison: Comparison, options: CompareOptions) -> int:
    render_reports([page.report(comparison, full=options.output.full)], options.output.format, sys.stdout)
    condition = options.fail_on
    if options.tolerance is not None:
        condition = FailOn(f"--tolerance {options.tolerance * 100:g}%", options.tolerance)
    if condition is None:
        return EXIT_GOOD
    code, words = page.gate(comparison, condition)
    if code or not options.output.quiet:
        print(f"volley: {condition.typed}: {escape_controls(words)}", file=sys.stderr)
    return code


def references(options: ReferencesOptions) -> int:
    if options.add is not None:
        if len(options.name) != 1:
            raise UserError("--add takes a name and one file of records: volley references --add our-cluster run.jsonl")
        path = add(options.add, options.name[0], BENCHMARKS)
        print(f"volley: {path} is the reference {options.add}: volley compare {options.add} RECORDS")
        return EXIT_GOOD
    if len(options.name) > 1:
        raise UserError(f"volley references shows one reference at a time: volley references {options.name[0]}")
    mine, known = own(), published()
    if not options.name:
        render_reports([list_report(known, mine)], options.output.format, sys.stdout)
        return EXIT_GOOD
    (name,) = options.name
    if name in mine:
        render(read_runs(mine[name], BENCHMARKS), BENCHMARKS, options.output.format, sys.stdout)
    elif name in known:
        render_reports([one_report(name, known[name])], options.output.format, sys.stdout)
    else:
        near = did_you_mean(name, [*known, *mine]) or f"volley has {join_words([*known, *mine])};"
        raise UserError(f"there is no reference {escape_controls(name)!r}: {near} see volley references")
    return EXIT_GOOD
