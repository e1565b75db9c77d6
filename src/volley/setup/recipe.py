"""How the source route builds GDRCopy, UCX with CUDA and GDRCopy, and Open MPI with CUDA and UCX, and with which CUDA.

Every step is a shell script: ``--dry-run`` prints it, the step's log traces it, and its text decides whether what was
built before can be kept: finished steps are, all others start again.  A script begins with its variables.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join, quote
from typing import TextIO

from volley.errors import MachineError, UserError
from volley.machine.distribution import Distribution
from volley.machine.reinstall import installer
from volley.setup import sources
from volley.setup.sources import SPOKEN, Source, download
from volley.setup.workspace import SAYS, Folders, StepError, progress, run_logged, say, tail
from volley.text import escape_controls

MINOR = "13.0"
"""What is built with 13.0 runs on driver 580 and later; the same minor version as volley's own engine from wheels."""
WHEELS = tuple(f"{name}=={MINOR}.*" for name in ("nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-nvml-dev"))
"""Headers and runtime (crt: headers of the runtime's own; NVML: UCX asks for it).  Nothing here is CUDA C++."""


@dataclass(frozen=True)
class CudaToolkit:
    """A CUDA toolkit, or what there is of one."""

    home: Path
    wheels: Path | None = None
    """Where NVIDIA's wheels are to be installed; ``None`` for a toolkit that is there."""

    @property
    def libdir(self) -> Path:
        """Where the runtime library is."""
        return self.home / "lib64" if (self.home / "lib64").is_dir() else self.home / "lib"

    @property
    def complete(self) -> bool:
        """True when UCX and Open MPI can be pointed at it as it is."""
        wanted = ("lib64/libcudart.so", "include/nvml.h", "lib64/stubs/libcuda.so", "lib64/stubs/libnvidia-ml.so")
        return not self.wheels and all((self.home / path).exists() for path in wanted)


def find_cuda(asked: str | None, folders: Folders, environment: Mapping[str, str]) -> CudaToolkit:
    """Find the CUDA to build with: the one asked for, the machine's, or the wheels.

    Raises:
        UserError: if what was asked for is no CUDA.
    """
    place = folders.prefix / "lib" / "cuda-wheels"  # not among our own folders: the runtime is loaded from there
    wheels = CudaToolkit(place / "nvidia/cu13", place)
    if asked == "wheels":
        return wheels
    if asked:
        home = Path(asked)
        if not _has_headers(home):
            raise UserError(
                f"--cuda {home} has no include/cuda.h and include/cuda_runtime.h; give the folder that has include and "
                "lib64 in it (the wheels': …/site-packages/nvidia/cu13), or --cuda wheels"
            )
        if not (home / "include/nvml.h").exists():
            package = join([*installer(), f"nvidia-nvml-dev=={MINOR}.*"])
            raise UserError(f"--cuda {home} has no include/nvml.h, which UCX needs: {package}")
        return CudaToolkit(home)
    nvcc = shutil.which("nvcc", path=environment.get("PATH"))
    beside_nvcc = Path(os.path.realpath(nvcc)).parents[1] if nvcc else None
    named = (environment.get("CUDA_HOME"), environment.get("CUDA_PATH"), beside_nvcc, "/usr/local/cuda")
    return next((CudaToolkit(Path(home)) for home in named if home and _has_headers(Path(home))), wheels)


def _has_headers(home: Path) -> bool:
    return all((home / "include" / header).is_file() for header in ("cuda.h", "cuda_runtime.h"))


BUILD_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")
"""The user's own choices for compilers; a step is repeated when they change."""

MAKES = {
    "gdrcopy": ("lib/libgdrapi.so", "include/gdrapi.h"),
    "ucx": ("lib/libucp.so",),
    "openmpi": ("bin/mpicc",),
}
"""Files in the prefix that are there when a component is installed."""

_FAIL = f'fail() {{ echo {SAYS.strip()} "$*" >&2; exit 1; }}\n'

