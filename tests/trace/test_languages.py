"""Counts of programs in Fortran, and with threads, on the MPIs of the distribution."""

import shutil
import subprocess
from pathlib import Path

import pytest

from recorded_program import unmatched, volley
from volley.records.trace_calls import resolve
from volley.records.trace_file import read_trace

pytestmark = pytest.mark.slow

FORTRAN = """
program p
use {module}
{declarations}
integer :: r, n, e, i
double precision :: a(10), b(10)
call MPI_Init(e)
call MPI_Comm_rank(MPI_COMM_WORLD, r, e)
call MPI_Comm_size(MPI_COMM_WORLD, n, e)
do i = 1, 20
  call MPI_Isend(a, 10, MPI_DOUBLE_PRECISION, mod(r + 1, n), 1, MPI_COMM_WORLD, q(1), e)
  call MPI_Irecv(b, 10, MPI_DOUBLE_PRECISION, mod(r + n - 1, n), 1, MPI_COMM_WORLD, q(2), e)
  call MPI_Waitall(2, q, s, e)
  call MPI_Allreduce(MPI_IN_PLACE, a, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, e)
end do
call MPI_Finalize(e)
end program
"""
DECLARATIONS = {
    "mpi": "integer :: q(2), s(MPI_STATUS_SIZE, 2)",
    "mpi_f08": "type(MPI_Request) :: q(2)\ntype(MPI_Status) :: s(2)",
}
THREADS = """
#include <mpi.h>
#include <pthread.h>
static int rank;
static void* work(void* tag) {
  int x = 0;
  for (int i = 0; i < 100; ++i) {
    if (rank == 0) MPI_Send(&x, 1, MPI_INT, 1, *(int*)tag, MPI_COMM_WORLD);
    else MPI_Recv(&x, 1, MPI_INT, 0, *(int*)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return 0;
}
int main(void) {
  int level, tags[4] = {0, 1, 2, 3};
  pthread_t threads[4];
  MPI_Init_thread(0, 0, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], 0, work, &tags[i]);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], 0);
  MPI_Finalize();
}
"""

ONE_BY_ONE = """
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>
static void* work(void* x) {
  MPI_Send(x, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  return 0;
}
int main(void) {
  int level, x = 0;
  pthread_t thread;
  MPI_Init_thread(0, 0, MPI_THREAD_MULTIPLE, &level);
  const int before = dup(0);
  for (int i = 0; i < 100; ++i) {
    pthread_create(&thread, 0, work, &x);
    pthread_join(thread, 0);
  }
  const int more = dup(0) - before;
  MPI_Finalize();
  return more != 1;
}
"""
"""Its status says whether more files are open than before."""
UNUSED = """
#include <mpi.h>
int main(void) {
  MPI_Init(0, 0);
  int rank, other, mine = 1, theirs[2] = {0}, counts[2] = {0}, starts[2] = {0};
  MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  other = 1 - rank, counts[other] = 1, types[other] = MPI_INT;
  MPI_Alltoallw(&mine, counts, starts, types, theirs, counts, starts, types, MPI_COMM_WORLD);
  MPI_Comm groups;
  MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, other, 0, &groups);
  if (rank == 0) MPI_Gather(0, 0, MPI_DATATYPE_NULL, theirs, 1, MPI_INT, MPI_ROOT, groups);
  else MPI_Gather(&mine, 1, MPI_INT, 0, 0, MPI_DATATYPE_NULL, 0, groups);
  if (rank == 0) MPI_Scatter(&mine, 1, MPI_INT, 0, 0, MPI_DATATYPE_NULL, MPI_ROOT, groups);
  else MPI_Scatter(0, 0, MPI_DATATYPE_NULL, theirs, 1, MPI_INT, 0, groups);
  MPI_Request request[2];
  MPI_Send_init(&mine, 1, MPI_INT, other, 0, MPI_COMM_WORLD, &request[0]);
  MPI_Recv_init(theirs, 1, MPI_INT, other, 0, MPI_COMM_WORLD, &request[1]);
  MPI_Startall(2, request);
  MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 2; ++i) MPI_Request_free(&request[i]);
  MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request[0]);
  MPI_Start(&request[0]);
  MPI_Wait(&request[0], MPI_STATUS_IGNORE);
  MPI_Request_free(&request[0]);
  MPI_Finalize();
}
"""
"""Null types where MPI looks at none, which MPICH allows, and handles that come again as those of other requests."""


def recorded(tmp_path: Path, mpi: str, compiler: str, source: Path, *options: str) -> Path:
    if not shutil.which(f"{compiler}.{mpi}") or not shutil.which("gfortran"):
        pytest.skip(f"needs {compiler}.{mpi} and gfortran")
    built = subprocess.run(
        [f"{compiler}.{mpi}", source, *options, "-o", tmp_path / "p"], cwd=tmp_path, capture_output=True, check=False
    )
    if built.returncode:
        pytest.skip(f"{compiler}.{mpi} has no such module")
    trace = tmp_path / "t"
    launcher = ["mpirun.openmpi", "--oversubscribe"] if mpi == "openmpi" else ["mpiexec.mpich"]
    code, _, err = volley("record", "-o", str(trace), "--", *launcher, "-n", "2", str(tmp_path / "p"))
    assert code == 0, err
    return trace


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
@pytest.mark.parametrize("module", ["mpi", "mpi_f08"])
def test_a_program_in_fortran_is_counted(mpi: str, module: str, tmp_path: Path) -> None:
    source = tmp_path / "p.f90"
    source.write_text(FORTRAN.format(module=module, declarations=DECLARATIONS[module]))
    trace = read_trace(str(recorded(tmp_path, mpi, "mpif90", source)))
    found = trace.totals
    assert {name: found[name].calls for name in ("Isend", "Irecv", "Waitall", "Allreduce")} == dict.fromkeys(
        ("Isend", "Irecv", "Waitall", "Allreduce"), 40
    )
    assert unmatched(resolve(trace)) == 0


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_calls_of_several_threads_are_all_counted(mpi: str, tmp_path: Path) -> None:
    source = tmp_path / "p.c"
    source.write_text(THREADS)
    trace = read_trace(str(recorded(tmp_path, mpi, "mpicc", source, "-lpthread")))
    assert {name: trace.totals[name].calls for name in ("Send", "Recv")} == {"Send": 400, "Recv": 400}
    assert unmatched(resolve(trace)) == 0


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_threads_that_have_ended_leave_no_open_file(mpi: str, tmp_path: Path) -> None:
    source = tmp_path / "p.c"
    source.write_text(ONE_BY_ONE)
    assert read_trace(str(recorded(tmp_path, mpi, "mpicc", source, "-lpthread"))).totals["Send"].calls == 200


def test_types_that_mpi_does_not_look_at_may_be_null_and_a_handle_may_come_again(tmp_path: Path) -> None:
    source = tmp_path / "p.c"
    source.write_text(UNUSED)
    trace = read_trace(str(recorded(tmp_path, "mpich", "mpicc", source)))
    found = trace.totals
    assert {name: found[name].bytes for name in ("Alltoallw", "Gather", "Startall")} == {
        "Alltoallw": 8,
        "Gather": 4,
        "Startall": 16,
    }
    assert found["Start"].bytes == 0
    operations = [each for rank in resolve(trace).ranks.values() for each in rank.operations]
    assert [each.kind for each in operations if each.kind in ("send", "receive")] == ["send", "receive"] * 2
    assert unmatched(resolve(trace)) == 0
