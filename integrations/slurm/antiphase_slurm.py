#!/usr/bin/python3
"""Commits Slurm's jobs to the topology service when they start, and releases them when they end.

As PrologSlurmctld and EpilogSlurmctld (slurm.conf) it commits and releases the one job of its environment.
`antiphase_slurm.py reconcile CLUSTER`, once a minute, mends what these two could not do while the service was away.

Whatever happens, a job starts: as a script of Slurm (SLURM_SCRIPT_CONTEXT is set) the program ends with 0 within `wait_s`, and says
in the log what it could not do.
docs/slurm.md has the rest.
"""

# The client of the service is imported where it is needed: without it, a job that does not ask for us must start as silently as ever.
from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import syslog
import threading
import uuid
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Iterable, Iterator, Mapping, Optional

if TYPE_CHECKING:
    from antiphase import Client, JobSpec

CONFIG = "/etc/antiphase/slurm.ini"
"""The configuration, unless ANTIPHASE_SLURM_CONFIG names another one."""
HOSTS_MAX = 100_000
"""Most hosts of one list: above any fabric, and a mistyped range must not fill the memory of the controller's machine."""
LIST_CHARS_MAX = 1 << 20
"""Longest list of hosts: as many hosts with names of ten characters, each by itself."""
PROFILE_BYTES_MAX = 1 << 20
"""Largest profile document that the service takes."""
SQUEUE_S = 30
"""Longest wait for squeue, in seconds."""

_NUMBERS = ("batch", "cp", "dp", "ep", "gpu_gflops", "gpus_per_host", "micro_batches", "nics_per_host", "pp", "ranks", "tp")
_TEXTS = ("nic", "strategy")
_HOLDS = ("auto", "phases", "never")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PIECE = re.compile(r"(?P<plain>[^\[\],\s]+)|\[(?P<inside>[0-9,-]+)\]|(?P<comma>,)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class Wrong(Exception):
    """What somebody wrote and we cannot take, in one line with the value."""


@dataclass(frozen=True)
class Settings:
    """The configuration."""

    server: str = "http://127.0.0.1:7480"
    authority: Optional[str] = None
    certificate: Optional[str] = None
    key: Optional[str] = None
    profiles: str = "/etc/antiphase/profiles"
    wait_s: float = 5.0
    log: Optional[str] = None

    @staticmethod
    def read(path: str) -> Settings:
        """Reads the file; one that is not there has nothing but defaults."""
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(path, encoding="utf-8")
        values = dict(parser["antiphase"]) if parser.has_section("antiphase") else {}
        unknown = sorted(values.keys() - Settings.__dataclass_fields__.keys())
        if unknown or parser.sections() not in ([], ["antiphase"]):
            raise Wrong(f"{path}: {unknown or parser.sections()!r}: unknown; it has one section [antiphase]")
        wait_s = values.pop("wait_s", "5")
        if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]+)?", wait_s) or float(wait_s) == 0:
            raise Wrong(f"{path}: wait_s = {wait_s!r}; expected seconds above 0 and below 100")
        return Settings(wait_s=float(wait_s), **values)

    def client(self) -> Client:
        """A client that asks twice at most, within the wait."""
        from antiphase import Client, Retries

        ours = {"authority": self.authority, "certificate": self.certificate, "key": self.key}
        return Client(self.server, timeout_s=self.wait_s, retries=Retries(attempts=2), **ours)

    def say(self, line: str, wrong: bool = False) -> None:
        """Writes a line to the log: a file, or the system's. Never raises: what cannot be written goes to the next of file, system and stderr."""
        # What a user wrote moves no cursor of whoever reads the log. Surrogates come from bytes of a comment that are no UTF-8.
        line = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in " ".join(line.split()))
        try:
            if self.log is not None:
                try:
                    with open(self.log, "a", encoding="utf-8") as file:
                        file.write(line + "\n")
                    return
                except Exception as error:
                    line = f"{line} (log = {self.log}: {error})"
            syslog.openlog("antiphase-slurm", syslog.LOG_PID, syslog.LOG_DAEMON)
            syslog.syslog(syslog.LOG_WARNING if wrong else syslog.LOG_INFO, line)
        except Exception:
            _to_stderr(line)


def _to_stderr(line: str) -> None:
    try:
        print(f"antiphase_slurm.py: {line}", file=sys.stderr, flush=True)
    except Exception:
        pass  # Nobody reads it, and that is no reason to hold a job up.


