"""How the source route builds GDRCopy, UCX with CUDA and GDRCopy, Open MPI with CUDA and UCX: steps that are data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from volley.setup import sources
from volley.setup.actions import (
    Action,
    Autogen,
    Check,
    CopyTree,
    Download,
    InstallWheels,
    MakeFolders,
    Run,
    Unpack,
    UnpackDebian,
    Write,
)
from volley.setup.cuda import WHEELS, Cuda, View
from volley.setup.distribution import Distribution
from volley.setup.sources import SPOKEN, Source
from volley.setup.work import BUILD_VARIABLES, Folders

UCX_FLAGS = (
    # contrib/configure-release of UCX: measurements are made with the same flags
    "--disable-logging",
    "--disable-debug",
    "--disable-assertions",
    "--disable-params-check",
    "--enable-mt",  # Open MPI asks for it where a program asks for MPI_THREAD_MULTIPLE
    "--disable-doxygen-doc",
    "--without-go",
    "--without-java",
)
UCX_MAKE = ("noinst_PROGRAMS=",)
"""UCX's test programs are not installed, and up to 1.18 they do not compile with CUDA 13: cuCtxCreate has changed."""
OPENMPI_FLAGS = (
    "--disable-mpi-fortran",  # measuring and most of CUDA's users do without; --configure openmpi=--enable-mpi-fortran
    "--disable-oshmem",
    "--disable-io-romio",  # OMPIO, Open MPI's own MPI-IO, is the default
    "--disable-sphinx",
    # what links libcuda is loaded only where there is one: otherwise no program starts without a driver
    "--enable-mca-dso=accelerator-cuda,btl-smcuda,rcache-gpusm,rcache-rgpusm",
    # its own, so that the prefix stands alone
    "--with-hwloc=internal",
    "--with-libevent=internal",
    "--with-pmix=internal",
    "--with-prrte=internal",
)


DEBIAN_PATCHED = ("ucx",)
"""Components whose Debian package is built with Debian's patches: its UCX has no configure, and makes none without.
Open MPI's release is complete; Debian's patches touch its build system, which would have to be made anew."""


@dataclass(frozen=True)
class Step:
    """A part of the set-up that is done once: finished it is stamped, and half-finished it is started over."""

    name: str
    title: str
    """What it does, for people: ``UCX: configure, build, install``."""
    actions: tuple[Action, ...]
    fresh: Path | None = None
    """A folder that is removed before the step begins."""
    makes: tuple[Path, ...] = ()
    """Files that are there when it is finished; without them a stamp does not count."""
    after: tuple[str, ...] = ()
    """The steps that it builds upon: a change of theirs repeats it."""
    inputs: tuple[str, ...] = field(default=())
    """What else it depends on, such as a checkout's state or the compiler's flags."""

    def key(self, keys: Mapping[str, str]) -> str:
        """Return the hash of the recipe and its inputs, given the keys of the steps before it."""
        said = [*(action.line() for action in self.actions), *self.inputs, *(keys[name] for name in self.after)]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()


@dataclass(frozen=True)
class Ingredients:
    """All that a recipe is made from."""

    folders: Folders
    sources: Sequence[Source]
    cuda: Cuda
    distribution: Distribution
    extra: Mapping[str, Sequence[str]]
    """Further arguments of each component's ``configure``."""
    environment: Mapping[str, str]

    @property
    def toolkit(self) -> Path:
        """The folder that the builds are pointed at."""
        return self.cuda.home if self.cuda.whole else self.folders.cuda

    @property
    def variables(self) -> tuple[str, ...]:
        """The user's compilers and flags."""
        return tuple(f"{name}={self.environment[name]}" for name in BUILD_VARIABLES if self.environment.get(name))

    @property
    def gdrcopy(self) -> bool:
        return any(source.name == "gdrcopy" for source in self.sources)


def recipe(given: Ingredients) -> list[Step]:
    """Return the steps in order."""
    steps = [] if given.cuda.whole else [_cuda(given)]
    builders = {"gdrcopy": _gdrcopy, "ucx": _ucx, "openmpi": _openmpi}
    for source in given.sources:
        steps += [*_fetch(source, given), builders[source.name](source, given, tuple(step.name for step in steps))]
    return steps


def _cuda(given: Ingredients) -> Step:
    wheels: tuple[Action, ...] = ()
    if given.cuda.wheels:
        wheels = (InstallWheels(given.folders.cuda_wheels, WHEELS),)
    view = View(given.cuda, given.folders.cuda, given.environment.get("CC") or "cc")
    made = (given.folders.cuda / "lib64/libcudart.so", given.folders.cuda / "lib64/stubs/libcuda.so")
    return Step("cuda", "CUDA: headers, runtime, stubs", (*wheels, view), given.folders.cuda, made)


def _fetch(source: Source, given: Ingredients) -> list[Step]:
    """Return the step that gets a source from the network; what lies on this machine needs none."""
    downloads = given.folders.downloads
    if source.kind == "url":
        archive = downloads / _file_name(source)
        get = Download(source.name, source.where, archive, source.sha256)
        return [Step(f"{source.name}-source", f"{SPOKEN[source.name]}: download", (get,), None, (archive,))]
    if source.kind == "debian":
        folder = downloads / f"{source.name}-debian"
        return [Step(f"{source.name}-source", f"{SPOKEN[source.name]}: download", _apt(source, folder, given), folder)]
    return []


