"""The options of ``volley matrix`` between the GPUs of a node, and when it is that matrix that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from volley.errors import MachineError, UserError
from volley.launch import inside
from volley.launch.inside import SAMPLES_FORMAT
from volley.machine.driver import has_driver
from volley.options.reading import gpu_numbers, split_names
from volley.options.shared import WHAT
from volley.records import Node
from volley.text import several

POINT_TIME_S = 0.1
"""A cell has large messages or little noise: this is where an interval of 1 % is reached or never."""

QUICK_POINT_TIME_S = 0.002
"""For who wants to know soon."""

SECTIONS = {
    "host-to-gpu": "bandwidth from pinned memory of the host",
    "gpu-to-host": "bandwidth to it",
    "uni/off": "bandwidth of copies, peer access off",
    "bi/off": "the same, both ways at once",
    "completion/off": "latency of one small copy, peer access off",
    "issue/off": "back-to-back small copies as the GPU performs them, peer access off (the CUDA sample's GPU latency)",
    "enqueue/off": "the same as the host enqueues them (its CPU latency)",
    "uni": "bandwidth of copies that the row's GPU writes",
    "uni/read": "bandwidth of copies that it reads",
    "bi": "bandwidth of copies both ways at once",
    "uni/kernel": "bandwidth of a kernel's stores",
    "uni/kernel-read": "bandwidth of a kernel's loads",
    "bi/kernel": "bandwidth of kernels' stores both ways at once",
    "completion": "latency of one small copy, as the host sees it",
    "issue": "back-to-back small copies as the GPU performs them (the CUDA sample's GPU latency)",
    "enqueue": "the same as the host enqueues them (its CPU latency)",
    "store": "latency of 8 bytes that kernels store, half a round trip",
    "load": "latency of a kernel's load",
}
"""The engine's sections, in its order (engine/src/node/section.cpp)."""

TESTS = ("corrupt", "hang")
"""Sections that break one pair on purpose; only who names them gets them."""

OF_THE_SAMPLE = ("uni/off", "bi/off", "issue/off", "enqueue/off", "uni", "bi", "issue", "enqueue")
"""What p2pBandwidthLatencyTest prints."""

USUAL = tuple(name for name in SECTIONS if not name.startswith(("issue", "enqueue")))

Sections = Annotated[
    list[str] | None,
    typer.Option(
        "--section",
        metavar="NAME,…",
        rich_help_panel=WHAT,
        help=f"Between GPUs: matrices, separated by commas; all: every one of {several(SECTIONS)}.",
        show_default=f"all but issue and enqueue; with --format {SAMPLES_FORMAT} those of the CUDA sample",
    ),
]

_OF_RANKS = (
    "transport", "latency", "bandwidth", "mode", "direction", "window", "warmup", "iterations", "repeats", "retest",
    "ranks", "hosts", "share_gpu", "launcher", "launcher_arg",
)  # fmt: skip
"""Options of matrices between ranks."""


def asks_for_ranks(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Return the options that only matrices between ranks have and that were given, as one writes them."""
    return [
        f"--{name.replace('_', '-')}" for name in _OF_RANKS if _plain(given.get(name)) != _plain(defaults.get(name))
    ]


def _plain(value: Any) -> Any:
    """A list option that is not given is parsed as an empty sequence and declared as ``None``."""
    return None if isinstance(value, (list, tuple)) and not value else value


def asks_for_gpus(given: Mapping[str, Any]) -> list[str]:
    """Return the options that only matrices between GPUs have and that were given."""
    sections = ["--section"] if given.get("section") else []
    return sections + ([f"--format {SAMPLES_FORMAT}"] if given.get("format_name") == SAMPLES_FORMAT else [])


def asked(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> bool | None:
    """Tell whether options ask for a matrix between the GPUs of a node (true), between ranks (false), or say nothing.

    Args:
        given: the parsed options.
        defaults: what they are where they are not given.

    Raises:
        UserError: if options of both were given.
    """
    of_ranks, of_gpus = asks_for_ranks(given, defaults), asks_for_gpus(given)
    if of_ranks and of_gpus:
        raise UserError(
            f"{several(of_gpus)} belong{'s' if len(of_gpus) == 1 else ''} to a matrix between the GPUs of this node, "
            f"{several(of_ranks)} to one between ranks: leave out one or the other"
        )
    return bool(of_gpus) if of_gpus or of_ranks else None


def wanted(given: Mapping[str, Any], defaults: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Tell whether ``volley matrix`` is to be between the GPUs of this node; else it is between ranks.

    Args:
        given: the parsed options.
        defaults: what they are where they are not given.
        environment: says whether this process is one of several ranks.

    Raises:
        UserError: if options of both were given.
        MachineError: if it must be between GPUs and there is no driver for any.
    """
    between_gpus = asked(given, defaults)
    place = inside.position(environment)
    if between_gpus is False or (place and place.size != 1 and not between_gpus):
        return False
    if not has_driver():
        if between_gpus:
            raise MachineError(
                f"{several(asks_for_gpus(given))}: there is no NVIDIA driver here, and so no GPU; "
                "volley matrix --transport host measures between ranks"
            )
        return False
    return True


def point_time_s(options: Mapping[str, Any]) -> float:
    """How long a cell goes on at most, in seconds, where the options do not say."""
    return QUICK_POINT_TIME_S if options.get("format_name") == SAMPLES_FORMAT else POINT_TIME_S


def plan_part(options: Mapping[str, Any]) -> Node:
    """Turn the parsed options into the plan's part.

    Raises:
        UserError: naming the option and the valid forms.
    """
    sections = options.get("section")
    as_sample = options.get("format_name") == SAMPLES_FORMAT
    usual = OF_THE_SAMPLE if as_sample else USUAL
    names = split_names("--section", ",".join(sections)) if sections else usual
    chosen = dict.fromkeys(each for name in names for each in (SECTIONS if name == "all" else (name,)))
    for name in chosen:
        if name not in SECTIONS and name not in TESTS:
            raise UserError(f"--section: there is no {name!r}; choose among {several(SECTIONS)}")
    numbers = gpu_numbers(options.get("gpus"))
    for number in numbers:
        if numbers.count(number) > 1:
            raise UserError(f"--gpus: GPU {number} is named twice; name each GPU once")
    return Node(sections=list(chosen), gpus=list(numbers), quick=as_sample, samples=bool(options.get("samples")))