def hosts(text: str) -> list[str]:
    """The names of a list such as `a[01-03,7],b-x[1-2]y`, in its order (slurm.conf(5))."""
    if len(text) > LIST_CHARS_MAX:
        raise Wrong(f"{text!r:.100}: a list of {len(text)} characters; at most {LIST_CHARS_MAX}")
    out: list[str] = []
    for part in _parts(text):
        choices: list[list[str]] = []
        count = 1
        for inside, piece in part:
            choices.append(list(islice(_numbers(piece), HOSTS_MAX + 1)) if inside else [piece])
            count *= len(choices[-1])
            # Before the next brackets are read: together they hold more than memory does.
            if len(out) + count > HOSTS_MAX:
                raise Wrong(f"{text!r:.100}: more than {HOSTS_MAX} hosts")
        out += ["".join(one) for one in product(*choices)]
    return out


def _parts(text: str) -> Iterator[list[tuple[bool, str]]]:
    """The list at its commas, but for those in brackets; each part as what is within brackets and what is not."""
    if not text:
        raise Wrong("'': no list of hosts")
    at = 0
    part: list[tuple[bool, str]] = []
    # Piece by piece, and none is looked at twice: one expression for all of it took seconds for a long list.
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise Wrong(f"{text!r:.100}: no list of hosts")
        at = piece.end()
        if piece.lastgroup == "comma":
            if part:
                yield part
            part = []
        else:
            part.append((piece.lastgroup == "inside", piece[piece.lastgroup or 0]))
    if part:
        yield part


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (match[1], match[2] or match[1]) if match else ("1", "0")
        if int(last) < int(first) or int(last) - int(first) >= HOSTS_MAX:
            raise Wrong(f"[{text!r:.100}]: no range of hosts")
        yield from (str(n).zfill(len(first)) for n in range(int(first), int(last) + 1))


def job_name(cluster: str, job: str) -> str:
    """The job's name in the service, and in ANTIPHASE_JOB: task-prolog.sh has the same."""
    return f"slurm-{cluster}-{job}"


def spec(name: str, comment: str, nodes: str, profiles: str) -> Optional[JobSpec]:
    """The job as the service takes it; None for a job whose comment does not say `antiphase=`."""
    # job_submit.lua has the same rules, and what it takes as a space is ASCII.
    said = re.findall(r"(?a)(?:^|[\s,;])antiphase=([^\s,;]*)", comment)
    if not said:
        return None
    from antiphase import JobSpec, Model

    profile, *options = said[0].split(":")
    if len(said) > 1 or not _NAME.fullmatch(profile):
        raise Wrong(f"comment {comment!r:.100}: expected one antiphase=PROFILE[:KEY=VALUE...]")
    keys: dict[str, str] = {}
    for option in options:
        key, _, value = option.partition("=")
        if not key or not value or key in keys:
            raise Wrong(f"comment {comment!r:.100}: {option!r:.100}: expected KEY=VALUE, each key once")
        keys[key] = value
    hold, where = keys.pop("hold", None), hosts(nodes)
    if hold is not None and hold not in _HOLDS:
        raise Wrong(f"comment {comment!r:.100}: hold={hold!r:.100}: expected {', '.join(_HOLDS[:-1])} or {_HOLDS[-1]}")
    file = Path(profiles) / f"{profile}.json"
    if file.is_file():
        if keys:
            raise Wrong(f"comment {comment!r:.100}: {sorted(keys)} belong to models, and {file} is a profile")
        with file.open("rb") as opened:
            text = opened.read(PROFILE_BYTES_MAX + 1)
        if len(text) > PROFILE_BYTES_MAX:
            raise Wrong(f"{file}: more than {PROFILE_BYTES_MAX} bytes")
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Wrong(f"{file}: {error}") from error
        return JobSpec(id=name, profile=document, hosts=where, hold=hold)
    for key, value in keys.items():
        if key not in _NUMBERS + _TEXTS or (key in _NUMBERS and not re.fullmatch(r"[0-9]{1,18}", value)):
            raise Wrong(f"comment {comment!r:.100}: {key}={value}: no parameter of a model")
    model = Model(name=profile, **{key: int(value) if key in _NUMBERS else value for key, value in keys.items()})  # type: ignore[arg-type]
    return JobSpec(id=name, model=model, hosts=where, hold=hold)


def commit(settings: Settings, name: str, comment: str, nodes: str) -> None:
    """Commits the job, if its comment asks for it."""
    job = spec(name, comment, nodes, settings.profiles)
    if job is not None:
        answer = settings.client().commit([job], fields="plan_version,warnings")
        settings.say(" ".join([f"{name}: committed on {nodes}, plan version {answer.plan_version}", *answer.warnings]))


def release(settings: Settings, name: str, comment: str) -> None:
    """Releases the job, if its comment had it committed. One that is not committed is no mistake."""
    if "antiphase=" in comment:
        settings.client().release([name], fields="plan_version")
        settings.say(f"{name}: released")


