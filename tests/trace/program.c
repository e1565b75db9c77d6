// Makes MPI calls of which the test knows the numbers: program MODE [RANK].
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int rank, ranks;

static void known(void) {
  double a[64] = {0}, b[64] = {0};
  MPI_Request requests[2];
  MPI_Status statuses[2];
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (int i = 0; i < 50; ++i) {
    if (rank == 0) MPI_Send(a, 8, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(b, 8, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isend(a, 40, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(b, 40, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    MPI_Allreduce(a, b, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Comm half, copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  MPI_Barrier(half);
  MPI_Sendrecv(a, 5, MPI_INT, next, 2, b, 5, MPI_INT, before, 2, copy, MPI_STATUS_IGNORE);
  int counts[64], starts[64], theirs[64];
  for (int i = 0; i < ranks; ++i) counts[i] = i + 1, theirs[i] = rank + 1, starts[i] = 8 * i;
  MPI_Alltoallv(a, counts, starts, MPI_DOUBLE, b, theirs, starts, MPI_DOUBLE, copy);
  MPI_Allreduce(MPI_IN_PLACE, b, 4, MPI_INT, MPI_MAX, copy);
  MPI_Request persistent[2];
  MPI_Send_init(a, 4, MPI_INT, next, 3, copy, &persistent[0]);
  MPI_Recv_init(b, 4, MPI_INT, before, 3, copy, &persistent[1]);
  for (int i = 0; i < 5; ++i) {
    MPI_Startall(2, persistent);
    MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
  }
  MPI_Request_free(&persistent[0]);
  MPI_Request_free(&persistent[1]);
  MPI_Send(a, 4, MPI_BYTE, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
  int flag = 0;
  MPI_Irecv(b, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, requests);
  MPI_Test(requests, &flag, MPI_STATUS_IGNORE);
  MPI_Send(a, 1, MPI_INT, rank, 9, MPI_COMM_WORLD);
  while (!flag) MPI_Test(requests, &flag, MPI_STATUS_IGNORE);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&half);
}

static void deadlock(int victim) {
  char byte = 0;
  MPI_Request request;
  MPI_Barrier(MPI_COMM_WORLD);
  // The ranks from `victim` on: a receive that nobody sends, a wait, a barrier alone; the others compute.
  switch ((rank + ranks - victim) % ranks) {
    case 0: MPI_Recv(&byte, 1, MPI_BYTE, (rank + 1) % ranks, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE); break;
    case 1:
      MPI_Irecv(&byte, 1, MPI_BYTE, (rank + 1) % ranks, 5, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      break;
    case 2: MPI_Barrier(MPI_COMM_WORLD); break;
    default: pause();
  }
}

// A stand-in for libcuda says that this block is GPU memory.
static void device(void) {
  dlopen("libcuda.so.1", RTLD_NOW);
  char* const memory = mmap((void*)0x700000000000, 1 << 20, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  char host[64] = {0};
  usleep(20000);
  for (int i = 0; i < 10; ++i) {
    if (rank == 0) MPI_Send(memory + 64 * i, 64, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(host, 64, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Allreduce(memory, memory + 4096, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

// The rank sleeps before each step: the others wait for it.
static void late(int sleeper) {
  double a[8] = {0}, b[8] = {0};
  for (int i = 0; i < 30; ++i) {
    if (rank == sleeper) usleep(2000);
    MPI_Allreduce(a, b, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "known";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (strcmp(mode, "known") == 0) known();
  if (strcmp(mode, "deadlock") == 0) deadlock(number);
  if (strcmp(mode, "device") == 0) device();
  if (strcmp(mode, "late") == 0) late(number);
  MPI_Finalize();
}
