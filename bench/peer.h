/* What the comparison programs share: their options, the check for two ranks, and the line that says where they ran.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every program takes `[--warmup N] [--iterations N] [--each] [--bi] [--aligned] SIZE...`, sizes in bytes, and prints JSON Lines:
 * one "peer" line with the placement, then one line for each size.  bench/run.py reads the lines that start with `{`.
 * None of them verifies anything: they stand for the loops that people measure with today, and nothing else. */
#ifndef VOLLEY_BENCH_PEER_H
#define VOLLEY_BENCH_PEER_H

#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int rank;
    int peer;
    int warmup;     /* untimed iterations; -1: the program's own choice by size */
    int iterations; /* timed iterations; -1: the program's own choice by size */
    int each;       /* print every iteration's time too */
    int bi;         /* both directions at once */
    int aligned;    /* buffers start on a page, whatever malloc would do */
    int size_count;
    char **sizes;
} peer_t;

static inline void peer_stop(const char *program, const char *problem) {
    fprintf(stderr, "%s: %s\n", program, problem);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

/* The logical CPUs this process may run on, as a JSON array. */
static inline void peer_cores(char *text, size_t room) {
    cpu_set_t set;
    size_t used = 1;
    strcpy(text, "[");
    if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_ZERO(&set);
    for (int cpu = 0; cpu < CPU_SETSIZE && used + 8 < room; cpu++)
        if (CPU_ISSET(cpu, &set)) used += (size_t)snprintf(text + used, room - used, used > 1 ? ",%d" : "%d", cpu);
    strcat(text, "]");
}

/* Rank 0 prints where both ranks run, so that the driver can refuse to compare programs that were placed differently. */
static inline void peer_announce(const char *program, const peer_t *peer) {
    enum { ROOM = 4096 };
    char mine[ROOM], both[2][ROOM];
    memset(mine, 0, sizeof mine);
    peer_cores(mine, sizeof mine);
    MPI_Gather(mine, ROOM, MPI_CHAR, both, ROOM, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (peer->rank == 0) printf("{\"record\":\"peer\",\"program\":\"%s\",\"cores\":[%s,%s]}\n", program, both[0], both[1]);
}

static inline int peer_number(const char *program, const char *text) {
    char *end;
    long value = text ? strtol(text, &end, 10) : -1;
    if (!text || *end || value < 0 || value > 1000000000) peer_stop(program, "--warmup and --iterations take a number");
    return (int)value;
}

static inline peer_t peer_begin(const char *program, int argc, char **argv) {
    int ranks, i = 1;
    peer_t peer = {.warmup = -1, .iterations = -1};
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
    if (ranks != 2) peer_stop(program, "start it with exactly two ranks");
    peer.peer = 1 - peer.rank;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--each") == 0) peer.each = 1;
        else if (strcmp(argv[i], "--bi") == 0) peer.bi = 1;
        else if (strcmp(argv[i], "--aligned") == 0) peer.aligned = 1;
        else if (strcmp(argv[i], "--warmup") == 0) peer.warmup = peer_number(program, argv[++i]);
        else if (strcmp(argv[i], "--iterations") == 0) peer.iterations = peer_number(program, argv[++i]);
        else peer_stop(program, "options are --warmup N, --iterations N, --each, --bi and --aligned");
    }
    peer.sizes = argv + i;
    peer.size_count = argc - i;
    peer_announce(program, &peer);
    return peer;
}

/* MPI counts are int: a size is refused where it would not fit. */
static inline int peer_size(const char *program, const peer_t *peer, int index) {
    char *end;
    long size = strtol(peer->sizes[index], &end, 10);
    if (*end || size < 8 || size % 8 || size > 2147483640L) peer_stop(program, "sizes are multiples of 8 B, up to 2147483640");
    return (int)size;
}

/* Memory that exists (every page written) and starts on a page, as in OSU's benchmarks. */
static inline char *peer_buffer(const char *program, size_t size, char fill) {
    size_t pages = (size + 4095) / 4096 * 4096;
    char *buffer = aligned_alloc(4096, pages);
    if (!buffer) peer_stop(program, "not enough memory");
    memset(buffer, fill, pages);
    return buffer;
}

#endif
