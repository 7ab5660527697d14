"""A soak: python3 scripts/soak.py --programs FOLDER --minutes MINUTES

One service, AGENTS agents and two gated jobs, and beside them for the whole time: clients that commit and release, agents that are killed
and come back, readers of the page and its pictures, scrapers, watchers of events (of which some never read), and SIGHUP. Prints what
the service and an agent hold at the beginning, after a tenth of the time and at the end, and what clients waited; at the end the service
is killed and started again, and everything acknowledged has to be there. Exit code 1 and a line that begins with MISS for each limit.
scripts/soak.sh builds the programs.
"""

import argparse
import bisect
import http.client
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

import rig

AGENTS = 6
COMMITTERS, READERS, WATCHERS, STALLED = 3, 2, 4, 2
# Jobs of one committer, on hosts of its own.
JOBS_EACH = 4
# Pauses between what one thread does: a cluster of some hundred jobs does less.
COMMIT_EVERY_S, READ_EVERY_S, SCRAPE_EVERY_S, KILL_EVERY_S, RELOAD_EVERY_S = 0.25, 0.5, 1.0, 10.0, 15.0
SAMPLES, SAMPLE_EVERY_S = 5, 1.0
# The service keeps 10,000 idempotency keys, 10,000 entries of the trail and 4,096 events: so many commits fill these before the start,
# or as many as there is time for.
FILL, FILL_A_SECOND, FILLERS = 10_000, 20, 8
# What may come between a tenth of the time and the end. An agent's allocator keeps an arena for each of the threads that read its
# configuration: 9.5 MiB after 60 reloads, and the same after 240. What leaks for each request or session is above that in an hour.
SERVICE_MIB, AGENT_MIB = 24, 10
# Connections that are open at a sample differ by those of the readers.
DESCRIPTORS = 24
# Clients of a machine that works are refused nothing. An agent that is configured anew answers 503 to the scrape that it had begun.
REFUSED_SHARE = 0.001
PAGE = ("/", "/v1alpha1/jobs", "/v1alpha1/links", "/v1alpha1/turns", "/v1alpha1/agents", "/v1alpha1/fabric/map.svg", "/v1alpha1/events")


class Tally:
    """Requests of one kind: how many, what was refused, and how long they took."""

    def __init__(self):
        self.lock, self.count, self.refused, self.times, self.kinds = threading.Lock(), 0, 0, [], {}

    def add(self, status, took_s):
        with self.lock:
            self.count += 1
            bisect.insort(self.times, took_s)
            if status != 200:
                self.refused += 1
                self.kinds[status] = self.kinds.get(status, 0) + 1

    def percentile(self, share):
        return self.times[min(len(self.times) - 1, int(share * len(self.times)))] if self.times else 0.0


