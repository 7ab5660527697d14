"""What a wait in a CUDA stream for a word in the host's memory does: the measurements of docs/adr/0012.

    python3 tests/gpu/stream_wait.py        # needs PyTorch with CUDA and a GPU

Each part is a process of its own, because some of them are stopped or killed. Prints one line of JSON for each.
"""

import ctypes
import json
import os
import signal
import statistics
import subprocess
import sys
import time

GEQ = 0
ROUNDS = 2000
# PyTorch has 32 streams of each priority, and NCCL some of its own.
STREAMS = 30


def driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    for name in ("cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2"):
        function = getattr(cuda, name)
        function.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
        function.restype = ctypes.c_int
    return cuda


class Words:
    """Two words in memory that host and GPU see: `ready`, which the GPU writes, and `go`, which the host writes."""

    def __init__(self, torch):
        self.cuda = driver()
        self.memory = torch.zeros(64, dtype=torch.int32, pin_memory=True)
        address = self.memory.data_ptr()
        self.ready_at, self.go_at = address, address + 128
        self.ready = ctypes.c_uint32.from_address(self.ready_at)
        self.go = ctypes.c_uint32.from_address(self.go_at)

    def enqueue(self, stream, value):
        handle = ctypes.c_void_p(stream.cuda_stream)
        for code in (
            self.cuda.cuStreamWriteValue32_v2(handle, self.ready_at, value, 0),
            self.cuda.cuStreamWaitValue32_v2(handle, self.go_at, value, GEQ),
        ):
            if code:
                raise OSError("the driver answers %d" % code)


def percentiles(values):
    values = sorted(values)
    at = lambda share: round(values[min(len(values) - 1, int(share * len(values)))], 2)
    return {"p50": at(0.5), "p99": at(0.99), "max": at(1)}


def work(torch, size=4096):
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    return lambda: a @ a


def rate(torch, multiply, seconds):
    """Products a second of this process."""
    torch.cuda.synchronize()
    end, count = time.monotonic() + seconds, 0
    began = time.monotonic()
    while time.monotonic() < end:
        for _ in range(8):
            multiply()
        torch.cuda.synchronize()
        count += 8
    return count / (time.monotonic() - began)


def latency(torch):
    """From the host's write to what the GPU does next, as the host sees it: go -> the next write of the GPU."""
    words, stream = Words(torch), torch.cuda.Stream()
    found, enqueue = [], []
    for value in range(1, ROUNDS + 1):
        began = time.perf_counter_ns()
        words.enqueue(stream, value)
        words.cuda.cuStreamWriteValue32_v2(ctypes.c_void_p(stream.cuda_stream), words.ready_at, value | 1 << 30, 0)
        enqueue.append((time.perf_counter_ns() - began) / 1e3)
        while words.ready.value != value:
            pass
        went = time.perf_counter_ns()
        words.go.value = value
        while words.ready.value != value | 1 << 30:
            pass
        found.append((time.perf_counter_ns() - went) / 1e3)
    return {"round_trip_us": percentiles(found), "enqueue_us": percentiles(enqueue)}


def callback(torch):
    """From what the GPU has done to a callback of the driver's thread (cuLaunchHostFunc): how late is it?"""
    cuda, stream, words = driver(), torch.cuda.Stream(), Words(torch)
    done = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    called = kind(lambda _: done.append(time.perf_counter_ns()))
    late = []
    for value in range(1, 501):
        handle = ctypes.c_void_p(stream.cuda_stream)
        words.enqueue(stream, value)
        code = cuda.cuLaunchHostFunc(handle, called, None)
        if code:
            raise OSError("the driver answers %d" % code)
        time.sleep(0.0005)
        went = time.perf_counter_ns()
        words.go.value = value
        stream.synchronize()
        late.append((done[-1] - went) / 1e3)
    return {"late_us": percentiles(late)}


