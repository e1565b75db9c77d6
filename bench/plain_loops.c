/* Plain loops over two buffers: what somebody who wants volley's number writes by hand.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A send and a receive buffer, made once and written once.  For each size: a batch of exchanges long enough for the
 * clock (at least 1 ms, found by doubling), then samples of such batches back to back for 0.2 s and at least 11 of
 * them; the median is reported.  Between samples there is only the clock: no buffer is written or compared. */
#include "peer.h"

enum { TAG = 1, MIN_SAMPLES = 11, MAX_SAMPLES = 1000 };
static const double SAMPLE_S = 1e-3, SIZE_S = 0.2;

static double batch(const peer_t *peer, char *out, char *in, int size, int exchanges) {
    const double start = MPI_Wtime();
    for (int i = 0; i < exchanges; i++) {
        if (peer->rank == 0) {
            MPI_Send(out, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(in, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
    return MPI_Wtime() - start;
}

/* The second rank does what the first decides. */
static int decided(int value) {
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    const peer_t peer = peer_begin("plain_loops", argc, argv);
    int largest = 8;
    for (int index = 0; index < peer.size_count; index++) {
        const int size = peer_size("plain_loops", &peer, index);
        if (size > largest) largest = size;
    }
    char *out = peer_buffer("plain_loops", (size_t)largest, 'a');
    char *in = peer_buffer("plain_loops", (size_t)largest, 'b');

    for (int index = 0; index < peer.size_count; index++) {
        const int size = peer_size("plain_loops", &peer, index);
        double times[MAX_SAMPLES], total = 0;
        int exchanges = 1, samples = 0;
        batch(&peer, out, in, size, 2);
        while (decided(batch(&peer, out, in, size, exchanges) < SAMPLE_S)) exchanges *= 2;
        do {
            times[samples] = batch(&peer, out, in, size, exchanges);
            total += times[samples++];
        } while (decided(samples < MAX_SAMPLES && (samples < MIN_SAMPLES || total < SIZE_S)));
        qsort(times, (size_t)samples, sizeof *times, compare);
        const double median = (times[(samples - 1) / 2] + times[samples / 2]) / 2;
        if (peer.rank == 0)
            printf("{\"record\":\"pingpong\",\"size_bytes\":%d,\"half_round_trip_s\":%.12g,\"exchanges\":%d}\n", size,
                   median / (2.0 * exchanges), exchanges);
        fflush(stdout);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
