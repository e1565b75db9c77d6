"""How often two real runs of the same thing are called different: pairs of runs, one after the other, on this machine.

    python bench/pairs.py FOLDER [--pairs 20] [--live] [-- WORDS]

Each pair is two runs of ``volley WORDS``; with ``--live`` their launches alternate.  The records stay in FOLDER; pairs
that are there already are not measured again, so that an interrupted session continues.  The machine must be quiet.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from volley.compare.comparison import Side, compare
from volley.compare.finding import headline
from volley.records.records_file import read_file

LAUNCHES = 6
WORDS = ["pingpong", "--transport", "host", "--sizes", "8,512,4Ki,64Ki,1Mi,16Mi", "--point-time", "0.05"]


def measure(first: Path, second: Path, words: list[str], *, live: bool) -> None:
    """Measure one pair of runs; a file appears only when its run is whole."""
    volley = [sys.executable, "-m", "volley"]
    with tempfile.TemporaryDirectory(dir=first.parent) as folder:
        parts = [Path(folder, f"{letter}.jsonl") for letter in "ab"]
        if live:
            line = subprocess.list2cmdline([*volley, *words])
            command = [*volley, "compare", "--live", line, line, "--launches", str(LAUNCHES + 2), "--records", folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        else:
            for part in parts:
                command = [*volley, *words, "--launches", str(LAUNCHES), "-o", str(part)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for part, path in zip(parts, (first, second), strict=True):
            part.rename(path)


def main() -> None:
    """Measure what is missing, compare all pairs, and print how many were called different."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--live", action="store_true", help="alternate the launches of both runs")
    parser.add_argument(
        "words", nargs="*", default=WORDS, metavar="WORDS", help="a command line of volley, without volley"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    different = points = held = 0
    for number in range(1, options.pairs + 1):
        first, second = (options.folder / f"{number:03d}-{letter}.jsonl" for letter in "ab")
        if not (first.exists() and second.exists()):
            measure(first, second, options.words, live=options.live)
        found = compare(*(Side.read(*read_file(str(path))) for path in (first, second)), 0.05)
        different += found.of("changed").size > 0
        points += len(found.at)
        held += int(((found.differences.low <= 1) & (found.differences.high >= 1)).sum())
        print(f"pair {number}: {headline(found)}", flush=True)
    print(f"{different} of {options.pairs} pairs were called different; {held} of {points} intervals contain 1")


if __name__ == "__main__":
    main()
