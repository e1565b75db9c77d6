/* The loop of OLCF's ping-pong tutorial (its CPU version): 5 exchanges to warm up, one clock pair around 50 exchanges,
 * one buffer that goes both ways, MPI_DOUBLE, allocated afresh for each size and filled with random values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Prints the tutorial's line and a JSON line for each size.  `loop_s` is the time of all exchanges, the untimed ones
 * included, but neither the allocation nor the filling.  malloc starts a block 16 bytes behind a page or anywhere, which
 * costs a copy of 64 KiB about 5 % against one that starts on a page: --aligned takes that out of a comparison. */
#include "peer.h"

enum { TAG_THERE = 10, TAG_BACK = 20 };

static void exchange(double *a, int n, const peer_t *peer, int times) {
    MPI_Status status;
    for (int i = 1; i <= times; i++) {
        if (peer->rank == 0) {
            MPI_Send(a, n, MPI_DOUBLE, 1, TAG_THERE, MPI_COMM_WORLD);
            MPI_Recv(a, n, MPI_DOUBLE, 1, TAG_BACK, MPI_COMM_WORLD, &status);
        } else {
            MPI_Recv(a, n, MPI_DOUBLE, 0, TAG_THERE, MPI_COMM_WORLD, &status);
            MPI_Send(a, n, MPI_DOUBLE, 0, TAG_BACK, MPI_COMM_WORLD);
        }
    }
}

static void report(long size, double elapsed, double loop, int iterations) {
    const double half = elapsed / (2.0 * iterations);
    printf("Transfer size (B): %10li, Transfer Time (s): %15.9f, Bandwidth (GB/s): %15.9f\n", size, half,
           (double)size / (1 << 30) / half);
    printf("{\"record\":\"pingpong\",\"size_bytes\":%ld,\"half_round_trip_s\":%.12g,\"loop_s\":%.9g}\n", size, half, loop);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const peer_t peer = peer_begin("tutorial", argc, argv);
    const int warmup = peer.warmup < 0 ? 5 : peer.warmup;
    const int iterations = peer.iterations < 0 ? 50 : peer.iterations;

    for (int index = 0; index < peer.size_count; index++) {
        const int size = peer_size("tutorial", &peer, index);
        const int n = size / (int)sizeof(double);
        double *a = peer.aligned ? (double *)peer_buffer("tutorial", (size_t)size, 0) : malloc((size_t)size);
        if (!a) peer_stop("tutorial", "not enough memory");
        for (int i = 0; i < n; i++) a[i] = (double)rand() / (double)RAND_MAX;

        const double begin = MPI_Wtime();
        exchange(a, n, &peer, warmup);
        const double start = MPI_Wtime();
        exchange(a, n, &peer, iterations);
        const double stop = MPI_Wtime();

        if (peer.rank == 0) report(size, stop - start, stop - begin, iterations);
        free(a);
    }
    MPI_Finalize();
    return 0;
}
