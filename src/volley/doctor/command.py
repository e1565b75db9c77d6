"""``volley doctor``: capture or read facts, judge them, show what was found."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from volley.doctor.facts import Facts, decode, encode
from volley.doctor.registry import diagnose
from volley.errors import EXIT_GOOD, MachineError, UserError
from volley.text import ascii_json, harmless


@dataclass(frozen=True, kw_only=True)
class Visit:
    """What the command line asks of doctor."""

    json: bool = False
    capture: Path | None = None
    """Where the facts are kept; ``-`` is standard output, instead of the findings."""
    source: str | None = None
    """A file of facts to judge; ``-`` is standard input."""
    device_query: bool = False
    limit_s: float = 60.0
    """How long a probe may take."""


def run(visit: Visit) -> int:
    """Do it; return the exit code: 1 where something is broken.

    Raises:
        UserError: if the request makes no sense or a file cannot be read or written.
        MachineError: if devices were asked for and there are none.
    """
    if visit.source is not None and visit.capture:
        raise UserError("--from judges facts that --capture kept: leave one of them out")
    if visit.capture:
        _check_writable(visit.capture)
    facts = read(visit.source) if visit.source is not None else _capture(visit.limit_s)
    if visit.capture and _keep(facts, visit.capture):
        return EXIT_GOOD
    if visit.device_query:
        return _devices(facts, as_json=visit.json)
    diagnosis = diagnose(facts)
    if visit.json:
        sys.stdout.write(ascii_json(msgspec.json.format(msgspec.json.encode(diagnosis), indent=2)) + "\n")
    else:
        from volley.doctor.render import render  # noqa: PLC0415  Rich's tables take a while, and JSON does without

        render(diagnosis, facts, sys.stdout)
    return diagnosis.exit_code


def _capture(limit_s: float) -> Facts:
    from volley.doctor.capture import capture  # noqa: PLC0415  judging kept facts does without

    drawn = sys.stderr.isatty()

    def watch(call: str) -> None:
        if drawn:
            sys.stderr.write(f"\r\x1b[Ktrying {harmless(call)[:100]}")
            sys.stderr.flush()

    try:
        return capture(limit_s, watch)
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def read(source: str) -> Facts:
    """Read facts from a file, or from standard input where it is called ``-``.

    Raises:
        UserError: if there are none.
    """
    if source == "-":
        return decode(sys.stdin.buffer.read(), "standard input")
    try:
        return decode(Path(source).read_bytes(), harmless(source))
    except OSError as error:
        raise UserError(f"cannot read {harmless(source) or repr(source)}: {error.strerror}") from None


def _check_writable(path: Path) -> None:
    """Find out before anything is tried."""
    if str(path) == "-":
        return
    try:
        path.open("ab").close()
    except OSError as error:
        raise UserError(f"cannot write facts to {harmless(str(path))}: {error.strerror}; name another file") from None


def _keep(facts: Facts, path: Path) -> bool:
    """Write the facts; return True where they took the place of the findings."""
    if str(path) == "-":
        sys.stdout.write(ascii_json(encode(facts)))
        return True
    try:
        path.write_bytes(encode(facts))
    except OSError as error:
        raise MachineError(f"cannot write facts to {harmless(str(path))}: {error.strerror}") from None
    print(f"facts: {harmless(str(path))}", file=sys.stderr)
    return False


def _devices(facts: Facts, *, as_json: bool) -> int:
    cuda = facts.cuda.value
    if cuda is None or not cuda.devices:
        answer = f"{cuda.failed_call}: {cuda.status_name}" if cuda and cuda.status else "CUDA shows no device"
        raise MachineError(harmless(facts.cuda.skipped or facts.cuda.error or answer))
    if as_json:
        sys.stdout.write(ascii_json(msgspec.json.format(msgspec.json.encode(cuda), indent=2)) + "\n")
        return EXIT_GOOD
    from volley.doctor.render import render_devices  # noqa: PLC0415  Rich's tables take a while

    render_devices(facts, sys.stdout)
    return EXIT_GOOD
