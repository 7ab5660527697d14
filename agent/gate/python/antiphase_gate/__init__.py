"""Keeps a training job in its slot, or lets it take turns, on shared links. See README.md of this package.

The gate fails open: whatever is wrong, `step` returns at once, and it never raises.
"""

import contextlib
import os
import select
import stat
import sys
import threading
import warnings
from typing import NamedTuple, Optional

from . import _library

__version__ = "0.1.0"
__all__ = ["Gate", "Step", "done", "is_leader", "nccl_calls", "nccl_plugin", "step", "turn"]

# Variables in which launchers tell a process its rank: torchrun, Open MPI, PMI, Slurm.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


# Words that switch the gate off in ANTIPHASE_GATE, as the library reads them.
_OFF = ("off", "0", "false", "no")

# Reasons that pass by themselves. They are worth a word only where they come again and again.
_PASSING = ("unheard", "torn", "clock-bound", "clock-step", "hold-too-long")
_PASSING_MAX = 10


# /dev/full, which always says that it has room.
_FULL = (1, 7)


def _has_room(stream):
    """Whether a line on a stream neither waits for its reader nor fails: what its buffer cannot get rid of makes the job's exit code 120."""
    if stream is None:
        return False
    try:
        descriptor = stream.fileno()
    except Exception:  # one of the job's own, as in a notebook
        return True
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            return os.fstatvfs(descriptor).f_bavail > 0
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(*_FULL):
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        # A reader that has gone is another event beside the room.
        return poll.poll(0) == [(descriptor, select.POLLOUT)]
    except Exception:
        return False


def _say(text):
    """One warning; one line where warnings are errors, because a job has to start whatever its filters are (ADR 2). Nothing where nobody reads."""
    if not _has_room(sys.stderr):
        return
    try:
        warnings.warn("antiphase_gate: " + text, RuntimeWarning, stacklevel=3)
    except Exception:
        try:
            sys.stderr.write("antiphase_gate: %s\n" % text)
        except Exception:  # nobody to tell
            pass


class Step(NamedTuple):
    """What one step did. Times are those of `time.monotonic_ns()`."""

    outcome: str
    """`went`, `held`, `slipped` or `fail-open`."""
    reason: str
    """Why it went when it did, such as `on-time`, `stale` or `not-leader`."""
    held_ns: int
    """How long it was held."""
    late_ns: Optional[int]
    """Start minus the nearest due start, negative if early; None without a plan."""
    start_ns: int
    """When it went; 0 if the gate had no part in it."""
    plan_version: int
    """Version of the plan; 0 without one."""


def is_leader():
    """Whether this process is rank 0. A process that was not told a rank is alone."""
    # The first variable that is set decides, as in `gate exec`.
    for name in _RANKS:
        if name in os.environ:
            return os.environ[name] == "0"
    return True


def _passed(reason):
    return Step("went", reason, 0, None, 0, 0)


