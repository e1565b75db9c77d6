// A ping-pong between two GPUs through host memory, after OLCF's tutorial; docs/tutorial.md explains it.
// SPDX-License-Identifier: Apache-2.0
//
//     nvcc -ccbin mpicxx -O2 -o ping_pong_staged ping_pong_staged.cu
//     mpirun -n 2 ./ping_pong_staged [LARGEST_BYTES]
#include <cuda_runtime.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

constexpr int tag = 10, warmup = 5, timed = 50;

static void fail(const char *reason) {
  std::fprintf(stderr, "ping_pong_staged: %s\n", reason);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(cudaError_t error) {
  if (error != cudaSuccess) fail(cudaGetErrorString(error));
}

// Without MPI's help the message makes a detour: GPU, host memory, MPI, host memory, GPU.
static void send(void *device, void *host, int bytes, int to) {
  check(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  MPI_Send(host, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

static void receive(void *device, void *host, int bytes, int from) {
  MPI_Recv(host, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

static void exchange(void *device, void *host, int bytes, int rank, int times) {
  for (int i = 0; i < times; i++) {
    if (rank == 0) {
      send(device, host, bytes, 1);
      receive(device, host, bytes, 1);
    } else {
      receive(device, host, bytes, 0);
      send(device, host, bytes, 0);
    }
  }
  check(cudaDeviceSynchronize());  // a copy from pageable memory may return before the bytes are on the GPU
}

int main(int argc, char **argv) {
  int ranks, rank, gpus;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (ranks != 2) fail("start it with exactly 2 ranks: mpirun -n 2");
  const long largest = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1L << 30;
  if (largest < 8 || largest > 1L << 30) fail("LARGEST_BYTES is a number from 8 to 1073741824");
  check(cudaGetDeviceCount(&gpus));
  check(cudaSetDevice(rank % gpus));  // right on one node; ranks of several nodes need the rank within the node

  for (long bytes = 8; bytes <= largest; bytes *= 2) {
    void *device, *host = std::malloc(bytes);
    if (!host) fail("not enough memory");
    check(cudaMalloc(&device, bytes));
    check(cudaMemset(device, rank, bytes));

    exchange(device, host, static_cast<int>(bytes), rank, warmup);
    const double start = MPI_Wtime();
    exchange(device, host, static_cast<int>(bytes), rank, timed);
    const double seconds = (MPI_Wtime() - start) / (2.0 * timed);

    if (rank == 0)
      std::printf("Transfer size (B): %10ld, Transfer Time (s): %15.9f, Bandwidth (GB/s): %15.9f\n", bytes, seconds,
                  static_cast<double>(bytes) / (1L << 30) / seconds);
    std::fflush(stdout);
    check(cudaFree(device));
    std::free(host);
  }
  MPI_Finalize();
}
