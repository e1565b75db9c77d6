"""``volley record``: start an application with the recorder, and collect what its ranks have written."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from volley.errors import EXIT_GOOD, MachineError, UserError
from volley.files import refuse_existing, refuse_unwritable
from volley.launch.engine_path import engine_path
from volley.launch.inside_launcher import rank_info
from volley.machine.mpi_choice import family_of, installed_file
from volley.machine.mpi_stack import preload
from volley.machine.mpi_words import ALLOW_ROOT
from volley.machine.nvidia_driver import has_driver
from volley.machine.signals import GRACE_S, Child, Stop, signal_name
from volley.machine.variables import captured
from volley.records.trace_file import Trace, TraceInfo, read_folder, write_trace
from volley.text import count, escape_controls
from volley.trace.options import RecordOptions
from volley.trace.roll_call import roll_call
from volley.units import numbered

_LIBRARY = "libvolley-trace.so"
_POLL_S = 0.5


class _Application:
    """The running application as a signal ends it: first the roll call, because ranks leave their calls to end."""

    def __init__(self, child: Child, folder: Path) -> None:
        self._child, self._folder = child, folder
        self.lines: list[str] = []
        self.ended_s: float | None = None

    def terminate(self) -> None:
        with contextlib.suppress(OSError, UserError, ValueError):
            trace = read_folder(self._folder, TraceInfo())
            self.ended_s = _now_s(trace)
            self.lines = roll_call(trace, self.ended_s)
        self._child.terminate()

    def kill(self) -> None:
        self._child.kill()


def run(options: RecordOptions) -> int:
    if not options.words:
        raise UserError("the command to record is missing: volley record -- mpirun -n 4 ./app")
    place = rank_info(os.environ)
    if place and place.size != 1:
        raise UserError(
            "volley record was started as a rank of a job: it starts the launcher, as in volley record -- mpirun -n 4 "
            "./app"
        )
    recorder = Path(engine_path()).with_name(_LIBRARY)
    if not recorder.is_file():
        raise MachineError(f"{recorder} is missing: install volley again")
    refuse_existing(options.output, force=options.force)
    refuse_unwritable(options.output, "the trace")
    folder = options.output.absolute().with_name(f"{options.output.name}.ranks")
    if folder.is_dir() and any(folder.iterdir()) and not options.force:
        raise UserError(
            f"{escape_controls(str(folder))} holds a recording that was cut off (volley explain reads it): name "
            "another file, or replace it with --force"
        )
    local = Path("/tmp", f"volley-trace-{time.time_ns()}")  # noqa: S108  on every host; the ranks create it for us alone
    variables = {"VOLLEY_TRACE_FOLDER": str(folder), "VOLLEY_TRACE_LOCAL": str(local)}
    variables |= {"VOLLEY_TRACE_EVENTS": str(options.events)}
    variables |= _with_cupti(recorder)
    variables |= preload([str(recorder)])
    variables["LD_PRELOAD"] = ":".join(filter(None, (variables["LD_PRELOAD"], os.environ.get("LD_PRELOAD"))))
    command = _command(options.words, variables)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    trace, stopped_by = _record(options.words, command, {**os.environ, **variables}, folder)
    if trace.ranks:
        write_trace(options.output, trace)
    if not trace.missing:
        shutil.rmtree(folder)
    failed = _report(options.output, trace, folder, local)
    return failed if stopped_by is None else 128 + stopped_by


def _with_cupti(recorder: Path) -> dict[str, str]:
    """Return what makes the driver of CUDA load the recorder, which then sees copies through CUPTI."""
    if not has_driver() or "CUDA_INJECTION64_PATH" in os.environ:
        return {}
    wheels = (installed_file(f"nvidia-cuda-cupti{of}", f"libcupti.so.{of[-2:] or 13}") for of in ("", "-cu13", "-cu12"))
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folders = [Path(root, of) for root in toolkits if root for of in ("extras/CUPTI/lib64", "lib64")]
    found = [*(str(path) for folder in folders if (path := folder / "libcupti.so").is_file()), *filter(None, wheels)]
    return {"CUDA_INJECTION64_PATH": str(recorder), "VOLLEY_TRACE_CUPTI": found[0] if found else "libcupti.so"}


def _command(command: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Return the command with what makes Open MPI's mpirun pass on the variables to other hosts: it passes on its own
    alone, while hydra and srun pass on all."""
    program = shutil.which(command[0])
    if program is None:
        raise UserError(f"{command[0]!r} is not a program on PATH: write volley record -- mpirun -n 4 ./app")
    passed = [word for name in variables for word in ("-x", name)]
    return [program, *(passed if _is_open_mpi(program) else ()), *command[1:]]


