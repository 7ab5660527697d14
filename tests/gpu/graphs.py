"""A job of DistributedDataParallel whose iteration is one CUDA graph, with the gate around its replays.

    python3 tests/gpu/graphs.py        # needs PyTorch with CUDA and NCCL, a GPU, and the gate's package and library

The gate's hook is registered while the graph is recorded, and must neither disturb that nor gate it. Replays then change by blocks between no gate
and a stream that waits before each of them; ANTIPHASE_JOB and ANTIPHASE_DIR say which gate. Prints one line of JSON.
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
LAYERS = 8
WIDTH = 1024
BATCH = 8192
# PyTorch's notes on graphs ask for eleven iterations of DistributedDataParallel before one is recorded.
BEFORE = 11
BLOCKS = 12
BLOCK = 25
RANK_LIMIT = 120


class Counting:
    """The gate, and how often it was asked for anything."""

    def __init__(self, gate):
        self.gate, self.asked = gate, 0

    def __getattr__(self, name):
        if name in ("step", "step_in_stream", "done", "done_in_stream"):
            self.asked += 1
        return getattr(self.gate, name)


def rank_main(rank, store):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import antiphase_gate
    from antiphase_gate.pytorch import ddp_comm_hook

    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method="file://" + store, rank=rank, world_size=RANKS)
    torch.manual_seed(1)
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH, device="cuda"), torch.nn.ReLU()]
    batch = torch.randn(BATCH, WIDTH, device="cuda")
    gate = Counting(antiphase_gate.default_gate())
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        model = DistributedDataParallel(torch.nn.Sequential(*layers))
        model.register_comm_hook(None, ddp_comm_hook(gate=gate))
        sgd = torch.optim.SGD(model.parameters(), lr=1e-9)

        def iteration():
            sgd.zero_grad(set_to_none=True)
            model(batch).mean().backward()
            sgd.step()

        for _ in range(BEFORE):
            iteration()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    began = time.perf_counter()
    asked = gate.asked
    with torch.cuda.graph(graph):
        iteration()
    if gate.asked != asked:
        sys.exit("the hook asked %d times while the graph was recorded" % (gate.asked - asked))
    recorded_ms = (time.perf_counter() - began) * 1e3
    times, refusals = {"none": [], "stream": []}, set()
    for way in ["none", "stream"] * BLOCKS:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(BLOCK):
            stream = torch.cuda.current_stream().cuda_stream
            if way == "stream" and not gate.step_in_stream(stream):
                refusals.add(gate.stream_refusal)
            graph.replay()
            if way == "stream":
                gate.done_in_stream(stream)
        torch.cuda.synchronize()
        times[way].append((time.perf_counter() - began) / BLOCK * 1e3)
    gate.flush()
    own = torch.stack([p.detach().double().abs().sum() for p in model.parameters()])
    sums = [torch.zeros_like(own) for _ in range(RANKS)]
    dist.all_gather(sums, own)
    equal = all(torch.equal(own, other) for other in sums)
    if rank == 0:
        ways = {way: {"mean_ms": round(statistics.mean(t), 3), "standard_error_ms": round(statistics.stdev(t) / len(t) ** 0.5, 3)} for way, t in times.items()}
        print(json.dumps({"graph": ways, "recorded_ms": round(recorded_ms, 1), "refusals": sorted(refusals), "equal_weights": equal}), flush=True)
    # Graphs with NCCL in them go before the process group does.
    del graph
    dist.destroy_process_group()
    if not equal or rank == 0 and refusals:
        sys.exit("ranks trained apart, or no stream waited: %s" % sorted(refusals))


def main():
    parser = argparse.ArgumentParser(description="needs PyTorch with CUDA and NCCL, a GPU, and the gate's package and library")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        return rank_main(args.rank, args.store)
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(RANKS):
            # Another host's name for each, or NCCL refuses two ranks on a GPU.
            environment = {**os.environ, "RANK": str(rank), "NCCL_HOSTID": "host-%d" % rank, "NCCL_SOCKET_IFNAME": "lo"}
            # What is recorded must not be looked at by PyTorch's watchdog.
            environment["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
            ranks.append(subprocess.Popen([sys.executable, __file__, "--rank", str(rank), "--store", os.path.join(folder, "store")], env=environment))
        try:
            codes = [rank.wait(RANK_LIMIT) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    sys.exit(max(abs(code) for code in codes))


if __name__ == "__main__":
    main()