class Soak:
    def __init__(self, folder, programs, seconds):
        self.folder, self.programs, self.seconds = folder, programs, seconds
        # A soak of seconds, as the tests run it, takes its samples faster.
        self.sample_every_s = min(SAMPLE_EVERY_S, seconds / 60)
        self.stop, self.threads, self.failures = threading.Event(), [], []
        self.tallies = {name: Tally() for name in ("commit", "release", "page", "scrape", "scrape of agent")}
        self.counts = dict.fromkeys(("agents killed", "reloads", "streams", "event bytes"), 0)
        # By job: its hosts by the last answer, or None.
        self.acknowledged = {}
        self.state = os.path.join(folder, "state.redb")
        self.service = rig.service(folder, programs, 0, self.state, 'control = "turns"\n').start()
        self.port = rig.listens(self.service, 0)
        self.agents = {}
        for number in range(AGENTS):
            # Of the first the metrics are scraped, and it is never killed.
            self.metrics = rig.free_port() if number == 0 else self.metrics
            host = rig.HOSTS[number]
            listen = "127.0.0.1:%d" % self.metrics if number == 0 else ""
            self.agents[host] = rig.agent(folder, programs, host, self.port, listen)
            self.agents[host][0].start()
        client = rig.Client(self.port)
        body = {"jobs": [rig.job("a", ["h1", "h13"]), rig.job("b", ["h2", "h14"])]}
        answer = client.ask("POST", "/v1alpha1/commit", body)
        if answer.status != 200:
            raise RuntimeError("the jobs are refused: %s" % answer.body.decode(errors="replace"))
        library = os.path.join(programs, "libantiphase_gate.so")
        self.jobs = [rig.Job(library, name, self.agents[host][1]) for name, host in (("a", "h1"), ("b", "h2"))]

    def run(self, name, act, every_s):
        """A thread that does something again and again; whatever it raises is a finding."""

        def loop():
            while not self.stop.is_set():
                try:
                    act()
                except Exception as error:
                    self.failures.append("%s: %s: %s" % (name, type(error).__name__, error))
                    return
                self.stop.wait(every_s)

        thread = threading.Thread(target=loop, name=name, daemon=True)
        self.threads.append(thread)
        thread.start()

    def asked(self, client, tally, method, path, body=None):
        begins = time.monotonic()
        answer = client.ask(method, path, body)
        self.tallies[tally].add(answer.status, time.monotonic() - begins)
        return answer

    def fill(self):
        """What is bounded by number is full before anything is measured."""
        each = int(min(FILL, self.seconds * FILL_A_SECOND)) // FILLERS

        def commit(filler):
            client, pair = rig.Client(self.port), ["h%d" % (25 + filler % 4 * 2), "h%d" % (26 + filler % 4 * 2)]
            for number in range(each):
                body = {"jobs": [rig.job("fill-%d" % filler, pair[:: 1 if number % 2 else -1])], "idempotency_key": "fill-%d-%d" % (filler, number)}
                if client.ask("POST", "/v1alpha1/commit", body).status != 200:
                    self.failures.append("a commit of the beginning was refused")
                    return
            client.ask("POST", "/v1alpha1/release", {"jobs": ["fill-%d" % filler]})

        threads = [threading.Thread(target=commit, args=(filler,)) for filler in range(FILLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def committer(self, number):
        client, dice, at = rig.Client(self.port), random.Random(number), [0]

        def act():
            at[0] += 1
            slot = dice.randrange(JOBS_EACH)
            name, first = "c%d-%d" % (number, slot), 3 + 4 * number
            if dice.random() < 0.3 and self.acknowledged.get(name):
                if self.asked(client, "release", "POST", "/v1alpha1/release", {"jobs": [name]}).status == 200:
                    self.acknowledged[name] = None
                return
            body, far = {}, 12 * (1 + dice.randrange(2))
            if number == 0:
                # Across leaves, where the gated jobs are too, so that there is much to plan. The answer under a key has the slots of all
                # whom a commit touches; those of hundreds of jobs would fill what is kept of answers for half an hour.
                hosts = ["h%d" % (first + slot % 2), "h%d" % (first + far)]
            else:
                # Under one leaf, two jobs on each pair.
                pair = far + 1 + 2 * (number + 3 * (slot % 2))
                hosts = ["h%d" % pair, "h%d" % (pair + 1)]
                body["idempotency_key"] = "soak-%d-%d" % (number, at[0])
            body["jobs"] = [rig.job(name, hosts)]
            if self.asked(client, "commit", "POST", "/v1alpha1/commit", body).status == 200:
                self.acknowledged[name] = hosts

        return act

    def reader(self):
        client, at = rig.Client(self.port), [0]

        def act():
            at[0] += 1
            self.asked(client, "page", "GET", PAGE[at[0] % len(PAGE)])
            if at[0] % 20 == 0:
                # People come and go.
                client.close()

        return act

    def scraper(self, port):
        client, tally = rig.Client(port), "scrape" if port == self.port else "scrape of agent"
        return lambda: self.asked(client, tally, "GET", "/metrics")

    def watcher(self, reads):
        """Opens a stream of events, and reads it for a while, or nothing of it."""

        def act():
            with socket.create_connection(("127.0.0.1", self.port), 5) as stream:
                stream.sendall(b"GET /v1alpha1/events/stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
                self.counts["streams"] += 1
                stream.settimeout(1)
                end = time.monotonic() + random.uniform(2, 20)
                while time.monotonic() < end and not self.stop.is_set():
                    if not reads:
                        self.stop.wait(1)
                        continue
                    try:
                        got = stream.recv(65_536)
                    except TimeoutError:
                        continue
                    if not got:
                        return
                    self.counts["event bytes"] += len(got)

        return act

    def killer(self):
        dice = random.Random(7)

        def act():
            # The agents of the gated jobs stay.
            host = dice.choice(rig.HOSTS[2:AGENTS])
            program, _ = self.agents[host]
            program.end(dice.choice([signal.SIGKILL, signal.SIGTERM]))
            self.counts["agents killed"] += 1
            self.stop.wait(dice.uniform(0.1, 3))
            program.start()

        return act

    def reload(self):
        self.counts["reloads"] += 1
        self.service.tell(signal.SIGHUP)
        for host in rig.HOSTS[:2]:
            self.agents[host][0].tell(signal.SIGHUP)

    def sample(self):
        return held(self.service.pid), held(self.agents["h1"][0].pid)

    def soak(self):
        """Samples at the beginning, after a tenth and at the end, each the middle one of `SAMPLES`."""
        self.fill()
        for number in range(COMMITTERS):
            self.run("committer", self.committer(number), COMMIT_EVERY_S)
        for _ in range(READERS):
            self.run("reader", self.reader(), READ_EVERY_S)
        self.run("scraper of the service", self.scraper(self.port), SCRAPE_EVERY_S)
        self.run("scraper of an agent", self.scraper(self.metrics), SCRAPE_EVERY_S)
        for number in range(WATCHERS + STALLED):
            self.run("watcher", self.watcher(number < WATCHERS), 0.2)
        began = time.monotonic()
        samples = [self.steady()]
        self.run("killer", self.killer(), KILL_EVERY_S)
        self.run("reloads", self.reload, RELOAD_EVERY_S)
        for share in (0.1, 1.0):
            # The samples are taken before the time is over, under the same load.
            self.wait_until(began + share * self.seconds - SAMPLES * self.sample_every_s)
            samples.append(self.steady())
        self.stop.set()
        for thread in self.threads:
            thread.join(rig.SOON_S)
        return samples

    def wait_until(self, when):
        while time.monotonic() < when:
            time.sleep(min(1.0, max(0.0, when - time.monotonic())))
            if not self.service.lives():
                raise RuntimeError("the service ended: " + self.service.said())

    def steady(self):
        taken = []
        for _ in range(SAMPLES):
            taken.append(self.sample())
            time.sleep(self.sample_every_s)
        return [tuple(sorted(values)[SAMPLES // 2] for values in zip(*of)) for of in zip(*taken)]

    def lost(self):
        """What was acknowledged and is not there, now and after the service was killed and started again."""
        found = []
        for when in ("at the end", "after a kill"):
            if when == "after a kill":
                self.service.end(signal.SIGKILL)
                self.service = rig.service(self.folder, self.programs, 0, self.state).start()
                self.port = rig.listens(self.service, 0)
            listed = rig.Client(self.port).ask("GET", "/v1alpha1/jobs").json().get("jobs", [])
            there = {job["id"]: job["hosts"] for job in listed}
            for name, hosts in sorted(self.acknowledged.items()):
                if there.get(name) != hosts:
                    found.append("%s: %s stands on %s, acknowledged on %s" % (when, name, there.get(name), hosts))
        return found

    def end(self):
        self.stop.set()
        for job in self.jobs:
            job.end()
        for program, _ in self.agents.values():
            program.end()
        self.service.end()


def held(pid):
    """Resident MiB, descriptors and threads of a process."""
    with open("/proc/%d/status" % pid) as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["VmRSS"].split()[0]) / 1024, len(os.listdir("/proc/%d/fd" % pid)), int(fields["Threads"])


def misses(samples, tallies, reloads, lost, failures):
    """What is beyond a limit, a line each."""
    found = ["lost: " + one for one in lost] + failures
    for name, limit, (_, early, late) in zip(("service", "agent"), (SERVICE_MIB, AGENT_MIB), zip(*samples)):
        for what, more, most in (("MiB", late[0] - early[0], limit), ("descriptors", late[1] - early[1], DESCRIPTORS)):
            if more > most:
                found.append("the %s has %.0f %s more than after a tenth of the time; at most %d" % (name, more, what, most))
    for name, tally in tallies.items():
        if tally.count == 0:
            found.append("no %s was asked" % name)
        elif tally.refused > (reloads if name == "scrape of agent" else REFUSED_SHARE * tally.count):
            found.append("%s: %d of %d refused (%s)" % (name, tally.refused, tally.count, tally.kinds))
    return found


def show(soak, samples, starts, lost):
    print("%-20s %10s %10s %10s" % ("", "start", "10 %", "end"))
    for at, name in enumerate(("service", "agent")):
        for of, what in enumerate(("MiB", "descriptors", "threads")):
            cells = ["%10.1f" % sample[at][of] if of == 0 else "%10d" % sample[at][of] for sample in samples]
            print("%-20s %s" % ("%s, %s" % (name, what), " ".join(cells)))
    print("%-20s %10s %10s %10s %10s" % ("", "requests", "refused", "p50 ms", "p99 ms"))
    for name, tally in soak.tallies.items():
        times = [1000 * tally.percentile(share) for share in (0.5, 0.99)]
        print("%-20s %10d %10d %10.1f %10.1f" % (name, tally.count, tally.refused, *times))
    longest = max((start.held_ns for start in starts), default=0) / 1e6
    print("%d starts of gated jobs, longest hold %.0f ms; %s" % (len(starts), longest, ", ".join("%s %d" % pair for pair in soak.counts.items())))
    print("acknowledged and lost: %d of %d jobs" % (len(lost), len(soak.acknowledged)))


def main():
    parser = argparse.ArgumentParser(description="a service under everything at once, for a while")
    parser.add_argument("--programs", required=True)
    parser.add_argument("--minutes", type=float, required=True)
    arguments = parser.parse_args()
    folder, seconds = tempfile.mkdtemp(prefix="antiphase-soak-"), 60 * arguments.minutes
    soak = None
    try:
        soak = Soak(folder, os.path.abspath(arguments.programs), seconds)
        samples = soak.soak()
        starts = [start for job in soak.jobs for start in job.take()]
        lost = soak.lost()
    finally:
        if soak is not None:
            soak.end()
        shutil.rmtree(folder, ignore_errors=True)
    show(soak, samples, starts, lost)
    found = misses(samples, soak.tallies, soak.counts["reloads"], lost, soak.failures)
    for miss in found:
        print("MISS " + miss)
    print("soak: %.1f minutes, %s" % (arguments.minutes, "%d missed" % len(found) if found else "nothing grew, nothing was lost"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
