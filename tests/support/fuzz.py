"""Mutated records, facts and command lines: whatever somebody hands to volley, it answers in sentences.

``python tests/support/fuzz.py --cases 100000 --seed 7`` tries so many of each kind (``make fuzz``); ``test_fuzz.py``
tries fewer with a fixed seed.  A failure names the kind and the number of its case, which make it again.
"""

import argparse
import contextlib
import copy
import functools
import io
import json
import operator
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

import fake_engine
from example_records import RECORD_FILES
from volley import benchmarks, cli
from volley.launch.engine import About
from volley.run import session

RECORDS = [*RECORD_FILES, Path(__file__).parents[2] / "results/h100-x2/pingpong-gpu-initiated.jsonl"]
"""Only the last one says what was asked for on the command line (``plan.launch.asked``)."""
MACHINES = sorted(Path(__file__).parents[1].glob("machines/*/facts.json"))
ODD: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 255, 1 << 31, (1 << 31) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 10**30, -(1 << 63)),
    *(0.0, 1e-320, 1e-9, 0.5, 1e9, 1e308, -1e308, 1.5),
    *("", "host", "x", "\x1b[31mX\x07", "\x9b31m", "\u202e", "\ud800", "a" * 5000, "[/red]", "{0}%s"),
    *("../../x", "\0", "é\n"),
    *(None, [], {}, True, False, [[]], {"": 0}, [0, 1], [1e308] * 3),
)  # fmt: skip
WORDS = ("0", "-1", "1e999", "nan", "8:1Qi", "", "-", "--", "~nosuch/x", "/dev/full", "\x1b[2J", "\udcff", "8" * 3000,
         "a,b", "1%", "1:2:x4", "all", "host", "2147483648", "none", "=", "@x", "\0")  # fmt: skip
ENDS = (0, 1, 2, 3)
"""The exit codes of a command that ended in order."""


class WrongAnswerError(Exception):
    """An answer that is none."""


# --------------------------------------------------------------------------------------------------- mutations


def places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value of a document."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in inner:
        yield (*path, name)
        yield from places(value, (*path, name))


def odd_value(dice: random.Random, among: Sequence[Any]) -> Any:
    """Return a copy: a later mutation may change it."""
    return copy.deepcopy(dice.choice(among))


def mutate(document: Any, dice: random.Random) -> None:
    """Change one value of a document, in place."""
    everywhere = list(places(document))
    if not everywhere:
        return
    way = dice.choice(everywhere)
    whole, name = functools.reduce(operator.getitem, way[:-1], document), way[-1]
    kind = dice.random()
    if kind < 0.55:  # a value of the same type: it gets past the schema more often
        alike = [odd for odd in ODD if type(odd) is type(whole[name])]
        whole[name] = odd_value(dice, alike or ODD)
    elif kind < 0.65:
        whole[name] = odd_value(dice, ODD)
    elif kind < 0.75:
        del whole[name]
    elif kind < 0.85 and isinstance(whole, list):
        whole.insert(dice.randrange(len(whole) + 1), json.loads(json.dumps(whole[name])))
    elif kind < 0.9 and isinstance(whole, dict):
        whole[dice.choice(["unknown", "\x1b[31m", "status", "rank"])] = odd_value(dice, ODD)
    else:
        other = dice.choice(everywhere)
        whole[name] = json.loads(json.dumps(functools.reduce(operator.getitem, other, document)))


def mutated_json(document: Any, dice: random.Random) -> bytes:
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        mutate(document, dice)
    return json.dumps(document).encode()


def mutated_lines(lines: list[bytes], dice: random.Random) -> bytes:
    lines = list(lines)
    place = dice.randrange(len(lines))
    kind = dice.random()
    if kind < 0.75:
        lines[place] = mutated_json(json.loads(lines[place]), dice)
    elif kind < 0.8:
        del lines[place]
    elif kind < 0.85:
        lines.insert(dice.randrange(len(lines) + 1), lines[place])
    elif kind < 0.9:
        dice.shuffle(lines)
    else:
        data = bytearray(b"\n".join(lines) + b"\n")
        for _ in range(dice.choice([1, 2, 8])):
            data[dice.randrange(len(data))] = dice.randrange(256)
        return bytes(data[: dice.randrange(len(data))] if dice.random() < 0.3 else data)
    return b"\n".join(lines) + b"\n"


