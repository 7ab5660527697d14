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
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Iterator, Optional

from antiphase import Client, Retries

from antiphase_kubernetes import export
from antiphase_kubernetes.api import Api
from antiphase_kubernetes.export import HYPER_NODES, LABELS, MANAGED, OWNED, OWNER, PATH, Exporter, relabelled
from tests.api_server import ApiServer

URL = os.environ.get("ANTIPHASE_URL", "")
TIER = "fabric.topograph.run/tier-0"
WRITTEN = export.WRITTEN + OWNER
OTHER_FABRIC = """\
schema: antiphase.fabric/v1
name: other
hosts: [n1, n2]
switches:
- {name: rack, tier: 1}
cables:
- {ends: [n1, rack], capacity: 10G}
- {ends: [n2, rack], capacity: 10G}
"""
OURS = dict([MANAGED, (OWNED, OWNER)])
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

    def test_only_labels_that_were_written_by_us_are_changed_and_taken_away(self) -> None:
        def change(*of: Any) -> Any:
            made, foreign = relabelled(*of)
            return (made and {key: value for key, value in made["metadata"].items() if key != "resourceVersion"}, foreign)

        self.assertEqual(change(node("a"), {}), (None, []))
        self.assertEqual(change(node("a", {"x/t0": "l"}, **{WRITTEN: "x/t0"}), {"x/t0": "l"}), (None, []))
        # Somebody else's of the same key stays his, whatever its value is, and is told.
        for value in ("l", "other"):
            self.assertEqual(change(node("a", {"x/t0": value}), {"x/t0": "l"}), (None, ["x/t0"]))
            beside = change(node("a", {"x/t0": value}), {"x/t0": "l", "x/t1": "s"})
            self.assertEqual(beside, ({"labels": {"x/t1": "s"}, "annotations": {WRITTEN: "x/t1"}}, ["x/t0"]))
        # Ours whose value somebody changed is ours still.
        changed = change(node("a", {"x/t0": "other"}, **{WRITTEN: "x/t0"}), {"x/t0": "l"})
        self.assertEqual(changed, ({"labels": {"x/t0": "l"}, "annotations": {WRITTEN: "x/t0"}}, []))
        gone = change(node("a", {"x/t0": "l", "mine": "m"}, **{WRITTEN: "x/t0,x/t1"}), {})
        self.assertEqual(gone, ({"labels": {"x/t0": None}, "annotations": {WRITTEN: None}}, []))
        # What another exporter wrote is somebody else's.
        self.assertEqual(change(node("a", {"x/t0": "l"}, **{WRITTEN: "x/t0"}), {}, "ml.demo"), (None, []))
        self.assertEqual(change(node("a", {"x/t0": "l"}, **{WRITTEN: "x/t0"}), {"x/t0": "k"}, "ml.demo"), (None, ["x/t0"]))
        # What a kubelet may not change it cannot have changed by us, which may.
        keys = ("kubernetes.io/hostname", "node-restriction.kubernetes.io/team", "node.k8s.io/x", "kubernetes.io/os")
        said = change(node("a", {key: "v" for key in keys}, **{WRITTEN: ",".join(keys)}), {})
        self.assertEqual(said, ({"labels": {}, "annotations": {WRITTEN: None}}, []))

    def test_options_that_cannot_be_taken_are_one_line(self) -> None:
        keys = ("topology.kubernetes.io/t{tier}", "kubernetes.io/{tier}", "t{tier}.k8s.io/x")
        owners = ("", "A", "-a", "a.", "a/b", "a_b", "a" * (export.OWNER_CHARS_MAX + 1), "a\n")
        both = ["--format", HYPER_NODES, "--label-keys", "x"]
        wrong = [["--every-s", "0"], ["--format", "x"], both, *(["--label-keys", key] for key in keys), *([f"--owner={one}"] for one in owners)]
        command = [sys.executable, "-m", "antiphase_kubernetes.export", "--api", "http://127.0.0.1:1"]
        # All at once: each is a start of Python. One that is taken would go on for ever.
        started = [(more, subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) for more in wrong]
        try:
            for more, program in started:
                out, err = program.communicate(timeout=60)
                self.assertEqual((program.returncode, out, err.count("\n")), (2, "", 1), err)
                self.assertIn((more[2] if more is both else more[0]).partition("=")[0], err)
        finally:
            for _, program in started:
                program.kill()
                program.communicate()
        for fine in ("antiphase-export", "ml.demo", "a", "1" * export.OWNER_CHARS_MAX):
            self.assertEqual(export.name_of_owner(fine), fine)
        for fine in ("nvidia", "topograph", "example.com/t{tier}", "notkubernetes.io/{tier}"):
            self.assertEqual(export.label_keys(fine), fine)


