"""Controller and exporter against a real kube-apiserver with etcd, each with the rights of its manifest and no others.

Both programs are looked for in the folder KUBEBUILDER_ASSETS, as the tests of other controllers do, and then in PATH.
No kubelet and no scheduler run: nodes and pods are objects that this test makes.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

from antiphase import Client

from antiphase_kubernetes.api import Api, ApiError, Object, below
from antiphase_kubernetes.controller import Controller, Settings
from antiphase_kubernetes.export import HYPER_NODES, LABELS, PATH, Exporter
from tests.test_controller import GPU, URL, node, pod

WAIT_S = 120
MANIFESTS = Path(__file__).resolve().parents[1]
TIER = "fabric.topograph.run/tier-0"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "topology.volcano.sh"
ACCOUNT = "system:serviceaccount:antiphase:antiphase-"


def found(name: str) -> Optional[str]:
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    return (shutil.which(name, path=folder) if folder else None) or shutil.which(name)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def until(what: str, done: Callable[[], bool], said: Sequence[str] = ()) -> None:
    end = time.monotonic() + WAIT_S
    while not done():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come: {said[-5:]}")
        time.sleep(0.1)


class Cluster:
    """An API server with its etcd, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def start(self) -> None:
        folder = self.folder
        client, peer, port = free_ports(3)
        etcd, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        listens = [f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peers}"]
        more = [f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}"]
        self._start("etcd", f"--data-dir={folder}/etcd", *listens, *more)
        # Any key: no token is signed here.
        subprocess.run(["openssl", "genrsa", "-out", f"{folder}/key.pem", "2048"], check=True, capture_output=True)
        who = [("admin", "admin", '"system:masters"'), *((name, ACCOUNT + name, '""') for name in ("controller", "export"))]
        (folder / "tokens.csv").write_text("".join(f"token-{name},{user},{name},{groups}\n" for name, user, groups in who))
        for name, _, _ in who:
            (folder / f"token-{name}").write_text(f"token-{name}")
        self._start(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder}/certificates",
            "--authorization-mode=RBAC",
            f"--token-auth-file={folder}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder}/key.pem",
            f"--service-account-signing-key-file={folder}/key.pem",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Without the controller that makes accounts, no pod could be made.
            "--disable-admission-plugins=ServiceAccount",
        )
        self.url = f"https://127.0.0.1:{port}"
        until("the API server", self._ready)

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running.append(subprocess.Popen([str(found(name)), *arguments], stdout=log, stderr=log, cwd=self.folder))

    def _ready(self) -> bool:
        for one, name in zip(self.running, ("etcd", "kube-apiserver")):
            if one.poll() is not None:
                raise AssertionError(f"{name} ended:\n{(self.folder / f'{name}.log').read_text(errors='replace')[-3_000:]}")
        try:
            self.api("admin").get("/api/v1/namespaces/default")
            return True
        except (ApiError, OSError):
            return False

    def api(self, name: str) -> Api:
        return Api(self.url, f"{self.folder}/certificates/apiserver.crt", f"{self.folder}/token-{name}")

    def apply(self, manifest: str) -> None:
        """Makes what a manifest of ours has of the kinds that give rights, sent as it is written."""
        for text in (MANIFESTS / manifest).read_text().split("---\n"):
            kind = next((line.removeprefix("kind: ") for line in text.splitlines() if line.startswith("kind: ")), "")
            if kind.startswith("ClusterRole"):
                api = self.api("admin")
                url = f"{api.url}/apis/rbac.authorization.k8s.io/v1/{kind.lower()}s"
                headers = {"content-type": "application/yaml", "authorization": f"Bearer {Path(str(api.token)).read_text()}"}
                request = urllib.request.Request(url, text.encode(), headers, method="POST")
                context = ssl.create_default_context(cafile=api.authority)
                with urllib.request.urlopen(request, context=context, timeout=30):
                    pass

    def bind(self, role: str, account: str) -> None:
        """Gives an account a role, as whoever changes roleRef in a manifest of ours."""
        group = "rbac.authorization.k8s.io"
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "antiphase"}
        ref = {"apiGroup": group, "kind": "ClusterRole", "name": role}
        binding = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role}, "roleRef": ref, "subjects": [subject]}
        self.api("admin").create(f"/apis/{group}/v1/clusterrolebindings", binding)

    def close(self) -> None:
        for one in reversed(self.running):
            one.terminate()
            one.wait(30)


