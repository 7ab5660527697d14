"""One rank of a training job of the lab: PyTorch's DistributedDataParallel over gloo, or over NCCL with gradients on a GPU. Started by
`antiphase lab run --trainer ddp` or `nccl`.

Forward, backward, bucketed all-reduce and optimizer are PyTorch's own; rank 0 passes the gate of `antiphase_gate` in DDP's
communication hook. Only the length of the computation is made up: the forward pass ends with a pause, because several ranks
share two cores here, and ranks that compute at once would disturb each other as ranks on hosts of their own do not.

A rank prints `ready` once its model is wrapped, and is then told on standard input when to start and until when new
iterations may start, in ns of CLOCK_MONOTONIC. When standard input ends before, the lab is gone, and the rank ends too.
"""

import argparse
import datetime
import json
import os
import queue
import random
import sys
import threading
import time

# Parameters of the model, and buckets after the first that its gradient fills; DDP's own first bucket holds up to 1 MiB.
LAYERS = 8
BUCKETS = 4
# Longest silence of a peer: longer than any hold, Down phase or stretched Up phase of a case.
SILENCE_MAX = datetime.timedelta(seconds=180)
# Ranks go before other programs, or the other programs' use of two cores is what is measured.
NICENESS = -10
# Small enough that weights stay finite for as many iterations as a lab may play.
LEARNING_RATE = 1e-9
FLOAT_BYTES = 4


def options():
    parser = argparse.ArgumentParser()
    for name in ("rank", "ranks", "bytes", "compute-ns", "jitter-ns", "seed"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--trace", required=True)
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    return parser.parse_args()


def lab():
    """What the lab says on standard input, line by line. Its end ends this process, whatever it is waiting for."""
    lines = queue.Queue()

    def read():
        # Past Python's own buffer, whose lock a thread must not hold when the interpreter ends.
        said = b""
        while True:
            more = os.read(0, 4096)
            if not more:
                os._exit(3)
            *whole, said = (said + more).split(b"\n")
            for line in whole:
                lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    return lines


def floats(sent, ranks):
    """Size of a gradient of which a ring all-reduce makes every rank send `sent` bytes: each sends 2 (n - 1) / n of it."""
    return max(LAYERS + 1, round(sent * ranks / (2 * (ranks - 1)) / FLOAT_BYTES))


class Timed:
    """The gate, and when a rank came to it and went."""

    def __init__(self, gate, torch=None):
        self.gate = gate
        self.came = self.went = 0
        # Around the wait in a stream, whose length the host does not see.
        self.events = torch and [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.streamed = False

    def step(self):
        self.came = time.monotonic_ns()
        self.gate.step()
        self.went = time.monotonic_ns()
        self.streamed = False

    def step_in_stream(self, stream):
        import torch

        self.came, at = time.monotonic_ns(), torch.cuda.ExternalStream(stream)
        self.events[0].record(at)
        self.streamed = self.gate.step_in_stream(stream)
        self.events[1].record(at)
        return self.streamed

    def done_in_stream(self, stream):
        return self.gate.done_in_stream(stream)

    @property
    def stream_refusal(self):
        return self.gate.stream_refusal

    def up(self, done_ns):
        """The Up phase that has ended."""
        if self.streamed:
            self.went = self.came + round(self.events[0].elapsed_time(self.events[1]) * 1e6)
        return {"ready": self.came, "start": self.went, "end": done_ns}

    def done(self):
        # What DDP's hook says when the last bucket is sent.
        self.gate.done()


def build(torch, count):
    """A model of `count` parameters, the last of which is the vote on whether to stop."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            share, more = divmod(count - 1, LAYERS)
            sizes = [share + (layer < more) for layer in range(LAYERS)]
            self.layers = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(size)) for size in sizes])
            self.vote = torch.nn.Parameter(torch.zeros(1))

        def forward(self, batch, stop, resume_ns, pause):
            out = sum(torch.dot(layer, batch[: layer.numel()]) for layer in self.layers) + stop * self.vote.sum()
            pause(resume_ns)
            return out

    return Model()


def sleep_until(at):
    left = at - time.monotonic_ns()
    if left > 0:
        time.sleep(left / 1e9)


def main():
    args = options()
    told = lab()
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import antiphase_gate
    from antiphase_gate.pytorch import ddp_comm_hook

    try:
        os.nice(NICENESS)
    except OSError:
        pass  # without the right to it, it runs as it is
    torch.set_num_threads(1)
    torch.manual_seed(args.rank)
    on_gpu = args.backend == "nccl"
    # Ranks share the GPUs that there are; NCCL takes them for hosts of their own (NCCL_HOSTID).
    device = torch.device("cuda", args.rank % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group(args.backend, init_method="file://" + args.store, rank=args.rank, world_size=args.ranks, timeout=SILENCE_MAX)
    count = floats(args.bytes, args.ranks)
    model = DistributedDataParallel(build(torch, count).to(device), bucket_cap_mb=count * FLOAT_BYTES / BUCKETS / 2**20)
    # With a gate in NCCL's calls the job has no line of its own, and when it started is seen by nobody here: `start` is when it was ready.
    by_calls = on_gpu and os.environ.get("ANTIPHASE_NCCL_GATE", "").lower() in ("on", "1", "true", "yes")
    gate = Timed(None if by_calls else antiphase_gate.default_gate(), torch if on_gpu else None)
    if not by_calls:
        model.register_comm_hook(None, ddp_comm_hook(gate=gate))

    def pause(resume_ns):
        sleep_until(resume_ns)
        if by_calls:
            gate.came = gate.went = time.monotonic_ns()

    sgd = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    # Another batch on each rank, so that averaging gradients changes them.
    batch = torch.randn(count).to(device)
    jitter = random.Random(args.seed << 8 | args.rank)

    if on_gpu:
        # NCCL connects at the first all-reduce, which takes half a second.
        dist.all_reduce(torch.zeros(1, device=device))
        torch.cuda.synchronize()
    print("ready", flush=True)
    start_ns, until_ns = (int(word) for word in told.get().split())
    iterations = []
    resume_ns, stop = start_ns, False
    while not stop:
        # The vote of any rank travels in the gradient, so that all stop after the same iteration.
        vote = 1.0 if args.rank == 0 and resume_ns >= until_ns else 0.0
        sgd.zero_grad()
        model(batch, vote, resume_ns, pause).backward()
        if on_gpu:
            torch.cuda.synchronize()
        done_ns = time.monotonic_ns()
        stop = model.module.vote.grad.item() > 0
        if not stop:
            iterations.append({"iteration": len(iterations), "ups": [gate.up(done_ns)]})
        resume_ns = done_ns + args.compute_ns + (jitter.randrange(args.jitter_ns + 1) if args.jitter_ns else 0)
        sgd.step()
    if not by_calls:
        antiphase_gate.default_gate().flush()
    agree(torch, dist, model, args)
    if args.rank == 0:
        with open(args.trace, "w", encoding="utf-8") as trace:
            trace.writelines(json.dumps(iteration) + "\n" for iteration in iterations)
    if on_gpu:
        dist.destroy_process_group()


def agree(torch, dist, model, args):
    """Fails if the ranks ended with different weights: then their gradients were not averaged."""
    own = torch.stack([layer.detach().double().abs().sum() for layer in model.module.layers])
    sums = [torch.zeros_like(own) for _ in range(args.ranks)]
    dist.all_gather(sums, own)
    if not all(torch.equal(own, other) for other in sums) or not own.min() > 0:
        sys.exit("the ranks trained apart: %s" % sums)


if __name__ == "__main__":
    main()
