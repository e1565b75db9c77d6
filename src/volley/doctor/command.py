"""``volley doctor``: capture or read facts, judge them, show the findings.

On a terminal these are the problems with evidence and remedy, then what is fine in one line a layer; or all.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from volley.doctor.checks import diagnose
from volley.doctor.device_query import device_query
from volley.doctor.findings import NO_GPU, Diagnosis, DoctorFinding
from volley.doctor.options import DoctorOptions
from volley.document import readable_json
from volley.errors import EXIT_GOOD, MachineError, UserError
from volley.files import refuse_existing, refuse_unwritable, write_file
from volley.launch.this_host import is_this_host
from volley.machine.facts import Facts, encode, read_facts
from volley.machine.finding import Status, in_order
from volley.report.terminal import console_on, print_line
from volley.text import ascii_json, escape_controls, grouped

_SHORTEST_S = 1.0


def run(options: DoctorOptions) -> int:
    """Run the command; return the exit code: 1 if something is broken."""
    if options.source is not None and options.capture:
        raise UserError("--from and --capture cannot be combined: --from judges facts that --capture saved")
    if options.timeout < _SHORTEST_S:
        raise UserError(f"--timeout {options.timeout:g}: each test needs at least one second, e.g. --timeout 60")
    if options.capture and str(options.capture) != "-":  # before anything is tried
        refuse_existing(options.capture, force=options.force)
        refuse_unwritable(options.capture, "facts")
    facts = read_facts(options.source) if options.source is not None else _capture(options)
    if options.capture and str(options.capture) == "-":
        sys.stdout.write(ascii_json(encode(facts)))
        return EXIT_GOOD
    if options.capture:
        write_file(options.capture, encode(facts), "facts")
        print(f"facts: {escape_controls(str(options.capture))}", file=sys.stderr)
    if options.device_query:
        return _devices(facts, as_json=options.format == "json")
    diagnosis = diagnose(facts)
    if options.format == "json":
        sys.stdout.write(readable_json(diagnosis))
    else:
        render(diagnosis, facts, sys.stdout, verbose=options.verbose)
    return diagnosis.exit_code


def _capture(options: DoctorOptions) -> Facts:
    from volley.doctor.probes import capture  # noqa: PLC0415  start-up: judging kept facts does without
    from volley.launch.allocation import allocation  # noqa: PLC0415  start-up: judging kept facts does without
    from volley.machine.mpi_choice import choose_mpi  # noqa: PLC0415  start-up: judging kept facts does without

    # A mistake after --mpi ends doctor, and an MPI that is not there is a finding.
    with contextlib.suppress(MachineError):
        choose_mpi(options.job.mpi, os.environ)
    granted = allocation(os.environ)
    names = tuple(dict.fromkeys(options.hosts)) or tuple(granted.hosts if granted else ())
    if len(names) == 1 and options.hosts and not is_this_host(names[0]):
        names = (os.uname().nodename, *names)  # what is between this host and that one
    drawn = sys.stderr.isatty()

    def watch(call: str) -> None:
        if drawn:
            sys.stderr.write(f"\r\x1b[Ktrying {escape_controls(call)[:100]}")
            sys.stderr.flush()

    try:
        return capture(options.timeout, watch, names, options.job.mpi)
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _devices(facts: Facts, *, as_json: bool) -> int:
    cuda = facts.cuda.value
    if cuda is None or not cuda.devices:
        answer = f"{cuda.failed_call}: {cuda.status_name}" if cuda and cuda.status else "CUDA shows no device"
        raise MachineError(escape_controls(facts.cuda.skipped or facts.cuda.error or answer))
    if as_json:
        sys.stdout.write(readable_json(cuda))
    else:
        stack = facts.stack.value
        lines = device_query(cuda, stack.cuda_built if stack else None)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return EXIT_GOOD


# --------------------------------------------------------------------------------------------- the findings

_STYLES: dict[Status, str] = {
    "good": "green",
    "warning": "yellow",
    "broken": "bold red",
    "not applicable": "dim",
    "not tested": "cyan",
}
_FINE: tuple[Status, ...] = ("good", "not applicable")
_GAP = 2
"""Blanks between columns."""


def render(diagnosis: Diagnosis, facts: Facts, out: TextIO, *, verbose: bool) -> None:
    """Show the findings on ``out``, and the counts last; if ``verbose``, all of them in the order of the layers."""
    console = console_on(out)
    system = facts.system.value
    about = [system.os_name, f"Linux {system.kernel}", system.architecture, system.container] if system else []
    print_line(console, f"volley doctor: {', '.join(filter(None, about))}" if about else "volley doctor", wrap=True)
    if facts.note:
        print_line(console, facts.note, "dim", wrap=True)
    if verbose:
        for layer, findings in groupby(diagnosis.findings, key=lambda each: each.layer):
            console.print(Text(f"\n{layer}", "bold"))
            _print(console, list(findings), diagnosis)
    else:
        if not facts.has_gpu:
            print_line(console, f"{NO_GPU}: GPU checks do not apply", wrap=True)
        problems = [each for each in diagnosis.findings if each.status not in _FINE]
        if problems:
            console.print()
            _print(console, _together(in_order(problems)), diagnosis)
        console.print()
        _print_fine_layers(console, diagnosis)
    said = () if verbose or facts.has_gpu else ("not applicable",)
    counts = ", ".join(f"{times} {each}" for each, times in diagnosis.counts.items() if times and each not in said)
    console.print(Text(f"\n{counts}" + ("" if verbose else "; -v shows every finding")))


def _together(problems: Sequence[DoctorFinding]) -> list[DoctorFinding]:
    """Make one finding of those that were not tested for one reason; what they said is a consequence."""
    found = []
    for each in grouped(problems, lambda one: one if one.status != "not tested" else one.said + one.remedy).values():
        names = "; ".join(one.check for one in each)
        first = msgspec.structs.replace(each[0], evidence=each[0].evidence if each[0].status != "not tested" else "")
        several = {"check": f"{len(each)} checks", "said": f"{first.said} ({names})"} if len(each) > 1 else {}
        found.append(msgspec.structs.replace(first, **several))
    return found


def _print(console: Console, findings: Sequence[DoctorFinding], diagnosis: Diagnosis) -> None:
    # Fixed columns, so that all tables stand in line with each other.
    first = max(len(each.status) for each in diagnosis.findings)
    second = max(len(each.check) for each in diagnosis.findings)
    for finding in findings:
        said = Text(escape_controls(finding.said), "dim" if finding.status == "not applicable" else "")
        start = Text.assemble(
            (finding.status.ljust(first + _GAP), _STYLES[finding.status]), finding.check.ljust(second + _GAP)
        )
        print_line(console, said, first=start, wrap=True)
        if finding.status not in _FINE:
            more = (("also", each, "") for each in finding.also)
            for word, text, style in (("tried", finding.evidence, "dim"), ("do", finding.remedy, "bold"), *more):
                if text:
                    line = Text.assemble((f"{word}: ", "dim"), (escape_controls(text), style))
                    print_line(console, line, first=Text(" " * len(start)), wrap=True)


def _print_fine_layers(console: Console, diagnosis: Diagnosis) -> None:
    width = max(len(each.layer) for each in diagnosis.findings) + _GAP
    for layer, findings in groupby(diagnosis.findings, key=lambda each: each.layer):
        found = grouped(findings, lambda finding: finding.status)
        parts = [
            Text(f"{status}: {'; '.join(finding.check for finding in found[status])}", _STYLES[status])
            for status in _FINE
            if status in found
        ]
        if parts:
            start = Text.assemble((layer.ljust(width), "bold"))
            print_line(console, Text("; ").join(parts), first=start, wrap=True)
