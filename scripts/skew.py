"""Two versions beside each other, as real programs: python3 scripts/skew.py --old FOLDER --old-name NAME --new FOLDER

Each folder holds antiphase-topology, antiphase-agent and libantiphase_gate.so. Two jobs that meet on a link run behind gates, with a
service, agents and gates of every combination; then a service is replaced on its own state file while clients commit, jobs go on and
agents and gates are replaced one after another; then the way back. Prints a table of each. Exit code 1, and a line that begins with
MISS for each, where a job was kept for longer than STEP_MAX_S, a program ended, or something acknowledged was lost; and where programs
of one version do not take turns or hold slots, because then the rest shows nothing. What versions do not do together is printed, and
misses nothing. scripts/skew.sh builds both folders.
"""

import argparse
import collections
import hashlib
import http.client
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import rig

# Starts of a job are measured for so long, after this much to begin with.
MEASURED_S, SETTLES_S = 3.0, 1.5
# How long agents get to find their session: a new one needs milliseconds, unless it is refused; one whose service was killed may first
# have to notice that it is silent, for 10 s.
SESSION_S, NEW_SESSION_S = 15, 5
# A start waits for one iteration of 0.1 s at most, whatever versions meet; the rest is for a busy machine.
STEP_MAX_S = 0.6
# Of programs of one version, so many starts wait or are granted: none of them would be, if nothing were held.
HELD_MIN = 0.8
# A job that nothing holds up starts every 0.1 s; half as often on a busy machine.
STARTS_MIN = MEASURED_S / (rig.SENDS_S + rig.COMPUTES_S) / 2
# Jobs that are committed and released while the service is replaced.
COMMITTED = 6
# What the plan held: a turn that was granted, a slot that was met or waited for.
FOLLOWED = ("granted", "on-time")


class Version:
    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.library = os.path.join(folder, "libantiphase_gate.so")

    def control(self, folder):
        """The lines of a configuration that have jobs kept apart: by turns where this version has them."""
        path = os.path.join(folder, "try-%s.toml" % self.name)
        with open(path, "w") as out:
            out.write('control = "turns"\n')
        command = [os.path.join(self.folder, "antiphase-topology"), "config", "check", "--config", path]
        known = subprocess.run(command, capture_output=True).returncode == 0
        # From before turns there was no key, and slots only.
        return ("turns", 'control = "turns"\n') if known else ("slots", "")


class World:
    """A service, two agents and two jobs, each of a version that may be replaced."""

    def __init__(self, folder, service, agents, gates):
        self.folder, self.port = folder, rig.free_port()
        self.state = os.path.join(folder, "state.redb")
        self.agents, self.jobs, self.pages = {}, {}, {}
        self.serve(service)
        self.client = rig.Client(self.port)
        for host, version in zip(("h1", "h2"), agents):
            self.run_agent(host, version)
        # Jobs between the first two leaves; the third leaf is for others.
        body = {"jobs": [rig.job("a", ["h1", "h13"]), rig.job("b", ["h2", "h14"])]}
        answer = self.client.ask("POST", "/v1alpha1/commit", body)
        if answer.status != 200:
            raise RuntimeError("the service of %s refuses the jobs: %s" % (service.name, answer.body.decode(errors="replace")))
        self.connected = self.sessions(NEW_SESSION_S)
        for name, version in zip(("a", "b"), gates):
            self.run_job(name, version)

    def serve(self, version):
        self.control, lines = version.control(self.folder)
        self.service = rig.service(self.folder, version.folder, self.port, self.state, lines).start()
        rig.listens(self.service, self.port)

    def run_agent(self, host, version):
        self.agents[host], self.pages[host] = rig.agent(self.folder, version.folder, host, self.port)
        self.agents[host].start()

    def run_job(self, name, version):
        self.jobs[name] = rig.Job(version.library, name, self.pages[{"a": "h1", "b": "h2"}[name]])

    def sessions(self, within_s=SESSION_S):
        """How many of the agents the service says are connected, once all are or have had their time."""
        end = time.monotonic() + within_s
        while True:
            try:
                listed = self.client.ask("GET", "/v1alpha1/agents").json().get("agents", [])
            except (OSError, http.client.HTTPException):
                listed = []
            connected = sum(1 for agent in listed if agent.get("state") in ("connected", "quarantined"))
            if connected == len(self.agents) or time.monotonic() > end:
                return connected
            time.sleep(0.05)

    def measure(self, seconds=MEASURED_S):
        for job in self.jobs.values():
            job.take()
        time.sleep(seconds)
        return Measured([job.take() for job in self.jobs.values()])

    def dead(self):
        programs = [("service", self.service)] + [("agent of " + host, agent) for host, agent in self.agents.items()]
        return ["the %s has ended: %s" % (name, program.said(1)) for name, program in programs if not program.lives()] + [
            "the process of job %s has ended" % name for name, job in self.jobs.items() if not job.lives()
        ]

    def end(self):
        for job in self.jobs.values():
            job.end()
        for program in [*self.agents.values(), self.service]:
            program.end()