# ------------------------------------------------------------------------------------------------------- trials


def answer(words: list[str]) -> None:
    """Run a command line in this process; raise where it does not end in order, or says what a terminal obeys."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(words)
    said = out.getvalue() + err.getvalue()
    if code not in ENDS:
        raise WrongAnswerError(f"exit code {code}")
    if code in (2, 3) and not err.getvalue().strip():
        raise WrongAnswerError(f"exit code {code} without a sentence")
    odd = {c for c in set(said) if not c.isprintable()} - {"\n", "\t"}
    if odd:
        raise WrongAnswerError(f"control characters on the terminal: {odd}")


def try_records(dice: random.Random, folder: Path) -> None:
    file = folder / "records.jsonl"
    file.write_bytes(mutated_lines(_lines(dice.choice(RECORDS)), dice))
    answer(["show", str(file), "--format", dice.choice(["csv", "csv", "json", "table", "olcf", "cuda-samples"])])


@functools.cache
def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()[:14]


def try_facts(dice: random.Random, folder: Path) -> None:
    file = folder / "facts.json"
    file.write_bytes(mutated_json(json.loads(_text(dice.choice(MACHINES))), dice))
    words = dice.choice(
        ["doctor", "doctor --format json", "topo", "topo --transport aware", "topo --format json"]
    ).split()
    answer([*words, "--from", str(file)])


@functools.cache
def _text(file: Path) -> bytes:
    return file.read_bytes()


def try_command(dice: random.Random, folder: Path) -> None:
    """A measurement that is only planned, or a job script."""
    command = dice.choice([each for each in cli.COMMANDS if each.name in MEASURES])
    options = [each for each in command.declared() if each.flags and each.name not in NOT_TRIED]
    words = [command.name]
    for _ in range(dice.choice([1, 2, 3])):
        option = dice.choice(options)
        words.append(dice.choice(option.flags))
        if option.read:
            words += dice.choices((*WORDS, *VALID), k=option.words)
    if dice.random() < 0.1:
        words.insert(dice.randrange(len(words)), dice.choice(WORDS))
    answer([*words, "--dry-run"])


MEASURES = {command.name for command in benchmarks.commands()}
NOT_TRIED = ("--help", "--show-completion", "--output")
VALID = ("8,64", "2", "0,1", "10", "0.5", "wheels", "isolated", "openmpi", "bi", "float")


TRIALS: dict[str, Callable[[random.Random, Path], None]] = {
    "records": try_records,
    "facts": try_facts,
    "command": try_command,
}


@contextlib.contextmanager
def stand_ins(folder: Path) -> Iterator[None]:
    """An engine that answers at once, for command lines that are only planned."""
    about = msgspec.convert(fake_engine.ABOUT, About)
    engine = fake_engine.install(folder / "bin")
    variables = {"VOLLEY_ENGINE": str(engine), "COLUMNS": "100", "XDG_STATE_HOME": str(folder)}
    asked = mock.patch.object(session, "ask_about", side_effect=lambda *_: contextlib.nullcontext(lambda: about))
    with mock.patch.dict(os.environ, variables), asked:
        yield


def run(kind: str, cases: int, seed: int, first: int = 0) -> list[str]:
    """Try so many cases; return a description of each failure."""
    failures = []
    with tempfile.TemporaryDirectory() as name, stand_ins(Path(name)):
        for number in range(first, first + cases):
            try:
                TRIALS[kind](random.Random(f"{kind} {seed} {number}"), Path(name))
            except (Exception, SystemExit):
                failures.append(f"{kind}, case {number} of seed {seed}:\n{traceback.format_exc()}")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=TRIALS, action="append")
    given = parser.parse_args()
    failed = False
    for kind in given.kind or TRIALS:
        failures = run(kind, given.cases, given.seed, given.first)
        print(f"{kind}: {given.cases} cases of seed {given.seed}, {len(failures)} failures")
        failed |= bool(failures)
        print("\n".join(failures))
    return failed


if __name__ == "__main__":
    sys.exit(main())
