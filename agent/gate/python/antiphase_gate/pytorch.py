"""Gates for PyTorch loops that cannot take a line of their own. This module imports torch only when it needs it."""

import atexit
import sys
import time

from . import _say, default_gate

# How long the end of the process waits for the last callbacks. A callback needs microseconds, on a busy machine a little more.
LAST_CALLBACKS = 0.05

# The process groups that live to the end of the process.
_kept = []


def _keep_to_the_end(state):
    """Keeps the process group of a hook's state, or else the default one, until the interpreter ends.

    A hook in Python leaves a callback in the threads of the group, which need the interpreter's lock to let go of it. A
    job that ends within microseconds of its last all-reduce would meet them: DistributedDataParallel, where it holds the
    last reference to the group, joins these threads with the lock held, for ever (seen in PyTorch 1.13 with gloo); and a
    thread that waits for the lock when the interpreter ends takes the process with it. So the group outlives the
    model, and its threads get the lock once more before the end.
    """
    # A module that is not imported yet has no group to keep, and this package must not be the one that imports it.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return
    # No public name for the default group means the same in all versions; without one the job goes on as it would without us.
    default = getattr(distributed.distributed_c10d, "_get_default_group", lambda: None)
    group = state if isinstance(state, distributed.ProcessGroup) else default()
    if group is None or any(group is kept for kept in _kept):
        return
    if not _kept:
        atexit.register(_let_go)
    _kept.append(group)


def _let_go():
    # A sleep gives the interpreter's lock away, which is what the last callbacks wait for.
    time.sleep(LAST_CALLBACKS)
    _kept.clear()


def _on_a_device(bucket):
    """Whether a bucket's gradients are anywhere but in the host's memory; unknown counts as yes."""
    try:
        return bucket.buffer().device.type != "cpu"
    except Exception:  # a bucket of a version that this package does not know
        return True


def _done_after(future, gate):
    """A future with the value of this one, which says `done` when it completes.

    DistributedDataParallel waits for the future that it gets, so `done` comes before the backward pass returns and never in
    the next iteration. The callback runs in a thread of the process group and takes no lock that anybody waits for.
    """

    def done(completed):
        # A future that failed has no value: the callback raises its error, as DDP would have met it without us.
        gate.done()
        return completed.value()

    return future.then(done)


def ddp_comm_hook(hook=None, gate=None):
    """A communication hook for DistributedDataParallel that gates the first bucket of each iteration, and says `done` when
    the last one has been averaged.

    `model.register_comm_hook(state, ddp_comm_hook(hook))` runs `hook` (the averaging all-reduce by default; it then takes a
    process group or None as its state) for every bucket, as without the gate. The order of buckets does not change, so
    ranks cannot come to disagree: the first one only begins later.

    Of gradients on a GPU the hook says no `done`: their future completes when the work is queued and not when it is sent, and
    to let others go that early is worse than to tell nothing. Such a job calls `done()` where host and device meet.
    """
    if hook is None:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook as hook
    gate = gate or default_gate()
    # DDP sends buckets in order, and only the last one says so reliably: their number changes after the first iteration.
    first = [True]

    def gated(state, bucket):
        if first[0]:
            _keep_to_the_end(state)
            gate.step()
        last = first[0] = bucket.is_last()
        future = hook(state, bucket)
        if last and hasattr(future, "then") and not _on_a_device(bucket):
            return _done_after(future, gate)
        return future

    # DDP compares the annotations of a hook with what it will call it with.
    gated.__annotations__ = dict(getattr(hook, "__annotations__", {}))
    names = hook.__code__.co_varnames[:2] if hasattr(hook, "__code__") else ()
    for theirs, ours in zip(names, ("state", "bucket")):
        if theirs in gated.__annotations__:
            gated.__annotations__[ours] = gated.__annotations__.pop(theirs)
    return gated


def optimizer_hook(gate=None, steps_per_iteration=1):
    """Gates the end of every iteration: after each step of any optimizer of this process, or each n-th if an iteration has n.

    Returns the handle of the hook (`remove()` ends it), or None, after a warning, where torch has no such hooks (before 2.0).
    """
    if steps_per_iteration < 1:
        raise ValueError("steps_per_iteration is %r; must be at least 1" % (steps_per_iteration,))
    from torch.optim import optimizer

    register = getattr(optimizer, "register_optimizer_step_post_hook", None)
    if register is None:
        _say("this torch has no global optimizer hooks; call antiphase_gate.step()")
        return None
    gate = gate or default_gate()
    count = [0]

    def after(*_):
        count[0] += 1
        if count[0] % steps_per_iteration == 0:
            gate.step()

    return register(after)
