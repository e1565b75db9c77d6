"""What ``volley compare`` and ``volley references`` do.

Command lines are launched in turn, in pairs or in larger rounds, so that a drift of the machine affects all of them.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from volley.benchmarks import BENCHMARKS, commands
from volley.compare import page
from volley.compare.comparison import Comparison, Side, compare_all, letter, read_sides
from volley.compare.options import MAX_SIDES, CompareOptions, ReferencesOptions
from volley.errors import EXIT_GOOD, EXIT_MACHINE, UserError
from volley.files import refuse_existing, refuse_input
from volley.machine.signals import Stop
from volley.records.launch_series import observed_in
from volley.records.records_file import open_writer, parse_runs, read_runs
from volley.records.run_log import RunLog
from volley.records.saved_runs import own_references
from volley.references import add, list_report, one_report, published
from volley.run.alternate import Variant, alternate
from volley.run.outcome import worst
from volley.run.render import Sections, attached, form_of, render, render_reports, write
from volley.statistics.two_runs import min_to_decide
from volley.text import count, did_you_mean, escape_controls, join_words


def variants_of(lines: Sequence[str], sweep: tuple[str, tuple[str | None, ...]] | None) -> list[Variant]:
    """Split the command lines into words; variables may stand before the command, as in a shell.

    With ``sweep``, a variable and its values, one command line is a variant for each value.
    """
    if sweep is None:
        if not 2 <= len(lines) <= MAX_SIDES:
            raise UserError(
                f"--live takes 2 to {MAX_SIDES} command lines, not {len(lines)}: write volley compare --live "
                "'volley …' 'volley …'"
            )
        return [Variant([*words, *one_launch], name=shlex.join(words)) for words, one_launch in map(_words, lines)]
    if len(lines) != 1:
        raise UserError(f"--sweep takes one command line, not {len(lines)}: write --sweep X=1,2 'volley …'")
    (words, one_launch), (variable, values) = _words(lines[0]), sweep
    names = [f"{variable} not set" if value is None else f"{variable}={value}" for value in values]
    line = [*words, *one_launch]
    return [Variant(line, {variable: value}, name) for value, name in zip(values, names, strict=True)]


def _words(line: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words, and the option for one launch; a matrix has no such option, and is one launch without it."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UserError(f"--live: {escape_controls(line)!r} is not a command line: {error}") from None
    if not words:
        raise UserError("--live: a command line is empty: write e.g. 'volley pingpong'")
    if "=" in words[0]:
        words = ["env", *words]
    command = None  # another program may start volley
    for place, word in enumerate(words):
        if "=" not in word and Path(word).name == "volley":
            name = [*words[place + 1 :], "-"][0]
            if name.startswith("-"):
                raise UserError("--live: volley without a command makes several launches: write e.g. 'volley pingpong'")
            command = next((each for each in commands() if name in (each.name, *each.aliases)), None)
            break
    has_it = command is None or any(each.name == "--launches" for each in command.declared())
    return words, ("--launches", "1") if has_it else ()


def measure(
    variants: Sequence[Variant], rounds: int, folder: Path | None, *, force: bool, quiet: bool
) -> tuple[list[Side], int]:
    """Run the command lines in turn, keep their records, and return those of whole rounds, and the exit code.

    Ctrl-C, SIGTERM and SIGHUP stop the running command and with it the comparison.  Records go to ``folder``, or to the
    state folder; with ``force`` they replace what is in their files.
    """
    try:
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--records: cannot write to {escape_controls(str(folder))}: {error.strerror}") from None
    letters = [letter(place).lower() for place in range(len(variants))]
    files = [folder and folder / f"{each}.jsonl" for each in letters]
    writers = [open_writer(file, f"compare-{each}", force=force) for file, each in zip(files, letters, strict=True)]
    launches: list[list[list[RunLog]]] = [[] for _ in variants]
    code, stop, what = EXIT_GOOD, Stop(), "pair" if len(variants) == 2 else "round"

    def begin(number: int, which: int) -> None:
        if not quiet:
            _say(f"{what} {number} of {rounds}: {letter(which)}")

    try:
        with stop:
            for launch in alternate(variants, rounds, stop, begin):
                writers[launch.variant].write(launch.data)
                own, name = launches[launch.variant], variants[launch.variant].name
                own.append(parse_runs(launch.data, BENCHMARKS, name))
                if not observed_in([*own[0], *own[-1]], BENCHMARKS).rows:
                    raise UserError(f"{name} measures no point: there is nothing to compare")
                if launch.round == 1 and all(launches):  # told now, not after all launches
                    named = zip(variants, launches, strict=True)
                    compare_all([Side.of(each.name, those[0], "") for each, those in named], 0.0)
    except KeyboardInterrupt:
        code = 128 + (stop.signal or signal.SIGINT)
        if not (whole := min(map(len, launches))):
            _say("stopped")
            raise SystemExit(code) from None
        launches = [those[:whole] for those in launches]
        _say(f"stopped after {count(whole, what)}")
    finally:
        for writer in writers:
            writer.close()
            for line in (writer.trouble and f"volley: {writer.trouble}", None if quiet else writer.last_line()):
                if line:
                    print(line, file=sys.stderr)
    if code == EXIT_GOOD and any(writer.trouble for writer in writers):
        code = EXIT_MACHINE
    sides = zip(variants, launches, writers, strict=True)
    return [Side.of(each.name, list(chain(*those)), str(writer.path or "")) for each, those, writer in sides], code


def _say(message: str) -> None:
    print(f"volley: {message}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------------------ commands


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
    return worst([code, *(_judge(each, options) for each in comparisons)])


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
