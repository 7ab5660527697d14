"""A small API server for the tests: list, watch, get, merge patch, create and delete over real HTTP, with the rules of gated pods.

Of the documented API (Kubernetes API Concepts; Pod Scheduling Readiness; RFC 7386). It shares no code with the programs under test.
"""

from __future__ import annotations

import copy
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

PAGE_MAX = 2
"""Objects of one page at most, so that clients have to ask for the next."""


def merged(old: Any, change: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(change, dict):
        return change
    out = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


def refused(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Why the API would refuse this change of a pod; empty where it would not."""
    before, after = old["spec"], new["spec"]
    had = [gate["name"] for gate in before.get("schedulingGates", [])]
    has = [gate["name"] for gate in after.get("schedulingGates", [])]
    if not set(has) <= set(had):
        return "only deletion is allowed, but found new scheduling gates"
    was, now = before.get("nodeSelector", {}), after.get("nodeSelector", {})
    if was != now and not had:
        return "pod updates may not change nodeSelector"
    if any(now.get(key) != value for key, value in was.items()):
        return "only additions to spec.nodeSelector are allowed"
    if {**before, "schedulingGates": 0, "nodeSelector": 0} != {**after, "schedulingGates": 0, "nodeSelector": 0}:
        return "pod updates may not change other fields"
    return ""


class ApiServer:
    """Objects by path, such as `/api/v1/namespaces/x/pods/a`, and what happened to them."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[int, str, str, dict[str, Any]]] = []
        self.asked: list[str] = []
        self.collections = {"pods", "nodes"}
        self.refused: set[str] = set()
        """Paths whose changes are refused, as by an admission webhook."""
        self.away: set[str] = set()
        """Paths whose changes have no answer, as where the API ends."""
        self.patched: list[str] = []
        self.changed = threading.Condition()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                server.get(self)

            def do_PATCH(self) -> None:
                server.patch(self)

            def do_POST(self) -> None:
                server.create(self)

            def do_DELETE(self) -> None:
                server.remove(self)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def put(self, path: str, thing: dict[str, Any], kind: str = "") -> None:
        with self.changed:
            thing = copy.deepcopy(thing)
            kind = kind or ("MODIFIED" if path in self.objects else "ADDED")
            # As the real one does: a pod of an earlier one's name is another pod.
            thing.setdefault("metadata", {}).setdefault("uid", str(uuid.uuid4()))
            thing["metadata"]["resourceVersion"] = str(len(self.events) + 1)
            if kind == "DELETED":
                del self.objects[path]
            else:
                self.objects[path] = thing
            self.events.append((len(self.events) + 1, kind, path, thing))
            self.changed.notify_all()

    def delete(self, path: str) -> None:
        self.put(path, self.objects[path], "DELETED")

    def _selected(self, collection: str, thing_path: str, thing: dict[str, Any], keys: dict[str, str]) -> bool:
        root, _, kind = collection.rpartition("/")
        inside = thing_path.startswith(root + "/") and thing_path.split("/")[-2] == kind
        labels = thing["metadata"].get("labels", {})
        for one in filter(None, keys.get("labelSelector", "").split(",")):
            key, has, value = one.partition("=")
            inside &= labels.get(key) == value if has else key in labels
        for one in filter(None, keys.get("fieldSelector", "").split(",")):
            key, _, value = one.partition("!=")
            assert key == "status.phase" and value, one
            inside &= thing.get("status", {}).get("phase") != value
        return inside

    def get(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        keys = dict(parse_qsl(parts.query))
        if "watch" in keys:
            self._watch(handler, parts.path, keys)
            return
        with self.changed:
            self.asked.append(handler.path)
            if parts.path in self.objects:
                self._answer(handler, 200, self.objects[parts.path])
                return
            if parts.path.rsplit("/", 1)[1] not in self.collections:
                self._answer(handler, 404, {"kind": "Status", "message": "not found", "code": 404})
                return
            found = [thing for path, thing in self.objects.items() if self._selected(parts.path, path, thing, keys)]
            if "as=PartialObjectMetadataList" in handler.headers["accept"]:
                found = [{"metadata": thing["metadata"]} for thing in found]
            start = int(keys.get("continue", "0"))
            size = min(PAGE_MAX, int(keys["limit"]))
            about = {"resourceVersion": str(len(self.events))}
            if start + size < len(found):
                about["continue"] = str(start + size)
            self._answer(handler, 200, {"kind": "List", "metadata": about, "items": found[start : start + size]})

    def _watch(self, handler: BaseHTTPRequestHandler, path: str, keys: dict[str, str]) -> None:
        handler.send_response(200)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        seen = int(keys["resourceVersion"])
        with self.changed:
            self.changed.wait_for(lambda: len(self.events) > seen, timeout=float(keys["timeoutSeconds"]))
            news = [(kind, thing) for n, kind, at, thing in self.events[seen:] if self._selected(path, at, thing, keys)]
        try:
            for kind, thing in news:
                line = json.dumps({"type": kind, "object": thing}).encode() + b"\n"
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass

    def patch(self, handler: BaseHTTPRequestHandler) -> None:
        change = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self.changed:
            self.patched.append(handler.path)
            old = self.objects.get(handler.path)
            if handler.path in self.away:
                handler.close_connection = True
                return
            if old is None:
                self._answer(handler, 404, {"message": "not found"})
                return
            if handler.headers["content-type"] != "application/merge-patch+json":
                self._answer(handler, 415, {"message": "unsupported"})
                return
            new = merged(old, change)
            if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                self._answer(handler, 409, {"message": "the object has been modified"})
            elif handler.path in self.refused:
                self._answer(handler, 403, {"message": "an admission webhook denied the request"})
            elif "/pods/" in handler.path and (why := refused(old, new)):
                self._answer(handler, 422, {"message": why})
            else:
                self.put(handler.path, new)
                self._answer(handler, 200, new)

    def create(self, handler: BaseHTTPRequestHandler) -> None:
        thing = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        path = f"{handler.path}/{thing['metadata']['name']}"
        with self.changed:
            if handler.path.rsplit("/", 1)[1] not in self.collections:
                self._answer(handler, 404, {"message": "not found"})
            elif path in self.objects:
                self._answer(handler, 409, {"message": "already exists"})
            else:
                self.put(path, thing)
                self._answer(handler, 201, self.objects[path])

    def remove(self, handler: BaseHTTPRequestHandler) -> None:
        with self.changed:
            if handler.path not in self.objects:
                self._answer(handler, 404, {"message": "not found"})
                return
            self.delete(handler.path)
            self._answer(handler, 200, {"kind": "Status", "status": "Success"})

    @staticmethod
    def _answer(handler: BaseHTTPRequestHandler, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