class Measured:
    """Starts of two jobs in one span."""

    def __init__(self, starts):
        self.starts = starts
        every = [start for of_job in starts for start in of_job]
        self.count = len(every)
        self.followed = sum(start.reason in FOLLOWED for start in every) / max(self.count, 1)
        self.reasons = collections.Counter(start.reason for start in every if start.reason not in FOLLOWED)
        # From the end of one start to the next, less what the job computes: a gate that hangs shows here, whatever it says.
        gaps = [(b.begins - a.ends) / 1e9 - rig.COMPUTES_S for of_job in starts for a, b in zip(of_job, of_job[1:])]
        self.longest_s = max(gaps + [start.held_ns / 1e9 for start in every], default=0.0)
        both = sum(max(0, min(a.ends, b.ends) - max(a.begins, b.begins)) for a, b in itertools.product(*starts))
        self.beside = both / max(1, sum(start.ends - start.begins for start in every) - both)

    def misses(self):
        found = ["a start waited for %.2f s" % self.longest_s] if self.longest_s > STEP_MAX_S else []
        return found + ["a job started %d times in %.0f s" % (len(of), MEASURED_S) for of in self.starts if len(of) < STARTS_MIN]

    def cells(self):
        because = ", ".join("%s %d" % reason for reason in self.reasons.most_common(3))
        followed, beside = ("%.0f %%" % (100 * share) for share in (self.followed, self.beside))
        return ["%d" % self.count, followed, "%.0f ms" % (1000 * self.longest_s), beside, because or "-"]


