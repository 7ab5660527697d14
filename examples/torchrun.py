"""A training job under plain torchrun that takes turns with others: docs/ml-engineer.md.

torchrun sets RANK, and the gate holds rank 0 only. Two processes on one machine, without a GPU:

    ANTIPHASE_JOB=bert-7 torchrun --nproc_per_node 2 --master_addr 127.0.0.1 --master_port 29500 examples/torchrun.py
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import antiphase_gate
from antiphase_gate.pytorch import ddp_comm_hook

ITERATIONS = 20


def main() -> None:
    """Trains a small model, and says what the gate did."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4))))
    model.register_comm_hook(None, ddp_comm_hook())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(ITERATIONS):
        optimizer.zero_grad()
        model(torch.randn(8, 256)).pow(2).mean().backward()
        optimizer.step()
    gate = antiphase_gate.default_gate()
    gate.flush()
    # One step more, to print what the gate answers.
    said = gate.step()
    print(f"rank {dist.get_rank()}: {ITERATIONS} iterations, the gate says {said.outcome} ({said.reason})", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
