"""What needs no Slurm: lists of hosts, comments, and a service that never answers."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from antiphase import JobSpec, Model

import antiphase_slurm as slurm

SCRIPT = Path(slurm.__file__)
LUA = shutil.which("lua5.1")
DRIVER = """
slurm = { SUCCESS = 0, ERROR = -1, log_user = function(...) said = string.format(...) end, log_info = function(...) said = string.format(...) end }
dofile(arg[1])
for line in io.lines(arg[2]) do
    local comment = line:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
    said = ""
    print(slurm_job_submit({ comment = comment }, {}, 0) .. " " .. said)
end
-- Whatever happens in it, a job goes on, and functions of a site are asked first.
local broken = setmetatable({}, { __index = function() error("a bug") end })
print(slurm_job_submit(broken, {}, 0), slurm_job_submit({}, {}, 0), slurm_job_modify(nil, nil, nil, 0), said)
slurm_job_submit = function(job) return job.code end
dofile(arg[1])
print(slurm_job_submit({ code = 7 }), slurm_job_submit({ code = 0 }), slurm_job_submit({ code = 0, comment = "antiphase=" }))
"""
"""Gives job_submit.lua the comments of a file, in hexadecimal; the real slurmctld does so in topology/server/tests/slurm.rs."""


BESIDE = """
slurm = { SUCCESS = 0, ERROR = -1, log_user = function() end, log_info = function() end, log_error = function(...) print(string.format(...)) end }
slurm_job_submit = function(job) return job.code end
dofile(arg[1])
print(slurm_job_submit({ code = 7 }), slurm_job_submit({ code = 0, comment = "antiphase=" }))
"""
"""The script of a site, with the line of docs/slurm.md in a file of its own."""
PAGE = SCRIPT.resolve().parents[2] / "docs/slurm.md"


class Hosts(unittest.TestCase):
    def test_lists_are_those_of_slurm(self) -> None:
        # The first two are of slurm.conf(5); the order is that of the list.
        for text, names in (
            ("lx[15,18,32-33]", ["lx15", "lx18", "lx32", "lx33"]),
            ("linux[00-02]", ["linux00", "linux01", "linux02"]),
            ("h1", ["h1"]),
            ("a[9-11],b,c[1-2]-[3-4]x", ["a9", "a10", "a11", "b", "c1-3x", "c1-4x", "c2-3x", "c2-4x"]),
        ):
            self.assertEqual(slurm.hosts(text), names)

    def test_what_is_no_list_is_refused(self) -> None:
        for text in ("", "h[1-", "h]1", "h[]", "h[3-1]", "h[a-b]", "h[1-2-3]", "a b", "h[1-100001]", "h[1-999],[1-999][1-999]", "h[[1-2]]"):
            with self.assertRaises(slurm.Wrong, msg=text):
                slurm.hosts(text)

    def test_no_list_takes_long_or_much(self) -> None:
        # Found at the end only; and ranges that are more than all hosts, before they are made.
        for text in (
            "a" * 100_000 + "[",
            "a" * 100_000 + " ",
            "h[" + "1-99999," * 5_000 + "1]",
            "h" + "[1-99999]" * 50_000,
            "h[1]," * 100_000 + "h[",
            "[1" * 200_000,
            "a" * (slurm.LIST_CHARS_MAX + 1),
        ):
            began = time.monotonic()
            with self.assertRaises(slurm.Wrong) as raised:
                slurm.hosts(text)
            self.assertLess(time.monotonic() - began, 5, text[:20])
            self.assertLess(len(str(raised.exception)), 200)
        # As many hosts as there may be, in lists that are as long as they may be: what is twice as long takes twice as long.
        many = [f"gpu-{n:05}" for n in range(slurm.HOSTS_MAX)]
        for text, names in (
            (",".join(many), many),
            (",".join(f"gpu-[{n:05}]" for n in range(80_000)), many[:80_000]),
            (",".join(f"h[{n}-{n + 1}]x[{n % 10}]" for n in range(0, 100_000, 2)), [f"h{n}x{n // 2 * 2 % 10}" for n in range(100_000)]),
            ("a" + "[1]" * 300_000, ["a" + "1" * 300_000]),
        ):
            self.assertLessEqual(len(text), slurm.LIST_CHARS_MAX)
            began = time.monotonic()
            self.assertEqual(slurm.hosts(text), names)
            self.assertLess(time.monotonic() - began, 5, text[:20])

    def test_what_a_user_wrote_moves_no_cursor(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            settings = slurm.Settings(log=f"{folder}/log")
            settings.say("a\x1b[2J\0\x9b\udcff b\nc \u202e\u00e9")
            self.assertEqual(Path(f"{folder}/log").read_text(encoding="utf-8"), "a\\x1b[2J\\x00\\x9b\\xdcff b c \\x202e\u00e9\n")


class Comments(unittest.TestCase):
    def test_a_comment_names_a_model_or_a_profile(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mine.json").write_text(json.dumps({"schema": "antiphase.profile/v1"}))
            (Path(folder) / "broken.json").write_text("{")

            def of(comment: str) -> object:
                return slurm.spec("j", comment, "h[1-2]", folder)

            self.assertIsNone(of("for a paper"))
            self.assertIsNone(of("notantiphase=vgg16"))
            for comment in ("antiphase=bert:batch=8:nic=50G", "x; antiphase=bert:batch=8:nic=50G, y"):
                job = of(comment)
                assert isinstance(job, JobSpec)
                self.assertEqual((job.id, job.hosts, job.model), ("j", ["h1", "h2"], Model(name="bert", batch=8, nic="50G")))
            job = of("antiphase=mine:hold=never")
            assert isinstance(job, JobSpec)
            self.assertEqual((job.profile, job.model, job.hold), ({"schema": "antiphase.profile/v1"}, None, "never"))
            for comment in (
                "antiphase=",
                "antiphase=../mine",
                "antiphase=a antiphase=b",
                "antiphase=bert:batch=many",
                "antiphase=bert:bach=8",
                "antiphase=bert:batch=8:batch=9",
                "antiphase=bert:batch=8:batch=8",
                "antiphase=bert:hold",
                "antiphase=bert:hold=",
                "antiphase=bert:hold=ever",
                "antiphase=bert:",
                "antiphase=bert:=8",
                "antiphase=mine:hold=never:hold=phases",
                "antiphase=mine:hold",
                "antiphase=mine:batch=8",
                "antiphase=broken",
            ):
                with self.assertRaises(slurm.Wrong, msg=comment) as raised:
                    of(comment)
                self.assertNotIn("\n", str(raised.exception))


@unittest.skipUnless(LUA, "there is no lua5.1 (apt-get install lua5.1)")
class Submitting(unittest.TestCase):
    def told(self, comments: list[str]) -> list[str]:
        """What job_submit.lua answers to each comment, and then what else the driver prints."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "driver.lua").write_text(DRIVER)
            (Path(folder) / "comments").write_text("".join(os.fsencode(comment).hex() + "\n" for comment in comments))
            command = [str(LUA), "driver.lua", str(SCRIPT.with_name("job_submit.lua")), "comments"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_the_line_for_a_script_of_a_site_says_what_is_missing(self) -> None:
        (line,) = re.findall(r"`(local fine, why = pcall\(dofile, [^`]*)`", PAGE.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            site, broken = Path(folder) / "site.lua", Path(folder) / "broken.lua"
            broken.write_text("error('a bug')")
            # The site's functions come first; where ours is missing or broken, they go on alone, and the log says why.
            for path, says, codes in (
                (SCRIPT.with_name("job_submit.lua"), "", "7\t-1"),
                (Path(folder) / "missing", f"antiphase: cannot open {folder}/missing", "7\t0"),
                (broken, f"antiphase: {broken}:1: a bug", "7\t0"),
            ):
                site.write_text(line.replace("/usr/lib/antiphase/job_submit.lua", str(path)) + "\nreturn slurm.SUCCESS\n")
                done = subprocess.run([str(LUA), "-", str(site)], input=BESIDE, capture_output=True, text=True, timeout=60)
                said = done.stdout.splitlines()
                self.assertEqual((done.returncode, done.stderr, said[-1]), (0, "", codes), done.stdout)
                self.assertTrue(said[:-1] == [] if not says else len(said) == 2 and said[0].startswith(says), said)

    def test_what_is_refused_at_submission_is_what_would_not_be_committed(self) -> None:
        def refused(comment: str) -> bool:
            try:
                slurm.spec("j", comment, "h1", "/nonexistent")
            except slurm.Wrong:
                return True
            return False

        rng = random.Random(7)
        pieces = ["antiphase=", "antiphase=", "bert", ":", ":", "=", "batch=8", "hold=never", "hold=", "nic=50G", "batch=1e3", " ", ",", ";", "\t"]
        pieces += ["\u00a0", "\x1c", "\udcff", "%s", "-a", "_", ".", "A" * 64, "9" * 18, "9" * 19, "dp=", "x=y", "moe\u0301", "ant", "\n"]
        comments = ["".join(rng.choices(pieces, k=rng.randint(1, 7))) for _ in range(4_000)]
        comments += ["antiphase=" + "".join(rng.choices(pieces[2:], k=rng.randint(1, 6))) for _ in range(4_000)]
        keys = [*slurm._NUMBERS, *slurm._TEXTS, "hold", "x"]
        values = ["8", "9" * 18, "9" * 19, "", "x", "auto", "never", "50G", "1=2"]
        options = [f"{key}={value}" for key in keys for value in values]
        comments += [f"antiphase=bert:{option}" for option in options]
        comments += ["antiphase=" + ":".join(["A" * rng.choice([1, 64, 65]), *rng.choices(options, k=2)]) for _ in range(2_000)]
        comments += [f"antiphase=bert:{option}:{option}" for option in options]
        answers = self.told(comments)[: len(comments)]
        wrong = [comment for comment in comments if refused(comment)]
        self.assertTrue(1_000 < len(wrong) < len(comments) - 1_000, len(wrong))
        for comment, answer in zip(comments, answers):
            code, _, said = answer.partition(" ")
            self.assertEqual(code == "-1", refused(comment), (comment, answer))
            self.assertEqual(bool(said), code == "-1", (comment, answer))
            self.assertTrue(len(said) < 1_000 and said.isascii() and said.isprintable(), (comment, answer))

    def test_an_error_lets_the_job_through_and_a_site_is_asked_first(self) -> None:
        first, second = self.told([])
        self.assertTrue(first.startswith("0\t0\t0\tantiphase: job_submit.lua: "), first)
        self.assertEqual(second, "7\t0\t-1")

    def test_the_sentence_names_what_is_wrong(self) -> None:
        said = self.told(["for a paper; antiphase=vgg16:batch=many", "antiphase=vgg16"])
        self.assertEqual(said[0], "-1 antiphase: comment 'for a paper; antiphase=vgg16:batch=many': 'batch=many': no parameter of a model")
        self.assertEqual(said[1], "0 ")


class Reconciling(unittest.TestCase):
    def test_jobs_of_another_cluster_are_not_ours(self) -> None:
        names = ["slurm-a-7", "slurm-a-b-7", "slurm-a-7-x", "slurm-a-", "slurm-ab-7", "a-7", "slurm-a-7\n", "slurm-axb-1"]
        self.assertEqual(slurm.of_cluster("a", names), {"slurm-a-7"})
        self.assertEqual(slurm.of_cluster("a-b", names), {"slurm-a-b-7"})
        self.assertEqual(slurm.of_cluster("a.b", names), set())

    def test_squeue_tells_all_jobs_whatever_the_environment_asks_for(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            # What squeue(1) would have heard; the real one runs in topology/server/tests/slurm.rs.
            (Path(folder) / "squeue").write_text('#!/bin/sh\necho "$@" "conf=$SLURM_CONF"; env | grep -E "^(SQUEUE_|SLURM_CLUSTERS)"; true\n')
            (Path(folder) / "squeue").chmod(0o755)
            path = f"{folder}:{os.environ['PATH']}"
            asked = {"PATH": path, "SLURM_CONF": "/c", "SQUEUE_STATES": "PENDING", "SQUEUE_USERS": "me", "SLURM_CLUSTERS": "other"}
            before, os.environ["PATH"] = os.environ["PATH"], path
            self.addCleanup(os.environ.__setitem__, "PATH", before)
            said = slurm.squeue("mark", asked)
        self.assertEqual(said, "--all --local --noheader --array --format=mark %A %T %N %k conf=/c\n")


class Program(unittest.TestCase):
    def run_as(self, context: str, ini: str, comment: str = "antiphase=vgg16", python: tuple[str, ...] = ()) -> tuple[int, float, str]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "slurm.ini").write_text(f"[antiphase]\n{ini}" if "log =" in ini else f"[antiphase]\nlog = {folder}/log\n{ini}")
            environment = {
                **os.environ,
                "ANTIPHASE_SLURM_CONFIG": f"{folder}/slurm.ini",
                "SLURM_SCRIPT_CONTEXT": context,
                "SLURM_CLUSTER_NAME": "c",
                "SLURM_JOB_ID": "7",
                "SLURM_JOB_NODELIST": "h[1-2]",
                "SLURM_JOB_COMMENT": comment,
            }
            began = time.monotonic()
            status = subprocess.run([sys.executable, *python, str(SCRIPT)], env=environment, timeout=60).returncode
            took = time.monotonic() - began
            log = Path(folder) / "log"
            return status, took, log.read_text() if log.exists() else ""

    def test_a_log_that_cannot_be_written_holds_no_job_up(self) -> None:
        self.assertEqual(self.run_as("prolog_slurmctld", "log = /nonexistent/folder/log\nserver = nowhere\n")[::2], (0, ""))
        # Bytes that are no UTF-8 can be written, and so can the end of a text.
        status, _, log = self.run_as("prolog_slurmctld", "", comment=os.fsdecode(b"antiphase=\xff\n"))
        self.assertEqual((status, log.count("\n")), (0, 1))

    def test_without_the_client_jobs_start_and_only_those_that_asked_are_in_the_log(self) -> None:
        # Isolated, and without site-packages.
        alone = ("-I", "-S")
        self.assertEqual(self.run_as("prolog_slurmctld", "", "for a paper", alone)[::2], (0, ""))
        status, _, log = self.run_as("epilog_slurmctld", "", python=alone)
        self.assertEqual(status, 0)
        self.assertIn("ModuleNotFoundError: No module named 'antiphase'", log)

    def test_any_script_of_slurm_ends_with_0(self) -> None:
        for context in ("prolog_slurmd", ""):
            status, _, log = self.run_as(context, "")
            self.assertEqual(status, 0)
            self.assertIn("nothing to do here", log)
        # An error that is none of the usual ones, and one that the log has as well.
        code = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import antiphase_slurm as s\n"
        code += "def work(*_): raise SystemExit(7)\ns.work = work\ns.main([], {'SLURM_SCRIPT_CONTEXT': 'prolog_slurmctld'})"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], timeout=60).returncode, 0)
        environment = {key: value for key, value in os.environ.items() if key != "SLURM_SCRIPT_CONTEXT"}
        self.assertEqual(subprocess.run([sys.executable, str(SCRIPT)], env=environment, stderr=subprocess.DEVNULL, timeout=60).returncode, 2)

    def test_a_service_that_never_answers_holds_no_job_up(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            ini = f"server = http://127.0.0.1:{silent.getsockname()[1]}\nwait_s = 1\n"
            for context in ("prolog_slurmctld", "epilog_slurmctld"):
                status, took, log = self.run_as(context, ini)
                # Four times what a start of Python takes on a busy machine.
                self.assertLess(took, 20)
                self.assertEqual((status, log), (0, f"job 7: {context}: no answer in time; jobs go on\n"))

    def test_whatever_is_wrong_the_job_goes_on(self) -> None:
        for ini, said in (
            ("server = nowhere\n", "ValueError: 'nowhere' is no address"),
            ("server = http://127.0.0.1:1\n", "Unreachable: 127.0.0.1:1"),
            ("authority = /nonexistent\nserver = https://127.0.0.1:1\n", "FileNotFoundError"),
        ):
            status, _, log = self.run_as("prolog_slurmctld", ini)
            self.assertEqual(status, 0)
            self.assertIn(said, log)
            self.assertEqual(log.count("\n"), 1)
        # A configuration that cannot be read has no log to name: this goes to the system's.
        self.assertEqual(self.run_as("prolog_slurmctld", "wait_s = ever\n")[0], 0)


if __name__ == "__main__":
    unittest.main()
