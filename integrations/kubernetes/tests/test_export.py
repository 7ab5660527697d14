"""Labels of nodes and HyperNodes as the fabric is: with a real topology service (ANTIPHASE_URL) and the API server of the tests."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import threading
import time
import unittest
from typing import Any, Optional

from antiphase import Client, Retries

from antiphase_kubernetes import export
from antiphase_kubernetes.api import Api
from antiphase_kubernetes.export import HYPER_NODES, LABELS, OWNER, PATH, WRITTEN, Exporter, relabelled
from tests.api_server import ApiServer

URL = os.environ.get("ANTIPHASE_URL", "")
TIER = "fabric.topograph.run/tier-0"
WAIT_S = 30


def node(name: str, labels: Optional[dict[str, str]] = None, **annotations: str) -> dict[str, Any]:
    has = {"kubernetes.io/hostname": name, **(labels or {})}
    return {"metadata": {"name": name, "labels": has, "annotations": annotations}}


class Deciding(unittest.TestCase):
    def test_what_is_no_list_of_manifests_changes_nothing(self) -> None:
        for text in ("", "[]", "{}", '{"items": []}', '{"items": [{"kind": "Pod", "metadata": {"name": "a", "labels": {}}}]}', "[" * 100_000):
            with self.assertRaises(export.Wrong):
                export.wanted(text, "Node")
        twice = {"kind": "Node", "metadata": {"name": "a", "labels": {"x": "y"}}}
        with self.assertRaises(export.Wrong):
            export.wanted(json.dumps({"items": [twice, twice]}), "Node")

    def test_a_spec_is_as_wanted_also_with_defaults(self) -> None:
        wants: dict[str, Any] = {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "h1"}}}]}
        has = copy.deepcopy(wants)
        self.assertTrue(export.covers(has, wants))
        self.assertTrue(export.covers({**has, "by": "default"}, wants))
        for other in ({**has, "tier": 2}, {**has, "members": []}, {**has, "members": wants["members"] * 2}, {"tier": 1}, None):
            self.assertFalse(export.covers(other, wants), other)

    def test_only_labels_that_were_written_by_us_are_taken_away(self) -> None:
        self.assertIsNone(relabelled(node("a"), {}))
        self.assertIsNone(relabelled(node("a", {"x/t0": "l"}, **{WRITTEN: "x/t0"}), {"x/t0": "l"}))
        # Somebody else's of the same key: ours from now on, and so it is said.
        same = relabelled(node("a", {"x/t0": "l"}), {"x/t0": "l"})
        self.assertEqual(same, {"metadata": {"labels": {}, "annotations": {WRITTEN: "x/t0"}}})
        gone = relabelled(node("a", {"x/t0": "l", "mine": "m"}, **{WRITTEN: "x/t0,x/t1"}), {})
        self.assertEqual(gone, {"metadata": {"labels": {"x/t0": None}, "annotations": {WRITTEN: None}}})
        # What a kubelet may not change it cannot have changed by us, which may.
        keys = ("kubernetes.io/hostname", "node-restriction.kubernetes.io/team", "node.k8s.io/x", "kubernetes.io/os")
        said = relabelled(node("a", {key: "v" for key in keys}, **{WRITTEN: ",".join(keys)}), {})
        self.assertEqual(said, {"metadata": {"labels": {}, "annotations": {WRITTEN: None}}})


@unittest.skipUnless(URL, "ANTIPHASE_URL names no service")
class Exporting(unittest.TestCase):
    def setUp(self) -> None:
        self.server = ApiServer()
        self.server.collections.add("hypernodes")
        self.addCleanup(self.server.close)
        self.client = Client(URL)
        self.said: list[str] = []
        self.fabric = self.client.fabric().fabric
        self.addCleanup(lambda: self.client.set_fabric(self.fabric))

    def exporter(self, form: str, url: str = URL, keys: Optional[str] = None) -> Exporter:
        return Exporter(Api(self.server.url), Client(url, retries=Retries(attempts=1)), form, keys, self.said.append)

    def without(self, host: str) -> None:
        """Sets the fabric without a host."""
        self.client.set_fabric("\n".join(line for line in self.fabric.splitlines() if not re.search(rf"\b{host}\b", line)))

    def labels(self, name: str) -> dict[str, str]:
        about: dict[str, str] = self.server.objects[f"/api/v1/nodes/{name}"]["metadata"]["labels"]
        return {key: value for key, value in about.items() if key != "kubernetes.io/hostname"}

    def test_labels_follow_the_fabric_and_the_nodes(self) -> None:
        for name in ("h1", "h2", "h24", "other"):
            self.server.put(f"/api/v1/nodes/{name}", node(name, {"mine": "m"}))
        exporter = self.exporter(LABELS)
        exporter.look()
        tiers = [self.labels("h1").pop(f"fabric.topograph.run/tier-{n}") for n in range(3)]
        self.assertEqual(self.labels("h1"), {**{f"fabric.topograph.run/tier-{n}": tier for n, tier in enumerate(tiers)}, "mine": "m"})
        self.assertEqual(tiers[0], "leaf1")
        self.assertEqual(self.labels("other"), {"mine": "m"})
        # Hosts of the fabric that are no nodes are not made.
        self.assertEqual(len(self.server.objects), 4)
        # Nothing changed, so nothing is written, and the service sends nothing again.
        events, heard = len(self.server.events), len(self.said)
        exporter.look()
        self.assertEqual((len(self.server.events), len(self.said)), (events, heard))
        # A node that joins, one whose label somebody changed, and one that the fabric has no more.
        self.server.put("/api/v1/nodes/h3", node("h3"))
        changed = self.server.objects["/api/v1/nodes/h2"]
        changed["metadata"]["labels"][TIER] = "elsewhere"
        self.server.put("/api/v1/nodes/h2", changed)
        self.without("h24")
        exporter.look()
        self.assertEqual((self.labels("h3")[TIER], self.labels("h2")[TIER], self.labels("h24")), ("leaf1", "leaf1", {"mine": "m"}))
        # After a restart with other keys the old ones go.
        self.exporter(LABELS, keys="example.com/t{tier}").look()
        self.assertEqual(self.labels("h1"), {**{f"example.com/t{n}": tier for n, tier in enumerate(tiers)}, "mine": "m"})

    def test_a_service_that_is_away_takes_no_label_away_and_is_told_once(self) -> None:
        self.server.put("/api/v1/nodes/h1", node("h1"))
        exporter = self.exporter(LABELS)
        exporter.look()
        before = self.labels("h1")
        exporter.client = Client("http://127.0.0.1:1", retries=Retries(attempts=1))
        self.server.put("/api/v1/nodes/h2", node("h2"))
        for _ in range(3):
            exporter.look()
        # What it said last still holds.
        self.assertEqual((self.labels("h1"), self.labels("h2")), (before, before))
        self.assertEqual(len([line for line in self.said if line.startswith("the service: ")]), 1, self.said)
        # One that never answered has nothing written.
        self.server.put("/api/v1/nodes/h3", node("h3"))
        self.exporter(LABELS, "http://127.0.0.1:1").look()
        self.assertEqual(self.labels("h3"), {})

    def test_one_node_that_is_refused_holds_no_other_up(self) -> None:
        for name in ("h1", "h2", "h3"):
            self.server.put(f"/api/v1/nodes/{name}", node(name))
        self.server.refused.add("/api/v1/nodes/h1")
        exporter = self.exporter(LABELS)
        exporter.look()
        exporter.look()
        self.assertEqual((self.labels("h1"), len(self.labels("h2")), len(self.labels("h3"))), ({}, 3, 3))
        self.assertEqual(len([line for line in self.said if "denied the request" in line]), 1, self.said)
        self.server.refused.clear()
        exporter.look()
        self.assertEqual(len(self.labels("h1")), 3)

    def test_hyper_nodes_follow_the_fabric_and_those_of_others_stay(self) -> None:
        others = {"metadata": {"name": "leaf2", "labels": {}}, "spec": {"tier": 7, "members": []}}
        self.server.put(f"{PATH}/leaf2", others)
        exporter = self.exporter(HYPER_NODES)
        exporter.look()
        there = {path.rsplit("/", 1)[1]: thing for path, thing in self.server.objects.items() if path.startswith(PATH)}
        self.assertEqual(there["leaf2"]["spec"], others["spec"])
        self.assertTrue(any("'leaf2' of somebody else" in line for line in self.said), self.said)
        leaf = there["leaf1"]
        self.assertEqual((leaf["kind"], leaf["spec"]["tier"], leaf["metadata"]["labels"]), ("HyperNode", 1, dict([OWNER])))
        members = [one["selector"]["exactMatch"]["name"] for one in leaf["spec"]["members"]]
        self.assertIn("h1", members)
        events = len(self.server.events)
        exporter.look()
        self.assertEqual(len(self.server.events), events)
        # A host that goes is a member no more; a group that was ours and is no more is deleted, and others' are not.
        self.server.put(f"{PATH}/old", {"metadata": {"name": "old", "labels": dict([OWNER])}, "spec": {}})
        self.server.put(f"{PATH}/theirs", {"metadata": {"name": "theirs"}, "spec": {}})
        self.without("h1")
        exporter.look()
        left = [one["selector"]["exactMatch"]["name"] for one in self.server.objects[f"{PATH}/leaf1"]["spec"]["members"]]
        self.assertEqual(left, [name for name in members if name != "h1"])
        self.assertEqual((f"{PATH}/old" in self.server.objects, f"{PATH}/theirs" in self.server.objects), (False, True))

    def test_a_cluster_without_volcano_is_told(self) -> None:
        self.server.collections.discard("hypernodes")
        self.exporter(HYPER_NODES).look()
        self.assertTrue(any("hypernodes: 404" in line for line in self.said), self.said)

    def test_the_program_goes_on(self) -> None:
        command = [sys.executable, "-m", "antiphase_kubernetes.export", "--api", self.server.url, "--server", URL]
        both = ["--format", HYPER_NODES, "--label-keys", "x"]
        for more, said in ((["--every-s", "0"], "--every-s"), (["--format", "x"], "--format"), (both, "--label-keys")):
            done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(said, done.stderr)
        with subprocess.Popen([*command, "--every-s", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
            assert program.stdout is not None
            lines: list[str] = []
            reader = threading.Thread(target=lines.extend, args=(program.stdout,))
            reader.start()
            try:
                for name in ("h1", "h2"):
                    self.server.put(f"/api/v1/nodes/{name}", node(name))
                    self.until(lambda: TIER in self.labels(name))
            finally:
                program.terminate()
                reader.join()
        self.assertNotIn("Traceback", "".join(lines))

    def until(self, done: Any) -> None:
        end = time.monotonic() + WAIT_S
        while not done():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
