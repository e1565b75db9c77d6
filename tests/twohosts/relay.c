/* A wire of known delay and rate between two network namespaces: the known truth that volley is tested against.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   relay PID_A ADDRESS_A PID_B ADDRESS_B DELAY_NS RATE_BPS
 *
 * makes a point-to-point TUN device `link0` in the network namespace of each process, prints "ready", and carries IP
 * packets from one to the other until it is killed.  One thread a direction, so the wire is full duplex.
 *
 * The rule, from which the tests derive what volley must report: a packet of n bytes (its IP header included) holds the
 * wire for (n + 38) * 8 / RATE_BPS seconds, packets of one direction one after another, and is handed over DELAY_NS
 * after its last bit.  38 bytes is what Ethernet adds to a packet: preamble and start 8, header 14, check sequence 4,
 * gap between frames 12 (IEEE 802.3), so that RATE_BPS = 10^9 is gigabit Ethernet.  RATE_BPS = 0 is an infinite rate.
 *
 * As with a network card, the sender's TCP may hand over many segments at once (TSO), which are charged one by one, each
 * with its own headers, and reach the receiver together after the last bit of the last (LRO).  Without that, 80000
 * packets a second at 10^9 bit/s keep one processor busy, and the ranks need it.  A message of one segment is as exact
 * as ever.  Nothing is dropped: the window of TCP bounds what is on the wire. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MTU = 1500, FRAMING_BYTES = 38, LONGEST = 65536 + 64, AWAKE_NS = 50000 };

typedef struct packet {
    struct packet *next;
    int64_t release_ns;
    size_t length; /* of what TUN gave: a virtio_net_hdr, then the packet */
    unsigned char bytes[];
} packet_t;

typedef struct {
    int from, to;
    pid_t sender; /* a process of the sending host */
    int64_t delay_ns, rate_bps;
    int64_t wire_free_ns; /* when the last bit of the newest packet has left */
    packet_t *oldest, *newest;
} direction_t;

static void stop(const char *what) {
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ------------------------------------------------------------------------------------------------- setting it up */

static void enter_namespace(const char *pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) stop(path);
    close(fd);
}

static void set_tcp(const char *name, const char *value) {
    char path[64];
    snprintf(path, sizeof path, "/proc/sys/net/ipv4/%s", name);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, value, strlen(value)) != (ssize_t)strlen(value)) stop(path);
    close(fd);
}

static void tune_tcp(void) {
    /* A known algorithm, without a pace of its own: BBR, the default of some machines, probes below the wire's rate. */
    set_tcp("tcp_congestion_control", "reno");
    /* Buffers for what is on the wire: 10^9 bit/s for 40 ms there and back are 5 MB. */
    set_tcp("tcp_wmem", "4096 131072 33554432");
    set_tcp("tcp_rmem", "4096 131072 33554432");
}

static void set_address(int socket_fd, unsigned long request, const char *device, const char *address) {
    struct ifreq settings = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&settings.ifr_addr;
    snprintf(settings.ifr_name, IFNAMSIZ, "%s", device);
    in->sin_family = AF_INET;
    errno = EINVAL;
    if (inet_pton(AF_INET, address, &in->sin_addr) != 1 || ioctl(socket_fd, request, &settings) != 0) stop(address);
}

static void bring_up(int socket_fd, const char *device) {
    struct ifreq settings = {0};
    snprintf(settings.ifr_name, IFNAMSIZ, "%s", device);
    if (ioctl(socket_fd, SIOCGIFFLAGS, &settings) != 0) stop(device);
    settings.ifr_flags |= IFF_UP | IFF_RUNNING;
    if (ioctl(socket_fd, SIOCSIFFLAGS, &settings) != 0) stop(device);
}

/* The TUN device of one namespace, with its address, ready to carry packets. */
static int make_end(const char *pid, const char *address, const char *peer_address) {
    struct ifreq settings = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(settings.ifr_name, IFNAMSIZ, "link0");
    enter_namespace(pid);
    tune_tcp();
    const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0 || ioctl(tun, TUNSETIFF, &settings) != 0) stop("/dev/net/tun");
    if (ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) stop("segmentation offload");
    const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (control < 0) stop("socket");
    settings.ifr_mtu = MTU;
    if (ioctl(control, SIOCSIFMTU, &settings) != 0) stop("MTU");
    set_address(control, SIOCSIFADDR, "link0", address);
    set_address(control, SIOCSIFDSTADDR, "link0", peer_address);
    bring_up(control, "link0");
    bring_up(control, "lo");
    close(control);
    return tun;
}

/* ---------------------------------------------------------------------------------------------------- carrying */

