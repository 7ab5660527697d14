/* A program that links a real libnccl and calls it without a GPU: version, a name, and every function with a communicator that is
   null. What NCCL answers is printed: it must be the same with and without our library before it. */
#include "nccl.h"
#include <stdio.h>
#include <stdlib.h>
int ncclGetVersion(int *);
int ncclGetUniqueId(ncclUniqueId *);
int main(void) {
    int version = 0, zero = 0;
    ncclUniqueId id;
    comm_t comm = 0;
    printf("version %d", ncclGetVersion(&version));
    printf(" %d\n", version);
    printf("name %d\n", ncclGetUniqueId(&id));
    printf("communicator %d\n", ncclCommInitRank(&comm, 1, id, 0));
    printf("communicators %d\n", ncclCommInitAll(&comm, 1, &zero));
    const int answers[] = {ncclAllReduce(0, 0, 1, 7, 0, 0, 0), ncclReduceScatter(0, 0, 1, 7, 0, 0, 0), ncclAllGather(0, 0, 1, 7, 0, 0),
                           ncclBroadcast(0, 0, 1, 7, 0, 0, 0), ncclBcast(0, 1, 7, 0, 0, 0), ncclReduce(0, 0, 1, 7, 0, 0, 0, 0),
                           ncclSend(0, 1, 7, 0, 0, 0), ncclRecv(0, 1, 7, 0, 0, 0)};
    for (int at = 0; at < 8; at++) printf("answer %d\n", answers[at]);
    return 0;
}
