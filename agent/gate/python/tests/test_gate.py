"""The package without PyTorch. The Rust tests run this beside an agent with four jobs: `pass`, `held` (due every 200 ms with
a tolerance of zero), `far` (which would be held for half a minute) and `turns` (which is granted every start)."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import warnings
from unittest import mock

import antiphase_gate
from antiphase_gate import Gate
from antiphase_gate.pytorch import ddp_comm_hook, optimizer_hook

AGENT = "ANTIPHASE_GATE_LIBRARY" in os.environ and "ANTIPHASE_DIR" in os.environ


def ended(code, *flags, **environment):
    """How another interpreter ended, and what it printed."""
    merged = dict(os.environ, **environment)
    merged = {name: value for name, value in merged.items() if value is not None}
    done = subprocess.run([sys.executable, *flags, "-c", code], env=merged, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return done.returncode, done.stdout.decode().strip()


def python(code, **environment):
    """What another interpreter prints."""
    return ended(code, **environment)[1]


def last(text):
    """The last line: warnings come before what the code prints at its end."""
    return text.splitlines()[-1]


@unittest.skipUnless(AGENT, "no agent; `cargo test -p antiphase-gate` runs these beside one")
class WithAgent(unittest.TestCase):
    def test_a_job_that_runs_as_it_comes_goes(self):
        with Gate("pass") as gate:
            step = gate.step()
        self.assertEqual((step.outcome, step.reason, step.held_ns, step.late_ns), ("went", "not-held", 0, None))
        self.assertEqual(gate.step().reason, "closed")

    def test_a_held_job_starts_in_its_slot(self):
        with Gate("held") as gate:
            for _ in range(3):
                before = time.monotonic_ns()
                step = gate.step()
                after = time.monotonic_ns()
                self.assertIn(step.outcome, ("held", "slipped"))
                self.assertEqual(step.reason, "on-time")
                self.assertGreaterEqual(step.late_ns, 0)
                self.assertTrue(before <= step.start_ns <= after)
                time.sleep(0.005)

    def test_other_threads_run_while_one_is_held(self):
        code = (
            "import antiphase_gate, os, threading, time\n"
            "gate = antiphase_gate.Gate('far')\n"
            "threading.Thread(target=gate.step, daemon=True).start()\n"
            "time.sleep(0.2)\n"
            "print(gate.step().reason, flush=True)\n"
            "os._exit(0)\n"
        )
        self.assertEqual(python(code), "busy")

    def test_a_gate_that_a_thread_uses_many_times(self):
        with Gate("pass") as gate:
            threads = [threading.Thread(target=lambda: [gate.step() for _ in range(1000)]) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def test_the_environment_names_the_job_and_the_leader(self):
        code = "import antiphase_gate; print(antiphase_gate.step().reason)"
        self.assertEqual(python(code, ANTIPHASE_JOB="pass"), "not-held")
        self.assertEqual(python(code, ANTIPHASE_JOB="pass", RANK="0"), "not-held")
        self.assertEqual(python(code, ANTIPHASE_JOB="pass", RANK="1"), "not-leader")
        self.assertEqual(python(code, ANTIPHASE_JOB="pass", SLURM_PROCID="3"), "not-leader")
        self.assertEqual(python(code, ANTIPHASE_JOB="pass", ANTIPHASE_GATE="off"), "off")
        self.assertEqual(last(python(code, ANTIPHASE_JOB=None)), "off")
        self.assertEqual(last(python(code, ANTIPHASE_JOB="nobody")), "no-page")

    def test_a_gate_that_holds_nothing_says_so_once(self):
        code = "import antiphase_gate\nfor _ in range(30): reason = antiphase_gate.step().reason\nprint(reason)"
        for environment, reason, says in (
            (dict(ANTIPHASE_JOB=None), "off", "ANTIPHASE_JOB is not set"),
            (dict(ANTIPHASE_JOB="nobody"), "no-page", "nothing is held (no-page); `antiphase gate status` explains"),
            (dict(ANTIPHASE_JOB="a/b"), "no-gate", "a/b"),
        ):
            for flags in ((), ("-W", "error"), ("-W", "ignore")):
                code_, text = ended(code, *flags, **environment)
                self.assertEqual((code_, last(text)), (0, reason), text)
                self.assertEqual(text.count("antiphase_gate: "), 0 if "ignore" in flags else 1, text)
                if "ignore" not in flags:
                    self.assertIn(says, text)
        # Nobody is told of what somebody wanted, or of a job that runs as it comes.
        for environment in (dict(ANTIPHASE_JOB="pass"), dict(ANTIPHASE_JOB=None, ANTIPHASE_GATE="Off"), dict(ANTIPHASE_JOB=None, RANK="1")):
            self.assertNotIn("antiphase_gate", python(code, **environment))

    def test_a_reason_that_passes_is_said_when_it_stays(self):
        gate = Gate("pass")
        step = antiphase_gate.Step("fail-open", "unheard", 0, None, 1, 0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(9):
                gate._watch(step)
            gate._watch(step._replace(outcome="went"))
            for _ in range(9):
                gate._watch(step)
            self.assertEqual(len(caught), 0)
            gate._watch(step)
            gate._watch(step)
        self.assertEqual(len(caught), 1)
        gate.close()

    def test_a_fork_of_a_process_that_opens_the_gate_does_not_hang(self):
        code = (
            "import antiphase_gate, os, threading\n"
            "from antiphase_gate import _library\n"
            "held, forked = threading.Event(), threading.Event()\n"
            "def hold():\n"
            "    with antiphase_gate._lock, _library._lock: held.set(); forked.wait(30)\n"
            "threading.Thread(target=hold, daemon=True).start()\n"
            "held.wait(30)\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    print(antiphase_gate.step().reason, flush=True)\n"
            "    os._exit(0)\n"
            "_, status = os.waitpid(pid, 0)\n"
            "forked.set()\n"
            "print(status)\n"
        )
        # Newer interpreters warn of forks beside threads.
        status, text = ended(code, ANTIPHASE_JOB="pass")
        self.assertEqual((status, text.splitlines()[-2:]), (0, ["not-held", "0"]))

    def test_a_bad_name_is_a_warning(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for bad in ("../x", "a\0b", "", "caf\u00e9"):
                self.assertEqual(Gate(bad).step().reason, "no-gate")
        self.assertEqual(len(caught), 4)
        self.assertIn("'../x'".replace("'", '"'), str(caught[0].message))


    def test_a_turn_is_a_step_and_then_done(self):
        with Gate("turns") as gate:
            # On a busy machine an answer can come too late; another start has to do then.
            step = None
            while step is None or step.reason == "unheard":
                time.sleep(0.01)
                with gate.turn() as step:
                    pass
            self.assertEqual((step.outcome, step.reason, step.late_ns), ("held", "granted", None))
            with self.assertRaises(KeyError):
                with gate.turn():
                    raise KeyError("of the job")
            gate.step()
            gate.done()
            gate.done()
        # Closed, and without a job: nothing happens.
        gate.done()
        code = "import antiphase_gate\nwith antiphase_gate.turn() as step: print(step.reason)\nantiphase_gate.done()"
        self.assertEqual(last(python(code, ANTIPHASE_JOB=None)), "off")
        self.assertEqual(python(code, ANTIPHASE_JOB="pass", RANK="1"), "not-leader")
        self.assertEqual(python(code, ANTIPHASE_JOB="pass"), "not-held")


class Device(tuple):
    """As much of torch.device as the hook uses."""

    type = property(lambda self: self[0])


class Hooks(unittest.TestCase):
    """Against stand-ins for torch; tests/test_pytorch.py has the real one."""

    class Counting:
        def __init__(self):
            self.steps = 0
            self.dones = 0

        def step(self):
            self.steps += 1

        def done(self):
            self.dones += 1

    def optimizer_module(self, **functions):
        optimizer = types.SimpleNamespace(**functions)
        optim = types.SimpleNamespace(optimizer=optimizer)
        return mock.patch.dict(sys.modules, {"torch": types.SimpleNamespace(optim=optim), "torch.optim": optim})

    def test_each_nth_optimizer_step_is_gated(self):
        registered = []
        gate = self.Counting()
        with self.optimizer_module(register_optimizer_step_post_hook=lambda hook: registered.append(hook) or "handle"):
            self.assertEqual(optimizer_hook(gate, steps_per_iteration=3), "handle")
        for _ in range(7):
            registered[0]("optimizer", (), {})
        self.assertEqual(gate.steps, 2)
        with self.assertRaises(ValueError):
            optimizer_hook(gate, steps_per_iteration=0)

    def test_an_old_torch_is_a_warning(self):
        with self.optimizer_module(), self.assertWarns(RuntimeWarning):
            self.assertIsNone(optimizer_hook(self.Counting()))

    def test_the_first_bucket_of_each_iteration_is_gated(self):
        gate = self.Counting()
        calls = []

        def inner(group: object, b: str) -> int:
            calls.append(b)
            return len(calls)

        hook = ddp_comm_hook(inner, gate)
        self.assertEqual(hook.__annotations__, {"state": object, "bucket": str, "return": int})
        # Three buckets in the first iteration, two after they were rebuilt.
        for last in (False, False, True, False, True):
            hook(None, types.SimpleNamespace(is_last=lambda last=last: last))
        self.assertEqual((gate.steps, gate.dones, len(calls)), (2, 0, 5))

    class Future:
        """As much of torch.futures.Future as the hook uses: completes when told to."""

        def __init__(self):
            self.callbacks = []

        def then(self, callback):
            self.after = Hooks.Future()
            self.callbacks.append(lambda: self.after.complete(callback(self)))
            return self.after

        def complete(self, value):
            self.result = value
            for callback in self.callbacks:
                callback()

        def value(self):
            return self.result

    def bucket(self, last, device="cpu"):
        tensor = types.SimpleNamespace(device=types.SimpleNamespace(type=device))
        return types.SimpleNamespace(is_last=lambda: last, buffer=lambda: tensor)

    def test_done_comes_when_the_last_bucket_is_averaged(self):
        gate = self.Counting()
        futures = []

        def inner(state, bucket):
            futures.append(Hooks.Future())
            return futures[-1]

        hook = ddp_comm_hook(inner, gate)
        given = [hook(None, self.bucket(last)) for last in (False, True, False, True)]
        self.assertIs(given[0], futures[0])
        self.assertIsNot(given[1], futures[1])
        futures[0].complete("first")
        self.assertEqual((gate.steps, gate.dones), (2, 0))
        futures[1].complete("second")
        self.assertEqual((gate.dones, given[1].value()), (1, "second"))
        futures[3].complete("fourth")
        self.assertEqual(gate.dones, 2)

    def test_of_gradients_on_a_device_without_streams_nobody_says_done(self):
        gate = self.Counting()
        future = Hooks.Future()
        for bucket in (self.bucket(True, "xpu"), self.bucket(True, "cuda"), types.SimpleNamespace(is_last=lambda: True)):
            self.assertIs(ddp_comm_hook(lambda state, bucket: future, gate, in_stream=False)(None, bucket), future)
        self.assertEqual((gate.steps, future.callbacks), (3, []))

    class Streams(Counting):
        """A gate for streams, and as much of torch.cuda as the hook uses; `told` is what happened, in order."""

        def __init__(self, refusal=""):
            super().__init__()
            self.told, self.stream_refusal, self.current = [], refusal, "compute"
            self.made = 0

        def step_in_stream(self, stream):
            self.told.append(("step", stream))
            return not self.stream_refusal

        def done_in_stream(self, stream):
            self.told.append(("done", stream))
            return not self.stream_refusal

        def stream(self, _device):
            self.made += 1
            name = "own %d" % self.made
            return types.SimpleNamespace(cuda_stream=name, wait_stream=lambda other: self.told.append((name, "waits for", other)))

        @contextlib.contextmanager
        def enter(self, stream):
            before, self.current = self.current, stream.cuda_stream
            yield
            self.current = before

        def torch(self):
            cuda = types.SimpleNamespace(Stream=self.stream, current_stream=lambda _: self.current, stream=self.enter)
            return mock.patch.dict(sys.modules, {"torch": types.SimpleNamespace(cuda=cuda)})

        def hook(self, in_stream=None):
            def inner(state, bucket):
                self.told.append(("send", self.current))
                return Hooks.Future()

            return ddp_comm_hook(inner, self, in_stream)

    def test_of_gradients_on_a_gpu_a_stream_waits_and_its_end_is_told(self):
        gate = self.Streams()
        with gate.torch():
            hook = gate.hook()
            device = ("cuda", 0)
            tensor = types.SimpleNamespace(device=Device(device))
            for last in (False, False, True):
                given = hook(None, types.SimpleNamespace(is_last=lambda last=last: last, buffer=lambda: tensor))
                gate.told.append("next")
            self.assertEqual(gate.steps, 0)
            expected = [("own 1", "waits for", "compute"), ("step", "own 1"), ("send", "own 1"), "next"]
            expected += [("send", "compute"), "next", ("send", "compute"), "next"]
            self.assertEqual(gate.told, expected)
            # PyTorch calls it with streams as the current ones that have come to the last all-reduce.
            gate.current = "after"
            self.assertIsInstance(given, Hooks.Future)
            self.assertEqual(gate.dones, 0)

    def test_the_end_of_what_a_gpu_sends_is_told_on_another_stream(self):
        gate, futures = self.Streams(), []

        def inner(state, bucket):
            futures.append(Hooks.Future())
            return futures[-1]

        with gate.torch():
            hook = ddp_comm_hook(inner, gate)
            tensor = types.SimpleNamespace(device=Device(("cuda", 0)))
            given = hook(None, types.SimpleNamespace(is_last=lambda: True, buffer=lambda: tensor))
            gate.told.clear()
            gate.current = "after"
            futures[0].complete("averaged")
        self.assertEqual(gate.told, [("own 2", "waits for", "after"), ("done", "own 2")])
        self.assertEqual((given.value(), gate.dones, gate.steps), ("averaged", 0, 0))

    def test_where_no_stream_can_wait_the_host_does_and_it_is_said_once(self):
        device = types.SimpleNamespace(device=Device(("cuda", 0)))
        bucket = types.SimpleNamespace(is_last=lambda: True, buffer=lambda: device)
        for refusal, warnings_expected, tried in (("the driver refused", 1, 1), ("the stream is recorded for a graph", 1, 2), ("not-leader", 0, 1)):
            gate = self.Streams(refusal)
            with gate.torch(), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                hook = gate.hook()
                hook(None, bucket), hook(None, bucket)
            self.assertEqual((gate.steps, gate.dones, len(said)), (2, 0, warnings_expected))
            self.assertEqual([what[0] for what in gate.told if what[0] in ("step", "done")], ["step"] * tried)
        # What is recorded for a graph is not sent now: no stream is touched, and the host asks for nothing.
        gate = self.Streams()
        with gate.torch():
            sys.modules["torch"].cuda.is_current_stream_capturing = lambda: True
            hook = gate.hook()
            hook(None, bucket)
            self.assertEqual((gate.steps, gate.told), (0, [("send", "compute")]))
            sys.modules["torch"].cuda.is_current_stream_capturing = lambda: False
            hook(None, bucket)
        self.assertEqual((gate.steps, gate.told[-2:]), (0, [("step", "own 1"), ("send", "own 1")]))
        # A torch that this package does not know, and a switch.
        gate = self.Streams()
        with mock.patch.dict(sys.modules, {"torch": types.SimpleNamespace()}), self.assertWarns(RuntimeWarning):
            gate.hook()(None, bucket)
        self.assertEqual((gate.steps, gate.told[-1]), (1, ("send", "compute")))
        gate = self.Streams()
        with gate.torch(), mock.patch.dict("os.environ", {"ANTIPHASE_GATE_STREAM": "off"}):
            gate.hook()(None, bucket)
        self.assertEqual((gate.steps, gate.told), (1, [("send", "compute")]))


class WithoutLibrary(unittest.TestCase):
    def test_a_missing_library_is_one_warning_and_no_gate(self):
        code = "import antiphase_gate; [print(antiphase_gate.step().reason) for _ in range(2)]"
        lines = python(code, ANTIPHASE_GATE_LIBRARY="/nonexistent/lib.so").splitlines()
        self.assertEqual(lines.count("no-library"), 2)
        self.assertEqual(len([line for line in lines if "RuntimeWarning" in line]), 1, lines)

    def test_where_warnings_are_errors_the_job_starts_all_the_same(self):
        code = "import antiphase_gate as g; g.Gate('a/b').step(); g.done(); g.default_gate().flush(); print(g.step().reason)"
        for environment in (dict(ANTIPHASE_GATE_LIBRARY="/nonexistent/lib.so"), dict(ANTIPHASE_GATE_LIBRARY="libc.so.6")):
            status, text = ended(code, "-W", "error", ANTIPHASE_JOB="a/b", **environment)
            self.assertEqual((status, last(text)), (0, "no-library"), text)
            self.assertNotIn("Traceback", text)

    def test_a_standard_error_that_takes_no_line_changes_nothing(self):
        code = "import antiphase_gate as g; print(g.step().reason)"
        environment = dict(os.environ, ANTIPHASE_GATE_LIBRARY="/nonexistent/lib.so", ANTIPHASE_JOB="j")
        unread, gone = os.pipe(), os.pipe()
        os.close(gone[0])
        os.set_blocking(unread[1], False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(unread[1], bytes(65536))
        os.set_blocking(unread[1], True)
        with open("/dev/full", "wb") as full:
            for name, stream in (("nobody reads it", unread[1]), ("its reader is gone", gone[1]), ("full", full.fileno())):
                with self.subTest(name):
                    job = subprocess.run(
                        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=stream, text=True, timeout=60
                    )
                    self.assertEqual((job.returncode, last(job.stdout)), (0, "no-library"))

    def test_a_library_that_is_no_file_is_none(self):
        with tempfile.TemporaryDirectory() as directory:
            fifo = os.path.join(directory, "lib.so")
            os.mkfifo(fifo)
            text = python("import antiphase_gate; print(antiphase_gate.step().reason)", ANTIPHASE_GATE_LIBRARY=fifo)
            self.assertEqual(last(text), "no-library", text)

    def test_what_is_missing_for_a_hold_is_named_and_the_exit_code_says_so(self):
        code = "import runpy; runpy.run_module('antiphase_gate', run_name='__main__')"
        self.assertEqual(ended(code, ANTIPHASE_JOB="nobody", ANTIPHASE_DIR="/nonexistent")[0], 1)
        if AGENT:
            status, text = ended(code, ANTIPHASE_JOB="held")
            self.assertEqual(status, 0, text)
            self.assertNotIn("GPU streams", text)
            for variables, why in (
                ({"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, "CUDA_DEVICE_MAX_CONNECTIONS is 1"),
                ({"ANTIPHASE_GATE_STREAM": "off"}, "ANTIPHASE_GATE_STREAM is off"),
            ):
                status, text = ended(code, ANTIPHASE_JOB="held", **variables)
                self.assertEqual((status, why in text), (0, True), text)
            status, text = ended(code, ANTIPHASE_JOB="nobody")
            self.assertEqual(status, 1)
            self.assertIn("missing: no %s/nobody.page; is the job committed" % os.environ["ANTIPHASE_DIR"], text)
            self.assertEqual(ended(code, ANTIPHASE_JOB="nobody", RANK="1")[0], 0)

    def test_a_closed_standard_error_stops_nobody(self):
        code = "import antiphase_gate, os, sys; os.close(2); sys.stderr = None; print(antiphase_gate.step().reason)"
        self.assertEqual(ended(code, "-W", "error", ANTIPHASE_GATE_LIBRARY="/nonexistent/lib.so"), (0, "no-library"))

    def test_a_library_that_is_another_one_is_one_warning_and_no_gate(self):
        code = "import antiphase_gate; print(antiphase_gate.step().reason)"
        self.assertIn("no-library", python(code, ANTIPHASE_GATE_LIBRARY="libc.so.6"))

    def test_a_rank_that_does_not_lead_needs_no_library(self):
        code = "import antiphase_gate; print(antiphase_gate.step().reason)"
        self.assertEqual(python(code, ANTIPHASE_GATE_LIBRARY="/nonexistent/lib.so", RANK="1"), "not-leader")

    def test_versions_agree(self):
        path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "pyproject.toml")
        with open(path, encoding="utf-8") as file:
            self.assertIn('version = "%s"' % antiphase_gate.__version__, file.read())


if __name__ == "__main__":
    unittest.main()
