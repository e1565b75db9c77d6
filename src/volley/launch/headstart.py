"""A head start: an engine that needs no launcher is started before the command line has been read.

CUDA takes a third of a second to start, and reading options and what shows results a tenth to load.  For who wants the
sections of the CUDA sample as soon as the sample has them, the two go on side by side: what the first words say is
enough to know which engine it will be, and it measures nothing before it has a plan.  Where it turns out that another
one is needed, or none, this one is ended.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence

from volley import locate
from volley.errors import UserError
from volley.launch import inside

SAMPLES_FORMAT = "cuda-samples"

_PLAIN_OPTIONS = {"--format", f"--format={SAMPLES_FORMAT}", "--output", "-o"}

_begun: tuple[tuple[str, ...], dict[str, str], subprocess.Popen[bytes]] | None = None


def alone(*, all_gpus: bool) -> tuple[str, ...]:
    """Return the command line of the engine that is the whole job, without a launcher and without MPI.

    One that is to use all GPUs makes them ready before it has a plan.

    Raises:
        UserError: if there is no such engine.
    """
    return locate.node_engine_path(), *(("--wake",) if all_gpus else ()), "--plan", "-"


def likely(arguments: Sequence[str]) -> bool:
    """Tell whether the words ask for the CUDA sample's sections, and for nothing that could end otherwise."""
    options = {word for word in arguments if word.startswith("-")}
    wanted = f"--format={SAMPLES_FORMAT}" in options or SAMPLES_FORMAT in arguments
    return arguments[:1] == ["matrix"] and wanted and options <= _PLAIN_OPTIONS


def begin(arguments: Sequence[str]) -> None:
    """Start the engine if the words make it likely that it is needed; what goes wrong is said by who needs it."""
    global _begun  # noqa: PLW0603  whether there is such an engine is a fact of the whole process
    if not likely(arguments):
        return
    environment = inside.scrubbed(os.environ)
    with contextlib.suppress(UserError, OSError):
        command = alone(all_gpus=True)
        _begun = command, environment, start(command, environment, own_session=True)
        atexit.register(_end)


def start(command: Sequence[str], environment: Mapping[str, str], *, own_session: bool) -> subprocess.Popen[bytes]:
    """Start a job with pipes to all its standard streams, or take the one that was started ahead.

    Raises:
        OSError: if the command does not start.
    """
    global _begun  # noqa: PLW0603  the same fact
    if _begun is not None:
        begun_command, begun_environment, process = _begun
        if own_session and tuple(command) == begun_command and dict(environment) == begun_environment:
            _begun = None
            return process
        _end()
    return subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        close_fds=own_session,  # inside a launcher, PMI works through a descriptor inherited from it
        start_new_session=own_session,
    )


def _end() -> None:
    """End the engine that nobody took."""
    global _begun  # noqa: PLW0603  the same fact
    if _begun is None:
        return
    *_, process = _begun
    _begun = None
    process.kill()
    process.communicate()
