"""The little of the API of Kubernetes that our programs need, over HTTP with the standard library."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, TypeVar, Union

Object = dict[str, Any]
"""An object as the API writes it."""

T = TypeVar("T")
Listed = tuple[list[T], str]
"""What was kept of a list, and its resource version."""

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its authority and its token (Kubernetes: Accessing the API from a Pod)."""
ANSWER_BYTES_MAX = 256 << 20
"""Largest answer that is read: a page of objects that are as large as etcd takes them (1.5 MiB) is smaller."""
PAGE = 100
"""Objects of one answer. A page is in memory whole, and a pod can have hundreds of KiB of annotations."""
ATTEMPT_S = 30.0
"""How long one request may take."""
_JSON = "application/json"
_METADATA = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{_JSON}"
"""Objects without spec and status, or whole from an API that knows no such form (Kubernetes API Concepts: Metadata-only fetches)."""
_MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API refused, or does not answer; one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; 0: no answer."""


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Whatever can go wrong in a request or its answer becomes an [`ApiError`], so that nothing of the network ends the program."""
    try:
        yield
    except urllib.error.HTTPError as error:
        try:
            with error:
                text = " ".join(error.read(2_000).decode("utf-8", "replace").split())
        except (OSError, ValueError, http.client.HTTPException) as unread:
            text = str(unread)
        raise ApiError(error.code, f"{what}: {error.code}: {text:.300}") from None
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        raise ApiError(0, f"{what}: {type(error).__name__}: {error}") from None


def _readable(path: Union[str, Path]) -> None:
    """Raises OSError with the file's name, which errors of `ssl` lack."""
    with open(path, "rb"):
        pass


def path_of(*parts: str) -> str:
    """A path below `/api/v1`, with each part quoted."""
    return below("/api/v1", *parts)


def below(path: str, *parts: str) -> str:
    """A path below another one, with each part quoted."""
    return "/".join([path, *(urllib.parse.quote(part, safe="") for part in parts)])


@dataclass(frozen=True)
class Api:
    """Where the API is, and who we are."""

    url: str
    authority: Optional[str] = None
    token: Optional[str] = None

    @staticmethod
    def at(url: str) -> Api:
        """At an address such as that of `kubectl proxy`. Raises ValueError for a text that is none."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.port == 0:
            raise ValueError(f"{url!r:.100} is no address; expected http://HOST:PORT or https://HOST:PORT")
        return Api(url.rstrip("/"))

    @staticmethod
    def inside(environment: Mapping[str, str]) -> Api:
        """Of the cluster in which we are a pod. Raises ValueError where we are in none, and OSError where there is no account."""
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise ValueError("this is no pod of a cluster (KUBERNETES_SERVICE_HOST is not set); name the API by --api")
        for name in ("ca.crt", "token"):
            _readable(ACCOUNT / name)
        return Api(f"https://{f'[{host}]' if ':' in host else host}:{port}", str(ACCOUNT / "ca.crt"), str(ACCOUNT / "token"))

    def _open(self, method: str, path: str, keys: Mapping[str, str], body: Optional[Object], wait_s: float, accept: str = _JSON) -> Any:
        query = f"?{urllib.parse.urlencode(keys)}" if keys else ""
        headers = {"accept": accept}
        if body is not None:
            headers["content-type"] = _MERGE if method == "PATCH" else _JSON
        if self.token is not None:
            # Read each time: the kubelet renews it.
            headers["authorization"] = f"Bearer {Path(self.token).read_text(encoding='ascii').strip()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path + query, data, headers, method=method)
        # The cluster's API is asked directly: what the environment says of proxies is about the world outside.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.url.startswith("https:"):
            if self.authority is not None:
                _readable(self.authority)
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.authority)))
        return urllib.request.build_opener(*handlers).open(request, timeout=wait_s)

    def _json(self, method: str, path: str, keys: Mapping[str, str], body: Optional[Object] = None, accept: str = _JSON) -> Object:
        what = f"{method} {path}"
        with _told(what):
            with self._open(method, path, keys, body, ATTEMPT_S, accept) as answer:
                text = answer.read(ANSWER_BYTES_MAX + 1)
            if len(text) > ANSWER_BYTES_MAX:
                raise ApiError(0, f"{what}: more than {ANSWER_BYTES_MAX} bytes")
            value = json.loads(text)
            if not isinstance(value, dict):
                raise ApiError(0, f"{what}: {value!r:.100} is no object")
            return value

    def get(self, path: str) -> Object:
        """One object."""
        return self._json("GET", path, {})

    def list(self, path: str, keep: Callable[[Object], Optional[T]], **selectors: str) -> Listed[T]:
        """What `keep` keeps of all objects, page by page, and the resource version from which they can be watched."""
        return self._list(path, keep, selectors, _JSON)

    def list_metadata(self, path: str, keep: Callable[[Object], Optional[T]]) -> Listed[T]:
        """The same of objects that have only their metadata, which is a small part of a node."""
        return self._list(path, keep, {}, _METADATA)

    def _list(self, path: str, keep: Callable[[Object], Optional[T]], selectors: Mapping[str, str], accept: str) -> Listed[T]:
        out: list[T] = []
        keys = {**selectors, "limit": str(PAGE)}
        while True:
            page = self._json("GET", path, keys, accept=accept)
            out += [kept for kept in map(keep, page.get("items") or []) if kept is not None]
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return out, metadata.get("resourceVersion", "")
            keys["continue"] = metadata["continue"]

    def watch(self, path: str, version: str, seconds: int, **selectors: str) -> Iterator[Object]:
        """What happens after that version, for so many seconds at most. Ends as well where the API ends it, such as with 410."""
        keys = {**selectors, "watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        with _told(f"watch {path}"), self._open("GET", path, keys, None, seconds + ATTEMPT_S) as stream:
            for line in stream:
                event = json.loads(line)
                if not isinstance(event, dict) or event.get("type") == "ERROR":
                    return
                yield event

    def patch(self, path: str, change: Object) -> Object:
        """Changes an object by a merge patch (RFC 7386)."""
        return self._json("PATCH", path, {}, change)

    def create(self, path: str, thing: Object) -> Object:
        """Makes an object in a collection."""
        return self._json("POST", path, {}, thing)

    def delete(self, path: str) -> Object:
        """Deletes an object."""
        return self._json("DELETE", path, {})
