/* A library that links NCCL, as PyTorch's does: a communicator, and one collective. */
#include "nccl.h"
int use(void) {
    ncclUniqueId id = {{0}};
    comm_t comm = 0;
    int made = ncclCommInitRank(&comm, 2, id, 0);
    /* No tail call: the answer is worked on. */
    return made * 1000 + ncclAllReduce(0, 0, 4, 7, 0, comm, 0);
}