def from_environment(settings: Settings, environment: Mapping[str, str]) -> None:
    """What slurmctld's two scripts do (slurm.conf(5), PrologSlurmctld)."""
    context = environment["SLURM_SCRIPT_CONTEXT"]
    if context not in ("prolog_slurmctld", "epilog_slurmctld"):
        raise Wrong("nothing to do here; this is for PrologSlurmctld and EpilogSlurmctld of slurm.conf")
    name = job_name(environment["SLURM_CLUSTER_NAME"], environment["SLURM_JOB_ID"])
    comment = environment.get("SLURM_JOB_COMMENT", "")
    if context == "prolog_slurmctld":
        commit(settings, name, comment, environment["SLURM_JOB_NODELIST"])
    else:
        release(settings, name, comment)


def of_cluster(cluster: str, names: Iterable[str]) -> set[str]:
    """Those names that are jobs of the cluster. Of two clusters `a` and `a-b`, the name of a job of the second begins as one of the first does."""
    return {name for name in names if re.fullmatch(re.escape(job_name(cluster, "")) + "[0-9]+", name)}


def squeue(mark: str, environment: Mapping[str, str]) -> str:
    """All jobs of this cluster, also those of hidden partitions, whatever the user's environment asks squeue for."""
    # SQUEUE_* filter and format (squeue(1)); SLURM_CLUSTERS asks other clusters.
    plain = {key: value for key, value in environment.items() if not key.startswith("SQUEUE_") and key != "SLURM_CLUSTERS"}
    command = ["squeue", "--all", "--local", "--noheader", "--array", f"--format={mark} %A %T %N %k"]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SQUEUE_S, check=True, env=plain).stdout


def reconcile(settings: Settings, cluster: str, environment: Mapping[str, str]) -> None:
    """Commits what runs and is not committed, and releases what is committed and does not run."""
    from antiphase import AntiphaseError

    # In this order: a job that comes in between runs and is not listed, and is committed a second time, which changes nothing.
    listed = of_cluster(cluster, (job.id for job in settings.client().jobs(fields="jobs.id").jobs))
    # A comment may hold anything, also what looks like the line of another job: nobody can guess what begins ours.
    mark = uuid.uuid4().hex
    alive = set()
    for line in squeue(mark, environment).split(mark)[1:]:
        job, state, nodes, comment = (line.strip().split(" ", 3) + ["", "", ""])[:4]
        name = job_name(cluster, job)
        if state not in ("PENDING", "COMPLETING"):
            alive.add(name)
        if state == "RUNNING" and name not in listed:
            try:
                commit(settings, name, comment, nodes)
            except (AntiphaseError, Wrong) as error:
                settings.say(f"{name}: not committed, and runs as it comes: {error}", wrong=True)
    ended = sorted(listed - alive)
    if ended:
        settings.client().release(ended, fields="plan_version")
        settings.say(f"released, as they do not run any more: {' '.join(ended)}")


def work(arguments: list[str], environment: Mapping[str, str]) -> bool:
    """Does what is asked, in the time that there is; the answer says whether it was done. What was not is in the log."""
    script = "SLURM_SCRIPT_CONTEXT" in environment
    what = f"job {environment.get('SLURM_JOB_ID')}: {environment['SLURM_SCRIPT_CONTEXT']}" if script else "reconcile"
    settings, failed = Settings(), [f"{what}: no answer in time"]

    def one() -> None:
        try:
            if arguments:
                reconcile(settings, arguments[1], environment)
            else:
                from_environment(settings, environment)
            failed.clear()
        except Exception as error:  # a bug of ours must not keep a job from starting either
            failed[:] = [f"{what}: {type(error).__name__}: {error}"]

    try:
        settings = Settings.read(environment.get("ANTIPHASE_SLURM_CONFIG", CONFIG))
        # A thread, because a look-up of the host's name takes as long as it likes, and cannot be ended.
        worker = threading.Thread(target=one, daemon=True)
        worker.start()
        worker.join(settings.wait_s if script else None)
    except Exception as error:
        failed[:] = [f"{what}: {type(error).__name__}: {error}"]
    said = list(failed)
    for line in said:
        settings.say(f"{line}; jobs go on" if script else line, wrong=True)
    return not said


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    """The program. A script of Slurm always ends with 0: anything else requeues the job, or drains the node."""
    script = "SLURM_SCRIPT_CONTEXT" in environment
    asked = len(arguments) == 2 and arguments[0] == "reconcile"
    if not asked and (arguments or not script):
        _to_stderr("PrologSlurmctld and EpilogSlurmctld of slurm.conf run it, or: reconcile CLUSTER")
        return 0 if script else 2
    done = False
    try:
        done = work(arguments, environment)
    finally:
        # Not `exit`, which would wait for the thread, nor an error of ours, whatever it is.
        os._exit(0 if script or done else 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
