"""The options of the command line: how they are written, and how they become a request.

Each option is declared once and shared by the commands that have it.  What is said here is what ``--help`` and
docs/cli.md say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volley import solving
from volley.errors import UserError
from volley.records import Matrix, Sampling, Stream
from volley.report import FORMATS, check_format
from volley.sizes import DEFAULT_SIZES, VALID_FORMS, SizeError, parse_sizes
from volley.text import several

if TYPE_CHECKING:
    from volley.planning import Benchmark, Request

OVERVIEW_BUDGET_S = 60.0
"""Plain ``volley`` answers within a minute."""

MATRIX_POINT_TIME_S = 0.03
"""A matrix has many pairs: all visits of a cell together take a tenth of the time that a point of a curve may take."""

LONGEST_S = 1e9
"""Thirty years: what is longer was meant to be something else, and clocks count nanoseconds in 64 bits."""

MATRIX_REPEATS = 3
"""How often every pair is visited: one short disturbance then spoils no cell, because the median counts."""

LAUNCHERS = ("auto", "openmpi", "mpich", "srun", "jsrun")

_WHAT, _HOW, _WHERE, _OUTPUT = "What to measure", "How to measure", "Where to run", "Output"
_DEFAULTS, _STREAM = Sampling(), Stream()

Transports = Annotated[
    list[str] | None,
    typer.Option(
        "--transport",
        "-t",
        metavar="NAME,…",
        rich_help_panel=_WHAT,
        help="Transports to compare, separated by commas; all: every one there is (volley transports lists them).",
        show_default="those that carry data",
    ),
]
MatrixTransports = Annotated[
    list[str] | None,
    typer.Option(
        "--transport",
        "-t",
        metavar="NAME,…",
        rich_help_panel=_WHAT,
        help="Transports, separated by commas; each has matrices of its own (volley transports lists them).",
        show_default="host",
    ),
]
LatencySizes = Annotated[
    str,
    typer.Option(
        "--latency",
        metavar="SIZES",
        rich_help_panel=_WHAT,
        help="Message sizes whose latency is measured (ping-pong), as --sizes of volley pingpong; none: no latency.",
    ),
]
BandwidthSizes = Annotated[
    str,
    typer.Option(
        "--bandwidth",
        metavar="SIZES",
        rich_help_panel=_WHAT,
        help="Message sizes whose bandwidth is measured (stream); none: no bandwidth.",
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        metavar="isolated|loaded",
        rich_help_panel=_WHAT,
        help="isolated: one pair at a time; loaded: the rounds of a tournament, in which all ranks are busy.",
    ),
]
Retest = Annotated[
    bool,
    typer.Option(
        "--retest/--no-retest",
        rich_help_panel=_HOW,
        help="Measure pairs that are slower than their like again, in launches of their own, before they are blamed.",
    ),
]
Repeats = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        rich_help_panel=_HOW,
        help="Visit every pair so often; the median of the visits counts, so that a short disturbance does not.",
    ),
]
Samples = Annotated[bool, typer.Option("--samples", rich_help_panel=_OUTPUT, help="Keep every sample in the records.")]
MatrixPointTime = Annotated[
    float | None,
    typer.Option(
        "--point-time",
        metavar="SECONDS",
        rich_help_panel=_HOW,
        help="Give up on the interval, and go on to the next pair, after this time a visit.",
        show_default=f"{MATRIX_POINT_TIME_S:g}",
    ),
]
MatrixRanks = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        "-n",
        min=1,
        metavar="N",
        rich_help_panel=_WHERE,
        help="Ranks to start.",
        show_default="the allocation's, one a host of --hosts, or one a core and 8 at most",
    ),
]
Sizes = Annotated[
    str,
    typer.Option(
        "--sizes",
        "-s",
        metavar="SIZES",
        rich_help_panel=_WHAT,
        help=f"Message sizes in bytes: {VALID_FORMS}. k, M, G mean the same as Ki, Mi, Gi: powers of 1024.",
    ),
]
Direction = Annotated[
    str,
    typer.Option(
        metavar="uni|bi",
        rich_help_panel=_WHAT,
        help="uni: the first rank sends; bi: both send at once, and each direction and the total are shown.",
    ),
]
Window = Annotated[
    int,
    typer.Option(min=1, metavar="N", rich_help_panel=_WHAT, help="Messages in flight before one acknowledgement."),
]
Interval = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        rich_help_panel=_HOW,
        help="Take samples until the 95 % interval of the median is within ± this much of it.",
        show_default=f"{_DEFAULTS.interval * 100:g}%",
    ),
]
PointTime = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=_HOW,
        help="Give up on the interval, and go on to the next size, after this time a point.",
        show_default=f"{_DEFAULTS.point_time_s:g}",
    ),
]
Warmup = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        rich_help_panel=_HOW,
        help="Fixed sampling, as the tutorial's: this many untimed exchanges, then --iterations timed in one batch.",
        show_default=f"{_DEFAULTS.warmup} where --iterations is given",
    ),
]
Iterations = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        rich_help_panel=_HOW,
        help="Fixed sampling: this many exchanges, timed as one batch.",
        show_default=f"{_DEFAULTS.iterations} where --warmup is given",
    ),
]
Tail = Annotated[
    bool,
    typer.Option(
        "--tail",
        rich_help_panel=_HOW,
        help="Time every exchange by itself and show percentiles; costs the clock's time.",
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify",
        rich_help_panel=_HOW,
        help="Check the last message of every sample, byte for byte, untimed.",
    ),
]
FreshBuffers = Annotated[
    bool,
    typer.Option(
        "--fresh-buffers", rich_help_panel=_HOW, help="Allocate new buffers for every size, as the tutorial does."
    ),
]
Launches = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        rich_help_panel=_HOW,
        help="Repeat the whole launch; from 6 on the interval is that of the launches' medians.",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=_HOW,
        help="Start no further point after this time; what is left is shown as skipped.",
    ),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        metavar="HOST,…",
        rich_help_panel=_WHERE,
        help="Hosts of the ranks, in their order.",
        show_default="this one, or the allocation's",
    ),
]
Gpus = Annotated[
    str | None,
    typer.Option(
        metavar="N,…", rich_help_panel=_WHERE, help="GPUs of the ranks, in their order.", show_default="one a rank"
    ),
]
ShareGpu = Annotated[
    bool, typer.Option("--share-gpu", rich_help_panel=_WHERE, help="Allow two ranks on one GPU; the records say so.")
]
Launcher = Annotated[
    str,
    typer.Option(metavar="NAME", rich_help_panel=_WHERE, help=f"What starts the ranks: {several(LAUNCHERS, 'or')}."),
]
LauncherArgs = Annotated[
    list[str] | None,
    typer.Option(
        "--launcher-arg",
        metavar="WORD",
        rich_help_panel=_WHERE,
        help="One more word for the launcher's command line, e.g. --launcher-arg=--mca; may be repeated.",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option("--ranks", "-n", min=1, metavar="N", rich_help_panel=_WHERE, help="Ranks to start.", show_default="2"),
]
Watchdog = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=_WHERE,
        help="End the job, and say where it hangs, after so long without progress.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", rich_help_panel=_WHERE, help="Show the plan and the launcher's command; start nothing."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        rich_help_panel=_OUTPUT,
        help="Keep the records here (JSON Lines; volley show reads them). They are always kept somewhere.",
    ),
]
DoctorJson = Annotated[
    bool, typer.Option("--json", rich_help_panel=_OUTPUT, help="Print the findings as one JSON document.")
]
Capture = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=_OUTPUT,
        help="Keep the facts here, to be judged anywhere; - prints them instead of the findings.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="FILE", rich_help_panel=_WHAT, help="Judge facts that --capture kept; try nothing here."
    ),
]
DeviceQuery = Annotated[
    bool,
    typer.Option("--device-query", rich_help_panel=_OUTPUT, help="Print all that CUDA says of each GPU instead."),
]
ProbeTimeout = Annotated[
    float,
    typer.Option(
        min=1.0, metavar="SECONDS", rich_help_panel=_HOW, help="End a layer's attempt after this time, and go on."
    ),
]
Drawn = Annotated[
    str | None,
    typer.Option(
        "--transport",
        "-t",
        metavar="NAME",
        rich_help_panel=_WHAT,
        help="Draw the way of a message in this transport, e.g. staged/pageable, aware or peer.",
    ),
]
DrawnGpus = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="N,N",
        rich_help_panel=_WHAT,
        help="The two GPUs, sender first, under CUDA's numbers.",
        show_default="the first two",
    ),
]
DrawFrom = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        rich_help_panel=_WHAT,
        help="Draw the machine whose facts volley doctor --capture kept; - is standard input.",
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", rich_help_panel=_OUTPUT, help="Write the picture here, as SVG; - prints it."
    ),
]
TopoJson = Annotated[
    bool, typer.Option("--json", rich_help_panel=_OUTPUT, help="Print what is drawn as one JSON document.")
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="NAME",
        rich_help_panel=_OUTPUT,
        help=f"{several(FORMATS, 'or')}; olcf: the ping-pong tutorial's line, with its GB of 2^30 bytes; seed: "
        "the lines of NVIDIA's Jacobi example. "
        "With any but table, standard output carries data only.",
    ),
]


def request(benchmark: Benchmark, options: Mapping[str, Any]) -> Request:
    """Turn parsed options into a request; options that a command does not have keep their defaults.

    Raises:
        UserError: naming the option, what is wrong with it, and the nearest valid form.
    """
    from volley.planning import Request  # noqa: PLC0415  start-up: --help does without

    matrix = benchmark == "matrix"
    _check_choice("--launcher", options.get("launcher", "auto"), LAUNCHERS)
    format_name = options.get("format_name", "table")
    check_format(format_name, benchmark)
    return Request(
        benchmark=benchmark,
        transports=_transports(options) or (("host",) if matrix else ()),
        sizes=() if benchmark in ("matrix", "jacobi") else _sizes("--sizes", options.get("sizes", DEFAULT_SIZES)),
        sampling=_DEFAULTS
        if benchmark == "jacobi"
        else _sampling(options, MATRIX_POINT_TIME_S if matrix else _DEFAULTS.point_time_s),
        stream=_stream(options),
        matrix=_matrix(options) if matrix else Matrix(),
        retest=options.get("retest", True),
        jacobi=solving.problem(options) if benchmark == "jacobi" else None,
        topology=options.get("topology"),
        verify=options.get("verify", True),
        fresh_buffers=options.get("fresh_buffers", False),
        share_device=options.get("share_gpu", False),
        ranks=options.get("ranks"),
        hosts=_names("--hosts", options["hosts"]) if options.get("hosts") is not None else (),
        launcher=options.get("launcher", "auto"),
        launcher_args=tuple(options.get("launcher_arg") or ()),
        launches=options.get("launches", 1),
        budget_s=_seconds("--budget", options.get("budget")),
        watchdog_s=_seconds("--watchdog", options.get("watchdog")) or 60.0,
        output=Path(options["output"]) if options.get("output") else None,
        format=format_name,
        gpus=gpu_numbers(options.get("gpus")),
        dry_run=options.get("dry_run", False),
    )


def _transports(options: Mapping[str, Any]) -> tuple[str, ...]:
    for name in ("transport", "exchange"):
        if options.get(name):
            return _names(f"--{name}", ",".join(options[name]))
    return ()


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"{option}: there is no {value!r}; choose {several(choices, 'or')}")


def _names(option: str, text: str) -> tuple[str, ...]:
    """Split a list of names at its commas.  Names become words of a command line: none may look like an option."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not name or name.startswith("-") or any(c.isspace() or not c.isprintable() for c in name):
            raise UserError(f"{option}: {text!r} is not a list of names; write them with commas between, e.g. a,b")
    return names


