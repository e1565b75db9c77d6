/* A ping-pong that reads the clock in every iteration, which is the method of osu_latency (OSU Micro-Benchmarks 7).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The method, in words: separate send and receive buffers of bytes, made once; a barrier before each size; the first
 * rank reads the clock before each send and after each receive, adds the difference up, and reports half its mean.  The
 * first iterations are not counted.  As there: 100 + 10000 iterations up to 8 KiB, 10 + 1000 above, unless asked.
 * With --each the time of every iteration is printed, from which the driver works out how well 50 of them settle a
 * number. */
#include "peer.h"

enum { TAG = 1, LARGE_BYTES = 8192 };

/* Seconds of each counted iteration are left in `times` on the first rank. */
static void measure(const peer_t *peer, char *out, char *in, int size, int warmup, int iterations, double *times) {
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < warmup + iterations; i++) {
        if (peer->rank == 0) {
            const double start = MPI_Wtime();
            MPI_Send(out, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(in, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            const double stop = MPI_Wtime();
            if (i >= warmup) times[i - warmup] = stop - start;
        } else {
            MPI_Recv(in, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
        }
    }
}

static void report(int size, const double *times, int iterations, int each) {
    double total = 0;
    for (int i = 0; i < iterations; i++) total += times[i];
    printf("{\"record\":\"pingpong\",\"size_bytes\":%d,\"half_round_trip_s\":%.12g", size, total / (2.0 * iterations));
    if (each) {
        printf(",\"each_half_round_trip_s\":[");
        for (int i = 0; i < iterations; i++) printf(i ? ",%.9g" : "%.9g", times[i] / 2);
        printf("]");
    }
    printf("}\n");
    fflush(stdout);
}

int main(int argc, char **argv) {
    const peer_t peer = peer_begin("peer_latency", argc, argv);
    int largest = 8;
    for (int index = 0; index < peer.size_count; index++) {
        const int size = peer_size("peer_latency", &peer, index);
        if (size > largest) largest = size;
    }
    char *out = peer_buffer("peer_latency", (size_t)largest, 'a');
    char *in = peer_buffer("peer_latency", (size_t)largest, 'b');

    for (int index = 0; index < peer.size_count; index++) {
        const int size = peer_size("peer_latency", &peer, index);
        const int large = size > LARGE_BYTES;
        const int warmup = peer.warmup >= 0 ? peer.warmup : large ? 10 : 100;
        const int iterations = peer.iterations >= 0 ? peer.iterations : large ? 1000 : 10000;
        double *times = (double *)peer_buffer("peer_latency", sizeof(double) * (size_t)(iterations + 1), 0);
        measure(&peer, out, in, size, warmup, iterations, times);
        if (peer.rank == 0) report(size, times, iterations, peer.each);
        free(times);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