@contextmanager
def proxy_without_tags(url: str) -> Iterator[tuple[str, list[int]]]:
    """A proxy that drops the tag of each answer, and the statuses of what it passed on."""
    passed: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url + self.path, timeout=WAIT_S) as answer:
                body = answer.read()
                passed.append(answer.status)
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers["content-type"])
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}", passed
    finally:
        http.shutdown()
        http.server_close()


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

    def exporter(self, form: str, url: str = URL, keys: Optional[str] = None, owner: str = OWNER) -> Exporter:
        return Exporter(Api(self.server.url), Client(url, retries=Retries(attempts=1)), form, keys, self.said.append, owner)

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
        self.assertEqual((leaf["kind"], leaf["spec"]["tier"], leaf["metadata"]["labels"]), ("HyperNode", 1, OURS))
        members = [one["selector"]["exactMatch"]["name"] for one in leaf["spec"]["members"]]
        self.assertIn("h1", members)
        events = len(self.server.events)
        exporter.look()
        self.assertEqual(len(self.server.events), events)
        # A host that goes is a member no more; a group that was ours and is no more is deleted, and others' are not.
        self.server.put(f"{PATH}/old", {"metadata": {"name": "old", "labels": OURS}, "spec": {}})
        self.server.put(f"{PATH}/theirs", {"metadata": {"name": "theirs"}, "spec": {}})
        self.without("h1")
        exporter.look()
        left = [one["selector"]["exactMatch"]["name"] for one in self.server.objects[f"{PATH}/leaf1"]["spec"]["members"]]
        self.assertEqual(left, [name for name in members if name != "h1"])
        self.assertEqual((f"{PATH}/old" in self.server.objects, f"{PATH}/theirs" in self.server.objects), (False, True))

    def test_two_exporters_do_not_undo_each_other(self) -> None:
        for name in ("h1", "h2", "n1", "n2"):
            self.server.put(f"/api/v1/nodes/{name}", node(name))
        fabrics = (("ml.one", self.fabric), ("ml.two", OTHER_FABRIC))
        exporters: list[Exporter] = []
        for owner, fabric in fabrics:
            self.client.set_fabric(fabric)
            for form in (LABELS, HYPER_NODES):
                exporters.append(self.exporter(form, owner=owner))
                exporters[-1].look()
                # What its own service said holds from now on.
                exporters[-1].client = Client("http://127.0.0.1:1", retries=Retries(attempts=1))
        events = len(self.server.events)
        for _ in range(2):
            for exporter in exporters:
                exporter.look()
        self.assertEqual(len(self.server.events), events, self.said)
        self.assertEqual((self.labels("h1")[TIER], self.labels("n1")[TIER]), ("leaf1", "rack"))
        made = {name: self.server.objects[f"{PATH}/{name}"]["metadata"]["labels"][OWNED] for name in ("leaf1", "rack")}
        self.assertEqual(made, {"leaf1": "ml.one", "rack": "ml.two"})
        # A host of both: the first one's labels stay, and the second one says so.
        self.client.set_fabric(OTHER_FABRIC.replace("n1", "h1"))
        self.exporter(LABELS, owner="ml.two").look()
        self.assertEqual((self.labels("h1")[TIER], TIER in self.labels("n1")), ("leaf1", False))
        self.assertIn(f"a label {TIER!r} of somebody else stays as it is; nodes with it: 1: h1", self.said)

    def test_a_label_of_somebody_else_stays_and_is_told_once(self) -> None:
        for name, labels in (("h1", {TIER: "theirs"}), ("h24", {TIER: "leaf6"}), ("h2", {})):
            self.server.put(f"/api/v1/nodes/{name}", node(name, labels))
        exporter = self.exporter(LABELS)
        exporter.look()
        exporter.look()
        self.assertEqual((self.labels("h1")[TIER], len(self.labels("h1")), self.labels("h2")[TIER]), ("theirs", 3, "leaf1"))
        line = f"a label {TIER!r} of somebody else stays as it is; nodes with it: 2: h1, h24"
        self.assertEqual([said for said in self.said if "somebody else" in said], [line])
        self.without("h24")
        exporter.look()
        self.assertEqual(self.labels("h24"), {TIER: "leaf6"})
        # Once it is gone, ours comes.
        thing = self.server.objects["/api/v1/nodes/h1"]
        del thing["metadata"]["labels"][TIER]
        self.server.put("/api/v1/nodes/h1", thing)
        exporter.look()
        self.assertEqual(self.labels("h1")[TIER], "leaf1")

    def test_a_label_that_came_since_the_list_is_not_overwritten(self) -> None:
        self.server.put("/api/v1/nodes/h1", node("h1"))
        exporter = self.exporter(LABELS)
        listed = exporter.api.list_metadata

        def and_then(path: str, keep: Any) -> Any:
            out = listed(path, keep)
            self.server.put("/api/v1/nodes/h1", node("h1", {TIER: "theirs"}))
            return out

        object.__setattr__(exporter.api, "list_metadata", and_then)
        exporter.look()
        self.assertEqual(self.labels("h1"), {TIER: "theirs"})

    def test_a_look_ends_when_the_api_does_not_answer(self) -> None:
        for n in range(1, 9):
            self.server.put(f"/api/v1/nodes/h{n}", node(f"h{n}"))
        self.server.away = {"/api/v1/nodes/h3"}
        exporter = self.exporter(LABELS)
        exporter.look()
        self.assertEqual(self.server.patched, [f"/api/v1/nodes/h{n}" for n in (1, 2, 3)])
        self.assertIn("changed 2 objects of the kind Node; 5 are left for the next look: the API does not answer", self.said)
        # One object that has no answer holds no other up: it comes last in the next look.
        exporter.look()
        self.assertEqual(self.server.patched[3:], [f"/api/v1/nodes/h{n}" for n in (4, 5, 6, 7, 8, 3)])
        self.server.away.clear()
        exporter.look()
        self.assertEqual(len(self.labels("h3")), 3)

    def test_a_look_ends_after_its_time_and_the_next_one_goes_on(self) -> None:
        for n in range(1, 5):
            self.server.put(f"/api/v1/nodes/h{n}", node(f"h{n}"))
        self.server.refused = {"/api/v1/nodes/h1", "/api/v1/nodes/h2"}
        exporter = self.exporter(LABELS)
        # One call in each look.
        exporter.look_s = 0.0
        for _ in range(5):
            exporter.look()
        # What is refused takes the time of none that is not; then the one that was refused first comes first.
        self.assertEqual(self.server.patched, [f"/api/v1/nodes/h{n}" for n in (1, 2, 3, 4, 1)])
        self.assertIn("changed 0 objects of the kind Node; 3 are left for the next look: one look changes objects for 0 s", self.said)

    def test_a_proxy_that_drops_the_tag_costs_the_transfer_only(self) -> None:
        with proxy_without_tags(URL) as (url, passed):
            exporter = self.exporter(LABELS, url)
            for name in ("h1", "h2"):
                self.server.put(f"/api/v1/nodes/{name}", node(name))
                exporter.look()
                self.assertEqual(self.labels(name)[TIER], "leaf1")
        self.assertEqual(passed, [200, 200])

    def test_a_cluster_without_volcano_is_told(self) -> None:
        self.server.collections.discard("hypernodes")
        self.exporter(HYPER_NODES).look()
        self.assertTrue(any("hypernodes: 404" in line for line in self.said), self.said)

    def test_the_program_goes_on(self) -> None:
        command = [sys.executable, "-m", "antiphase_kubernetes.export", "--api", self.server.url, "--server", URL]
        command += ["--every-s", "1", "--owner", "ml.demo"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
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
        self.assertIn(export.WRITTEN + "ml.demo", self.server.objects["/api/v1/nodes/h1"]["metadata"]["annotations"])

    def until(self, done: Any) -> None:
        end = time.monotonic() + WAIT_S
        while not done():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
