"""Real DistributedDataParallel: two ranks as processes, gloo on loopback. Run by the Rust tests beside an agent whose job
`ddp` is due every 200 ms with a tolerance of zero."""

import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import unittest

ITERATIONS = 6
RANKS = 2
# A rank needs a second or two; after this, one that hangs prints where, and the test fails.
RANK_LIMIT = 60


def rank_main(rank, store, out):
    """One rank of the job: trains and writes down what it saw."""
    faulthandler.dump_traceback_later(RANK_LIMIT - 5)
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import antiphase_gate
    from antiphase_gate.pytorch import ddp_comm_hook, optimizer_hook

    steps = []
    gate = antiphase_gate.default_gate()
    inner = gate.step

    def step():
        steps.append(inner())

    gate.step = step
    dones = []
    inner_done = gate.done

    def done():
        # How many starts there were by then: each end belongs to the last of them.
        dones.append(len(steps))
        inner_done()

    gate.done = done
    torch.manual_seed(7)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=RANKS)
    # Several buckets, so that gating the first one only matters.
    layers = [torch.nn.Linear(200, 200) for _ in range(4)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.1)
    model.register_comm_hook(None, ddp_comm_hook())
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(ITERATIONS):
        sgd.zero_grad()
        data = torch.randn(8, 200) + rank
        model(data).pow(2).mean().backward()
        sgd.step()
    gated = len(steps)
    handle = optimizer_hook(steps_per_iteration=2)
    if handle is not None:
        for _ in range(4):
            sgd.step()
        handle.remove()
        sgd.step()
    gate.flush()
    with open(out, "w", encoding="utf-8") as file:
        weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        json.dump(
            {
                "sum": weights.double().sum().item(),
                "finite": bool(torch.isfinite(weights).all()),
                "gated": gated,
                "dones": dones,
                "reasons": [step.reason for step in steps[:gated]],
                "held": [step.held_ns for step in steps[:gated]],
                "late": [step.late_ns for step in steps[:gated]],
                "after_optimizer": len(steps) - gated if handle is not None else None,
            },
            file,
        )
    dist.destroy_process_group()


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Ddp(unittest.TestCase):
    def test_rank_0_is_held_and_gradients_are_averaged_as_ever(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks = []
            for rank in range(RANKS):
                out = os.path.join(folder, "rank%d" % rank)
                environment = dict(os.environ, RANK=str(rank), ANTIPHASE_JOB="ddp", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
                command = [sys.executable, "-W", "ignore", "-m", "tests.test_pytorch", str(rank), os.path.join(folder, "store"), out]
                ranks.append((subprocess.Popen(command, env=environment), out))
            try:
                for process, _ in ranks:
                    self.assertEqual(process.wait(timeout=RANK_LIMIT), 0)
            finally:
                for process, _ in ranks:
                    process.kill()
                    process.wait()
            leader, other = [read(out) for _, out in ranks]
        self.assertTrue(leader["finite"])
        self.assertEqual(leader["sum"], other["sum"], "the ranks' weights differ")
        # One step per iteration, though an iteration has several buckets.
        self.assertEqual((leader["gated"], other["gated"]), (ITERATIONS, ITERATIONS))
        # And one end after each of them.
        self.assertEqual(leader["dones"], list(range(1, ITERATIONS + 1)))
        self.assertEqual(set(leader["reasons"]), {"on-time"})
        self.assertTrue(all(held > 0 for held in leader["held"]), leader["held"])
        self.assertTrue(all(late >= 0 for late in leader["late"]), leader["late"])
        self.assertEqual(set(other["reasons"]), {"not-leader"})
        if leader["after_optimizer"] is None:
            print("skipped: this torch has no global optimizer hooks (before 2.0), so optimizer_hook was not tested with it")
        else:
            self.assertEqual(leader["after_optimizer"], 2)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1].isdigit():
        rank_main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
    else:
        unittest.main()
