"""What the gate costs a job of PyTorch's DistributedDataParallel over NCCL that has nobody in its way, and how early its host asks.

    python3 tests/gpu/ddp.py        # needs PyTorch with CUDA and NCCL, a GPU, and the gate's package and library

Two ranks share one GPU and train without a stop, so that the host runs ahead. Blocks of iterations change between no gate, a
gate at which the host waits, and one at which a stream waits; ANTIPHASE_JOB and ANTIPHASE_DIR say which gate. Prints one line of JSON.
With `--ways none` it is a job without a line for the gate, for those who watch what it calls of NCCL.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

RANKS = 2
LAYERS = 16
WIDTH = 1024
BATCH = 32768
# Iterations of a block.
BLOCK = 25
RANK_LIMIT = 150


def options():
    parser = argparse.ArgumentParser(description="needs PyTorch with CUDA and NCCL, a GPU, and the gate's package and library")
    parser.add_argument("--ways", default="none,host,stream", help="which gates, in turn")
    parser.add_argument("--blocks", type=int, default=16, help="of each way")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    return parser.parse_args()


class Asked:
    """The gate, and by how much the host was ahead of the GPU when it asked."""

    def __init__(self, torch, gate):
        self.torch, self.gate = torch, gate
        self.marks = []

    def mark(self, stream):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record(stream)
        self.marks.append((time.perf_counter(), event))

    def step(self, phase=0):
        self.mark(self.torch.cuda.current_stream())
        return self.gate.step(phase)

    def step_in_stream(self, stream, phase=0):
        self.mark(self.torch.cuda.ExternalStream(stream))
        return self.gate.step_in_stream(stream, phase)

    def done(self):
        self.gate.done()

    def done_in_stream(self, stream):
        return self.gate.done_in_stream(stream)

    @property
    def stream_refusal(self):
        return self.gate.stream_refusal


def rank_main(rank, store, ways, blocks):
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.nn.parallel import DistributedDataParallel

    import antiphase_gate
    from antiphase_gate.pytorch import ddp_comm_hook

    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method="file://" + store, rank=rank, world_size=RANKS)
    torch.manual_seed(1)
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH, device="cuda"), torch.nn.ReLU()]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    gate = Asked(torch, antiphase_gate.default_gate())
    hooks = {"none": allreduce_hook, "host": ddp_comm_hook(gate=gate, in_stream=False), "stream": ddp_comm_hook(gate=gate, in_stream=True)}
    way = ["none"]

    def hook(state, bucket):
        return hooks[way[0]](state, bucket)

    hook.__annotations__ = dict(allreduce_hook.__annotations__)
    model.register_comm_hook(None, hook)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-9)
    batch = torch.randn(BATCH, WIDTH, device="cuda")
    torch.backends.cuda.matmul.allow_tf32 = True
    times, leads = {name: [] for name in ways}, {name: [] for name in ways}
    order = ways * blocks
    for block, name in enumerate(["none"] + order):
        way[0] = name
        gate.marks.clear()
        torch.cuda.synchronize()
        zero = torch.cuda.Event(enable_timing=True)
        zero.record()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(BLOCK):
            sgd.zero_grad(set_to_none=False)
            model(batch).mean().backward()
            if name == "host":
                # Its host never meets the device, so it tells its ends as early as it asks.
                gate.done()
            sgd.step()
        torch.cuda.synchronize()
        if block:
            times[name].append((time.perf_counter() - began) / BLOCK * 1e3)
            # When the GPU came to what the host marked, by the event before the block.
            leads[name] += [zero.elapsed_time(event) - (at - began) * 1e3 for at, event in gate.marks]
    antiphase_gate.default_gate().flush()
    if rank == 0:
        answer = {}
        for name in ways:
            mean = statistics.mean(times[name])
            error = statistics.stdev(times[name]) / len(times[name]) ** 0.5 if len(times[name]) > 1 else None
            answer[name] = {"mean_ms": round(mean, 3), "standard_error_ms": error and round(error, 3)}
            if leads[name]:
                # Of a stream that is how far ahead its host enqueued, which nobody hears of.
                answer[name]["host_ahead_ms"] = round(statistics.median(leads[name]), 2)
        print(json.dumps({"ddp": answer, "stream_refusal": gate.stream_refusal}), flush=True)
    dist.destroy_process_group()
    if rank == 0 and "stream" in ways and gate.stream_refusal:
        sys.exit("no stream waited: %s" % gate.stream_refusal)


def main():
    args = options()
    if args.rank is not None:
        return rank_main(args.rank, args.store, args.ways.split(","), args.blocks)
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        ranks = []
        for rank in range(RANKS):
            # Another host's name for each, or NCCL refuses two ranks on a GPU.
            environment = {**os.environ, "RANK": str(rank), "NCCL_HOSTID": "host-%d" % rank, "NCCL_SOCKET_IFNAME": "lo"}
            command = [sys.executable, __file__, "--rank", str(rank), "--store", store, "--ways", args.ways, "--blocks", str(args.blocks)]
            ranks.append(subprocess.Popen(command, env=environment))
        codes = [rank.wait(RANK_LIMIT) for rank in ranks]
    sys.exit(max(abs(code) for code in codes))


if __name__ == "__main__":
    main()