def _file_name(source: Source) -> str:
    """Return a name that is ours: a URL may end in anything."""
    tail = source.where.rpartition("/")[2].partition("?")[0]
    suffix = next((end for end in (".tar.gz", ".tar.bz2", ".tar.xz", ".tgz") if tail.endswith(end)), ".tar")
    return f"{source.name}-{hashlib.sha256(source.where.encode()).hexdigest()[:12]}{suffix}"


def _apt(source: Source, folder: Path, given: Ingredients) -> tuple[Action, ...]:
    """Let apt get a source package with its own lists, so that it needs no root and no deb-src line of the system."""
    package, _, suite = source.where.partition("@")
    private = folder / "apt"
    options = {
        "Dir::Etc::SourceList": private / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": private / "lists",
        "Dir::Cache": private / "cache",
        "APT::Sandbox::User": "",  # root would hand the download to a user who may not write here
    }
    words = tuple(word for name, value in options.items() for word in ("--option", f"{name}={value}"))
    made = MakeFolders((private / "lists/partial", private / "cache/archives/partial"))
    listed = Write(private / "sources.list", given.distribution.source_line(suite or None))
    update = Run(("apt-get", *words, "update"), folder)
    hint = f"is there a network, and a package {package} in that suite? Else: --source {source.name}=TARBALL"
    return made, listed, update, Run(("apt-get", *words, "--download-only", "source", package), folder, hint=hint)


def _prepare(source: Source, given: Ingredients) -> tuple[Path, tuple[Action, ...], tuple[str, ...]]:
    """Return the folder of the sources, what lays them there, and their identity."""
    tree = given.folders.build / source.name
    path, patched = Path(source.where), source.name in DEBIAN_PATCHED
    if source.kind == "url":
        return tree, (Unpack(given.folders.downloads / _file_name(source), tree),), ()
    if source.kind == "debian":
        return tree, (UnpackDebian(given.folders.downloads / f"{source.name}-debian", tree, patched),), ()
    identity = (sources.identity(source),)
    if source.kind == "dsc":
        return tree, (UnpackDebian(path, tree, patched),), identity
    if source.kind == "directory":
        return tree, (CopyTree(path, tree),), identity
    check = (Check(path, source.sha256),) if source.sha256 else ()
    return tree, (*check, Unpack(path, tree)), identity


def _gdrcopy(source: Source, given: Ingredients, after: tuple[str, ...]) -> Step:
    """GDRCopy's library; its kernel module is root's affair."""
    tree, prepare, identity = _prepare(source, given)
    prefix, include = given.folders.prefix, given.toolkit / "include"
    make = ("make", f"prefix={prefix}", f"CUDA={given.toolkit}", *given.extra.get("gdrcopy", ()), "lib_install")
    actions = (*prepare, Run(make, tree, {"CPATH": str(include)}))
    return Step(
        "gdrcopy",
        "GDRCopy: build and install the library",
        actions,
        tree,
        (prefix / "lib/libgdrapi.so", prefix / "include/gdrapi.h"),
        after,
        (*identity, *given.variables),
    )


def _ucx(source: Source, given: Ingredients, after: tuple[str, ...]) -> Step:
    prefix = given.folders.prefix
    flags = (
        *UCX_FLAGS,
        f"--with-cuda={given.toolkit}",
        f"--with-gdrcopy={prefix}" if given.gdrcopy else "--without-gdrcopy",
        # The CUDA runtime is found where it is now; stubs are never on a run path.
        _ldflags(given, f"-Wl,-rpath,{given.cuda.libdir}"),
    )
    return _autotools(source, given, after, flags=flags, made=prefix / "lib/libucp.so", make=UCX_MAKE)


def _openmpi(source: Source, given: Ingredients, after: tuple[str, ...]) -> Step:
    prefix = given.folders.prefix
    flags = (
        *OPENMPI_FLAGS,
        f"--with-cuda={given.toolkit}",
        # Open MPI 5 looks for libcuda itself, which a machine without a driver has only as a stub
        f"--with-cuda-libdir={given.toolkit / 'lib64/stubs'}",
        f"--with-ucx={prefix}",
    )
    return _autotools(source, given, after, flags=flags, made=prefix / "bin/mpicc")


def _ldflags(given: Ingredients, own: str) -> str:
    return f"LDFLAGS={own} {given.environment.get('LDFLAGS', '')}".rstrip()


def _autotools(
    source: Source,
    given: Ingredients,
    after: tuple[str, ...],
    *,
    flags: tuple[str, ...],
    made: Path,
    make: tuple[str, ...] = (),
) -> Step:
    """Configure, build and install one component."""
    tree, prepare, identity = _prepare(source, given)
    further = tuple(given.extra.get(source.name, ()))
    actions = (
        *prepare,
        Autogen(tree),
        Run(("./configure", f"--prefix={given.folders.prefix}", *flags, *further), tree),
        Run(("make", *make), tree),
        Run(("make", *make, "install"), tree),
    )
    title = f"{SPOKEN[source.name]}: configure, build, install"
    return Step(source.name, title, actions, tree, (made,), after, (*identity, *given.variables))
