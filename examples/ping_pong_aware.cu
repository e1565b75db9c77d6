// A ping-pong between two GPUs with CUDA-aware MPI, after OLCF's tutorial; docs/tutorial.md explains it.
// SPDX-License-Identifier: Apache-2.0
//
//     nvcc -ccbin mpicxx -O2 -o ping_pong_aware ping_pong_aware.cu
//     mpirun -n 2 ./ping_pong_aware [--gpu-after-init] [LARGEST_BYTES]
//
// The GPU is chosen before MPI_Init; with --gpu-after-init behind it, as in the tutorial. It matters: the library sends
// messages of about 4 KiB in another way then (docs/evidence/gpu-before-mpi-init.md).
#include <cuda_runtime.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

constexpr int tag = 10, warmup = 5, timed = 50;

static void fail(const char *reason) {
  std::fprintf(stderr, "ping_pong_aware: %s\n", reason);
  std::exit(1);  // the launcher ends the other rank
}

static void check(cudaError_t error) {
  if (error != cudaSuccess) fail(cudaGetErrorString(error));
}

// What the launcher (Open MPI's, MPICH's, Slurm's) calls this process on its node: all that is known before MPI_Init.
static int local_rank() {
  for (const char *name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char *number = std::getenv(name)) return std::atoi(number);
  fail("the launcher does not say the local rank: use --gpu-after-init");
  return 0;
}

static void choose_gpu(int number) {
  int gpus;
  check(cudaGetDeviceCount(&gpus));
  check(cudaSetDevice(number % gpus));
  check(cudaFree(nullptr));  // CUDA before 12 creates the GPU's context at the first call that needs it: this one
}

// The program for host memory, word for word: CUDA-aware MPI takes pointers to GPU memory.
static void exchange(void *device, int bytes, int rank, int times) {
  for (int i = 0; i < times; i++) {
    if (rank == 0) {
      MPI_Send(device, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
      MPI_Recv(device, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(device, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(device, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
    }
  }
}

int main(int argc, char **argv) {
  const bool after = argc > 1 && std::strcmp(argv[1], "--gpu-after-init") == 0;
  if (!after) choose_gpu(local_rank());
  int ranks, rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (ranks != 2) fail("start it with exactly 2 ranks: mpirun -n 2");
  const char *last = argc > 1 + after ? argv[1 + after] : "1073741824";
  const long largest = std::strtol(last, nullptr, 10);
  if (largest < 8 || largest > 1L << 30) fail("LARGEST_BYTES is a number from 8 to 1073741824");
  if (after) choose_gpu(rank);

  for (long bytes = 8; bytes <= largest; bytes *= 2) {
    void *device;
    check(cudaMalloc(&device, bytes));
    check(cudaMemset(device, rank, bytes));
    check(cudaDeviceSynchronize());  // MPI does not wait for what CUDA still does

    exchange(device, static_cast<int>(bytes), rank, warmup);
    const double start = MPI_Wtime();
    exchange(device, static_cast<int>(bytes), rank, timed);
    const double seconds = (MPI_Wtime() - start) / (2.0 * timed);

    if (rank == 0)
      std::printf("Transfer size (B): %10ld, Transfer Time (s): %15.9f, Bandwidth (GB/s): %15.9f\n", bytes, seconds,
                  static_cast<double>(bytes) / (1L << 30) / seconds);
    std::fflush(stdout);
    check(cudaFree(device));
  }
  MPI_Finalize();
}
