"""The command line: which commands there are.  Parsing only; the work is done in ``session`` and ``report``."""

# Typer reads the options from the signatures; their values are taken from the context, all at once.
# ruff: noqa: ARG001, PLR0917

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
import typer.core

from volley import options as opt
from volley import solving
from volley.batch import options as job
from volley.errors import EXIT_FAILED, EXIT_GOOD, EXIT_INTERRUPTED, EXIT_MACHINE, EXIT_REQUEST, UserError
from volley.launch.inside import MEASURING
from volley.setup import options as setup_opt
from volley.sizes import DEFAULT_SIZES, DEFAULT_STREAM_SIZES
from volley.text import harmless, several

if TYPE_CHECKING:
    from volley.planning import Request

_EXIT_CODES = """
Exit codes: 0 good; 1 a point failed, or the run broke off; 2 the request makes no sense; 3 the machine cannot do it;
130 stopped by Ctrl-C.
"""
_UNITS = """
Units: a latency is the half round trip in µs; GB/s are 10^9 bytes a second; sizes are powers of 1024 (64k = 64 KiB =
65536 bytes). ± is the 95 % interval of the median.
"""


class _ReaderGoneError(Exception):
    """Whoever read our output has seen enough (volley show … | head)."""


class _Commands(typer.core.TyperGroup):
    """The commands.  Click would make exit code 1 of a closed pipe, which is nobody's failure."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGoneError from None


app = typer.Typer(
    name="volley",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _epilog(*examples: str) -> str:
    """Examples, units and exit codes, as paragraphs."""
    return "\n\n".join(["Examples:", *examples, _UNITS.strip(), _EXIT_CODES.strip()])


@app.callback(
    invoke_without_command=True,
    epilog=_epilog(
        "volley",
        "volley pingpong --sizes 8,64k,1M --format csv",
        "srun -n 2 volley stream --direction bi",
    ),
)
def volley(
    ctx: typer.Context,
    budget: opt.Budget = opt.OVERVIEW_BUDGET_S,
    hosts: opt.Hosts = None,
    launcher: opt.Launcher = "auto",
    output: opt.Output = None,
    format_name: opt.Format = "table",
    dry_run: opt.DryRun = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """How fast do processors and GPUs really talk to each other?

    Alone, volley measures what this machine can do within a minute, says what it cannot do and why, and sums up. The
    commands do one thing each. Started inside a launcher (mpirun -n 2 volley …) it becomes the ranks.
    """
    if version:
        from volley import __version__  # noqa: PLC0415  start-up: reads the distribution's metadata

        typer.echo(f"volley {__version__}")
        raise typer.Exit(EXIT_GOOD)
    if ctx.invoked_subcommand is None:
        request = opt.request("pingpong", ctx.params)
        from volley import session  # noqa: PLC0415  start-up: errors and --help do without

        raise typer.Exit(session.overview(request))
    _refuse_misplaced(ctx)


@app.command(
    epilog=_epilog(
        "volley pingpong",
        "volley pingpong --transport host --sizes 8:1Mi:x4 --interval 0.5%",
        "volley pingpong --warmup 5 --iterations 50 --format olcf",
        "volley pingpong --hosts node1,node2 --launches 6 -o link.jsonl",
    )
)
def pingpong(
    ctx: typer.Context,
    transport: opt.Transports = None,
    sizes: opt.Sizes = DEFAULT_SIZES,
    interval: opt.Interval = None,
    point_time: opt.PointTime = None,
    tail: opt.Tail = False,
    warmup: opt.Warmup = None,
    iterations: opt.Iterations = None,
    launches: opt.Launches = 1,
    budget: opt.Budget = None,
    verify: opt.Verify = True,
    fresh_buffers: opt.FreshBuffers = False,
    ranks: opt.Ranks = None,
    hosts: opt.Hosts = None,
    gpus: opt.Gpus = None,
    share_gpu: opt.ShareGpu = False,
    launcher: opt.Launcher = "auto",
    launcher_arg: opt.LauncherArgs = None,
    watchdog: opt.Watchdog = 60.0,
    dry_run: opt.DryRun = False,
    output: opt.Output = None,
    format_name: opt.Format = "table",
) -> None:
    """Measure a message there and back between two ranks: latency, and bandwidth of one message at a time."""
    _measure("pingpong", ctx)


@app.command(
    epilog=_epilog(
        "volley stream",
        "volley stream --direction bi --sizes 1M,64M",
        "volley stream --window 1 --sizes 8:1Gi:x4 --format json",
    )
)
def stream(
    ctx: typer.Context,
    transport: opt.Transports = None,
    sizes: opt.Sizes = DEFAULT_STREAM_SIZES,
    direction: opt.Direction = "uni",
    window: opt.Window = 64,
    interval: opt.Interval = None,
    point_time: opt.PointTime = None,
    warmup: opt.Warmup = None,
    iterations: opt.Iterations = None,
    launches: opt.Launches = 1,
    budget: opt.Budget = None,
    verify: opt.Verify = True,
    fresh_buffers: opt.FreshBuffers = False,
    ranks: opt.Ranks = None,
    hosts: opt.Hosts = None,
    gpus: opt.Gpus = None,
    share_gpu: opt.ShareGpu = False,
    launcher: opt.Launcher = "auto",
    launcher_arg: opt.LauncherArgs = None,
    watchdog: opt.Watchdog = 60.0,
    dry_run: opt.DryRun = False,
    output: opt.Output = None,
    format_name: opt.Format = "table",
) -> None:
    """Measure a flood of messages with many in flight: the bandwidth of a link, one way or both."""
    _measure("stream", ctx)


@app.command(
    epilog=_epilog(
        "volley matrix --ranks 8",
        "volley matrix --hosts node1,node2,node3 --transport host --mode loaded",
        "srun -n 16 volley matrix --bandwidth 1M,64M --latency none --format csv",
    )
)
def matrix(
    ctx: typer.Context,
    transport: opt.MatrixTransports = None,
    latency: opt.LatencySizes = "8",
    bandwidth: opt.BandwidthSizes = "1Mi",
    mode: opt.Mode = "isolated",
    direction: opt.Direction = "uni",
    window: opt.Window = 64,
    interval: opt.Interval = None,
    point_time: opt.MatrixPointTime = None,
    warmup: opt.Warmup = None,
    iterations: opt.Iterations = None,
    repeats: opt.Repeats = opt.MATRIX_REPEATS,
    retest: opt.Retest = True,
    budget: opt.Budget = None,
    verify: opt.Verify = True,
    ranks: opt.MatrixRanks = None,
    hosts: opt.Hosts = None,
    gpus: opt.Gpus = None,
    share_gpu: opt.ShareGpu = False,
    launcher: opt.Launcher = "auto",
    launcher_arg: opt.LauncherArgs = None,
    watchdog: opt.Watchdog = 60.0,
    dry_run: opt.DryRun = False,
    samples: opt.Samples = False,
    output: opt.Output = None,
    format_name: opt.Format = "table",
) -> None:
    """Measure every pair of ranks, and name the pairs that are slower than their like.

    Ranks are alike as far as they are on one socket, on one node, or on two. A pair that stands out is measured again
    beside like pairs before it is blamed.
    """
    _measure("matrix", ctx)


@app.command(
    epilog=_epilog(
        "volley jacobi --topology 2 2 --domain 4096 4096",
        "volley jacobi --domain 20480 20480 --precision float --check-every 100 --launches 6",
        "volley jacobi --topology 2 1 --format seed",
    )
)
def jacobi(
    ctx: typer.Context,
    topology: solving.Topology = None,
    domain: solving.Domain = solving.DEFAULT_DOMAIN,
    exchange: solving.Exchange = None,
    precision: solving.Precision = "double",
    iterations: solving.Iterations = solving.DEFAULTS.iterations,
    tolerance: solving.Tolerance = solving.DEFAULTS.tolerance,
    check_every: solving.CheckEvery = 1,
    overlap: solving.Overlap = True,
    threads: solving.Threads = None,
    launches: opt.Launches = 1,
    verify: solving.Verify = True,
    ranks: opt.Ranks = None,
    hosts: opt.Hosts = None,
    launcher: opt.Launcher = "auto",
    launcher_arg: opt.LauncherArgs = None,
    watchdog: opt.Watchdog = 60.0,
    dry_run: opt.DryRun = False,
    output: opt.Output = None,
    format_name: opt.Format = "table",
) -> None:
    """Solve Laplace's equation on a grid of processes: what the halos' transport means for an application.

    Each process has its own domain and exchanges halos with up to four neighbours; the new value of a point is the mean
    of its neighbours' (Jacobi). On the CPU all cores of a rank work.
    """
    _measure("jacobi", ctx)


@app.command(epilog=_epilog("volley transports", "volley transports --hosts node1,node2 --format json"))
def transports(
    ctx: typer.Context,
    ranks: opt.Ranks = None,
    hosts: opt.Hosts = None,
    gpus: opt.Gpus = None,
    share_gpu: opt.ShareGpu = False,
    launcher: opt.Launcher = "auto",
    launcher_arg: opt.LauncherArgs = None,
    watchdog: opt.Watchdog = 60.0,
    dry_run: opt.DryRun = False,
    output: opt.Output = None,
    format_name: opt.Format = "table",
) -> None:
    """List every transport, whether it works between these ranks, and why not."""
    request = opt.request("probe", ctx.params)
    from volley import session  # noqa: PLC0415  start-up: errors and --help do without

    raise typer.Exit(session.transports(request))


@app.command(
    epilog=_epilog(
        "volley show link.jsonl",
        "volley show monday.jsonl tuesday.jsonl --format csv",
        "ssh node1 cat link.jsonl | volley show -",
    )
)
def show(
    records: Annotated[list[str], typer.Argument(metavar="RECORDS…", help="Files of records; - is standard input.")],
    format_name: opt.Format = "table",
) -> None:
    """Show saved records again, in any format; also those of a run that broke off.

    Several files are shown as one: launches of the same plan on the same hosts count as repetitions. A dash stands for
    standard input. The exit code is 1 where a point failed, a run is incomplete or a line cannot be read.
    """
    from volley.records_io import read_runs  # noqa: PLC0415  start-up: --help does without
    from volley.report import render  # noqa: PLC0415

    logs = [log for path in records for log in read_runs(path)]
    render(logs, format_name, sys.stdout)
    failed = any("failed" in log.statuses for log in logs)
    whole = all(log.complete and log.end and log.end.status == "complete" for log in logs)
    raise typer.Exit(EXIT_GOOD if whole and not failed else EXIT_FAILED)


@app.command(
    context_settings={"allow_interspersed_args": False},
    epilog=_epilog(
        "volley batch --scheduler slurm --nodes 2 --gpus-per-node 1 -- pingpong --transport all",
        "volley batch --scheduler lsf --account ABC123 --module cuda -o volley.lsf -- pingpong --transport aware",
        "volley batch --scheduler age --account GROUP --node-resource rt_AF --module cuda/11.2/11.2.2 -- stream",
    ),
)
def batch(
    ctx: typer.Context,
    scheduler: job.Scheduler,
    nodes: job.Nodes = 1,
    ranks: job.Ranks = None,
    gpus_per_node: job.GpusPerNode = None,
    time: job.Time = job.DEFAULT_TIME,
    account: job.Account = None,
    queue: job.Queue = None,
    job_name: job.JobName = "volley",
    node_resource: job.NodeResource = None,
    directive: job.Directives = None,
    module: job.Modules = None,
    launcher: job.Launcher = "auto",
    start: job.Start = None,
    output: job.Output = None,
    command: job.Command = None,
) -> None:
    """Write the script of a batch job that measures: directives, modules, and the line that starts the ranks.

    What stands after the dashes is checked now, as volley itself would: a mistake does not wait in the queue.
    """
    words = command or []
    request = read(words)
    order = job.order(ctx.params)
    from volley.batch import script  # noqa: PLC0415  start-up: errors and --help do without

    script.deliver(script.write(order, request, words), order.output)


def read(words: Sequence[str]) -> Request:
    """Read a command line that measures as :func:`main` would, and do nothing.

    Raises:
        UserError: if it makes no sense, or is a command that does not measure.
    """
    group: Any = typer.main.get_command(app)
    parent = group.context_class(group, info_name="volley")
    if not words or words[0].startswith("-"):
        params = group.make_context("volley", list(words)).params
        _, left, _ = group.make_parser(parent).parse_args(list(words))
        if left:
            raise UserError(f"write {left[0]} before its options: volley {left[0]} …")
        return opt.request("pingpong", {"budget": opt.OVERVIEW_BUDGET_S, **params})
    name, command, rest = group.resolve_command(parent, list(words))
    if name not in MEASURING:
        raise UserError(f"volley {name} measures nothing: a job is for {several(MEASURING, 'or')}")
    params = command.make_context(name, rest, parent=parent).params
    return opt.request("probe" if name == "transports" else name, params)


@app.command(
    epilog=_epilog(
        "volley doctor",
        "volley doctor --json",
        "volley doctor --capture node1.json",
        "ssh node1 volley doctor --capture - | volley doctor --from -",
    )
)
def doctor(
    json_format: opt.DoctorJson = False,
    capture: opt.Capture = None,
    source: opt.From = None,
    device_query: opt.DeviceQuery = False,
    timeout: opt.ProbeTimeout = 60.0,
) -> None:
    """Try every layer between this machine and a CUDA-aware MPI, and say what to do about what does not work.

    Each layer is tried in a process of its own: a crash or a hang is a finding. The exit code is 1 where something is
    broken.
    """
    from volley.doctor.command import Visit, run  # noqa: PLC0415  start-up: --help does without

    visit = Visit(json=json_format, capture=capture, source=source, device_query=device_query, limit_s=timeout)
    raise typer.Exit(run(visit))


@app.command(
    epilog=_epilog(
        "volley topo",
        "volley topo --transport aware -o topo.svg",
        "volley topo --transport staged/pageable --gpus 0,3 -o staged.svg",
        "volley doctor --capture node1.json",
        "volley topo --from node1.json -o node1.svg",
    )
)
def topo(
    transport: opt.Drawn = None,
    gpus: opt.DrawnGpus = None,
    source: opt.DrawFrom = None,
    output: opt.Picture = None,
    json_format: opt.TopoJson = False,
) -> None:
    """Draw this machine: GPUs, NVLinks, PCIe switches, NUMA nodes, cores and network cards.

    With a transport, the way of its message is drawn in colour. Without -o, a list and a matrix in words. Nothing is
    measured, no job is started.
    """
    from volley.topo.command import Drawing, run  # noqa: PLC0415  start-up: --help does without

    numbers = opt.gpu_numbers(gpus) or None
    raise typer.Exit(run(Drawing(transport=transport, gpus=numbers, source=source, output=output, json=json_format)))


@app.command(
    epilog=_epilog(
        "volley setup",
        "volley setup --prefix ~/mpi --route source --dry-run",
        "volley setup --prefix ~/mpi --source ucx=deb:ucx --source openmpi=deb:openmpi --without gdrcopy",
        "volley setup --root-script",
    )
)
def setup(
    ctx: typer.Context,
    route: setup_opt.Route = "auto",
    prefix: setup_opt.Prefix = None,
    prove: setup_opt.Prove = True,
    source: setup_opt.Sources = None,
    without: setup_opt.Without = None,
    cuda: setup_opt.Cuda = None,
    configure: setup_opt.Configure = None,
    jobs: setup_opt.Jobs = None,
    dry_run: setup_opt.DryRun = False,
    root_script: setup_opt.RootScript = False,
) -> None:
    """Get a CUDA-aware MPI in the cheapest way that works here, and prove it by a transfer.

    No root is needed. What was finished before is not done again; a step that broke off is started over. Each step has
    a log in PREFIX/.volley-setup/logs; the end of it is shown when the step fails.
    """
    from volley.setup import command  # noqa: PLC0415  start-up: errors and --help do without

    raise typer.Exit(
        command.run(
            command.Request(
                route=route,
                prefix=Path(prefix) if prefix else None,
                prove=prove,
                sources=source or (),
                without=without or (),
                cuda=cuda,
                configure=configure or (),
                jobs=jobs,
                dry_run=dry_run,
                root_script=root_script,
            )
        )
    )


def _measure(benchmark: Literal["pingpong", "stream", "matrix", "jacobi"], ctx: typer.Context) -> None:
    request = opt.request(benchmark, ctx.params)
    from volley import session  # noqa: PLC0415  start-up: errors and --help do without

    raise typer.Exit(session.measure(request))


def _refuse_misplaced(ctx: typer.Context) -> None:
    """An option before the command would be lost on it."""
    for param in ctx.command.params:
        if ctx.params.get(param.name or "") != param.get_default(ctx):
            given = max(param.opts, key=len)
            raise UserError(f"write {given} after the command: volley {ctx.invoked_subcommand} {given} …")


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Writing failed, and not for want of a reader."""

