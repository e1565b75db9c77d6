"""What ``volley compare`` and ``volley references`` do."""

from __future__ import annotations

import sys
from pathlib import Path

from volley.benchmarks import BENCHMARKS
from volley.compare import page
from volley.compare.comparison import Comparison, compare_all, read_sides
from volley.compare.finding import gate
from volley.compare.live import measure, variants_of
from volley.compare.options import MAX_SIDES, CompareOptions, ReferencesOptions
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.files import refuse_existing, refuse_input
from volley.records.records_file import read_runs
from volley.records.saved_runs import own_references
from volley.references import add, list_report, one_report, published
from volley.run.machine_notes import without_core
from volley.run.outcome import worst
from volley.run.render import Sections, attached, form_of, render, render_reports, write
from volley.statistics.two_runs import min_to_decide
from volley.text import did_you_mean, escape_controls, grouped, join_words

_ROUNDS = 8


def compare(options: CompareOptions) -> int:
    _check(options)
    code, form = EXIT_GOOD, ""
    if options.page:  # told now, not after all launches
        form = form_of(options.page)
        refuse_existing(options.page, force=options.output.force)
    if options.live or options.sweep:
        variants = variants_of(options.runs, options.sweep)
        needed = min_to_decide(paired=True, comparisons=len(variants) - 1)
        rounds = options.launches or max(_ROUNDS, needed)
        if rounds < needed:
            raise UserError(f"--launches {rounds}: so few cannot show a change: write --launches {needed} or more")
        output = options.output
        sides, code = measure(variants, rounds, options.folder, force=output.force, quiet=output.quiet)
    else:
        sides = read_sides(options.runs)
    if options.page:
        refuse_input(options.page, [side.file for side in sides])
    comparisons = compare_all(sides, options.within)
    full = options.output.full
    render_reports([page.report(each, full=full) for each in comparisons], options.output.format, sys.stdout)
    if options.page:
        files = [attached(side.file) for side in sides if Path(side.file).is_file()]
        reports = [page.report(each, full=True) for each in comparisons]
        write(options.page, form, Sections(page.title(sides), reports, files), quiet=options.output.quiet)
    failed = EXIT_FAILED if any(side.failed for side in sides) else EXIT_GOOD
    return worst([code, failed, *(_judge(each, options) for each in comparisons)])


def _check(options: CompareOptions) -> None:
    live_too = options.live or options.sweep is not None
    only_live = {"--launches": options.launches, "--records": options.folder}
    if not live_too and (unused := [name for name, value in only_live.items() if value is not None]):
        raise UserError(f"{join_words(unused)} is only for --live and --sweep")
    if not live_too and not 2 <= len(options.runs) <= MAX_SIDES:
        raise UserError(
            f"volley compare takes two or more files of records, not {len(options.runs)}: write volley compare "
            "monday.jsonl tuesday.jsonl, or volley compare last-1 last for the newest two runs, or volley compare "
            "summit monday.jsonl for one run and a reference"
        )


def _judge(comparison: Comparison, options: CompareOptions) -> int:
    """Return the exit code of one comparison; standard error says what the gate found."""
    condition = options.fail_on
    if condition is None:
        return EXIT_GOOD
    code, words = gate(comparison, condition)
    if code or not options.output.quiet:
        print(f"volley: {condition.typed}: {escape_controls(words)}", file=sys.stderr)
    return code


def references(options: ReferencesOptions) -> int:
    if options.add is not None:
        if len(options.name) != 1:
            raise UserError("--add takes a name and one file of records: volley references --add our-cluster run.jsonl")
        path = add(options.add, options.name[0], BENCHMARKS)
        print(f"volley: {path} is the reference {options.add}: volley compare {options.add} RECORDS")
        of_benchmark = grouped(read_runs(path, BENCHMARKS), lambda log: log.plan and log.plan.benchmark)
        if busy := next(filter(None, map(without_core, of_benchmark.values())), None):
            print(f"volley: {busy.longer}; measure again {busy.without}, and add that", file=sys.stderr)
        return EXIT_GOOD
    if len(options.name) > 1:
        raise UserError(f"volley references shows one reference at a time: volley references {options.name[0]}")
    mine, known = own_references(), published()
    if not options.name:
        render_reports([list_report(known, mine, BENCHMARKS)], options.output.format, sys.stdout)
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
