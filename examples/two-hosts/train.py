"""A data-parallel training job without a GPU: PyTorch's DistributedDataParallel over gloo, two ranks. README.md says how to start it.

Started by hand it starts both ranks; torchrun starts them where hosts are two. Only the length of the computation is made up: a pause
stands where GPUs would compute. What the gate needs of a job is the import and the line with `register_comm_hook`.
"""

import argparse
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import antiphase_gate
from antiphase_gate.pytorch import ddp_comm_hook

RANKS = 2
LAYERS = 8
# Iterations in a line of the output.
TOLD = 20


def options():
    parser = argparse.ArgumentParser(description="Trains two ranks on this machine; the gate reads ANTIPHASE_JOB and ANTIPHASE_DIR.")
    parser.add_argument("--port", type=int, default=29500, help="at which the ranks of this job meet")
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--compute-ms", type=int, default=200)
    parser.add_argument("--width", type=int, default=1400, help="of each layer: 1400 makes 63 MB of gradients")
    return parser.parse_args()


def start_ranks(port):
    """Starts every rank as torchrun would, and waits for all."""
    # A signal ends the ranks too: `finally` runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    world = dict(os.environ, WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    command = [sys.executable, *sys.argv]
    ranks = [subprocess.Popen(command, env=dict(world, RANK=str(rank), LOCAL_RANK=str(rank))) for rank in range(RANKS)]
    try:
        return max(rank.wait() for rank in ranks)
    finally:
        for rank in ranks:
            rank.terminate()


def train(iterations, compute_ms, width):
    dist.init_process_group("gloo")
    # All ranks of all jobs share this machine's processors.
    torch.set_num_threads(1)
    layers = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(LAYERS)))
    model = DistributedDataParallel(layers)
    model.register_comm_hook(None, ddp_comm_hook())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    batch = torch.ones(1, width)
    began = time.monotonic()
    for iteration in range(1, iterations + 1):
        optimizer.zero_grad()
        loss = model(batch).sum()
        time.sleep(compute_ms / 1000)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and iteration % TOLD == 0:
            now = time.monotonic()
            job = os.environ.get("ANTIPHASE_JOB", "no job")
            print(f"{job}: iteration {iteration}, {(now - began) / TOLD * 1000:.0f} ms each", flush=True)
            began = now
    antiphase_gate.default_gate().flush()
    dist.destroy_process_group()


def main():
    said = options()
    if "RANK" not in os.environ:
        return start_ranks(said.port)
    train(said.iterations, said.compute_ms, said.width)
    return 0


if __name__ == "__main__":
    sys.exit(main())