class Gate:
    """The gate of one job. Threads may share it: while one is held, the others go."""

    def __init__(self, job=None, directory=None, leader=None):
        """`job` and `directory` default to ANTIPHASE_JOB and ANTIPHASE_DIR, `leader` to whether this is rank 0.

        Raises nothing: a name that no job can have is a warning and no gate.
        """
        self._handle = None
        self._calls = None
        self._reason = None
        self._said = False
        self._opened = 0
        # Why the last call for a stream enqueued nothing; empty where it did.
        self.stream_refusal = ""
        if not (is_leader() if leader is None else leader):
            # Only one rank of a job is held (ADR 2), so the others need no library and map no page.
            self._reason = "not-leader"
            return
        try:
            self._calls = _library.load()
            self._handle = self._calls.open(job, directory)
        except Exception as error:  # the gate fails open
            self._reason = "no-library" if self._calls is None else "no-gate"
            self._tell("nothing is held: %s" % error)
            return
        if os.environ.get("ANTIPHASE_GATE", "").lower() in _OFF:
            # Somebody wanted this.
            self._said = True
        elif job is None and not os.environ.get("ANTIPHASE_JOB"):
            self._tell("nothing is held: ANTIPHASE_JOB is not set")

    def _tell(self, text):
        """Says once for this gate why it holds nothing; `antiphase gate status` says more."""
        if not self._said:
            self._said = True
            _say(text)

    def _watch(self, step):
        """Tells a gate that holds nothing from one that has nothing to hold."""
        if step.outcome != "fail-open":
            self._opened = 0
            return
        self._opened += 1
        if step.reason not in _PASSING or self._opened >= _PASSING_MAX:
            self._tell("nothing is held (%s); `antiphase gate status` explains" % step.reason)

    def step(self, phase=0):
        """Returns when the next iteration may start: at once, at the job's slot, or when it is the job's turn. Other Python
        threads run meanwhile.

        With `phase` it is about one Up phase of an iteration, counted from 1. Called before each of them, with `done` after each,
        each phase has a turn of its own.
        """
        handle = self._handle
        if handle is None:
            return _passed(self._reason)
        try:
            step = Step(*self._calls.step(handle, phase))
            if not self._said:
                self._watch(step)
            return step
        except Exception:  # the gate fails open
            return _passed("internal")

    def done(self):
        """Says that what the last step let start has been sent, so that those who wait for this job can go.

        A job that never says this neither waits for turns nor makes others wait. Never waits and never raises.
        """
        handle = self._handle
        if handle is not None:
            try:
                self._calls.done(handle)
            except Exception:  # the gate fails open
                pass

    def step_in_stream(self, stream, phase=0):
        """`step` for what is enqueued into a CUDA stream after this: it starts when the stream has come so far and the job may start.

        `stream` is the stream's handle (`torch.cuda.Stream.cuda_stream`). Returns at once, and says whether the stream waits; where it
        does not, `stream_refusal` says why.
        """
        return self._in_stream(lambda calls, handle: calls.step_in_stream(handle, stream, phase))

    def done_in_stream(self, stream):
        """`done` when a CUDA stream has come so far. Returns at once, and says whether the end will be told."""
        return self._in_stream(lambda calls, handle: calls.done_in_stream(handle, stream))

    def _in_stream(self, call):
        handle = self._handle
        if handle is None:
            self.stream_refusal = self._reason
            return False
        try:
            refusal = call(self._calls, handle)
            self.stream_refusal = _library.REFUSALS[refusal]
            return refusal == 0
        except Exception as error:  # the gate fails open
            self.stream_refusal = str(error)
            return False

    @contextlib.contextmanager
    def turn(self, phase=0):
        """`with gate.turn(): communicate()` is a step before and `done` after, also where the block raises."""
        step = self.step(phase)
        try:
            yield step
        finally:
            self.done()

    def flush(self):
        """Tells the agent what the gate did now, and not with the next step."""
        handle = self._handle
        if handle is not None:
            try:
                self._calls.flush(handle)
            except Exception:  # the gate fails open
                pass

    def close(self):
        """Closes the gate; later steps go at once. No other thread may be in a step."""
        # The handle is forgotten before the call: C must see each handle once in `close` and never after it.
        handle, self._handle, self._reason = self._handle, None, "closed"
        if handle is not None:
            try:
                self._calls.close(handle)
            except Exception:  # the gate fails open
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# A signal handler may step while its thread is opening the gate, so the same thread may take the lock again.
_lock = threading.RLock()
_gate = None


def _renew():
    """In a child of a fork: another thread of the parent may have held the lock, and nobody is left to let go of it."""
    global _lock
    _lock = threading.RLock()


# Windows has no forks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def default_gate():
    """The gate of this process's job, opened at the first call."""
    global _gate
    if _gate is None:
        # The lock is taken for the first call only. The second test is for a thread that waited while another made the gate.
        with _lock:
            if _gate is None:
                _gate = Gate()
    return _gate


def step(phase=0):
    """`Gate.step` of this process's job, as the environment names it."""
    return default_gate().step(phase)


def done():
    """`Gate.done` of this process's job."""
    default_gate().done()


def turn(phase=0):
    """`Gate.turn` of this process's job."""
    return default_gate().turn(phase)


def nccl_plugin():
    """The path for NCCL_PROFILER_PLUGIN of the plugin that this package brings; None where it brings none."""
    return _there(_library.PLUGIN)


def nccl_calls():
    """The path for LD_PRELOAD of the library for NCCL before 2.23 that this package brings; None where it brings none."""
    return _there(_library.NCCL_CALLS)


def _there(name):
    path = _library.beside(name)
    return path if os.path.exists(path) else None