# UCX and Open MPI want a toolkit laid out as NVIDIA's installer does: include, lib64 with libcudart.so, and lib64/stubs
# with the driver's libraries to link with. The wheels have no lib64, no unversioned library and no stubs. A stub has a
# function for each name that the header declares, or maps a name to (cuMemAlloc to cuMemAlloc_v2). Programs load the
# driver's library by its soname, libcuda.so.1; a stub is never on a run path. Should it be loaded, each function
# returns CUDA_ERROR_STUB_LIBRARY (cuda.h), as NVIDIA's own stub, or NVML_ERROR_LIBRARY_NOT_FOUND (nvml.h).
_CUDA_WHEELS = '{pip} || fail "is there a network? Else give a CUDA that is here: --cuda DIR"\n'
_CUDA = r"""mkdir -p "$toolkit/lib64/stubs"
ln -s "$cuda/include" "$toolkit/include"
ln -s "$libdir"/libcuda* "$toolkit/lib64"
for version in "$libdir"/libcudart.so.*; do ln -sf "$version" "$toolkit/lib64/libcudart.so"; done
stub() {
    cd "$toolkit/lib64/stubs"
    if [ -e "$libdir/stubs/$1" ]; then ln -s "$libdir/stubs/$1" .; return; fi
    {
        grep -oE "\b$3[A-Z][A-Za-z0-9_]*[[:space:]]*\(" "$cuda/include/$2" | tr -d ' \t('
        sed -nE "s/^[[:space:]]*#[[:space:]]*define[[:space:]]+$3[A-Z]\w*[[:space:]]+($3[A-Z]\w*)[[:space:]]*$/\1/p" \
            "$cuda/include/$2"
    } | sort -u | sed "s/.*/int &(void) { return $4; }/" > "$1.c"
    [ -s "$1.c" ] || fail "$cuda/include/$2 declares no functions"
    ${CC:-cc} -shared -fPIC -Wl,-soname,"$1.1" -o "$1" "$1.c"
}
stub libcuda.so cuda.h cu 34
stub libnvidia-ml.so nvml.h nvml 12
"""

_TARBALL = """\
tar --no-same-owner -xf "$source" || fail "cannot unpack $source"
set -- *; if [ $# -eq 1 ] && [ -d "$1" ]; then cd "$1"; fi
"""
_CHECKOUT = 'cp -a "$source/." .  # a build writes into its sources\n'
_DEBIAN = "dpkg-source {options}--extract {dsc} {name}\ncd {name}\n"
# apt gets lists of its own, so that it needs no deb-src line of the system. The sandbox is root's: apt would hand the
# download to a user who may not write here.
_APT = """\
apt() {{
    apt-get -o Dir::Etc::SourceList="$source/sources.list" -o Dir::Etc::SourceParts=- \\
        -o Dir::State::Lists="$source/lists" -o Dir::Cache="$source/cache" -o APT::Sandbox::User= "$@"
}}
if [ ! -e "$source/complete" ]; then
    rm -rf "$source"
    mkdir -p "$source/lists/partial" "$source/cache/archives/partial"
    echo {line} > "$source/sources.list"
    cd "$source"
    apt update && apt --download-only source {package} ||
        fail "is there a network, and a package {package} in that suite? Else: --source {name}=TARBALL"
    touch complete
    cd "$tree"
fi
"""
_AUTOGEN = """\
if [ ! -e configure ]; then
    if [ -e autogen.pl ]; then ./autogen.pl
    elif [ -e autogen.sh ]; then ./autogen.sh
    else fail "there is neither configure nor autogen.sh; is --source {name}=… the right one?"; fi
fi
"""
_GDRCOPY = """\
# The library; only root can install the kernel module
CPATH="$toolkit/include" make prefix="$prefix" CUDA="$toolkit" {extra} lib_install
"""
# The first flags are those of UCX's contrib/configure-release: measurements are made with the same. Open MPI asks for
# --enable-mt where a program asks for MPI_THREAD_MULTIPLE. The CUDA runtime is found where it is now. UCX's test
# programs are not installed, and up to 1.18 they do not compile with CUDA 13: cuCtxCreate has changed.
_UCX = """\
./configure --prefix="$prefix" --disable-logging --disable-debug --disable-assertions --disable-params-check \\
    --enable-mt --disable-doxygen-doc --without-go --without-java --with-cuda="$toolkit" {gdrcopy} \\
    LDFLAGS="-Wl,-rpath,$libdir ${{LDFLAGS:-}}" {extra}
make noinst_PROGRAMS=
make noinst_PROGRAMS= install
"""
# OMPIO is Open MPI's own MPI-IO, so ROMIO is left out. What links libcuda is built as modules, which are loaded only
# where there is one: otherwise no program starts without a driver. Its own hwloc, libevent, PMIx and PRRTE let the
# prefix stand alone. Open MPI 5 looks for libcuda itself, which a machine without a driver has only as a stub.
_OPENMPI = """\
./configure --prefix="$prefix" --disable-mpi-fortran --disable-oshmem --disable-io-romio --disable-sphinx \\
    --enable-mca-dso=accelerator-cuda,btl-smcuda,rcache-gpusm,rcache-rgpusm \\
    --with-hwloc=internal --with-libevent=internal --with-pmix=internal --with-prrte=internal \\
    --with-cuda="$toolkit" --with-cuda-libdir="$toolkit/lib64/stubs" --with-ucx="$prefix" {extra}
make
make install
"""
_BUILDS = {"gdrcopy": _GDRCOPY, "ucx": _AUTOGEN + _UCX, "openmpi": _AUTOGEN + _OPENMPI}


