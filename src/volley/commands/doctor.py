"""``volley doctor``."""

from __future__ import annotations

import typer

from volley.commands.common import Command
from volley.doctor import options as opt
from volley.options.reading import check_seconds


def doctor(
    json_format: opt.Json = False,
    capture: opt.Capture = None,
    source: opt.From = None,
    device_query: opt.DeviceQuery = False,
    timeout: opt.Timeout = 60.0,
) -> None:
    """Try every layer between this machine and a CUDA-aware MPI, and say what to do about what does not work.

    Each layer is tried in a process of its own: a crash or a hang is a finding. The exit code is 1 where something is
    broken.
    """
    from volley.doctor.command import Visit, run  # noqa: PLC0415  start-up: --help does without

    check_seconds("--timeout", timeout)
    visit = Visit(json=json_format, capture=capture, source=source, device_query=device_query, limit_s=timeout)
    raise typer.Exit(run(visit))


COMMAND = Command(
    doctor,
    examples=(
        "volley doctor",
        "volley doctor --json",
        "volley doctor --capture node1.json",
        "ssh node1 volley doctor --capture - | volley doctor --from -",
    ),
)
