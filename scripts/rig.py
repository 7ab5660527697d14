"""Real programs on loopback, for scripts/skew.py and scripts/soak.py: a service, agents, and jobs behind gates. Standard library only."""

import collections
import ctypes
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

# Nothing takes so long on a machine that works.
SOON_S = 30
# Three leaves under one spine, all cables of 50 Gb/s; jobs between leaves meet at the spine.
LEAVES, HOSTS_PER_LEAF = 3, 12
HOSTS = ["h%d" % (n + 1) for n in range(LEAVES * HOSTS_PER_LEAF)]
# What a gated job does of each 100 ms.
SENDS_S, COMPUTES_S = 0.040, 0.060


def fabric():
    lines = ["schema: antiphase.fabric/v1", "name: three-leaves", "hosts: [%s]" % ", ".join(HOSTS), "switches:"]
    lines += ["- {name: spine, tier: 2}"] + ["- {name: leaf%d, tier: 1}" % leaf for leaf in range(LEAVES)] + ["cables:"]
    lines += ["- {ends: [leaf%d, spine], capacity: 50G}" % leaf for leaf in range(LEAVES)]
    lines += ["- {ends: [%s, leaf%d], capacity: 50G}" % (host, n // HOSTS_PER_LEAF) for n, host in enumerate(HOSTS)]
    return "\n".join(lines) + "\n"


def job(name, hosts):
    """A job of two ranks as in a commit, which does what a gated process here does."""
    phase = {"start_ns": 0, "duration_ns": int(SENDS_S * 1e9), "rate_mbps": 45_000, "collective": "ring", "scope": "data"}
    profile = {"schema": "antiphase.profile/v1", "name": "p", "period_ns": round((SENDS_S + COMPUTES_S) * 1e9), "phases": [phase]}
    return {"id": name, "profile": dict(profile, ranks={"dp": 2}, source="declared"), "hosts": hosts}


def free_port():
    """One that was free just now, for TCP; the service takes it for UDP too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, found, within_s=SOON_S):
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise RuntimeError("%s did not come within %d s" % (what, within_s))


class Answer(collections.namedtuple("Answer", "status body")):
    def json(self):
        return json.loads(self.body)


class Client:
    """Requests over one connection, which is made anew where it broke."""

    def __init__(self, port, timeout_s=SOON_S):
        self.port, self.timeout_s, self.connection = port, timeout_s, None

    def ask(self, method, path, body=None):
        """An OSError or http.client.HTTPException means that nobody knows what became of the request."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout_s)
            headers = {} if body is None else {"content-type": "application/json"}
            self.connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self.connection.getresponse()
            return Answer(answer.status, answer.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


class Program:
    """A process whose output goes to a file."""

    def __init__(self, command, log):
        self.command, self.log = command, log
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    @property
    def pid(self):
        return self.process.pid

    def lives(self):
        return self.process is not None and self.process.poll() is None

    def tell(self, number):
        if self.lives():
            self.process.send_signal(number)

    def end(self, number=signal.SIGKILL):
        """Its exit code."""
        self.tell(number)
        try:
            return self.process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError("%s did not end; its log: %s" % (self.command[0], self.said()))

    def said(self, lines=5):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-lines:]).strip()


def service(folder, programs, port, state, config=""):
    """A service on the fabric, with more of a configuration."""
    at = lambda name: os.path.join(folder, name)
    with open(at("fabric.yaml"), "w") as out:
        out.write(fabric())
    with open(at("service.toml"), "w") as out:
        out.write(config)
    command = [os.path.join(programs, "antiphase-topology"), "--config", at("service.toml"), "--listen", "127.0.0.1:%d" % port]
    return Program(command + ["--state", state, "--fabric", at("fabric.yaml")], at("service.log"))


def listens(program, port):
    """The port of a service, once it answers there and has read what was committed; of one that was given port 0, the one that it says."""

    def answers():
        if not program.lives():
            raise RuntimeError("the service ended: " + program.said())
        at = port or said_port(program)
        try:
            return at if at and Client(at, 2).ask("GET", "/readyz").status == 200 else None
        except (OSError, http.client.HTTPException):
            return None

    return until("a service that is ready", answers)


def said_port(program):
    with open(program.log, errors="replace") as log:
        found = re.findall(r"listening on http://[0-9.]+:([0-9]+)$", log.read(), re.MULTILINE)
    return int(found[-1]) if found else None


def agent(folder, programs, host, port, metrics=""):
    """An agent, and the folder of its pages."""
    pages = os.path.join(folder, "pages-" + host)
    os.makedirs(pages, exist_ok=True)
    config = os.path.join(folder, "agent-%s.toml" % host)
    with open(config, "w") as out:
        # No counters: what this machine's ports carry is nothing to these jobs.
        out.write('host = "%s"\npage_dir = "%s"\n[service]\naddress = "127.0.0.1:%d"\ninsecure_loopback = true\n' % (host, pages, port))
        out.write('[counters]\ninclude = []\n[metrics]\nlisten = "%s"\n' % metrics)
    command = [os.path.join(programs, "antiphase-agent"), "--config", config]
    return Program(command, os.path.join(folder, "agent-%s.log" % host)), pages


Start = collections.namedtuple("Start", "outcome reason held_ns begins ends")


class Job:
    """A job in a process of its own, which steps through the gate of a library and says each start."""

    def __init__(self, library, name, pages):
        self.name, self.starts, self.lock = name, [], threading.Lock()
        command = [sys.executable, os.path.abspath(__file__), library, name, pages]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            outcome, reason, *numbers = line.split()
            with self.lock:
                self.starts.append(Start(outcome, reason, *map(int, numbers)))

    def take(self):
        """What was since this was called last."""
        with self.lock:
            starts, self.starts = self.starts, []
        return starts

    def lives(self):
        return self.process.poll() is None

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()


class _Step(ctypes.Structure):
    """antiphase_step of antiphase_gate.h, interface 1."""

    _fields_ = [
        ("outcome", ctypes.c_int32),
        ("reason", ctypes.c_int32),
        ("held_ns", ctypes.c_uint64),
        ("late_ns", ctypes.c_int64),
        ("start_ns", ctypes.c_uint64),
        ("plan_version", ctypes.c_uint64),
    ]


OUTCOMES = ("went", "held", "slipped", "fail-open")


def run_job(library, name, pages):
    """The process of `Job`, until it is killed."""
    calls = ctypes.CDLL(library)
    if calls.antiphase_gate_abi() != 1:
        raise SystemExit("%s has interface %d, not 1" % (library, calls.antiphase_gate_abi()))
    calls.antiphase_gate_open.restype, calls.antiphase_gate_open.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_char_p]
    calls.antiphase_gate_step.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Step)]
    calls.antiphase_gate_reason.restype, calls.antiphase_gate_reason.argtypes = ctypes.c_char_p, [ctypes.c_int32]
    # A library from before turns has none.
    done = getattr(calls, "antiphase_gate_done", None)
    if done is not None:
        done.restype, done.argtypes = None, [ctypes.c_void_p]
    gate, step = calls.antiphase_gate_open(name.encode(), pages.encode()), _Step()
    while True:
        calls.antiphase_gate_step(gate, ctypes.byref(step))
        begins = time.monotonic_ns()
        time.sleep(SENDS_S)
        if done is not None:
            done(gate)
        ends, reason = time.monotonic_ns(), calls.antiphase_gate_reason(step.reason).decode()
        print(OUTCOMES[step.outcome], reason, step.held_ns, begins, ends, flush=True)
        time.sleep(COMPUTES_S)


if __name__ == "__main__":
    try:
        run_job(*sys.argv[1:])
    except (BrokenPipeError, KeyboardInterrupt):
        pass
