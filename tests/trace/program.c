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

// Calls of all kinds in an order that a number decides, the same for all ranks.
static void mixed(unsigned seed) {
  enum { steps = 60, most = 20000 };
  static double out[3][most], in[3][most];
  static char buffer[1 << 22];
  MPI_Comm comms[3], grid;
  MPI_Request requests[6], barrier = MPI_REQUEST_NULL;
  MPI_Buffer_attach(buffer, sizeof buffer);
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
  MPI_Comm_split(MPI_COMM_WORLD, rank == ranks - 1, -rank, &comms[1]);
  comms[2] = MPI_COMM_WORLD;
  for (int step = 0; step < steps; ++step) {
    seed = seed * 1103515245u + 12345u;
    const unsigned dice = seed >> 16;
    MPI_Comm comm = comms[dice % 3];
    int me, n, done = 0, which = 0, indices[6], counts[64], starts[64];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    const int next = (me + 1) % n, before = (me + n - 1) % n, root = (int)(dice / 3) % n;
    const int count = dice % 5 == 0 ? most / ranks : 1 + (int)(dice / 7) % 64, tag = step % 3;
    for (int i = 0; i < n; ++i) counts[i] = i + 1, starts[i] = i * (i + 1) / 2;
    switch (dice / 64 % 22) {
      case 0: MPI_Bcast(out[0], count, MPI_DOUBLE, root, comm); break;
      case 1: MPI_Reduce(out[0], in[0], count, MPI_DOUBLE, MPI_MAX, root, comm); break;
      case 2: MPI_Scatter(out[0], count, MPI_INT, me == root ? MPI_IN_PLACE : in[0], count, MPI_INT, root, comm); break;
      case 3: MPI_Gatherv(out[0], me + 1, MPI_INT, in[0], counts, starts, MPI_INT, root, comm); break;
      case 4: MPI_Scatterv(out[0], counts, starts, MPI_INT, in[0], me + 1, MPI_INT, root, comm); break;
      case 5: MPI_Scan(out[0], in[0], count, MPI_DOUBLE, MPI_SUM, comm); break;
      case 6:
        MPI_Ialltoall(out[0], count / n + 1, MPI_INT, in[0], count / n + 1, MPI_INT, comm, &requests[0]);
        MPI_Iallreduce(out[1], in[1], count, MPI_DOUBLE, MPI_SUM, comm, &requests[1]);
        MPI_Iallgatherv(out[2], me + 1, MPI_INT, in[2], counts, starts, MPI_INT, comm, &requests[2]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        break;
      case 7:
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
        break;
      case 8:
        MPI_Ibcast(out[0], count, MPI_DOUBLE, root, comm, &requests[0]);
        while (!done) MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
        break;
      case 9:
        MPI_Bsend(out[0], count, MPI_DOUBLE, next, tag, comm);
        MPI_Recv(in[0], count, MPI_DOUBLE, before, tag, comm, MPI_STATUS_IGNORE);
        break;
      case 10:
        MPI_Irecv(in[0], count, MPI_DOUBLE, MPI_ANY_SOURCE, tag, comm, &requests[0]);
        MPI_Ssend(out[0], count, MPI_DOUBLE, next, tag, comm);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
      case 11:
        MPI_Sendrecv_replace(out[0], count, MPI_DOUBLE, next, tag, before, tag, comm, MPI_STATUS_IGNORE);
        break;
      case 12:
        for (int i = 0; i < 3; ++i) MPI_Irecv(in[i], count, MPI_DOUBLE, before, MPI_ANY_TAG, comm, &requests[i]);
        for (int i = 0; i < 3; ++i) MPI_Isend(out[i], count, MPI_DOUBLE, next, tag, comm, &requests[3 + i]);
        for (int left = 6; left > 0;) {
          MPI_Waitany(6, requests, &which, MPI_STATUS_IGNORE);
          if (--left == 2) MPI_Waitall(6, requests, MPI_STATUSES_IGNORE), left = 0;
        }
        break;
      case 13:
        MPI_Isend(out[0], count, MPI_DOUBLE, next, tag, comm, &requests[0]);
        MPI_Request_free(&requests[0]);
        MPI_Probe(before, tag, comm, MPI_STATUS_IGNORE);
        MPI_Recv(in[0], count, MPI_DOUBLE, before, tag, comm, MPI_STATUS_IGNORE);
        break;
      case 14: {
        MPI_Message message;
        MPI_Isend(out[0], count, MPI_DOUBLE, next, tag, comm, &requests[0]);
        MPI_Mprobe(MPI_ANY_SOURCE, tag, comm, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(in[0], count, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
      }
      case 15:
        MPI_Irecv(in[0], most, MPI_DOUBLE, before, tag, comm, &requests[0]);
        MPI_Isend(out[0], count, MPI_DOUBLE, next, tag, comm, &requests[1]);
        for (int left = 2; left > 0; left -= done > 0 ? done : 0)
          MPI_Testsome(2, requests, &done, indices, MPI_STATUSES_IGNORE);
        break;
      case 16: {
        int mine[64], places[64];
        for (int i = 0; i < n; ++i) mine[i] = me + 1, places[i] = i * (me + 1);
        MPI_Alltoallv(out[0], counts, starts, MPI_INT, in[0], mine, places, MPI_INT, comm);
        break;
      }
      case 17: {
        int share[64];
        for (int i = 0; i < n; ++i) share[i] = i + 1;
        MPI_Reduce_scatter(out[0], in[0], share, MPI_DOUBLE, MPI_SUM, comm);
        break;
      }
      case 18: MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, in[0], count / n + 1, MPI_INT, comm); break;
      case 19: MPI_Exscan(out[0], in[0], count, MPI_DOUBLE, MPI_SUM, comm); break;
      case 20: {
        const int side[] = {n}, around[] = {1};
        MPI_Cart_create(comm, 1, side, around, 0, &grid);
        MPI_Neighbor_allgather(out[0], 4, MPI_INT, in[0], 4, MPI_INT, grid);
        MPI_Comm_free(&grid);
        break;
      }
      default:
        MPI_Comm_dup(comm, &grid);
        MPI_Sendrecv(out[0], count, MPI_DOUBLE, next, tag, in[0], most, MPI_DOUBLE, MPI_ANY_SOURCE, tag, grid,
                     MPI_STATUS_IGNORE);
        MPI_Comm_free(&grid);
    }
  }
  MPI_Wait(&barrier, MPI_STATUS_IGNORE);
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

// A type whose size an int cannot say.
static void large(void) {
  MPI_Datatype gib, three;
  MPI_Type_contiguous(1 << 30, MPI_BYTE, &gib);
  MPI_Type_contiguous(3, gib, &three);
  MPI_Type_commit(&three);
  MPI_Send(&rank, 1, three, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
}

// Two communicators, of which each rank uses another one first.
static void idup(void) {
  int data[2] = {0};
  MPI_Comm made[2];
  MPI_Request requests[2];
  for (int i = 0; i < 2; ++i) MPI_Comm_idup(MPI_COMM_WORLD, &made[i], &requests[i]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 2; ++i) {
    const int which = rank == 0 ? i : 1 - i;
    if (rank == 0) MPI_Send(data, 1 + which, MPI_INT, 1, 0, made[which]);
    if (rank == 1) MPI_Recv(data, 2, MPI_INT, 0, 0, made[which], MPI_STATUS_IGNORE);
  }
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
  if (strcmp(mode, "mixed") == 0) mixed((unsigned)number);
  if (strcmp(mode, "late") == 0) late(number);
  if (strcmp(mode, "large") == 0) large();
  if (strcmp(mode, "idup") == 0) idup();
  MPI_Finalize();
}
