"""Gates for PyTorch loops that cannot take a line of their own. This module imports torch only when it needs it."""

import atexit
import contextlib
import os
import sys
import time

from . import _OFF, _library, _say, default_gate

# How long the end of the process waits for the last callbacks. A callback needs microseconds, on a busy machine a little more.
LAST_CALLBACKS = 0.05

# Why a stream does not wait that are no news: this rank does not lead, or the gate is off, or of no job.
_NO_NEWS = ("not-leader", "closed", _library.REFUSALS[1])
# Those that pass: recorded for a graph, threads that did not look, too much under way. After any other no stream is tried again.
_PASSING_REFUSALS = tuple(_library.REFUSALS[at] for at in (4, 5, 7))

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


def _cuda_device(bucket):
    """The CUDA device of a bucket's gradients; None for any other device, and where nobody knows."""
    try:
        device = bucket.buffer().device
        return device if device.type == "cuda" else None
    except Exception:  # a bucket of a version that this package does not know
        return None


def _is_recorded():
    """Whether what is enqueued now is recorded for a CUDA graph, and not done."""
    try:
        import torch

        return torch.cuda.is_current_stream_capturing()
    except Exception:  # a torch before 1.10 records no graphs
        return False


def _current(stream):
    """Makes a stream the current one, where there is one."""
    if stream is None:
        return contextlib.nullcontext()
    import torch

    return torch.cuda.stream(stream)


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


class _Streams:
    """The gate of what the streams of a GPU send. The host of a job runs ahead of its GPU, so a host that waits for the gate asks long before the
    job is ready; here a stream waits, and the host goes on."""

    def __init__(self, gate):
        self.gate = gate
        self._starts = {}
        self._ends = {}
        self._said = self._refused = False

    def _stream(self, streams, device):
        """A stream of our own that has come to where the current one is: a wait in it stops no computing."""
        import torch

        stream = streams.get(device)
        if stream is None:
            stream = streams[device] = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        return stream

    def step(self, device):
        """The stream that waits for the gate, or None where none does."""
        if self._refused:
            return None
        try:
            stream = self._stream(self._starts, device)
            if self.gate.step_in_stream(stream.cuda_stream):
                return stream
            why = self.gate.stream_refusal
        except Exception as error:  # the gate fails open
            why = "%s: %s" % (type(error).__name__, error)
        self._refused = why not in _PASSING_REFUSALS
        if not self._said and why not in _NO_NEWS:
            self._said = True
            _say("the host waits in place of the GPU's stream: %s" % why)
        return None

    def done(self, device):
        # Another stream than the one that the job waits for, because the call costs what waits for it some microseconds.
        try:
            self.gate.done_in_stream(self._stream(self._ends, device).cuda_stream)
        except Exception:  # the gate fails open
            pass


def _done_when_sent(future, streams, device):
    """A future with the value of this one; `done` is said when the GPU has come so far. Futures of work on a GPU complete when the
    work is queued, and their callbacks run on streams that wait for it."""

    def queued(completed):
        streams.done(device)
        return completed.value()

    return future.then(queued)


def ddp_comm_hook(hook=None, gate=None, in_stream=None):
    """A communication hook for DistributedDataParallel that gates the first bucket of each iteration, and says `done` when
    the last one has been averaged.

    `model.register_comm_hook(state, ddp_comm_hook(hook))` runs `hook` (the averaging all-reduce by default; it then takes a
    process group or None as its state) for every bucket, as without the gate. The order of buckets does not change, so
    ranks cannot come to disagree: the first one only begins later.

    Where gradients are on a GPU, a stream of its own waits for the gate, and the all-reduces behind it; computing goes on, and so does
    the host. The end is said when the GPU has come to it. `in_stream=False` or ANTIPHASE_GATE_STREAM=off lets the host wait instead, and so
    does a driver that refuses. Then no end is said, because the host does not know it: such a job calls `done()` where host and device
    meet, or loads the plugin for NCCL.

    While a CUDA graph is recorded nothing is gated. A job that replays graphs with communication in them calls `step_in_stream` before a
    replay and `done_in_stream` after it.
    """
    if hook is None:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook as hook
    gate = gate or default_gate()
    # DDP sends buckets in order, and only the last one says so reliably: their number changes after the first iteration.
    first = [True]
    if in_stream is None:
        in_stream = os.environ.get(_library.STREAM_SWITCH, "").lower() not in _OFF
    streams = _Streams(gate)
    # The device whose streams tell the end of this iteration; None where the host does, or nobody.
    telling = [None]

    def start(bucket):
        """The stream in which the iteration's communication starts, if another than the current one."""
        device = _cuda_device(bucket)
        if device is not None and _is_recorded():
            # Nothing is sent now, and a replay would wait for a turn of the past.
            telling[0] = None
            return None
        stream = streams.step(device) if device is not None and in_stream else None
        telling[0] = None if stream is None else device
        if stream is None:
            gate.step()
        return stream

    def gated(state, bucket):
        stream = None
        if first[0]:
            _keep_to_the_end(state)
            stream = start(bucket)
        last = first[0] = bucket.is_last()
        with _current(stream):
            future = hook(state, bucket)
        if not last or not hasattr(future, "then"):
            return future
        if telling[0] is not None:
            return _done_when_sent(future, streams, telling[0])
        return future if _on_a_device(bucket) else _done_after(future, gate)

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
