/* A library in NCCL's place that prints every call with its arguments and answers FIRST, FIRST + 1, ...: each function another number.
   With QUIET it prints nothing. */
#include "nccl.h"
#include <stdio.h>
#ifdef QUIET
#define SAY(...) ((void)(0 && printf(__VA_ARGS__)))
#else
#define SAY(...) printf(__VA_ARGS__)
#endif
static unsigned sum(const ncclUniqueId *id) {
    unsigned sum = 0;
    for (size_t at = 0; at < sizeof id->name; at++) sum = sum * 31 + (unsigned char)id->name[at];
    return sum;
}
int ncclCommInitRank(comm_t *to, int ranks, ncclUniqueId id, int rank) {
    SAY("init %d %d %u\n", ranks, rank, sum(&id));
    *to = (comm_t)0x5151;
    return FIRST;
}
int ncclCommInitRankConfig(comm_t *to, int ranks, ncclUniqueId id, int rank, void *config) {
    SAY("config %d %d %u %p\n", ranks, rank, sum(&id), config);
    *to = (comm_t)0x5252;
    return FIRST + 1;
}
int ncclCommInitAll(comm_t *to, int devices, const int *list) {
    SAY("all %d %d %d\n", devices, list[0], list[1]);
    *to = (comm_t)0x5353;
    return FIRST + 2;
}
int ncclAllReduce(const void *a, void *b, size_t n, int type, int op, comm_t c, stream_t s) {
    SAY("allreduce %p %p %zu %d %d %p %p\n", a, b, n, type, op, c, s);
    return FIRST + 3;
}
int ncclReduceScatter(const void *a, void *b, size_t n, int type, int op, comm_t c, stream_t s) {
    SAY("reducescatter %p %p %zu %d %d %p %p\n", a, b, n, type, op, c, s);
    return FIRST + 4;
}
int ncclAllGather(const void *a, void *b, size_t n, int type, comm_t c, stream_t s) {
    SAY("allgather %p %p %zu %d %p %p\n", a, b, n, type, c, s);
    return FIRST + 5;
}
int ncclBroadcast(const void *a, void *b, size_t n, int type, int root, comm_t c, stream_t s) {
    SAY("broadcast %p %p %zu %d %d %p %p\n", a, b, n, type, root, c, s);
    return FIRST + 6;
}
int ncclBcast(void *b, size_t n, int type, int root, comm_t c, stream_t s) {
    SAY("bcast %p %zu %d %d %p %p\n", b, n, type, root, c, s);
    return FIRST + 7;
}
int ncclReduce(const void *a, void *b, size_t n, int type, int op, int root, comm_t c, stream_t s) {
    SAY("reduce %p %p %zu %d %d %d %p %p\n", a, b, n, type, op, root, c, s);
    return FIRST + 8;
}
int ncclSend(const void *a, size_t n, int type, int peer, comm_t c, stream_t s) {
    SAY("send %p %zu %d %d %p %p\n", a, n, type, peer, c, s);
    return FIRST + 9;
}
int ncclRecv(void *b, size_t n, int type, int peer, comm_t c, stream_t s) {
    SAY("recv %p %zu %d %d %p %p\n", b, n, type, peer, c, s);
    return FIRST + 10;
}
