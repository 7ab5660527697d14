/* The functions of NCCL's public interface that the tests call, with the types that they have had since 2.7. */
#include <stddef.h>
typedef struct { char name[128]; } ncclUniqueId;
typedef void *comm_t, *stream_t;
int ncclCommInitRank(comm_t *, int, ncclUniqueId, int);
int ncclCommInitRankConfig(comm_t *, int, ncclUniqueId, int, void *);
int ncclCommInitAll(comm_t *, int, const int *);
int ncclAllReduce(const void *, void *, size_t, int, int, comm_t, stream_t);
int ncclReduceScatter(const void *, void *, size_t, int, int, comm_t, stream_t);
int ncclAllGather(const void *, void *, size_t, int, comm_t, stream_t);
int ncclBroadcast(const void *, void *, size_t, int, int, comm_t, stream_t);
int ncclBcast(void *, size_t, int, int, comm_t, stream_t);
int ncclReduce(const void *, void *, size_t, int, int, int, comm_t, stream_t);
int ncclSend(const void *, size_t, int, int, comm_t, stream_t);
int ncclRecv(void *, size_t, int, int, comm_t, stream_t);