@unittest.skipUnless(URL and found("etcd") and found("kube-apiserver"), "there is no etcd, or no kube-apiserver (KUBEBUILDER_ASSETS)")
class Real(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cluster = Cluster(Path(folder.name))
        self.addCleanup(self.cluster.close)
        self.cluster.start()
        self.admin = self.cluster.api("admin")
        self.client = Client(URL)
        self.said: list[str] = []
        for manifest in ("controller.yaml", "export.yaml"):
            self.cluster.apply(manifest)

    def node(self, name: str) -> None:
        """A node as a kubelet tells of itself."""
        made = node(name)
        status = made.pop("status")
        self.admin.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **made})
        self.admin.patch(f"/api/v1/nodes/{name}/status", {"status": {**status, "capacity": status["allocatable"]}})
        # What the API says of a node that nobody has seen.
        self.admin.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    def refused(self, what: Callable[[], Any]) -> None:
        with self.assertRaises(ApiError) as raised:
            what()
        self.assertEqual(raised.exception.status, 403, raised.exception)

    def labels(self, name: str) -> dict[str, str]:
        about: dict[str, str] = self.admin.get(f"/api/v1/nodes/{name}")["metadata"]["labels"]
        return about

    def hyper_nodes(self) -> dict[str, Object]:
        return {one["metadata"]["name"]: one for one in self.admin.list(PATH, lambda one: one)[0]}

    def test_the_exporter_writes_what_a_real_api_takes(self) -> None:
        api = self.cluster.api("export")
        for name in ("h1", "h2", "other"):
            self.node(name)
        exporter = Exporter(api, self.client, LABELS, None, self.said.append)
        exporter.look()
        self.assertEqual((self.labels("h1")[TIER], TIER in self.labels("other")), ("leaf1", False), self.said)
        before = self.admin.get("/api/v1/nodes/h1")["metadata"]["resourceVersion"]
        exporter.look()
        self.assertEqual(self.admin.get("/api/v1/nodes/h1")["metadata"]["resourceVersion"], before)
        self.node("h3")
        exporter.look()
        self.assertIn(TIER, self.labels("h3"))
        # Other keys: the old labels go.
        keys = "example.com/t{tier}"
        Exporter(api, self.client, LABELS, keys, self.said.append).look()
        self.assertEqual((TIER in self.labels("h1"), self.labels("h1")["example.com/t0"]), (False, "leaf1"))
        # Neither rights of others nor more of its own.
        self.refused(lambda: api.list("/api/v1/pods", lambda one: one))
        self.refused(lambda: api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node("h9")}))
        self.refused(lambda: api.delete("/api/v1/nodes/h1"))
        # An exporter of another name leaves them.
        Exporter(api, self.client, LABELS, None, self.said.append, "ml.two").look()
        self.assertEqual((self.labels("h1")[TIER], self.labels("h1")["example.com/t0"]), ("leaf1", "leaf1"))
        Exporter(api, self.client, LABELS, keys, self.said.append, "ml.two").look()
        self.assertEqual((TIER in self.labels("h1"), self.labels("h1")["example.com/t0"]), (False, "leaf1"))
        self.assertTrue(any("'example.com/t0' of somebody else" in line for line in self.said), self.said)

        # The rights for labels are none for HyperNodes.
        self.refused(lambda: api.list(PATH, lambda one: one))
        self.cluster.bind("antiphase-export-hyper-nodes", "antiphase-export")

        def told() -> bool:
            Exporter(api, self.client, HYPER_NODES, None, self.said.append).look()
            return any("hypernodes: 404" in line for line in self.said)

        until("an API without HyperNodes", told, self.said)
        schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
        version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": "HyperNode", "listKind": "HyperNodeList", "plural": "hypernodes", "singular": "hypernode"}
        spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]}
        about = {"name": f"hypernodes.{GROUP}"}
        self.admin.create(CRDS, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": about, "spec": spec})
        self.said.clear()

        def made() -> bool:
            Exporter(api, self.client, HYPER_NODES, None, self.said.append).look()
            try:
                return "leaf1" in self.hyper_nodes()
            except ApiError:
                return False

        until("HyperNodes", made, self.said)
        # One that somebody changed, one that we made and that is none any more, and one of somebody else.
        ours = self.hyper_nodes()["leaf1"]
        self.admin.patch(below(PATH, "leaf1"), {"spec": {"tier": 7}})
        other = {"apiVersion": ours["apiVersion"], "kind": "HyperNode", "spec": {"tier": 1}}
        self.admin.create(PATH, {**other, "metadata": {"name": "old", "labels": ours["metadata"]["labels"]}})
        self.admin.create(PATH, {**other, "metadata": {"name": "theirs"}})
        made()
        after = self.hyper_nodes()
        self.assertEqual((after["leaf1"]["spec"], "old" in after, "theirs" in after), (ours["spec"], False, True), self.said)

    def test_the_controller_places_a_gang_of_a_real_api(self) -> None:
        api = self.cluster.api("controller")
        for n in range(1, 5):
            self.node(f"h{n}")
        self.admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
        paths = []
        for n in range(2):
            made = pod(f"a-{n}", "a", n, profile="vgg16", size="2")
            made["spec"]["containers"][0]["image"] = "example/train"
            del made["status"]
            there = self.admin.create("/api/v1/namespaces/ml/pods", {"apiVersion": "v1", "kind": "Pod", **made})
            if "schedulingGates" not in there["spec"]:
                version = self.admin.get("/version")["gitVersion"]
                self.skipTest(f"this kube-apiserver ({version}) is older than 1.26 and knows no scheduling gates")
            paths.append(f"/api/v1/namespaces/ml/pods/a-{n}")
        self.assertEqual(there["spec"]["containers"][0]["resources"]["limits"][GPU], "1")
        controller = Controller(api, self.client, Settings(), self.said.append)
        controller.look()
        pods = [self.admin.get(path) for path in paths]
        self.assertEqual([one["spec"]["schedulingGates"] for one in pods], [[{"name": "example.com/other"}]] * 2, self.said)
        places = [one["spec"]["nodeSelector"]["kubernetes.io/hostname"] for one in pods]
        self.assertEqual({job.id: job.hosts for job in self.client.jobs().jobs}, {"ml.a": places})
        self.refused(lambda: api.delete(paths[0]))
        self.refused(lambda: api.patch("/api/v1/nodes/h1", {"metadata": {"labels": {"a": "b"}}}))
        for path in paths:
            self.admin.delete(path)

        def released() -> bool:
            controller.look()
            return not self.client.jobs().jobs

        until("the release", released)


if __name__ == "__main__":
    unittest.main()
