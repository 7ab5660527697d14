/* A job that links NCCL: `job calls N` makes communicators in all three ways, calls every function N times, and prints what was
   answered; `job allocations` counts what is allocated while it calls for longer than a second. */
#include "nccl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned long allocations;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t bytes) { return allocations++, __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return allocations++, __libc_calloc(n, bytes); }
void *realloc(void *at, size_t bytes) { return allocations++, __libc_realloc(at, bytes); }

#define P(n) ((void *)(size_t)(n))

static int every(comm_t comm, long n) {
    int sum = 0;
    sum += ncclAllReduce(P(0x1000), P(0x2000), 1u << 20, 7, 0, comm, P(0x77));
    sum += ncclReduceScatter(P(0x1001), P(-2), (size_t)-1, 9, 3, comm, P(0));
    sum += ncclAllGather(P(0), P(0), 0, -1, comm, P(-1));
    sum += ncclBroadcast(P(3), P(4), 5, 6, 2147483647, comm, P(8));
    sum += ncclBcast(P(4), 5, 6, -2147483647 - 1, comm, P(8));
    sum += ncclReduce(P(1), P(2), 3, 4, 5, 6, comm, P(9));
    sum += ncclSend(P(1), 2, 3, 4, comm, P(6));
    sum += ncclRecv(P(1), 2, 3, 5, comm, P(6));
    return sum + (int)n * 0;
}

int main(int argc, char **argv) {
    ncclUniqueId id;
    comm_t comms[3] = {0};
    const int devices[2] = {0, 1};
    for (size_t at = 0; at < sizeof id.name; at++) id.name[at] = (char)(at * 7);
    if (argc == 3 && !strcmp(argv[1], "calls")) {
        int answers[3] = {ncclCommInitRank(&comms[0], 16, id, 3), ncclCommInitRankConfig(&comms[1], 8, id, 2, P(0xc0)),
                          ncclCommInitAll(&comms[2], 2, devices)};
        printf("%d %d %d %p %p %p\n", answers[0], answers[1], answers[2], comms[0], comms[1], comms[2]);
        for (long n = 0; n < atol(argv[2]); n++) printf("%d\n", every(comms[0], n));
        return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "allocations")) {
        struct timespec from, now;
        ncclCommInitRank(&comms[0], 16, id, 3);
        unsigned long before = allocations, calls = 0;
        clock_gettime(CLOCK_MONOTONIC, &from);
        do {
            for (int n = 0; n < 1000; n++) every(comms[0], n);
            calls += 8000;
            clock_gettime(CLOCK_MONOTONIC, &now);
        } while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < 1200);
        double ns = ((double)(now.tv_sec - from.tv_sec) * 1e9 + (double)(now.tv_nsec - from.tv_nsec)) / (double)calls;
        fprintf(stderr, "%.0f ns a call\n", ns);
        printf("%lu\n", allocations - before);
        return 0;
    }
    return 2;
}