/* Bytes for which a packet holds the wire: all of its segments, each with its own headers and framing. */
static int64_t wire_bytes(const unsigned char *bytes, size_t length) {
    struct virtio_net_hdr offload;
    memcpy(&offload, bytes, sizeof offload);
    const unsigned char *ip = bytes + sizeof offload;
    const int64_t whole = (int64_t)(length - sizeof offload);
    if (offload.gso_type == VIRTIO_NET_HDR_GSO_NONE) return whole + FRAMING_BYTES;
    const int64_t ip_header = (ip[0] & 15) * 4; /* both header lengths are counted in words of 4 bytes */
    const int64_t headers = ip_header + (ip[ip_header + 12] >> 4) * 4;
    const int64_t payload = whole - headers;
    const int64_t segments = (payload + offload.gso_size - 1) / offload.gso_size;
    return payload + segments * (headers + FRAMING_BYTES);
}

/* Takes one packet off the sender's device and works out when it arrives; false when there is none. */
static int take(direction_t *d, unsigned char *scratch) {
    const ssize_t length = read(d->from, scratch, LONGEST);
    if (length <= (ssize_t)sizeof(struct virtio_net_hdr)) return 0;
    const int64_t now = now_ns();
    const int64_t start = now > d->wire_free_ns ? now : d->wire_free_ns;
    const int64_t bits = wire_bytes(scratch, (size_t)length) * 8;
    d->wire_free_ns = start + (d->rate_bps ? bits * INT64_C(1000000000) / d->rate_bps : 0);
    packet_t *packet = malloc(sizeof *packet + (size_t)length);
    if (!packet) stop("queue");
    *packet = (packet_t){.release_ns = d->wire_free_ns + d->delay_ns, .length = (size_t)length};
    memcpy(packet->bytes, scratch, (size_t)length);
    if (d->oldest) d->newest->next = packet;
    else d->oldest = packet;
    d->newest = packet;
    return 1;
}

/* Hands over the oldest packet if it is due. */
static int hand_over(direction_t *d) {
    packet_t *packet = d->oldest;
    if (!packet || packet->release_ns > now_ns()) return 0;
    /* A device that was taken away (its namespace is ending) is no reason to stop carrying the rest. */
    if (write(d->to, packet->bytes, packet->length) < 0 && errno != EIO && errno != EINVAL) stop("write");
    d->oldest = packet->next;
    free(packet);
    return 1;
}

/* Waits for a packet to come or to be due, awake for the last moment: waking up takes longer than the error allowed. */
static void wait_for_something(const direction_t *d) {
    struct pollfd readable = {.fd = d->from, .events = POLLIN};
    if (!d->oldest) {
        poll(&readable, 1, -1);
        return;
    }
    const int64_t wait = d->oldest->release_ns - now_ns() - AWAKE_NS;
    if (wait <= 0) return;
    const struct timespec timeout = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
    ppoll(&readable, 1, &timeout, NULL);
}

/* Polling ranks would otherwise keep the wire waiting for a processor; where this is not allowed, be as quick as can be. */
static void run_promptly(pid_t sender) {
    const struct sched_param priority = {.sched_priority = 1};
    cpu_set_t cores;
    /* On the sender's processor: what it sends wakes the wire up without a message from one processor to another. */
    if (sched_getaffinity(sender, sizeof cores, &cores) != 0 || sched_setaffinity(0, sizeof cores, &cores) != 0)
        stop("affinity");
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) != 0 && nice(-20) == -1)
        fprintf(stderr, "relay: no real-time priority here; delays may be longer than asked\n");
}

static void *carry(void *argument) {
    direction_t *d = argument;
    unsigned char scratch[LONGEST];
    run_promptly(d->sender);
    for (;;) {
        const int taken = take(d, scratch);
        const int given = hand_over(d);
        if (!taken && !given) wait_for_something(d);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: relay PID_A ADDRESS_A PID_B ADDRESS_B DELAY_NS RATE_BPS\n");
        return 2;
    }
    const int a = make_end(argv[1], argv[2], argv[4]);
    const int b = make_end(argv[3], argv[4], argv[2]);
    static direction_t directions[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        directions[i] = (direction_t){.from = i ? b : a, .to = i ? a : b, .sender = atoi(argv[i ? 3 : 1])};
        directions[i].delay_ns = atoll(argv[5]);
        directions[i].rate_bps = atoll(argv[6]);
        if (pthread_create(&threads[i], NULL, carry, &directions[i]) != 0) stop("start");
    }
    printf("ready\n");
    fflush(stdout);
    pthread_join(threads[0], NULL);
    return 0;
}
