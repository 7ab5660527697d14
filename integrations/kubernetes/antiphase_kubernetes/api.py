"""The little of the API of Kubernetes that the controller needs, over HTTP with the standard library."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

Object = dict[str, Any]
"""An object as the API writes it."""

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its authority and its token (Kubernetes: Accessing the API from a Pod)."""
ANSWER_BYTES_MAX = 256 << 20
"""Largest answer that is read: 20,000 pods of usual size take 100 MiB."""
PAGE = 500
"""Objects of one answer; kubectl asks for as many."""
ATTEMPT_S = 30.0
"""How long one request may take."""


class ApiError(Exception):
    """The API refused, or does not answer; one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; 0: no answer."""


@dataclass(frozen=True)
class Api:
    """Where the API is, and who we are."""

    url: str
    authority: Optional[str] = None
    token: Optional[str] = None

    @staticmethod
    def inside(environment: Mapping[str, str]) -> Api:
        """Of the cluster in which we are a pod."""
        host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
        return Api(f"https://{f'[{host}]' if ':' in host else host}:{port}", str(ACCOUNT / "ca.crt"), str(ACCOUNT / "token"))

    def _open(self, method: str, path: str, keys: Mapping[str, str], body: Optional[Object], wait_s: float) -> Any:
        query = f"?{urllib.parse.urlencode(keys)}" if keys else ""
        headers = {"accept": "application/json"}
        if body is not None:
            headers["content-type"] = "application/merge-patch+json"
        if self.token is not None:
            # Read each time: the kubelet renews it.
            headers["authorization"] = f"Bearer {Path(self.token).read_text(encoding='ascii').strip()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path + query, data, headers, method=method)
        context = ssl.create_default_context(cafile=self.authority) if self.url.startswith("https:") else None
        try:
            return urllib.request.urlopen(request, timeout=wait_s, context=context)
        except urllib.error.HTTPError as error:
            with error:
                text = " ".join(error.read(2_000).decode("utf-8", "replace").split())
            raise ApiError(error.code, f"{method} {path}: {error.code}: {text:.300}") from None
        except OSError as error:
            raise ApiError(0, f"{method} {path}: {error}") from None

    def _json(self, method: str, path: str, keys: Mapping[str, str], body: Optional[Object] = None) -> Object:
        with self._open(method, path, keys, body, ATTEMPT_S) as answer:
            text = answer.read(ANSWER_BYTES_MAX + 1)
        if len(text) > ANSWER_BYTES_MAX:
            raise ApiError(0, f"{method} {path}: more than {ANSWER_BYTES_MAX} bytes")
        value: Object = json.loads(text)
        return value

    def get(self, path: str) -> Object:
        """One object."""
        return self._json("GET", path, {})

    def list(self, path: str, **selectors: str) -> tuple[list[Object], str]:
        """All objects, page by page, and the resource version from which they can be watched."""
        out: list[Object] = []
        keys = {**selectors, "limit": str(PAGE)}
        while True:
            page = self._json("GET", path, keys)
            out += page.get("items") or []
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return out, metadata.get("resourceVersion", "")
            keys["continue"] = metadata["continue"]

    def watch(self, path: str, version: str, seconds: int, **selectors: str) -> Iterator[Object]:
        """What happens after that version, for so many seconds at most. Ends as well where the API ends it, such as with 410."""
        keys = {**selectors, "watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        try:
            with self._open("GET", path, keys, None, seconds + ATTEMPT_S) as stream:
                for line in stream:
                    event: Object = json.loads(line)
                    if event.get("type") == "ERROR":
                        return
                    yield event
        except (OSError, ValueError) as error:
            raise ApiError(0, f"watch {path}: {error}") from None

    def patch(self, path: str, change: Object) -> Object:
        """Changes an object by a merge patch (RFC 7386)."""
        return self._json("PATCH", path, {}, change)
