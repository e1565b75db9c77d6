"""The options of ``volley setup``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from volley.command import option_values
from volley.command.commandline import Options, flag, option
from volley.errors import UserError

_ROUTE, _SOURCE, _OUTPUT = "What to set up", "The source route", "Output"


@option_values.reads("DIR")
def _cuda(name: str, words: Sequence[str]) -> str:
    return words[-1] if words[-1] == "wheels" else str(option_values.folder(name, words))


@dataclass(frozen=True, kw_only=True)
class SetupOptions(Options):
    PANEL = _SOURCE

    route: str = option(
        read=option_values.choice("auto", "wheels", "source"),
        default="auto",
        metavar="NAME",
        panel=_ROUTE,
        help="wheels: Open MPI and a UCX with CUDA from PyPI, in seconds; source: GDRCopy, UCX and Open MPI built "
        "here; auto: source with --source, --cuda, --configure, --without or --jobs, else wheels.",
    )
    prefix: Path | None = option(
        read=option_values.folder,
        shown="wheels: this Python environment",
        panel=_ROUTE,
        help="The folder: wheels go into a Python environment there, the source route installs there. Nothing else "
        "changes.",
    )
    prove: bool = flag(
        default=True,
        panel=_ROUTE,
        help="At the end, a transfer between two ranks: on GPU memory if there is a GPU, else on host memory.",
    )
    source: tuple[str, ...] = option(
        read=option_values.texts,
        default=(),
        repeat=True,
        shown="releases, with their checksums",
        metavar="NAME=WHERE",
        help="Where gdrcopy, ucx or openmpi comes from: a URL or a tarball (add #sha256=SUM; http:// needs it), the "
        "folder of a checkout, a .dsc file, or deb:PACKAGE@SUITE (Debian's and Ubuntu's source packages); may be "
        "repeated.",
    )
    without: tuple[str, ...] = option(
        read=option_values.texts, default=(), repeat=True, metavar="gdrcopy", help="Do not build GDRCopy."
    )
    cuda: str | None = option(
        read=_cuda,
        shown="CUDA_HOME, CUDA_PATH, nvcc on PATH, /usr/local/cuda, else wheels",
        help="The CUDA toolkit to build with; wheels: NVIDIA's wheels, into the prefix. If it has no stub "
        "libraries, volley creates them.",
    )
    configure: tuple[str, ...] = option(
        read=option_values.texts,
        default=(),
        repeat=True,
        metavar="NAME=ARGUMENT",
        help="One more argument for a component's configure (gdrcopy: for its make), such as openmpi=--with-slurm; "
        "may be repeated.",
    )
    jobs: int | None = option(
        "--jobs", "-j", read=option_values.number(), shown="one per core", help="Number of compilers that run at once."
    )
    root_script: bool = flag(
        panel=_ROUTE,
        help="Print a script of the steps that need root on this distribution (driver, kernel headers, toolkit, "
        "gdrdrv), without running it; its first lines choose the branch of the driver and the toolkit.",
    )
    dry_run: bool = flag(panel=_OUTPUT, help="Print every step without running it.")

    def __post_init__(self) -> None:
        if self.route == "wheels" and (given := self.of_source):
            raise UserError(f"{given[0]} belongs to the source route: leave it out, or use --route source")

    @property
    def of_source(self) -> list[str]:
        names = ("source", "without", "cuda", "configure", "jobs")
        return [f"--{name}" for name in names if getattr(self, name)]