def streams(torch):
    """Whether another stream of the process goes on while one waits; launched before and after the wait."""
    words, waiting, other = Words(torch), torch.cuda.Stream(), torch.cuda.Stream()
    multiply = work(torch)
    with torch.cuda.stream(other):
        multiply()
    torch.cuda.synchronize()
    free = rate(torch, multiply, 0.5)
    words.enqueue(waiting, 1)
    with torch.cuda.stream(waiting):
        multiply()
    held, began = [], time.monotonic()
    while time.monotonic() < began + 0.5:
        with torch.cuda.stream(other):
            for _ in range(8):
                multiply()
        event = other.record_event()
        end = time.monotonic() + 2
        while not event.query() and time.monotonic() < end:
            pass
        if not event.query():
            break
        held.append(8)
    went_on = sum(held) / (time.monotonic() - began)
    waits = not waiting.query()
    words.go.value = 1
    torch.cuda.synchronize()
    return {"connections": os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", ""), "free_per_s": round(free), "beside_per_s": round(went_on), "still_waits": waits}


def queues(torch):
    """Which of many streams go on while one of them waits: the GPU has fewer queues than a process has streams."""
    answer = {}
    for name, priority in (("usual", 0), ("high", -1)):
        words, waiting = Words(torch), torch.cuda.Stream(priority=priority)
        others = [torch.cuda.Stream() for _ in range(STREAMS)]
        small = work(torch, 256)
        for stream in [waiting, *others]:
            with torch.cuda.stream(stream):
                small()
        torch.cuda.synchronize()
        words.enqueue(waiting, 1)
        stopped = 0
        for stream in others:
            with torch.cuda.stream(stream):
                small()
            event = stream.record_event()
            end = time.monotonic() + 0.05
            while not event.query() and time.monotonic() < end:
                pass
            stopped += not event.query()
        words.go.value = 1
        torch.cuda.synchronize()
        answer[name] = "%d of %d stopped" % (stopped, STREAMS)
    return answer


def waiter(torch):
    """Enqueues a wait and says so; then waits to be stopped or killed."""
    words, stream = Words(torch), torch.cuda.Stream()
    words.enqueue(stream, 1)
    while words.ready.value != 1:
        pass
    print("waits", flush=True)
    for line in sys.stdin:
        if line.strip() == "go":
            words.go.value = 1
            stream.synchronize()
            print("went", flush=True)
        elif line.strip() == "fork":
            if os.fork() == 0:
                os._exit(0)
            os.wait()
            print("forked %s" % (not stream.query()), flush=True)


def neighbours(torch):
    """Another process while one waits in a stream, is stopped there, and is killed there."""
    multiply = work(torch)
    rate(torch, multiply, 0.5)
    answer = {"alone_per_s": round(rate(torch, multiply, 0.7))}
    child = subprocess.Popen([sys.executable, __file__, "waiter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    answer["beside_waiting_per_s"] = round(rate(torch, multiply, 0.7))
    child.stdin.write("fork\n"), child.stdin.flush()
    answer["fork"] = child.stdout.readline().strip()
    os.kill(child.pid, signal.SIGSTOP)
    answer["beside_stopped_per_s"] = round(rate(torch, multiply, 0.7))
    os.kill(child.pid, signal.SIGCONT)
    child.stdin.write("go\n"), child.stdin.flush()
    answer["continued"] = child.stdout.readline().strip()
    other = subprocess.Popen([sys.executable, __file__, "waiter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    other.stdout.readline()
    began = time.monotonic()
    other.kill()
    other.wait()
    answer["killed_ends_after_ms"] = round((time.monotonic() - began) * 1e3, 1)
    answer["after_kill_per_s"] = round(rate(torch, multiply, 0.7))
    child.stdin.close()
    child.wait(10)
    return answer


PARTS = {"latency": latency, "callback": callback, "streams": streams, "queues": queues, "waiter": waiter, "neighbours": neighbours}


def main():
    if len(sys.argv) == 2:
        import torch

        answer = PARTS[sys.argv[1]](torch)
        if answer is not None:
            print(json.dumps({sys.argv[1]: answer}), flush=True)
        return
    failed = False
    for part, environment in (("latency", {}), ("callback", {}), ("streams", {}), ("streams", {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}), ("queues", {}), ("queues", {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}), ("neighbours", {})):
        failed |= subprocess.run([sys.executable, __file__, part], env={**os.environ, **environment}, timeout=90).returncode != 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