def _is_open_mpi(program: str) -> bool:
    return (
        Path(program).name.startswith(("mpirun", "mpiexec", "orterun", "prterun")) and family_of(program) == "openmpi"
    )


def _refused_root(command: Sequence[str]) -> str:
    """Return what to type where Open MPI's mpirun does not start a command of root; empty: it does."""
    allowed = ALLOW_ROOT.keys() <= os.environ.keys() or "--allow-run-as-root" in command
    if os.geteuid() != 0 or allowed or not _is_open_mpi(shutil.which(command[0]) or ""):
        return ""
    words = " ".join(f"{name}={value}" for name, value in ALLOW_ROOT.items())
    return f"; Open MPI's mpirun refuses root: if this is to run as root, export {words}"


def _record(
    typed: Sequence[str], command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> tuple[Trace, int | None]:
    """Return what was recorded, and the signal that stopped it."""
    started, begun = datetime.now(timezone.utc), time.monotonic()
    stdin = subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None  # another session cannot read it
    with Stop() as stop, Child(command, environment, stdin=stdin) as child:
        application = _Application(child, folder)
        stop.watch(application, GRACE_S)
        status = None
        while status is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = child.process.wait(_POLL_S)
        stop.watch(None)
        child.kill_left()
    stopped = stop.signal is not None
    info = TraceInfo(
        command=list(typed),
        started_at=started.isoformat(timespec="seconds"),
        wall_s=time.monotonic() - begun,
        status=None if stopped else status,
        stopped=stopped,
        environment=dict(captured(os.environ)),
    )
    trace = read_folder(folder, info)
    ended_s = _now_s(trace) if application.ended_s is None else application.ended_s
    lines = application.lines or (roll_call(trace, ended_s) if trace.ranks else [])
    trace.info = msgspec.structs.replace(info, roll_call=lines, ended_s=ended_s)
    return trace, stop.signal


def _now_s(trace: Trace) -> float:
    return (time.time_ns() - trace.origin_ns) * 1e-9


def _report(output: Path, trace: Trace, folder: Path, local: Path) -> int:
    """Say what was recorded, and return the status of the command."""
    info = trace.info
    if info.roll_call:
        print("Where the ranks were:", file=sys.stderr)
        for line in info.roll_call:
            print(f"  {escape_controls(line)}", file=sys.stderr)
    status = info.status or EXIT_GOOD
    status = 128 - status if status < 0 else status
    if status:
        name = signal_name(status - 128)
        ended = f"signal {name}" if name else f"status {status}"
        print(f"volley: the command ended with {ended}", file=sys.stderr)
    lost = (
        trace.why_lost and f"{trace.why_lost}: name a file on another disk with -o, or keep fewer calls with --events"
    )
    if not trace.ranks:
        nothing = "nothing was recorded: "
        if status or info.stopped:
            why = _refused_root(info.command) if status else ""
            no_rank = f"no rank of this host had called MPI_Init{why}"
            print(f"volley: {nothing}{lost or no_rank}", file=sys.stderr)
            return status
        if lost:
            raise MachineError(nothing + lost)
        raise MachineError(
            f"{nothing}no process of the command called MPI_Init of a shared MPI library (static and setuid programs, "
            "and launchers that do not pass on LD_PRELOAD, keep the recorder out). If ranks ran on a host that does "
            f"not reach {escape_controls(str(folder.parent))}, they wrote to {local} there: volley explain reads a "
            "copy of that folder"
        )
    if lost:
        print(f"volley: {lost}", file=sys.stderr)
    elif trace.missing:
        print(
            f"volley: no trace of {numbered('rank', trace.missing)}; the ranks of a host that does not reach "
            f"{escape_controls(str(folder))} wrote to {local} there: copy these files into that folder, then "
            f"{escape_controls(shlex.join(['volley', 'explain', str(folder)]))}",
            file=sys.stderr,
        )
    calls = sum(int(rank.counts["calls"].sum()) for rank in trace.ranks)
    dropped = sum(int(rank.header["dropped"]) for rank in trace.ranks)
    more = f"; the last {dropped} are only counted (--events keeps more)" if dropped else ""
    print(
        f"trace: {escape_controls(str(output))}: {count(len(trace.ranks), 'rank')}, {calls} calls{more}",
        file=sys.stderr,
    )
    print(escape_controls(shlex.join(["volley", "explain", str(output)])), file=sys.stderr)
    return status
