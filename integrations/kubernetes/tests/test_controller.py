"""The controller against a real topology service (ANTIPHASE_URL) and a small API server over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
from contextlib import suppress
from itertools import product
from typing import Any, Callable, Optional

from antiphase import Candidate, Client, JobHosts, JobSpec, Model, Retries

from antiphase_kubernetes import gang
from antiphase_kubernetes.api import Api, ApiError
from antiphase_kubernetes.controller import Controller, Settings
from tests.api_server import ApiServer

URL = os.environ.get("ANTIPHASE_URL", "")
GPU = "nvidia.com/gpu"
DEAD = "http://127.0.0.1:1"
WAIT_S = 30


def node(name: str, gpus: int = 1, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": {GPU: str(gpus)}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, job: str, rank: int, namespace: str = "ml", **annotations: str) -> dict[str, Any]:
    said = {f"antiphase/{key.replace('_', '-')}": value for key, value in annotations.items()}
    said["batch.kubernetes.io/job-completion-index"] = str(rank)
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"antiphase/job": job}, "annotations": said},
        "spec": {
            "schedulingGates": [{"name": "antiphase/placed"}, {"name": "example.com/other"}],
            "containers": [{"name": "train", "resources": {"limits": {GPU: "1"}}}],
        },
        "status": {"phase": "Pending"},
    }


class Choosing(unittest.TestCase):
    def test_names_sort_as_people_count(self) -> None:
        self.assertEqual(sorted(["n10", "n2", "n1", "a"], key=gang.natural), ["a", "n1", "n2", "n10"])

    def test_ways_are_choices_of_the_nodes_and_no_two_alike(self) -> None:
        for nodes, count in ((3, 2), (24, 4), (5, 5), (40, 1), (2, 3)):
            names = [f"n{n}" for n in range(nodes)]
            found = gang.ways(names, count, "job")
            self.assertEqual(found, gang.ways(names, count, "job"))
            self.assertEqual(len({tuple(way) for way in found}), len(found))
            self.assertTrue(len(found) <= gang.WAYS and all(len(set(way)) == count and set(way) <= set(names) for way in found))
            self.assertEqual(bool(found), count <= nodes)

    def test_a_node_has_to_be_ready_tolerated_selected_and_free(self) -> None:
        taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
        nodes = [node("a"), node("b", unschedulable=True), node("c", taints=[taint]), node("d", gpus=0), node("e"), node("f")]
        nodes[5]["status"]["conditions"][0]["status"] = "Unknown"
        busy = pod("busy", "other", 0)
        busy["spec"]["nodeName"] = "e"
        mine = pod("mine", "x", 0)

        def could() -> list[str]:
            taken = dict(one for one in [gang.takes(gang.slim(busy), GPU, ())] if one is not None)
            return gang.eligible(gang.slim(mine), [one for one in (gang.Node.of(made, GPU) for made in nodes) if one], taken, GPU)

        self.assertEqual(could(), ["a"])
        # Whoever makes a pod can write any node and any number into it: that takes no room, unless we wrote the node.
        busy["spec"] = {**busy["spec"], "nodeName": None, "nodeSelector": {"kubernetes.io/hostname": "a"}}
        busy["spec"]["containers"] = [{"name": "x", "resources": {"limits": {GPU: "999999999"}}}]
        busy["metadata"]["uid"] = "7"
        self.assertEqual(gang.takes(gang.slim(busy), GPU, ()), None)
        self.assertEqual(gang.takes(gang.slim(busy), GPU, {"7"}), ("a", 999_999_999))
        busy["spec"]["nodeName"] = "e"
        mine["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
        busy["status"]["phase"] = "Succeeded"
        self.assertEqual(could(), ["a", "c", "e"])
        mine["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "c"}
        self.assertEqual(could(), ["c"])


class Asking(unittest.TestCase):
    def test_no_answer_whatever_it_is_ends_the_program(self) -> None:
        broken = (
            b"",
            b"no HTTP\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n\xff\xff\xff",
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
            b"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nx",
            b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            api = Api(f"http://127.0.0.1:{listener.getsockname()[1]}")

            def answer() -> None:
                for _, text in product(range(2), broken):
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(text)

            thread = threading.Thread(target=answer)
            thread.start()
            for _ in broken:
                with self.assertRaises(ApiError):
                    api.get("/api/v1/pods")
            for _ in broken:
                # A watch that breaks off may also just end: the next look sees what happened.
                with suppress(ApiError):
                    self.assertEqual(list(api.watch("/api/v1/pods", "1", 1)), [])
            thread.join()
        for path in ("/a b", "/\u00e9", "/a\r\nb"):
            with self.assertRaises(ApiError):
                api.get(path)
        with self.assertRaises(ApiError):
            Api("http://127.0.0.1:1", token="/nonexistent").get("/")


@unittest.skipUnless(URL, "ANTIPHASE_URL names no service")
class Placing(unittest.TestCase):
    def setUp(self) -> None:
        self.server = ApiServer()
        self.addCleanup(self.server.close)
        self.client = Client(URL)
        self.said: list[str] = []
        self.now = 0.0
        for n in range(1, 25):
            self.server.put(f"/api/v1/nodes/h{n}", node(f"h{n}"))
        self.addCleanup(lambda: self.client.release(["none", *self.committed()]))

    def controller(self, url: str = URL) -> Controller:
        client = Client(url, retries=Retries(attempts=1))
        return Controller(Api(self.server.url), client, Settings(), self.said.append, lambda: self.now)

    def add(self, made: dict[str, Any]) -> str:
        about = made["metadata"]
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        self.server.put(path, made)
        return path

    def place(self, path: str) -> Optional[str]:
        """Where a pod is bound; None while it has our gate."""
        spec = self.server.objects[path]["spec"]
        names = [gate["name"] for gate in spec["schedulingGates"]]
        self.assertIn("example.com/other", names, "the gate of somebody else was taken away")
        return None if "antiphase/placed" in names else spec.get("nodeSelector", {}).get("kubernetes.io/hostname", "anywhere")

    def committed(self) -> dict[str, list[str]]:
        return {job.id: job.hosts for job in self.client.jobs().jobs}

    def test_a_gang_is_placed_when_it_is_whole_and_away_from_whom_it_would_meet(self) -> None:
        controller = self.controller()
        # The testbed: six nodes a leaf. This job holds one node of each leaf and loads all uplinks.
        running = JobSpec(id="running", model=Model(name="vgg16"), hosts=["h1", "h7", "h13", "h19"])
        self.client.commit([running])
        for host in running.hosts:
            stands = pod(f"running-{host}", "running", 0)
            stands["spec"] = {**stands["spec"], "schedulingGates": [{"name": "example.com/other"}], "nodeName": host}
            self.add(stands)
        first = self.add(pod("a-0", "a", 0, profile="vgg16", size="2"))
        controller.look()
        self.assertEqual(self.place(first), None)
        second = self.add(pod("a-1", "a", 1, profile="vgg16", size="2"))
        controller.look()
        places = [self.place(first), self.place(second)]
        self.assertEqual(self.committed()["ml.a"], places)
        self.assertFalse(set(running.hosts) & set(places))
        message = self.server.objects[first]["metadata"]["annotations"]["antiphase/message"]
        self.assertTrue(message.startswith(f"committed on {','.join(map(str, places))}: best of 10 places, predicted "), message)
        # A pair on the leaves of others, whose uplinks the running job loads, is worse or as bad.
        spec = JobSpec(id="again", model=Model(name="vgg16"))
        self.client.release(["ml.a"])
        pairs = {"taken": [str(place) for place in places], "across": ["h2", "h8"]}
        ways = [Candidate(id=name, placements=[JobHosts(job="again", hosts=hosts)]) for name, hosts in pairs.items()]
        ranked = self.client.evaluate([spec], ways, objective="time", predict=True).ranked
        self.assertEqual(ranked[0].id, "taken", ranked)
        self.client.commit([JobSpec(id="ml.a", model=Model(name="vgg16"), hosts=pairs["taken"])])
        # A second look changes nothing.
        before = len(self.server.events)
        controller.look()
        self.assertEqual(len(self.server.events), before)

    def test_a_job_is_renewed_while_it_runs_and_released_at_its_end(self) -> None:
        paths = [self.add(pod(f"b-{n}", "b", n, profile="vgg16")) for n in range(2)]
        controller = self.controller()
        controller.look()
        lease = self.client.jobs(["ml.b"]).jobs[0].lease_expires_ns
        self.now += 250
        controller.look()
        self.assertGreater(self.client.jobs(["ml.b"]).jobs[0].lease_expires_ns, lease)
        # Another controller, after a restart of the first, renews it too.
        lease = self.client.jobs(["ml.b"]).jobs[0].lease_expires_ns
        later = self.controller()
        later.look()
        self.assertGreater(self.client.jobs(["ml.b"]).jobs[0].lease_expires_ns, lease)
        self.server.delete(paths[0])
        later.look()
        self.assertIn("ml.b", self.committed())
        done = self.server.objects[paths[1]]
        self.server.put(paths[1], {**done, "status": {"phase": "Succeeded"}})
        later.look()
        self.assertEqual(self.committed(), {})

    def test_a_pod_that_comes_back_joins_those_that_stand(self) -> None:
        paths = [self.add(pod(f"c-{n}", "c", n, profile="vgg16", size="3")) for n in range(3)]
        controller = self.controller()
        controller.look()
        stood = [self.place(path) for path in paths]
        self.server.delete(paths[1])
        controller.look()
        again = self.add(pod("c-1b", "c", 1, profile="vgg16", size="3"))
        controller.look()
        self.assertEqual(self.committed()["ml.c"], [stood[0], self.place(again), stood[2]])
        self.assertNotIn(self.place(again), (None, stood[0], stood[2]))

    def test_a_profile_comes_from_a_config_map(self) -> None:
        def of(name: str, data: dict[str, str]) -> Optional[str]:
            self.server.put(f"/api/v1/namespaces/ml/configmaps/{name}", {"metadata": {"name": name}, "data": data})
            paths = [self.add(pod(f"{name}-{n}", name, n, profile_configmap=name)) for n in range(2)]
            self.controller().look()
            return self.place(paths[0])

        self.assertNotIn(of("model", {"model.json": json.dumps({"name": "vgg16", "batch": 1700})}), (None, "anywhere"))
        self.assertIn("ml.model", self.committed())
        self.assertEqual(of("misspelt", {"model.json": json.dumps({"name": "vgg16", "bach": 1700})}), "anywhere")
        self.assertEqual(of("unknown", {"model.json": json.dumps({"name": "no-such-model"})}), "anywhere")
        self.assertEqual(of("empty", {}), "anywhere")
        self.assertEqual(set(self.committed()), {"ml.model"})
        missing = self.add(pod("gone-0", "gone", 0, profile_configmap="nowhere"))
        self.controller().look()
        self.assertEqual(self.place(missing), "anywhere")

    def test_nobody_waits_for_ever(self) -> None:
        alone = self.add(pod("d-0", "d", 0, profile="vgg16", size="2"))
        controller = self.controller()
        controller.look()
        self.now += 599
        controller.look()
        self.assertEqual(self.place(alone), None)
        self.now += 2
        controller.look()
        self.assertEqual(self.place(alone), "anywhere")
        # A service that does not answer costs half a minute.
        away = self.controller(DEAD)
        path = self.add(pod("e-0", "e", 0, profile="vgg16"))
        away.look()
        self.now += 29
        away.look()
        self.assertEqual(self.place(path), None)
        self.now += 2
        away.look()
        self.assertEqual(self.place(path), "anywhere")
        self.assertIn("runs as it comes", self.server.objects[path]["metadata"]["annotations"]["antiphase/message"])

    def test_one_name_in_two_namespaces_is_two_jobs(self) -> None:
        self.add(pod("f-0", "f", 0, profile="vgg16"))
        self.add(pod("f-0", "f", 0, "other", profile="vgg16"))
        self.controller().look()
        self.assertEqual(set(self.committed()), {"ml.f", "other.f"})

    def test_no_pod_can_have_the_job_of_another_moved_or_released(self) -> None:
        running = JobSpec(id="ml.victim", model=Model(name="vgg16"), hosts=["h1", "h2"])
        self.client.commit([running, JobSpec(id="victim", model=Model(name="vgg16"), hosts=["h3", "h4"])])
        before = self.committed()

        def forged(namespace: str, node_name: str) -> str:
            made = pod("x-0", "victim", 0, namespace, profile="vgg16", message="committed on h9: best of 10 places")
            made["spec"] = {**made["spec"], "schedulingGates": [{"name": "example.com/other"}], "nodeName": node_name}
            return self.add(made)

        # Two that run where they like and say that we placed them, of another namespace and on the very nodes of the job.
        paths = [forged("evil", "h9"), forged("ml", "h1")]
        controller = self.controller()
        for _ in range(2):
            controller.look()
            self.now += 300
        self.assertEqual(self.committed(), before)
        for path in paths:
            self.server.delete(path)
        controller.look()
        self.assertEqual(self.committed(), before)
        # One that waits, with a name that somebody else has in the plan.
        waits = self.add(pod("y-0", "victim", 0, profile="vgg16"))
        controller.look()
        self.assertEqual((self.place(waits), self.committed()), ("anywhere", before))
        # With a lease it may be what we committed before a restart, so we wait for its end, and it stays as it is.
        self.client.commit([JobSpec(id="ml.late", model=Model(name="vgg16"), hosts=["h5", "h6"])], lease_ms=600_000)
        waits = self.add(pod("z-0", "late", 0, profile="vgg16"))
        controller.look()
        self.assertEqual((self.place(waits), self.committed()["ml.late"]), (None, ["h5", "h6"]))
        self.client.release(["ml.late"])
        controller.look()
        self.assertEqual(self.committed()["ml.late"], [self.place(waits)])

    def test_what_one_gang_says_holds_no_other_up(self) -> None:
        names = ("a b", "../../pods", "x?y", "a\r\nb", "\u00e9", "UPPER", "a" * 254, ".", "")
        paths = [self.add(pod(f"w-{n}", f"a{n}", 0, profile_configmap=name)) for n, name in enumerate(names)]
        good = self.add(pod("good-0", "z", 0, profile="vgg16"))
        # A bug that one gang's words bring about.
        odd = self.add(pod("odd-0", "b", 0, profile="vgg16"))
        controller = self.controller()
        place = controller._place
        controller._place = lambda one: place(one) if one.job != "b" else {}["bug"]  # type: ignore[method-assign]
        controller.look()
        self.assertEqual({self.place(path) for path in [*paths, odd]}, {"anywhere"})
        self.assertEqual(self.committed()["ml.z"], [self.place(good)])
        self.assertIn("ml.b: runs as it comes: KeyError: 'bug'", self.said)
        self.assertFalse([path for path in self.server.asked if "configmaps" in path])

    def test_gangs_of_one_namespace_hold_no_other_namespace_up(self) -> None:
        for n in range(40):
            self.add(pod(f"e{n}-0", f"e{n}", 0, namespace="evil", profile="vgg16"))
        good = self.add(pod("good-0", "z", 0, profile="vgg16"))
        controller = self.controller()
        place, tried = controller._place, []

        def slow(gang: Any) -> None:
            """As for profiles that take the service as long as its client waits."""
            if gang.namespace == "evil":
                tried.append(gang.job)
                self.now += 20
            else:
                place(gang)

        controller._place = slow  # type: ignore[method-assign]
        controller.look()
        self.assertEqual((self.now, self.committed()["ml.z"]), (20.0, [self.place(good)]))
        # Each look goes on with others, and nobody waits longer than for nodes that do not come.
        for _ in range(3):
            controller.look()
        self.assertEqual(len(set(tried)), 4)
        self.now += 601
        controller.look()
        self.assertEqual({self.place(path) for path in self.server.objects if "/pods/e" in path}, {"anywhere"})

    def test_gangs_of_one_look_share_what_is_free_and_nodes_are_asked_once(self) -> None:
        for n in range(3, 25):
            self.server.delete(f"/api/v1/nodes/h{n}")
        paths = [self.add(pod(f"s{n}-0", f"s{n}", 0, profile="vgg16")) for n in range(3)]
        self.controller().look()
        places = [self.place(path) for path in paths]
        self.assertEqual(sorted(filter(None, places)), ["h1", "h2"])
        self.assertEqual(len([path for path in self.server.asked if path.startswith("/api/v1/nodes")]), 1)

    def test_a_pod_that_only_names_a_node_takes_no_room_there(self) -> None:
        for n in range(1, 25):
            greedy = pod(f"greedy-{n}", "greedy", n, "evil", profile="vgg16")
            greedy["spec"] = {
                "schedulingGates": [{"name": "example.com/other"}],
                "nodeSelector": {"kubernetes.io/hostname": f"h{n}"},
                "containers": [{"name": "x", "resources": {"limits": {GPU: "999999999"}}}],
            }
            # Half of them are of no job, as most pods.
            if n % 2:
                del greedy["metadata"]["labels"]
            self.add(greedy)
        path = self.add(pod("a-0", "a", 0, profile="vgg16"))
        self.controller().look()
        self.assertEqual(self.committed(), {"ml.a": [self.place(path)]})

    def test_a_node_that_was_promised_stays_so_until_its_pod_is_there_also_after_a_restart(self) -> None:
        for n in range(3, 25):
            self.server.delete(f"/api/v1/nodes/h{n}")
        # It is not whole yet, and is looked at first, as the API lists it first.
        self.add(pod("a-0", "a", 0, profile="vgg16", size="2"))
        first = [self.add(pod(f"z-{n}", "z", n, profile="vgg16", size="2")) for n in range(2)]
        controller = self.controller()
        controller.look()
        self.assertEqual(sorted(filter(None, map(self.place, first))), ["h1", "h2"])
        # Neither has been scheduled, and the other gang is whole now.
        late = self.add(pod("a-0", "a", 0, profile="vgg16"))
        for again in (controller, self.controller()):
            again.look()
            self.assertEqual(self.place(late), None)
        self.assertEqual(self.committed().keys(), {"ml.z"})
        for path in first:
            self.server.delete(path)
        again.look()
        again.look()
        self.assertEqual(self.committed(), {"ml.a": [self.place(late)]})

    def test_what_cannot_be_taken_is_one_line_and_exit_code_2(self) -> None:
        plain = {key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_")}
        api = ["--api", self.server.url]
        for arguments, said in (
            ([], "KUBERNETES_SERVICE_HOST"),
            (["--api", "nonsense"], "'nonsense' is no address"),
            (["--api", ""], "'' is no address"),
            (["--api", "http://"], "is no address"),
            (["--api", "http://h:99999"], "ort"),
            ([*api, "--server", "x"], "'x' is no address"),
            ([*api, "--server", "https://h", "--authority", "/nonexistent/ca.pem"], "/nonexistent/ca.pem"),
            ([*api, "--server", "https://h", "--authority", __file__], "no certificate of an authority"),
            ([*api, "--server", "https://h", "--certificate", "/nonexistent/tls.crt", "--key", "/k"], "/nonexistent/tls.crt"),
            ([*api, "--key", "/k"], "certificates are for https"),
            *(([*api, f"--lease-s={text}"], text) for text in ("nan", "inf", "-1", "0", "1e9", "99999999999")),
            ([*api, "--open-s", "nan"], "nan"),
            ([*api, "--place-s", "x\ny"], "expected seconds"),
            ([*api, "--leese-s", "1"], "--leese-s"),
        ):
            command = [sys.executable, "-m", "antiphase_kubernetes", *arguments]
            done = subprocess.run(command, env=plain, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), (arguments, done.stderr))
            self.assertIn(said, done.stderr)
        inside = {**plain, "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
        done = subprocess.run([sys.executable, "-m", "antiphase_kubernetes"], env=inside, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", done.stderr)

    def test_the_program_follows_what_happens(self) -> None:
        command = [sys.executable, "-m", "antiphase_kubernetes", "--api", self.server.url, "--server", URL]
        # A proxy that nobody runs: the API is asked without it.
        proxy = {name: DEAD for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY")}
        plain = {key: value for key, value in os.environ.items() if key.lower() != "no_proxy"}
        with subprocess.Popen(command, env={**plain, **proxy}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
            assert program.stdout is not None
            lines: list[str] = []
            reader = threading.Thread(target=lines.extend, args=(program.stdout,))
            reader.start()
            try:
                paths = [self.add(pod(f"g-{n}", "g", n, profile="vgg16", size="2")) for n in range(2)]
                self.until(lambda: None not in [self.place(path) for path in paths])
                for path in paths:
                    self.server.delete(path)
                # It says so a moment after it is so.
                self.until(lambda: self.committed() == {} and any("released" in line for line in lines))
            finally:
                program.terminate()
                reader.join()
        said = "".join(lines)
        self.assertIn("ml.g: committed on ", said)
        self.assertIn("released ml.g", said)
        self.assertNotIn("Traceback", said)

    def until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT_S
        while not done():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
