"""Every option of every command, set from Python, means the same as on the command line."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import volley
from volley import cli
from volley.benchmarks import plain
from volley.command.commandline import Command, Option
from volley.errors import UserError

COMMANDS = (plain.COMMAND, *cli.COMMANDS)
OPTIONS = [(command, each) for command in COMMANDS for each in command.declared()]

SAMPLES: dict[str, tuple[Any, list[str]]] = {
    "N": (7, ["7"]),
    "SECONDS": (2.5, ["2.5"]),
    "PERCENT": ("3%", ["3%"]),
    "SIZES": ([8, 65536], ["8,64k"]),
    "WORD": ("-x", ["-x"]),
    "FILE": ("new.jsonl", ["new.jsonl"]),
    "DIR": ("there", ["there"]),
    "FOLDER": ("there", ["there"]),
    "NAME": ("a-name", ["a-name"]),
    "NAME,…": (["a", "b"], ["a,b"]),
    "RECORDS,…": (["a", "b"], ["a,b"]),
    "N,…": ([1, 2], ["1,2"]),
    "N,M": ([3, 4], ["3,4"]),
    "HOST,…": (["a", "b"], ["a,b"]),
    "HH:MM:SS": ("01:00:00", ["01:00:00"]),
    "WORDS": ("--exclusive", ["--exclusive"]),
    "AGE": ("30d", ["30d"]),
    "TX TY": ([2, 3], ["2", "3"]),
    "DX DY": ((64, 32), ["64", "32"]),
    "NUMBER": (1e-4, ["0.0001"]),
    "NAME=VALUE,…": ("X=1,2", ["X=1,2"]),
    "WHAT:PERCENT,…": ("slower:5%,undecided", ["slower:5%,undecided"]),
    "NAME|PATH": ("mpich", ["mpich"]),
    "A,B": (["a", "b"], ["a,b"]),
    "N,N": ([0, 1], ["0,1"]),
    "NAME=WHERE": ("openmpi=/src", ["openmpi=/src"]),
    "gdrcopy": (["gdrcopy"], ["gdrcopy"]),
    "NAME=ARGUMENT": ("openmpi=--with-x", ["openmpi=--with-x"]),
    "BRANCH": ("580", ["580"]),
    "VERSION": ("12.8", ["12.8"]),
    "[BENCHMARK]": (["collective"], ["collective"]),
    "[NAME]": (["summit"], ["summit"]),
    "[RUN…]": (["last", "last-1"], ["last", "last-1"]),
    "RECORDS…": (["a", "b"], ["a", "b"]),
    "[RECORDS…]": (["a", "b"], ["a", "b"]),
    "[-- COMMAND …]": (["pingpong", "-s", "8"], []),
    "[TRACE]": (["a.trace"], ["a.trace"]),
    "PATTERN": ("night*", ["night*"]),
}
"""For what the help calls a value: one of Python, and the same as words."""


NEEDED = {
    "batch": ["--scheduler", "age"],
    "check": ["--expect", "limits.json"],
    "collective": ["--operation", "scatterv,allreduce"],
    "setup": ["--root-script"],
}
"""Words without which a command refuses some of its options."""


def sample(own: Option) -> tuple[Any, list[str]]:
    if values := getattr(own.read, "values", ()):
        word = next(each for each in values if each not in (own.default, own.shown))
        return word, [word]
    return SAMPLES[own.metavar]


def words_for(own: Option, words: list[str]) -> list[str]:
    return [f"{own.name}={words[0]}"] if len(words) == 1 else [own.name, *words]


def settings(own: Option) -> Iterator[tuple[Any, list[str]]]:
    """Yield values of Python, each with what a user would type."""
    if own.read is None:
        yield True, [own.name]
        yield False, [f"--no-{own.name[2:]}"] if own.default else []
    elif own.positional:
        value, _ = sample(own)
        yield value, ["--", *value] if own.positional == "..." else value
    else:
        value, words = sample(own)
        yield value, words_for(own, words)
        if own.repeat and isinstance(value, str):
            yield [value, value], words_for(own, words) * 2


def parsed(command: Command, words: list[str]) -> Any:
    """Return the options, or the sentence that refuses them; ``8,64k`` and ``8,65536`` are the same."""
    try:
        return replace(command.parse(words), typed=())
    except UserError as error:
        return str(error)


@pytest.mark.parametrize(("command", "own"), OPTIONS, ids=lambda each: each.name or "volley")
def test_every_option_of_every_command(command: Command, own: Option) -> None:
    also = NEEDED.get(command.name, [])
    others = [] if own.name in also else also
    if own.name == "--operation" and command.name == "tune":
        others = ["collective"]
    if own.name == "--learn-busy":
        others = [*also, "--learn"]
    usual = parsed(command, others)
    for value, typed in settings(own):
        expected = parsed(command, [*others, *typed])
        assert not isinstance(expected, str), expected
        assert (expected == usual) == (not typed)  # else the option could be lost and nobody would see it
        for name in own.names:
            words = command.words({name.lstrip("-").replace("-", "_"): value})
            assert parsed(command, [*others, *words]) == expected


@pytest.mark.slow
@given(st.data())
def test_any_options_together_give_the_plan_of_the_command_line(data: st.DataObject) -> None:
    command = data.draw(st.sampled_from(COMMANDS))
    chosen = data.draw(st.lists(st.sampled_from(command.declared()), unique_by=lambda own: own.name))
    values, typed, others = {}, [], []
    for own in chosen:
        value, words = data.draw(st.sampled_from(list(settings(own))))
        values[own.names[0].lstrip("-").replace("-", "_")] = value
        (others if own.positional else typed).extend(words)
    expected = parsed(command, [*typed, *others])
    assert parsed(command, command.words(values)) == expected


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("check", {}, "volley.measure runs pingpong, stream"),
        (["pingpong"], {}, "takes the name of a command, e.g. volley.measure('pingpong'), not ['pingpong']"),
        ("tune", {}, "volley --help lists the others, for a shell"),
        ("pingpng", {}, "not 'pingpng': did you mean pingpong?"),
        ("pingpong", {"dry_run": True}, "returns the run: leave dry_run out"),
        ("pingpong", {"verify": "no"}, "--verify: 'no' is not True or False"),
        ("pingpong", {"direction": "bi"}, "it is an option of e.g. volley stream or matrix;"),
        ("pingpong", {"transports": "host"}, "did you mean --transport?"),
        ("jacobi", {"grid": [2, 1, 1]}, "--grid"),
        ("pingpong", {"sizes": []}, "--sizes"),
    ],
)
def test_what_python_cannot_ask_for_is_refused(command: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        volley.measure(command, **options)
    assert said in str(refused.value)


def test_none_leaves_an_option_out() -> None:
    pingpong = next(each for each in COMMANDS if each.name == "pingpong")
    assert pingpong.words({"sizes": None, "share_gpu": False, "verify": None}) == []
