"""``python -m peers measure`` launches and keeps records; ``python -m peers page`` makes docs/peers.md of them."""

import argparse
import sys
from pathlib import Path

from programs import BenchError

from volley.errors import UserError

from . import page
from .launches import encode
from .rounds import Budget, chosen, machine, measure, place
from .table import TABLE


def main() -> int:
    """Parse the options and run."""
    options = _parser().parse_args()
    try:
        return _measure(options) if options.what == "measure" else page.write()
    except (BenchError, UserError, OSError) as error:
        print(f"bench-peers: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parts = parser.add_subparsers(dest="what", required=True)
    measuring = parts.add_parser("measure", help="launch volley and the other programs in turn")
    measuring.add_argument("programs", type=Path, help="folder of the other programs")
    measuring.add_argument(
        "-o", "--output", type=Path, required=True, help="where the records go, behind what is there"
    )
    measuring.add_argument("--keep", type=Path, help="keep the whole records of each launch of volley in this folder")
    measuring.add_argument("--only", default="", help="names of comparisons, separated by commas")
    measuring.add_argument("--launches", type=int, help="at most so many rounds")
    measuring.add_argument("--budget", type=float, help="begin no round that would end after so many seconds")
    parts.add_parser("page", help="write docs/peers.md from the records")
    return parser


def _measure(options: argparse.Namespace) -> int:
    table = chosen(TABLE, [name for name in options.only.split(",") if name])
    where = place(options.programs.resolve(), options.keep, table[0].ranks)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    good = True
    with options.output.open("ab") as records:
        records.write(encode(machine(where)))
        budget = Budget(options.budget)
        for launch in measure(where, table, options.launches, budget, lambda line: print(line, flush=True)):
            records.write(encode(launch))
            records.flush()
            good = good and launch.status == "ok"
    print("\n".join(page.table_of(options.output)))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