def show(rows):
    """Rows as a table; the first is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    sys.stdout.flush()


def combinations(old, new):
    """Service, agents and gates. One version alone, then what differs, then both at once."""
    whole = [(s, (a, a), (g, g)) for s, a, g in itertools.product((new, old), repeat=3)]
    return whole + [(s, (old, new), (new, old)) for s in (new, old)]


def pairs(folder, old, new):
    rows = [["SERVICE", "AGENTS", "GATES", "CONTROL", "SESSIONS", "STARTS", "FOLLOWED", "LONGEST", "BESIDE", "LET GO", "WITHOUT A SERVICE"]]
    missed = []
    for number, (service, agents, gates) in enumerate(combinations(old, new)):
        said = [service.name] + ["+".join(dict.fromkeys(v.name for v in versions)) for versions in (agents, gates)]
        at = os.path.join(folder, "pair-%d" % number)
        os.mkdir(at)
        world = World(at, service, agents, gates)
        try:
            time.sleep(SETTLES_S)
            measured, misses = world.measure(), []
            misses += measured.misses() + world.dead()
            if len({service, *agents, *gates}) == 1 and measured.followed < HELD_MIN:
                misses.append("nothing but %s, and only %.0f %% of the starts follow the plan" % (service.name, 100 * measured.followed))
            # Killed: nobody is told.
            world.service.end(signal.SIGKILL)
            without = world.measure(MEASURED_S)
            misses += without.misses() + world.dead()[1:]
        finally:
            world.end()
        rows.append(said + [world.control, "%d of 2" % world.connected] + measured.cells() + ["%.0f ms" % (1000 * without.longest_s)])
        missed += ["service %s, agents %s, gates %s: %s" % (*said, miss) for miss in misses]
    show(rows)
    return missed


class Committer:
    """Commits and releases jobs on the third leaf, one after another, and remembers what was answered."""

    def __init__(self, port):
        self.port, self.stop = port, threading.Event()
        # What each job stands on by the last answer, and the body of a commit that got none.
        self.acknowledged, self.open, self.answers, self.unknown = {}, {}, {}, 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        client, number = rig.Client(self.port), 0
        while not self.stop.is_set():
            number += 1
            name, pair = "c%d" % (number % COMMITTED), 25 + 2 * (number % COMMITTED)
            # Each job has hosts of its own, whose order says which commit it was.
            hosts = ["h%d" % pair, "h%d" % (pair + 1)][:: 1 if number // COMMITTED % 2 else -1]
            if number % 5 == 0:
                self._try(client, name, "/v1alpha1/release", {"jobs": [name]}, None)
            else:
                body = {"jobs": [rig.job(name, hosts)], "idempotency_key": "key-%d" % number}
                self._try(client, name, "/v1alpha1/commit", body, hosts)
            time.sleep(0.03)

    def _try(self, client, name, path, body, hosts):
        try:
            answer = client.ask("POST", path, body)
        except (OSError, http.client.HTTPException):
            # The service is away: whether this is in force is asked later, by its key.
            self.unknown += 1
            self.open[name] = (path, body, hosts)
            time.sleep(0.2)
            return
        known = self.acknowledged.get(name)
        if answer.status == 200:
            self.acknowledged[name] = hosts
            self.open.pop(name, None)
            if hosts is not None:
                self.answers[name] = (body, answer.json().get("plan_version"))
        elif path.endswith("release") and answer.status == 404 and (known is None or name in self.open):
            self.acknowledged[name] = None
            self.open.pop(name, None)

    def end(self):
        self.stop.set()
        self.thread.join()

    def lost(self, client):
        """What was acknowledged and is not there, or otherwise."""
        listed = client.ask("GET", "/v1alpha1/jobs").json().get("jobs", [])
        there = {job["id"]: job["hosts"] for job in listed}
        found = []
        for name, hosts in sorted(self.acknowledged.items()):
            allowed = [hosts] + ([self.open[name][2]] if name in self.open else [])
            if there.get(name) not in allowed:
                found.append("%s stands on %s, acknowledged on %s" % (name, there.get(name), hosts))
        return found + ["job %s is gone" % name for name in ("a", "b") if name not in there]

    def repeated(self, client):
        """Commits whose key is sent again, of jobs that stand as they were committed: the answer is that of the first time."""
        found = []
        for name, (body, plan_version) in sorted(self.answers.items()):
            if name in self.open or self.acknowledged.get(name) != body["jobs"][0]["hosts"]:
                continue
            answer = client.ask("POST", "/v1alpha1/commit", body)
            again = answer.json().get("plan_version") if answer.status == 200 else None
            if again != plan_version:
                found.append("the key of %s: %s and version %s, at first %s" % (name, answer.status, again, plan_version))
        return found


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def upgrade(folder, old, new):
    """From all of the old version to all of the new one, a program at a time, and the service back again."""
    at = os.path.join(folder, "upgrade")
    os.mkdir(at)
    world = World(at, old, (old, old), (old, old))
    rows, missed = [["STEP", "CONTROL", "SESSIONS", "STARTS", "FOLLOWED", "LONGEST", "BESIDE", "LET GO"]], []

    def step(what, act):
        act()
        connected = world.sessions()
        measured = world.measure()
        rows.append([what, world.control, "%d of 2" % connected] + measured.cells())
        missed.extend("%s: %s" % (what, miss) for miss in measured.misses() + world.dead())

    def replace_service():
        # Killed in the middle of commits: the harder way.
        world.service.end(signal.SIGKILL)
        shutil.copy(world.state, world.state + ".before")
        world.serve(new)

    def replace_agent(host):
        # As systemd stops it.
        world.agents[host].end(signal.SIGTERM)
        world.run_agent(host, new)

    def replace_gates():
        for name in ("a", "b"):
            world.jobs[name].end()
            world.run_job(name, new)

    committer = Committer(world.port)
    try:
        step("all of " + old.name, lambda: None)
        step("service of " + new.name, replace_service)
        step("agent of h1", lambda: replace_agent("h1"))
        step("agent of h2", lambda: replace_agent("h2"))
        step("gates", replace_gates)
        committer.end()
        missed += ["upgraded: " + lost for lost in committer.lost(world.client) + committer.repeated(world.client)]
        committed = sum(hosts is not None for hosts in committer.acknowledged.values())
        show(rows)
        print("%d jobs of other clients stand, %d requests were cut off by the kill; lost: %d" % (committed, committer.unknown, len(missed)))
        if committer.unknown == 0 or committed == 0:
            missed.append("no request was under way when the service was killed: the experiment shows nothing")
        missed += back(world, committer, old, new)
    finally:
        committer.stop.set()
        world.end()
    return missed


def back(world, committer, old, new):
    """The old service on the file that the new one has written: it refuses it, or has all of it."""
    world.service.end(signal.SIGTERM)
    before = digest(world.state)
    try:
        world.serve(old)
    except RuntimeError:
        code = world.service.process.wait(rig.SOON_S)
        # What an old program does to a file that it refuses cannot be mended any more: the operator has the copy.
        kept = "left as it was" if digest(world.state) == before else "but written to"
        print("back to %s: refused with exit code %d, %s: %s" % (old.name, code, kept, world.service.said(1).split(": ", 2)[-1]))
        # What the upgrade began with is what the operator's copy has.
        shutil.copy(world.state + ".before", world.state)
        world.serve(old)
        print("back to %s on the copy from before: %d of 2 sessions" % (old.name, world.sessions()))
        return []
    measured = world.measure()
    said = old.name, world.sessions(), measured.count, 1000 * measured.longest_s
    print("back to %s on the same file: taken, %d of 2 sessions, %d starts, the longest wait %.0f ms" % said)
    return ["back: " + lost for lost in committer.lost(rig.Client(world.port)) + measured.misses()]


def main():
    parser = argparse.ArgumentParser(description="two versions beside each other")
    for name in ("old", "old-name", "new"):
        parser.add_argument("--" + name, required=True)
    arguments = parser.parse_args()
    old, new = Version(arguments.old_name, os.path.abspath(arguments.old)), Version("new", os.path.abspath(arguments.new))
    for version in (old, new):
        for name in ("antiphase-topology", "antiphase-agent", "libantiphase_gate.so"):
            if not os.path.exists(os.path.join(version.folder, name)):
                sys.exit("skew: %s has no %s" % (version.folder, name))
    folder = tempfile.mkdtemp(prefix="antiphase-skew-")
    try:
        missed = pairs(folder, old, new)
        print()
        missed += upgrade(folder, old, new)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for miss in missed:
        print("MISS " + miss)
    print("skew: %s" % ("%d missed" % len(missed) if missed else "nothing was kept, lost or ended"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
