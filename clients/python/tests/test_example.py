"""examples/themis_loop.py against the service in ANTIPHASE_URL, with other clusters than its own."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from antiphase import Client

URL = os.environ["ANTIPHASE_URL"]
CLIENT = Path(__file__).parents[1]
EXAMPLE = CLIENT.parents[1] / "examples" / "themis_loop.py"
PATIENCE_S = 120
"""Far above what a busy machine needs, so that a loop without an end fails."""


def play(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "error", str(EXAMPLE), "--url", URL, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(CLIENT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment)


class Example(unittest.TestCase):
    def setUp(self) -> None:
        client = Client(URL)
        names = [one.id for one in client.jobs().jobs]
        if names:
            client.release(names)

    def test_it_ends_on_few_hosts(self) -> None:
        for hosts in (2, 4):
            played = play("--hosts", str(hosts), "--jobs", "6")
            self.assertEqual((played.returncode, played.stderr), (0, ""))
            self.assertIn("6 jobs are done after", played.stdout)
            self.assertNotIn(f"{hosts + 1} hosts)", played.stdout)

    def test_fewer_hosts_than_a_job_wants_are_refused_by_name(self) -> None:
        for hosts in ("1", "0", "-3"):
            played = play("--hosts", hosts)
            self.assertEqual((played.returncode, played.stdout), (2, ""))
            self.assertIn(f"--hosts {hosts}: each job wants 2 at least", played.stderr)

    def test_what_the_service_refuses_is_one_line(self) -> None:
        # The fabric has 24 hosts, and one of the first random placements has another one.
        played = play("--hosts", "40", "--jobs", "6")
        self.assertEqual(played.returncode, 1)
        self.assertRegex(played.stderr, r"^themis_loop\.py: .*unknown host \"h[0-9]+\".*\n$")


if __name__ == "__main__":
    unittest.main()