@dataclass(frozen=True)
class BuildStep:
    """A part of the set-up that is done once: finished it is stamped, and half-finished it starts over."""

    name: str
    title: str
    """What it does, for people: ``UCX: configure, build, install``."""
    script: str
    """For ``sh``; it begins in ``tree``, which is empty."""
    tree: Path
    makes: tuple[Path, ...]
    """Files that are there when it is finished; without them a stamp does not count."""
    inputs: tuple[str, ...] = ()
    """What else it depends on: the identity of its source, the user's compilers and flags."""
    download: tuple[Source, Path] | None = None
    """A tarball to get from the network before the script runs, and the file that it becomes."""
    key: str = ""
    """The hash of its script, its inputs and the steps before it: the stamp of a finished step."""


@dataclass(frozen=True)
class Ingredients:
    """All that the recipe is made from."""

    folders: Folders
    sources: Sequence[Source]
    cuda: CudaToolkit
    distribution: Distribution
    extra: Mapping[str, Sequence[str]]
    """Further arguments of each component's ``configure``."""
    environment: Mapping[str, str]

    def script(self, commands: str, **variables: object) -> str:
        """Return a whole script: its variables and its commands."""
        toolkit = self.cuda.home if self.cuda.complete else self.folders.own / "cuda"
        own = {"prefix": self.folders.prefix, "cuda": self.cuda.home, "libdir": self.cuda.libdir, "toolkit": toolkit}
        lines = "".join(f"{name}={quote(str(value))}\n" for name, value in {**own, **variables}.items())
        return f"set -eu\n{_FAIL}{lines}{commands}"


def recipe(given: Ingredients) -> list[BuildStep]:
    """Return the steps in order.

    Raises:
        UserError: if a source cannot be used here.
        ChecksumError: if a tarball is another one than was meant.
    """
    steps = [_component(source, given) for source in given.sources]
    if not given.cuda.complete:
        view = given.folders.own / "cuda"
        made = (view / "lib64/libcudart.so", view / "lib64/stubs/libcuda.so")
        pip = [*installer(), "--no-deps", "--upgrade", "--target", str(given.cuda.wheels), *WHEELS]
        commands = _CUDA_WHEELS.format(pip=join(pip)) + _CUDA if given.cuda.wheels else _CUDA
        steps.insert(0, BuildStep("cuda", "CUDA: headers, runtime, stubs", given.script(commands), view, made))
    key = ""
    for number, step in enumerate(steps):
        key = hashlib.sha256("\n".join([key, step.script, *step.inputs]).encode()).hexdigest()
        steps[number] = replace(step, key=key)
    return steps


def _component(source: Source, given: Ingredients) -> BuildStep:
    name, prefix, tree = source.name, given.folders.prefix, given.folders.build / source.name
    kept = given.folders.downloads / f"{name}-{hashlib.sha256(source.where.encode()).hexdigest()[:12]}"
    gdrcopy = (
        '--with-gdrcopy="$prefix"' if any(each.name == "gdrcopy" for each in given.sources) else "--without-gdrcopy"
    )
    commands = _BUILDS[name].format(name=name, gdrcopy=gdrcopy, extra=join(given.extra.get(name, ())))
    lies_at = kept if source.kind in ("url", "debian") else source.where
    script = given.script(f'cd "$tree"\n{_unpack(source, given)}{commands}', tree=tree, source=lies_at)
    variables = (f"{each}={given.environment[each]}" for each in BUILD_VARIABLES if given.environment.get(each))
    done = "build and install the library" if name == "gdrcopy" else "configure, build, install"
    return BuildStep(
        name,
        f"{SPOKEN[name]}: {done}",
        script,
        tree,
        makes=tuple(prefix / path for path in MAKES[name]),
        inputs=(sources.identity(source), *variables),
        download=(source, kept) if source.kind == "url" else None,
    )


