"""``volley doctor``: capture or read facts, judge them, show the findings."""

from __future__ import annotations

import os
import sys

from volley.doctor.checks import diagnose
from volley.doctor.options import DoctorOptions
from volley.document import readable_json
from volley.errors import EXIT_GOOD, MachineError, UserError
from volley.files import refuse_existing, refuse_unwritable, write_file
from volley.machine.facts import Facts, encode, read_facts
from volley.text import ascii_json, escape_controls

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
        from volley.doctor.page import render  # noqa: PLC0415  start-up: Rich's tables take a while, JSON does without

        render(diagnosis, facts, sys.stdout, verbose=options.verbose)
    return diagnosis.exit_code


def _capture(options: DoctorOptions) -> Facts:
    from volley.doctor.probes import capture  # noqa: PLC0415  start-up: judging kept facts does without
    from volley.launch.allocation import allocation  # noqa: PLC0415  start-up: judging kept facts does without

    granted = allocation(os.environ)
    names = options.hosts or tuple(granted.hosts if granted else ())
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
        from volley.doctor.page import device_query  # noqa: PLC0415  start-up: Rich's tables take a while

        stack = facts.stack.value
        lines = device_query(cuda, stack.cuda_built if stack else None)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return EXIT_GOOD