_UsageError: Any = typer.BadParameter.__base__
"""Click's own UsageError, wherever this version of Typer keeps its click."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code.  Errors are one sentence on stderr."""
    command: Any = typer.main.get_command(app)
    code = EXIT_GOOD
    try:
        code = command.main(arguments, prog_name="volley", standalone_mode=False) or EXIT_GOOD
        sys.stdout.flush()
    except UserError as error:
        return _say(str(error), error.exit_code)
    except _UsageError as error:
        return _say(_usage_sentence(error), EXIT_REQUEST)
    except (KeyboardInterrupt, typer.Abort):
        return _say("stopped", EXIT_INTERRUPTED)
    except (_ReaderGoneError, BrokenPipeError):
        _discard_output()
    except OSError as error:
        if error.filename is not None or error.errno not in _NO_ROOM:
            raise
        _discard_output()
        return _say(f"cannot write: {error.strerror}; what is shown is cut off", EXIT_MACHINE)
    return code


def _discard_output() -> None:
    """Python flushes at its end, which would fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_sentence(error: Any) -> str:
    """Say what Typer found wrong, and where the valid forms stand."""
    said = harmless(error.format_message()).rstrip(".")
    where = error.ctx.command_path if error.ctx else "volley"
    commands = getattr(error.ctx and error.ctx.command, "commands", None)
    known = f"; the commands are {several(commands)}" if commands else ""
    return f"{said}{known}; see {where} --help"


def _say(sentence: str, exit_code: int) -> int:
    lines = sentence.splitlines() or [""]  # the errors of a file have a line each
    print("\n".join(map(harmless, [f"volley: {lines[0]}", *lines[1:]])), file=sys.stderr)
    return exit_code