def _unpack(source: Source, given: Ingredients) -> str:
    """Return the lines that lay the sources into the present folder, which is empty, and go to where they begin."""
    if source.kind == "directory":
        if Path(source.where) in given.folders.build.parents:
            raise UserError(f"--prefix lies inside the source {source.where}; choose another prefix")
        return _CHECKOUT
    if source.kind in ("url", "tarball"):
        return _TARBALL
    # Debian's UCX has no configure and makes none without Debian's patches. Open MPI's release is complete, and
    # Debian's patches touch its build system, which would have to be made anew.
    options = "" if source.name == "ucx" else "--skip-patches "
    if source.kind == "dsc":
        return _DEBIAN.format(options=options, dsc='"$source"', name=source.name)
    package, _, suite = source.where.partition("@")
    line = quote(source_line(given.distribution, suite or None))
    get = _APT.format(line=line, package=package, name=source.name)
    return get + _DEBIAN.format(options=options, dsc='"$source"/*.dsc', name=source.name)


def source_line(distribution: Distribution, suite: str | None) -> str:
    """Return the line of ``sources.list`` for a suite's source packages; without a suite, those of this system.

    Raises:
        UserError: if this distribution has none.
    """
    if distribution.family != "debian":
        raise UserError(
            f"--source …=deb:… needs Debian's apt, and this is {escape_controls(distribution.id)}; "
            "give a tarball, a checkout or a .dsc file"
        )
    suite = suite or distribution.codename
    if not suite:
        raise UserError("/etc/os-release names no suite; write it: deb:PACKAGE@bookworm")
    if distribution.id == "ubuntu":
        keyring, archive = "ubuntu", f"http://archive.ubuntu.com/ubuntu {suite} main universe"
    else:
        keyring, archive = "debian", f"http://deb.debian.org/debian {suite} main"
    return f"deb-src [signed-by=/usr/share/keyrings/{keyring}-archive-keyring.gpg] {archive}"


def finished(step: BuildStep, folders: Folders) -> bool:
    """Return whether a step was finished with the same recipe and its files still exist."""
    try:
        stamp = (folders.stamps / step.name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return stamp == step.key and all(path.exists() for path in step.makes)


def build(steps: Sequence[BuildStep], folders: Folders, environment: Mapping[str, str], out: TextIO) -> None:
    """Run the unfinished steps; progress goes to ``out``.

    Raises:
        UserError: what stopped a step; the end of its log is in a StepError.
    """
    for number, step in enumerate(steps, 1):
        title = f"[{number}/{len(steps)}] {step.title}"
        if finished(step, folders):
            say(out, f"{title}: done before")
            continue
        stamp, log = folders.stamps / step.name, folders.logs / f"{step.name}.log"
        stamp.unlink(missing_ok=True)
        with progress(out, title) as tick:
            try:
                _do(step, log, folders, environment, tick)
            except OSError as error:
                where = f" ({error.filename})" if error.filename else ""
                raise MachineError(f"{step.title}: {error.strerror or error}{where}") from None
        stamp.write_text(f"{step.key}\n", encoding="ascii")
        if folders.build in step.tree.parents:
            shutil.rmtree(step.tree, ignore_errors=True)  # a build tree is of no use any more, and large


def _do(
    step: BuildStep, log: Path, folders: Folders, environment: Mapping[str, str], tick: Callable[[str], None]
) -> None:
    log.write_text(download(*step.download) if step.download else "", encoding="utf-8")
    shutil.rmtree(step.tree, ignore_errors=True)
    step.tree.mkdir(parents=True)
    script = log.with_suffix(".sh")
    script.write_text(step.script, encoding="utf-8")
    run_logged(
        ["sh", "-x", str(script)],
        log,
        title=step.title,
        environment={**environment, "TMPDIR": str(folders.temporary)},
        folder=step.tree,
        tick=tick,
    )
    missing = [path for path in step.makes if not path.exists()]
    if missing:
        raise StepError(f"{step.title}: everything ran, but there is no {missing[0]}; the whole log: {log}", tail(log))
