"""The shared library by ctypes. `include/antiphase_gate.h` has the declarations."""

import ctypes
import os
import threading

ABI = 1
NO_LATENESS = -(2**63)
OUTCOMES = ("went", "held", "slipped", "fail-open")
# Why nothing was enqueued into a stream, by the numbers of the header; the last is that of a library from before streams.
REFUSALS = (
    "",
    "the gate is off, or of no job",
    "no CUDA driver in this process, or one from before CUDA 11.7",
    "CUDA_DEVICE_MAX_CONNECTIONS is 1, so no stream would go on while one waits",
    "the stream is recorded for a graph",
    "the threads that let streams go did not start, or did not look for three seconds",
    "this process is a fork of the one that opened the gate",
    "too many starts and ends are under way",
    "the driver refused",
    "the library knows no streams",
)
NO_STREAMS = len(REFUSALS) - 1
# Switches waiting in the streams of a GPU off; the words are those of ANTIPHASE_GATE.
STREAM_SWITCH = "ANTIPHASE_GATE_STREAM"
NAME = "libantiphase_gate.so"
# The plugin for NCCL, which a wheel has beside the library.
PLUGIN = "libnccl-profiler-antiphase.so"
# What is preloaded before releases of NCCL that load no plugin.
NCCL_CALLS = "libnccl-calls-antiphase.so"


class _Step(ctypes.Structure):
    _fields_ = [
        ("outcome", ctypes.c_int32),
        ("reason", ctypes.c_int32),
        ("held_ns", ctypes.c_uint64),
        ("late_ns", ctypes.c_int64),
        ("start_ns", ctypes.c_uint64),
        ("plan_version", ctypes.c_uint64),
    ]


class Calls:
    """The functions of one loaded library."""

    def __init__(self, path):
        # CDLL and not PyDLL: the interpreter's lock is free while a call waits, so other threads run during a hold.
        library = ctypes.CDLL(path)
        library.antiphase_gate_abi.restype = ctypes.c_uint32
        found = library.antiphase_gate_abi()
        # Another interface may have another layout of `_Step`, and C would then write past the end of ours.
        if found != ABI:
            raise OSError("%s has interface %d, this package needs %d" % (path, found, ABI))
        # Every type is declared, because ctypes takes an undeclared result for an int and cuts a pointer to 32 bits.
        self._open = library.antiphase_gate_open
        self._open.argtypes, self._open.restype = [ctypes.c_char_p, ctypes.c_char_p], ctypes.c_void_p
        self._step = library.antiphase_gate_step
        self._step.argtypes, self._step.restype = [ctypes.c_void_p, ctypes.POINTER(_Step)], ctypes.c_int32
        # Likewise `step_phase`; without it later phases go at once.
        self._step_phase = getattr(library, "antiphase_gate_step_phase", None)
        if self._step_phase is not None:
            self._step_phase.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(_Step)]
            self._step_phase.restype = ctypes.c_int32
        # A library of the same interface from before turns has no `done`, and its agent asks for none.
        self.done = getattr(library, "antiphase_gate_done", lambda handle: None)
        if hasattr(self.done, "argtypes"):
            self.done.argtypes, self.done.restype = [ctypes.c_void_p], None
        # Likewise for what streams send.
        self._step_in_stream = getattr(library, "antiphase_gate_step_in_stream", None)
        self._done_in_stream = getattr(library, "antiphase_gate_done_in_stream", None)
        if self._step_in_stream is not None and self._done_in_stream is not None:
            self._step_in_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
            self._done_in_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
            self._step_in_stream.restype = self._done_in_stream.restype = ctypes.c_int32
        self.flush = library.antiphase_gate_flush
        self.flush.argtypes, self.flush.restype = [ctypes.c_void_p], None
        self.close = library.antiphase_gate_close
        self.close.argtypes, self.close.restype = [ctypes.c_void_p], None
        self._error = library.antiphase_gate_last_error
        self._error.argtypes, self._error.restype = [], ctypes.c_char_p
        self._reason = library.antiphase_gate_reason
        self._reason.argtypes, self._reason.restype = [ctypes.c_int32], ctypes.c_char_p

    def open(self, job, directory):
        handle = self._open(_text(job), _text(directory))
        if not handle:
            raise ValueError(self._error().decode("utf-8", "replace"))
        return handle

    def step(self, handle, phase=0):
        step = _Step()
        if self._step_phase is not None:
            self._step_phase(handle, phase, ctypes.byref(step))
        elif phase <= 1:
            self._step(handle, ctypes.byref(step))
        else:
            raise OSError("the library knows no phases")
        late = None if step.late_ns == NO_LATENESS else step.late_ns
        reason = self._reason(step.reason).decode()
        return OUTCOMES[step.outcome], reason, step.held_ns, late, step.start_ns, step.plan_version

    def step_in_stream(self, handle, stream, phase):
        """Why nothing was enqueued; 0 where it was."""
        return NO_STREAMS if self._step_in_stream is None else self._step_in_stream(handle, stream, phase)

    def done_in_stream(self, handle, stream):
        return NO_STREAMS if self._done_in_stream is None else self._done_in_stream(handle, stream)


def _text(value):
    if value is None:
        return None
    value = os.fsencode(value)
    if b"\0" in value:
        raise ValueError("%r has a zero byte" % value)
    return value


_lock = threading.RLock()
_calls = None


def _renew():
    """As in the package: a fork may copy a lock that nobody in the child holds."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def _paths():
    named = os.environ.get("ANTIPHASE_GATE_LIBRARY")
    if named:
        return [named]
    # The library beside this package comes first: the loader's own path may hold one of another version.
    return [beside(NAME), NAME]


def beside(name):
    """The path of a file of this package."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def load():
    """The library, loaded once. Raises OSError if there is none that fits."""
    global _calls
    with _lock:
        if _calls is None:
            error = None
            for path in _paths():
                try:
                    # The loader would wait for whoever writes a FIFO.
                    if "/" in path and os.path.exists(path) and not os.path.isfile(path):
                        raise OSError("%s is no file" % path)
                    _calls = Calls(path)
                    _calls.path = path
                    break
                # AttributeError is a library of that name that lacks one of the functions.
                except (OSError, AttributeError) as found:
                    error = found
            else:
                raise OSError(str(error))
        return _calls
