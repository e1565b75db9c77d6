/* A windowed flood with one clock pair around all windows: the method of osu_bw, and with --bi that of osu_bibw.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The method, in words: the sender starts 64 sends from one buffer and waits for all; the receiver has started 64
 * receives into one buffer, waits for all, and answers with 4 bytes; that is one window.  With --bi both ranks start 64
 * receives and 64 sends, and nobody answers.  As there: 10 + 100 windows up to 8 KiB, 2 + 20 above, unless asked.
 * `window_s` is the first rank's mean time of a window; the bandwidth is 64 messages over it, twice that with --bi. */
#include "peer.h"

enum { WINDOW = 64, ACK_BYTES = 4, TAG_DATA = 100, TAG_ACK = 101, LARGE_BYTES = 8192 };

static void window_uni(const peer_t *peer, char *out, char *in, int size) {
    MPI_Request requests[WINDOW];
    char ack[ACK_BYTES] = {0};
    if (peer->rank == 0) {
        for (int j = 0; j < WINDOW; j++) MPI_Isend(out, size, MPI_CHAR, 1, TAG_DATA, MPI_COMM_WORLD, &requests[j]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(ack, ACK_BYTES, MPI_CHAR, 1, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        for (int j = 0; j < WINDOW; j++) MPI_Irecv(in, size, MPI_CHAR, 0, TAG_DATA, MPI_COMM_WORLD, &requests[j]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Send(ack, ACK_BYTES, MPI_CHAR, 0, TAG_ACK, MPI_COMM_WORLD);
    }
}

static void window_bi(const peer_t *peer, char *out, char *in, int size) {
    MPI_Request requests[2 * WINDOW];
    for (int j = 0; j < WINDOW; j++) MPI_Irecv(in, size, MPI_CHAR, peer->peer, TAG_DATA, MPI_COMM_WORLD, &requests[j]);
    for (int j = WINDOW; j < 2 * WINDOW; j++)
        MPI_Isend(out, size, MPI_CHAR, peer->peer, TAG_DATA, MPI_COMM_WORLD, &requests[j]);
    MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
}

static double measure(const peer_t *peer, char *out, char *in, int size, int warmup, int iterations) {
    void (*const window)(const peer_t *, char *, char *, int) = peer->bi ? window_bi : window_uni;
    double start = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < warmup + iterations; i++) {
        if (i == warmup) start = MPI_Wtime();
        window(peer, out, in, size);
    }
    return (MPI_Wtime() - start) / iterations;
}

int main(int argc, char **argv) {
    const peer_t peer = peer_begin("peer_bandwidth", argc, argv);
    for (int index = 0; index < peer.size_count; index++) {
        const int size = peer_size("peer_bandwidth", &peer, index);
        const int large = size > LARGE_BYTES;
        const int warmup = peer.warmup >= 0 ? peer.warmup : large ? 2 : 10;
        const int iterations = peer.iterations >= 0 ? peer.iterations : large ? 20 : 100;
        char *out = peer_buffer("peer_bandwidth", (size_t)size, 'a');
        char *in = peer_buffer("peer_bandwidth", (size_t)size, 'b');
        const double window_s = measure(&peer, out, in, size, warmup, iterations);
        if (peer.rank == 0) {
            printf("{\"record\":\"stream\",\"direction\":\"%s\",\"size_bytes\":%d,\"window\":%d,\"window_s\":%.12g}\n",
                   peer.bi ? "bi" : "uni", size, WINDOW, window_s);
            fflush(stdout);
        }
        free(out);
        free(in);
    }
    MPI_Finalize();
    return 0;
}
