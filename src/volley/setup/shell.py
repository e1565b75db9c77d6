"""``volley env``: what a shell needs to compile and start one's own programs with the MPI that volley uses."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from volley.command.commandline import Options, group
from volley.command.options import JobOptions
from volley.errors import EXIT_GOOD
from volley.launch import engine_path
from volley.launch.engine import ask_about
from volley.launch.launchers import LAUNCHERS, LaunchSpec
from volley.machine.mpi_choice import NAMES, choose_mpi, installed_file
from volley.machine.mpi_stack import Stack, assemble, cuda_ucx
from volley.machine.nvidia_driver import has_driver
from volley.machine.packages import install_command


@dataclass(frozen=True, kw_only=True)
class EnvOptions(Options):
    job: JobOptions = group(JobOptions, only=["mpi"])


def run(options: EnvOptions, environment: Mapping[str, str] = os.environ) -> int:
    """Print the lines; return the exit code.  Advice goes to standard error, which ``eval`` does not read."""
    chosen = choose_mpi(options.job.mpi, environment)
    with ask_about(Path(engine_path.engine_path()), chosen.library) as answer:
        about = answer()
    stack, nvcc = assemble(chosen, about.mpi, about.cuda_built), _nvcc(environment)
    called = _called(stack.mpiexec, stack.family) if stack.mpiexec else {}
    for plain, own in called.items():
        if own != plain and plain.exists():
            name = f"called {own.name}" if own else "not installed"
            print(f"volley: {plain} is another MPI's; {NAMES[stack.family]}'s is {name}", file=sys.stderr)
    programs = [path for path in (*called.values(), nvcc) if path]
    # The semicolons: "eval $(volley env)" without quotes joins the lines.
    variables = _variables(stack, nvcc, _path(programs, environment.get("PATH", "")))
    sys.stdout.writelines(f"export {name}={value};\n" for name, value in variables)
    if nvcc is None and has_driver():
        print(f"volley: there is no nvcc; one comes with: {install_command('nvcc')}", file=sys.stderr)
    return EXIT_GOOD


def _called(mpiexec: Path, family: str) -> dict[Path, Path | None]:
    """Return, for mpicc and mpirun beside a launcher, those of its MPI: the plain name may be another MPI's.

    ``None``: only that of another MPI is there; a name that nobody has there is left out.
    """
    found: dict[Path, Path | None] = {}
    for name, other in (("mpicc", "mpicc"), ("mpirun", mpiexec.name)):
        plain, *others = map(mpiexec.with_name, (name, f"{name}.{family}", other))
        there = [path for path in (plain, *others) if path.exists()]
        own = (path for path in there if not any(word in path.resolve().name for word in _OF_OTHERS[family]))
        found |= {plain: next(own, None)} if there else {}
    return found


_OF_OTHERS = {"openmpi": ("mpich", "hydra"), "mpich": ("openmpi", "opal_wrapper", "orterun", "prterun")}
"""Parts of the names of the programs to which mpicc and mpirun of other families are links."""


def _path(programs: Iterable[Path], path: str) -> str:
    """Return the PATH on which these programs are found, as a shell writes it; empty if they are found now."""
    hidden = [program for program in programs if not _is_first(program, path)]
    own = str(Path(sys.executable).parent)
    # volley's own folder comes last: it may hold the mpirun of a wheel, which would hide that of a module.
    last = "" if own in path.split(os.pathsep) else quote(f":{own}")
    return _before("PATH", dict.fromkeys(program.parent for program in hidden)) + last if hidden or last else ""


def _is_first(program: Path, path: str) -> bool:
    found = shutil.which(program.name, path=path)
    return found is not None and Path(found).parent.samefile(program.parent)


def _variables(stack: Stack, nvcc: Path | None, path: str) -> Iterator[tuple[str, str]]:
    """Yield variables with their values as a POSIX shell writes them."""
    if path:
        yield "PATH", path
    if stack.mpiexec:
        spec = LaunchSpec((), ranks=1, root=os.geteuid() == 0)
        yield from ((name, quote(value)) for name, value in LAUNCHERS[stack.family].environment(spec).items())
    if stack.mca:  # the UCX with CUDA takes the place of that of the wheel
        yield "LD_LIBRARY_PATH", _before("LD_LIBRARY_PATH", [Path(cuda_ucx()[0]).parent])
        yield from ((f"OMPI_MCA_{name}", quote(value)) for name, value in stack.mca.items())
    libraries = nvcc.parent.parent / "lib" if nvcc else Path()
    if (libraries / "libcudart_static.a").exists() and not libraries.with_name("lib64").exists():
        # nvcc 13.0 and 13.1 look for the CUDA runtime in lib64, which the wheels do not have.
        yield "LIBRARY_PATH", _before("LIBRARY_PATH", [libraries])


def _before(name: str, folders: Collection[Path]) -> str:
    """Return the value of a list of folders that begins with these and keeps its others."""
    first = quote(":".join(map(str, folders)))
    return f'{first}"${{{name}:+:${name}}}"' if folders else f'"${name}"'


def _nvcc(environment: Mapping[str, str]) -> Path | None:
    """Return the CUDA compiler: that which the user names, the first on PATH, or a wheel's.

    A link is followed: nvcc looks for its files beside the path by which it is called.
    """
    homes = (environment.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    named = [environment.get("CUDACXX"), "nvcc", *(f"{home}/bin/nvcc" for home in homes if home)]
    search = environment.get("PATH", os.defpath)
    found = next((path for name in named if name and (path := shutil.which(name, path=search))), None)
    found = found or installed_file("nvidia-cuda-nvcc", "/bin/nvcc")
    return Path(found).resolve() if found else None
