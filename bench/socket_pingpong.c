/* A ping-pong of 8 bytes between two polling TCP sockets, without MPI: what a wire and this machine's TCP alone take.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   socket_pingpong EXCHANGES [ADDRESS]
 *
 * waits for a peer, or connects to the one at ADDRESS and prints the median half round trip in seconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 20111, MOST = 10000, ATTEMPTS = 100, BETWEEN_US = 50000 };

static void stop(const char *what) {
    perror(what);
    exit(1);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void send_message(int peer, const char *message, size_t length) {
    if (send(peer, message, length, MSG_NOSIGNAL) != (ssize_t)length) stop("send");
}

/* Polls, as the ranks of an MPI program do. */
static void receive(int peer, char *message, size_t length) {
    for (size_t have = 0; have < length;) {
        const ssize_t got = recv(peer, message + have, length - have, MSG_DONTWAIT);
        if (got == 0) stop("the peer is gone");
        if (got > 0) have += (size_t)got;
    }
}

static int accepted(struct sockaddr_in address) {
    const int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) stop("SO_REUSEADDR");
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0) stop("bind");
    return accept(listener, NULL, NULL);
}

static int connected(struct sockaddr_in address) {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) { /* the peer may not listen yet */
        const int peer = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(peer, (struct sockaddr *)&address, sizeof address) == 0) return peer;
        close(peer);
        usleep(BETWEEN_US);
    }
    return -1;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    const int count = argc > 1 ? atoi(argv[1]) : 0, leads = argc > 2, on = 1;
    if (count < 1 || count > MOST || (leads && inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)) return 2;
    const int peer = leads ? connected(address) : accepted(address);
    if (peer < 0 || setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) stop("the connection");
    static double times[MOST];
    char message[8] = "volley";
    for (int i = 0; i < count; i++) {
        const double start = now_s();
        if (leads) send_message(peer, message, sizeof message);
        receive(peer, message, sizeof message);
        if (!leads) send_message(peer, message, sizeof message);
        times[i] = (now_s() - start) / 2;
    }
    qsort(times, (size_t)count, sizeof *times, compare);
    if (leads) printf("%.9g\n", times[count / 2]);
    return 0;
}
