"""``volley env``: what a shell needs to compile and start one's own programs with the MPI that volley uses."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from volley.command.commandline import Options, group
from volley.command.options import JobOptions
from volley.errors import EXIT_GOOD
from volley.launch import engine_path
from volley.launch.engine import ask_about
from volley.launch.launchers import LAUNCHERS, LaunchSpec
from volley.machine.mpi_choice import choose_mpi, installed_file
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
    # The semicolons: "eval $(volley env)" without quotes joins the lines.
    sys.stdout.writelines(f"export {name}={value};\n" for name, value in _variables(stack, nvcc))
    if nvcc is None and has_driver():
        print(f"volley: there is no nvcc; one comes with: {install_command('nvcc')}", file=sys.stderr)
    return EXIT_GOOD


def _variables(stack: Stack, nvcc: Path | None) -> Iterator[tuple[str, str]]:
    """Yield variables with their values as a POSIX shell writes them."""
    programs = dict.fromkeys(path.parent for path in (stack.mpiexec, nvcc) if path)
    # volley's own folder comes last: it may hold the mpirun of a wheel, which would hide that of a module.
    yield "PATH", _before("PATH", programs) + quote(f":{Path(sys.executable).parent}")
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


def _before(name: str, folders: Iterable[Path]) -> str:
    """Return the value of a list of folders that begins with these and keeps its others."""
    first = quote(":".join(map(str, folders)))
    return f'{first}"${{{name}:+:${name}}}"'


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
