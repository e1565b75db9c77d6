"""The options of ``volley setup``."""

from __future__ import annotations

from typing import Annotated

import typer

_ROUTE, _SOURCE, _OUTPUT = "What to set up", "The source route", "Output"

Route = Annotated[
    str,
    typer.Option(
        metavar="auto|wheels|source",
        rich_help_panel=_ROUTE,
        help="wheels: Open MPI and a UCX with CUDA from PyPI, in seconds; source: GDRCopy, UCX and Open MPI built "
        "here; auto: source where --source, --cuda, --configure, --without or --jobs is given, else wheels.",
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=_ROUTE,
        help="Where to: wheels make a Python environment there, the source route installs there. Nothing outside is "
        "touched.",
        show_default="wheels: this Python environment",
    ),
]
Prove = Annotated[
    bool,
    typer.Option(
        "--prove/--no-prove",
        rich_help_panel=_ROUTE,
        help="At the end, a transfer between two ranks: on GPU memory where there is a GPU, else on the host's.",
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="NAME=WHERE",
        rich_help_panel=_SOURCE,
        help="Where gdrcopy, ucx or openmpi comes from: a URL or a tarball (add #sha256=SUM), the folder of a "
        "checkout, a .dsc file, or deb:PACKAGE@SUITE (Debian's and Ubuntu's source packages). Repeatable.",
        show_default="releases, with their sums",
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(metavar="gdrcopy", rich_help_panel=_SOURCE, help="Leave GDRCopy out."),
]
Cuda = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|wheels",
        rich_help_panel=_SOURCE,
        help="The CUDA toolkit to build with; wheels: NVIDIA's wheels, into the prefix. Stubs are made where it has "
        "none.",
        show_default="CUDA_HOME, CUDA_PATH, nvcc on PATH, /usr/local/cuda, else wheels",
    ),
]
Configure = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=ARGUMENT",
        rich_help_panel=_SOURCE,
        help="One more argument for a component's configure (gdrcopy: for its make), such as openmpi=--with-slurm. "
        "Repeatable.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        rich_help_panel=_SOURCE,
        help="Compilers at a time.",
        show_default="one a core",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", rich_help_panel=_OUTPUT, help="Print every step and do nothing."),
]
RootScript = Annotated[
    bool,
    typer.Option(
        "--root-script",
        rich_help_panel=_OUTPUT,
        help="Print what only root can do on this distribution (driver, kernel headers, toolkit, gdrdrv), and run none "
        "of it.",
    ),
]
