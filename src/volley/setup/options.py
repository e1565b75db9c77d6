"""The options of ``volley setup``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from volley.command import option_values
from volley.command.commandline import Options, flag, option
from volley.errors import UserError

_ROUTE, _SOURCE, _ROOT, _OUTPUT = "What to set up", "The source route", "What needs root", "Output"
_DRIVER = option_values.matching(
    "BRANCH", "[1-9][0-9]{2}(-proprietary)?", "not a driver branch: write e.g. --driver 580"
)
_TOOLKIT = option_values.matching(
    "VERSION", r"[1-9][0-9]\.[0-9]", "not a version of the CUDA toolkit: write e.g. --toolkit 12.9"
)


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
        repeat=True,
        shown="releases, with their checksums",
        metavar="NAME=WHERE",
        help="Where gdrcopy, ucx or openmpi comes from: a URL or a tarball (add #sha256=SUM; http:// needs it), the "
        "folder of a checkout, a .dsc file, or deb:PACKAGE@SUITE (Debian's and Ubuntu's source packages); may be "
        "repeated.",
    )
    without: tuple[str, ...] = option(
        read=option_values.texts, repeat=True, metavar="gdrcopy", help="Do not build GDRCopy."
    )
    cuda: str | None = option(
        read=_cuda,
        shown="CUDA_HOME, CUDA_PATH, nvcc on PATH, /usr/local/cuda, else wheels",
        help="The CUDA toolkit to build with; wheels: NVIDIA's wheels, into the prefix. If it has no stub "
        "libraries, volley creates them.",
    )
    configure: tuple[str, ...] = option(
        read=option_values.texts,
        repeat=True,
        metavar="NAME=ARGUMENT",
        help="One more argument for a component's configure (gdrcopy: for its make), such as openmpi=--with-slurm; "
        "may be repeated.",
    )
    jobs: int | None = option(
        "-j", read=option_values.number(), shown="one per core", help="Number of compilers that run at once."
    )
    root_script: bool = flag(
        panel=_ROOT,
        help="Print the steps that need root on this distribution (driver, kernel headers, toolkit, gdrdrv), without "
        "running them.",
    )
    driver: str | None = option(
        read=_DRIVER,
        shown="the newest, where none is loaded",
        panel=_ROOT,
        help="With --root-script: this branch of the driver with open kernel modules, such as 580; 580-proprietary for "
        "GPUs before Turing, such as the V100.",
    )
    toolkit: str | None = option(
        read=_TOOLKIT,
        shown="13.0, where there is none",
        panel=_ROOT,
        help="With --root-script: this CUDA toolkit, such as 12.9.",
    )
    dry_run: bool = flag(panel=_OUTPUT, help="Print every step without running it.")

    def __post_init__(self) -> None:
        if self.route == "wheels" and (given := self.of_source):
            raise UserError(f"{given[0]} belongs to the source route: leave it out, or use --route source")
        for name, value in (("--driver", self.driver), ("--toolkit", self.toolkit)):
            if value and not self.root_script:
                raise UserError(f"{name} belongs to --root-script: write --root-script {name} {value}")

    @property
    def of_source(self) -> list[str]:
        names = ("source", "without", "cuda", "configure", "jobs")
        return [f"--{name}" for name in names if getattr(self, name)]
