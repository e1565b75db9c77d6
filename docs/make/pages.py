"""Keep the pages true: their figures, and the lines of code that they point at.

``make docs`` runs this.

A block between ``<!-- figures: NAME -->`` and ``<!-- end -->`` is written here, from the records and the published
tables. A link to a line of code carries the code itself as its title, ``[words](../file#L12 "text on that line")``;
where the line has moved its number is put right, and where it is gone that is an error.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import example_programs
from every_way import every_way, every_way_run, gpu_initiated, gpu_initiated_run, on_h100s, over_staging
from figures import DOCS, H200, NVLINK3, SUMMIT, find, measured, published, three_digits
from method_figures import aware_line, between_gpus, jacobi_on_gpus, least_disturbed, poor_lines
from screen import findings

SIZES = {8: "8 B", 4096: "4 KiB", 65536: "64 KiB", 1 << 20: "1 MiB", 1 << 24: "16 MiB", 1 << 30: "1 GiB"}
SHORT = 1 << 20
"""Up to here the table shows a time, above it a bandwidth."""

_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_LINE_LINK = re.compile(r'\]\((?P<path>[^)\s#]+)#L(?P<first>\d+)(?:-L(?P<last>\d+))? "(?P<code>[^"]+)"\)')

_ALL_PAGES = (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
PAGES = [page for page in _ALL_PAGES if _BLOCK.search(text := page.read_text("utf-8")) or _LINE_LINK.search(text)]
"""Those that have a block, or point at a line of code."""


class GoneError(ValueError):
    """The page points at code that is not there, or not in one place only."""


# ---------------------------------------------------------------------------------------------------- figures


def comparison() -> Iterator[str]:
    """Yield the table of all curves at sizes that they share."""
    heads = [f"{name}, {'µs' if size <= SHORT else 'GB/s'}" for size, name in SIZES.items()]
    yield f"| machine | way | {' | '.join(heads)} |"
    yield f"| --- | --- |{' --: |' * len(heads)}"
    for curve in (*published(), *measured()):
        cells = [three_digits(curve.us(size) if size <= SHORT else curve.GBps(size)) for size in SIZES]
        name = f"`{curve.way}`" if curve.machine == H200 else curve.way
        yield f"| {curve.machine} | {name} | {' | '.join(cells)} |"


def staging() -> Iterator[str]:
    """Yield what each variant of staging reached."""
    yield "| two H200s | 64 KiB, µs | 1 MiB, µs | 1 GiB, GB/s |"
    yield "| --- | --: | --: | --: |"
    for curve in (curve for curve in measured() if curve.way.startswith("staged/")):
        figures = curve.us(1 << 16), curve.us(1 << 20), curve.GBps(1 << 30)
        yield f"| `{curve.way}` | {' | '.join(three_digits(figure) for figure in figures)} |"


def short_messages() -> Iterator[str]:
    """Yield the sentence about the step in the curve of ``aware``."""
    aware = find(H200, "aware").half_round_trip_s
    sizes = sorted(aware)
    before, after = max(pairwise(sizes), key=lambda pair: aware[pair[0]] / aware[pair[1]])
    yield (
        f"Between our two H200s a message of {_spoken(before)} takes {_us(aware[before])} µs and one of "
        f"{_spoken(after)} takes {_us(aware[after])} µs: the larger message is the faster one."
    )


def the_wire() -> Iterator[str]:
    """Yield the sentence that compares CUDA-aware MPI with what the wire can do."""
    aware, peer, device = (find(H200, way) for way in ("aware", "peer", "device"))
    yield (
        f"On the two H200s 8 B take {_us(aware.half_round_trip_s[8])} µs with `aware`, "
        f"{_us(peer.half_round_trip_s[8])} µs with `peer` and {_us(device.half_round_trip_s[8])} µs with `device`. "
        f"At 1 GiB they move {three_digits(aware.GBps(1 << 30))}, {three_digits(peer.GBps(1 << 30))} and "
        f"{three_digits(device.GBps(1 << 30))} GB/s."
    )


def three_machines() -> Iterator[str]:
    """Yield what the table says about staging and CUDA-aware MPI on the three machines, at 1 GiB."""
    machines = (
        (SUMMIT, "CUDA-staged", "CUDA-aware"),
        (NVLINK3, "CUDA-staged", "CUDA-aware"),
        (H200, "staged/pageable", "aware"),
    )
    for machine, staged, aware in machines:
        slow, fast = find(machine, staged).GBps(1 << 30), find(machine, aware).GBps(1 << 30)
        yield (
            f"- **{machine}**: 1 GiB at {three_digits(slow)} GB/s staged and {three_digits(fast)} GB/s CUDA-aware, "
            f"{three_digits(fast / slow)} times as fast."
        )


def _us(seconds: float) -> str:
    return three_digits(seconds * 1e6)


def _spoken(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB"


FIGURES: dict[str, Callable[[], Iterator[str]]] = example_programs.FIGURES | {
    each.__name__: each
    for each in (
        comparison,
        staging,
        short_messages,
        the_wire,
        three_machines,
        between_gpus,
        jacobi_on_gpus,
        gpu_initiated_run,
        gpu_initiated,
        on_h100s,
        every_way_run,
        every_way,
        aware_line,
        poor_lines,
        over_staging,
        findings,
        least_disturbed,
    )
}


def with_figures(text: str) -> str:
    """Return the page with its blocks written afresh.

    Raises:
        KeyError: if the page asks for a block of another name.
    """
    return _BLOCK.sub(lambda found: found[1] + "\n".join(FIGURES[found[2]]()) + "\n" + found[3], text)


# ------------------------------------------------------------------------------------------------ lines of code


def with_lines(text: str, folder: Path) -> str:
    """Return the page with the numbers of the lines that it points at put right; ``folder`` is the page's.

    Raises:
        GoneError: if the code of a link is on no line of its file, or on several; all such links are named.
    """
    problems: list[str] = []

    def put_right(found: re.Match[str]) -> str:
        path, code = found["path"], found["code"]
        file = folder / path
        lines = file.read_text("utf-8").splitlines() if file.is_file() else []
        places = [number for number, line in enumerate(lines, 1) if code in line]
        if len(places) != 1:
            problems.append(f"{path}: {code!r} is on {len(places)} lines; the page needs code that is on one")
            return found[0]
        span = f"-L{places[0] + int(found['last']) - int(found['first'])}" if found["last"] else ""
        return f']({path}#L{places[0]}{span} "{code}")'

    renewed_text = _LINE_LINK.sub(put_right, text)
    if problems:
        raise GoneError("\n".join(problems))
    return renewed_text


# -------------------------------------------------------------------------------------------------------- main


def renewed(text: str, folder: Path) -> str:
    """Return what the page should be; ``folder`` is where it lies."""
    return with_lines(with_figures(text), folder)


def main(arguments: list[str] | None = None) -> int:
    """Renew the pages, or only compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 if a page is out of date")
    check = parser.parse_args(arguments).check
    return max(_renew(page, check=check) for page in PAGES)


def _renew(path: Path, *, check: bool) -> int:
    text = path.read_text("utf-8")
    try:
        page = renewed(text, path.parent)
    except GoneError as problem:
        print(problem, file=sys.stderr)
        return 1
    if page == text:
        return 0
    print(f"{path.relative_to(DOCS.parent)}: {'out of date; run make docs' if check else 'written'}", file=sys.stderr)
    if not check:
        path.write_text(page, "utf-8")
    return int(check)


if __name__ == "__main__":
    sys.exit(main())