def _sizes(option: str, text: str) -> tuple[int, ...]:
    try:
        return parse_sizes(text)
    except SizeError as error:
        raise UserError(f"{option}: {error}") from None


def _matrix(options: Mapping[str, Any]) -> Matrix:
    mode = options.get("mode", "isolated")
    _check_choice("--mode", mode, ("isolated", "loaded"))
    sizes = {
        name: [] if options[name] == "none" else list(_sizes(f"--{name}", options[name]))
        for name in ("latency", "bandwidth")
    }
    return Matrix(
        mode=mode,
        latency_sizes_bytes=sizes["latency"],
        bandwidth_sizes_bytes=sizes["bandwidth"],
        repeats=options.get("repeats", MATRIX_REPEATS),
        samples=options.get("samples", False),
    )


def _sampling(options: Mapping[str, Any], point_time_s: float) -> Sampling:
    """Adaptive sampling, or fixed where --warmup or --iterations is given; the two do not mix."""
    warmup, iterations = options.get("warmup"), options.get("iterations")
    adaptive = {name: options.get(name) for name in ("interval", "point_time", "tail")}
    if warmup is None and iterations is None:
        return Sampling(
            interval=_fraction(adaptive["interval"]),
            point_time_s=_seconds("--point-time", adaptive["point_time"]) or point_time_s,
            tail=bool(adaptive["tail"]),
        )
    for name, value in adaptive.items():
        if value:
            raise UserError(
                f"--{name.replace('_', '-')} belongs to adaptive sampling, --warmup and --iterations to a fixed batch: "
                "leave one of them out"
            )
    return Sampling(
        mode="fixed",
        warmup=_DEFAULTS.warmup if warmup is None else warmup,
        iterations=_DEFAULTS.iterations if iterations is None else iterations,
    )


