/* A ping-pong between the host memories of two ranks, after OLCF's tutorial; docs/tutorial.md explains it.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     mpicc -O2 -o ping_pong ping_pong.c
 *     mpirun -n 2 ./ping_pong [LARGEST_BYTES] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 10, WARMUP = 5, TIMED = 50 };

/* Rank 0 sends and waits for the answer; rank 1 waits and answers. */
static void exchange(char *message, int bytes, int rank, int times) {
    for (int i = 0; i < times; i++) {
        if (rank == 0) {
            MPI_Send(message, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(message, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(message, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(message, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
}

static void fail(const char *reason) {
    fprintf(stderr, "ping_pong: %s\n", reason);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    int ranks, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (ranks != 2) fail("start it with exactly 2 ranks: mpirun -n 2");
    const long largest = argc > 1 ? strtol(argv[1], NULL, 10) : 1L << 30;
    if (largest < 8 || largest > 1L << 30) fail("LARGEST_BYTES is a number from 8 to 1073741824");

    for (long bytes = 8; bytes <= largest; bytes *= 2) {
        char *message = (char *)malloc((size_t)bytes);
        if (!message) fail("not enough memory");
        memset(message, rank, (size_t)bytes); /* writes every page before the clock runs */

        exchange(message, (int)bytes, rank, WARMUP);
        const double start = MPI_Wtime();
        exchange(message, (int)bytes, rank, TIMED);
        const double seconds = (MPI_Wtime() - start) / (2.0 * TIMED);

        if (rank == 0)
            printf("Transfer size (B): %10ld, Transfer Time (s): %15.9f, Bandwidth (GB/s): %15.9f\n", bytes, seconds,
                   (double)bytes / (1L << 30) / seconds);
        fflush(stdout);
        free(message);
    }
    MPI_Finalize();
    return 0;
}
