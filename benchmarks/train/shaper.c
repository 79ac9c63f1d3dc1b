/* Let each pretended node send at no more than a given rate: preloaded, it stands before send and sendmsg of TCP sockets.
 *
 * SHAPER_FILE            a file of 64 bytes for each node, shared by all ranks: when its link is free again, in ns
 * SHAPER_GBPS            Gb/s per direction of each node
 * SHAPER_RANKS_PER_NODE  LOCAL_RANK divided by it is the node
 *
 * A sender that comes too early gets EAGAIN if it does not want to wait, as of a full socket, else it sleeps.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST (256 << 10)       /* bytes at once, so that streams take turns */
#define BURST_NS 1000000       /* what an idle link may send at once: 1 ms */
#define STRIDE 8               /* int64 of one node: a cache line */
#define NODES 64

static _Atomic int64_t *slot;
static double ns_per_byte;
static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("SHAPER_FILE"), *gbps = getenv("SHAPER_GBPS");
    const char *per_node = getenv("SHAPER_RANKS_PER_NODE"), *rank = getenv("LOCAL_RANK");
    real_send = dlsym(RTLD_NEXT, "send");
    real_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
    if (!path || !gbps || !per_node || !rank || atof(gbps) <= 0 || atoi(per_node) <= 0) return;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (ftruncate(file, NODES * STRIDE * 8) == 0) {
        void *shared = mmap(NULL, NODES * STRIDE * 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED) slot = (_Atomic int64_t *)shared + (atoi(rank) / atoi(per_node) % NODES) * STRIDE;
    }
    close(file);
    ns_per_byte = 8.0 / atof(gbps);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int tcp(int fd) {
    int kind = 0, family = 0;
    socklen_t size = sizeof kind;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) || kind != SOCK_STREAM) return 0;
    size = sizeof family;
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) && (family == AF_INET || family == AF_INET6);
}

/* Take the link for n bytes; 0, or -1 with EAGAIN. */
static int take(int fd, size_t n, int flags) {
    int waits = !(flags & MSG_DONTWAIT) && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
    for (;;) {
        int64_t at = now(), free_at = atomic_load(slot), from = free_at < at - BURST_NS ? at - BURST_NS : free_at;
        if (from <= at) {
            if (atomic_compare_exchange_weak(slot, &free_at, from + (int64_t)(n * ns_per_byte))) return 0;
        } else if (waits) {
            struct timespec t = {(from - at) / 1000000000, (from - at) % 1000000000};
            nanosleep(&t, NULL);
        } else {
            errno = EAGAIN;
            return -1;
        }
    }
}

/* What was taken and not sent goes back. */
static void give_back(size_t n, ssize_t sent) {
    size_t rest = n - (sent > 0 ? (size_t)sent : 0);
    if (rest) {
        int saved = errno;
        atomic_fetch_sub(slot, (int64_t)(rest * ns_per_byte));
        errno = saved;
    }
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    if (!slot || size < 4096 || !tcp(fd)) return real_send(fd, data, size, flags);
    int waits = !(flags & MSG_DONTWAIT) && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
    size_t done = 0;
    do {
        size_t n = size - done > MOST ? MOST : size - done;
        if (take(fd, n, flags)) return done ? (ssize_t)done : -1;
        ssize_t sent = real_send(fd, (const char *)data + done, n, flags);
        give_back(n, sent);
        if (sent < 0) return done ? (ssize_t)done : -1;
        done += (size_t)sent;
        if ((size_t)sent < n) break;
    } while (waits && done < size); /* who waits expects all of it */
    return (ssize_t)done;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    size_t n = 0;
    for (size_t i = 0; i < (size_t)message->msg_iovlen; i++) n += message->msg_iov[i].iov_len;
    if (!slot || n < 4096 || !tcp(fd)) return real_sendmsg(fd, message, flags);
    if (take(fd, n, flags)) return -1;
    ssize_t sent = real_sendmsg(fd, message, flags);
    give_back(n, sent);
    return sent;
}