def _stream(options: Mapping[str, Any]) -> Stream:
    direction = options.get("direction", _STREAM.direction)
    _check_choice("--direction", direction, ("uni", "bi"))
    return Stream(window=options.get("window", _STREAM.window), direction=direction)


def _fraction(text: str | None) -> float:
    """Read a percentage.  The sign is asked for: a plain 0.01 could be either."""
    if text is None:
        return _DEFAULTS.interval
    number, sign, rest = text.strip().lstrip("±").partition("%")
    try:
        fraction = float(number) / 100
    except ValueError:
        fraction = math.nan
    if not sign or rest or not 0 < fraction <= 1:
        raise UserError(f"--interval: {text!r} is not a percentage from above 0% to 100%: write e.g. 1% or 0.5%")
    return fraction


def _seconds(option: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < math.inf:
        raise UserError(f"{option}: {value:g} is not a time: write seconds above 0, e.g. {option} 60")
    if value is not None and value > LONGEST_S:
        raise UserError(f"{option}: {value:g} is more than {LONGEST_S:g} seconds: write e.g. {option} 60")
    return value


def gpu_numbers(text: str | None) -> tuple[int, ...]:
    """Read a list of GPU numbers.

    Raises:
        UserError: if it is none.
    """
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UserError(f"--gpus: {text!r} is not a list of GPU numbers: write e.g. 0,1")
    return tuple(int(part) for part in parts)
