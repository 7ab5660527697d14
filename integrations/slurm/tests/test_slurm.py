"""What needs no Slurm: lists of hosts, comments, and a service that never answers."""

from __future__ import annotations

import json
import os
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
                "antiphase=mine:batch=8",
                "antiphase=broken",
            ):
                with self.assertRaises(slurm.Wrong, msg=comment) as raised:
                    of(comment)
                self.assertNotIn("\n", str(raised.exception))


class Program(unittest.TestCase):
    def run_as(self, context: str, ini: str) -> tuple[int, float, str]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "slurm.ini").write_text(f"[antiphase]\nlog = {folder}/log\n{ini}")
            environment = {
                **os.environ,
                "ANTIPHASE_SLURM_CONFIG": f"{folder}/slurm.ini",
                "SLURM_SCRIPT_CONTEXT": context,
                "SLURM_CLUSTER_NAME": "c",
                "SLURM_JOB_ID": "7",
                "SLURM_JOB_NODELIST": "h[1-2]",
                "SLURM_JOB_COMMENT": "antiphase=vgg16",
            }
            began = time.monotonic()
            status = subprocess.run([sys.executable, str(SCRIPT)], env=environment, timeout=60).returncode
            took = time.monotonic() - began
            log = Path(folder) / "log"
            return status, took, log.read_text() if log.exists() else ""

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
