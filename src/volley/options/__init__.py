"""The options of the command line: how they are written, and how they become a request.

``shared`` declares those that several commands have, ``matrix`` those of ``volley matrix`` alone.  Those of the others
stand with what they are about: ``volley.solving``, ``volley.batch.options`` and its like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from volley import solving
from volley.errors import UserError
from volley.options import matrix as of_matrix
from volley.options import node as of_node
from volley.options.reading import (
    check_choice,
    check_seconds,
    gpu_numbers,
    output_path,
    read_percentage,
    read_sizes,
    split_names,
)
from volley.options.shared import LAUNCHERS
from volley.records import Matrix, Sampling, Stream
from volley.report import check_format
from volley.sizes import DEFAULT_SIZES

if TYPE_CHECKING:
    from volley.planning import Benchmark, Request

OVERVIEW_BUDGET_S = 60.0
"""Plain ``volley`` answers within a minute."""

_DEFAULTS, _STREAM = Sampling(), Stream()


def request(benchmark: Benchmark, options: Mapping[str, Any]) -> Request:
    """Turn parsed options into a request; options that a command does not have keep their defaults.

    Raises:
        UserError: naming the option, what is wrong with it, and the nearest valid form.
    """
    from volley.planning import Request  # noqa: PLC0415  start-up: --help does without

    matrix = benchmark == "matrix"
    check_choice("--launcher", options.get("launcher", "auto"), LAUNCHERS)
    format_name = options.get("format_name", "table")
    check_format(format_name, benchmark)
    return Request(
        benchmark=benchmark,
        transports=_transports(options) or (("host",) if matrix else ()),
        sizes=()
        if benchmark in ("matrix", "node", "jacobi")
        else read_sizes("--sizes", options.get("sizes", DEFAULT_SIZES)),
        sampling=_DEFAULTS if benchmark == "jacobi" else _sampling(options, _point_time_s(benchmark, options)),
        stream=_stream(options),
        matrix=of_matrix.plan_part(options) if matrix else Matrix(),
        node=of_node.plan_part(options) if benchmark == "node" else None,
        retest=options.get("retest", True),
        jacobi=solving.problem(options) if benchmark == "jacobi" else None,
        topology=options.get("topology"),
        scaling=options.get("scaling"),
        verify=options.get("verify", True),
        fresh_buffers=options.get("fresh_buffers", False),
        share_device=options.get("share_gpu", False),
        ranks=options.get("ranks"),
        hosts=split_names("--hosts", options["hosts"]) if options.get("hosts") is not None else (),
        launcher=options.get("launcher", "auto"),
        launcher_args=tuple(options.get("launcher_arg") or ()),
        launches=options.get("launches", 1),
        budget_s=check_seconds("--budget", options.get("budget")),
        watchdog_s=check_seconds("--watchdog", options.get("watchdog")) or 60.0,
        output=output_path(options.get("output")),
        format=format_name,
        gpus=gpu_numbers(options.get("gpus")),
        dry_run=options.get("dry_run", False),
    )


def _transports(options: Mapping[str, Any]) -> tuple[str, ...]:
    for name in ("transport", "exchange"):
        if options.get(name):
            return split_names(f"--{name}", ",".join(options[name]))
    return ()


def _point_time_s(benchmark: Benchmark, options: Mapping[str, Any]) -> float:
    if benchmark == "node":
        return of_node.point_time_s(options)
    return of_matrix.POINT_TIME_S if benchmark == "matrix" else _DEFAULTS.point_time_s


def _sampling(options: Mapping[str, Any], point_time_s: float) -> Sampling:
    """Adaptive sampling, or fixed where --warmup or --iterations is given; the two do not mix."""
    warmup, iterations = options.get("warmup"), options.get("iterations")
    adaptive = {name: options.get(name) for name in ("interval", "point_time", "tail")}
    if warmup is None and iterations is None:
        interval = adaptive["interval"]
        return Sampling(
            interval=_DEFAULTS.interval if interval is None else read_percentage("--interval", interval),
            point_time_s=check_seconds("--point-time", adaptive["point_time"]) or point_time_s,
            tail=bool(adaptive["tail"]),
        )
    for name, value in adaptive.items():
        if value is not None and value is not False:
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
    check_choice("--direction", direction, ("uni", "bi"))
    return Stream(window=options.get("window", _STREAM.window), direction=direction)
