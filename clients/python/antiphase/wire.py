"""HTTP/1.1 as bytes, without sockets: one request and one answer for each connection.

The client with and the client without asyncio send and read the same bytes, so both behave alike.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import NamedTuple, Optional
from urllib.parse import urlsplit

from .errors import Unreachable

ANSWER_BYTES_MAX = 256 << 20
"""Most bytes of an answer: a fabric of 100,000 NICs takes 11 MiB, and an evaluation of a thousand candidates 200 MiB."""


@dataclass(frozen=True)
class Place:
    """Where the service is, and who we are."""

    host: str
    port: int
    prefix: str
    tls: Optional[ssl.SSLContext]

    @staticmethod
    def of(url: str, authority: Optional[str], certificate: Optional[str], key: Optional[str]) -> Place:
        """Reads an address such as `http://127.0.0.1:7480`, and the files of certificates."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address; expected http://HOST:PORT or https://HOST:PORT")
        tls = None
        if parts.scheme == "https":
            tls = ssl.create_default_context(cafile=authority)
            if certificate is not None:
                tls.load_cert_chain(certificate, key)
        elif authority or certificate or key:
            raise ValueError(f"{url!r}: certificates are for https")
        return Place(parts.hostname, parts.port or (443 if tls else 80), parts.path.rstrip("/"), tls)


class Answer(NamedTuple):
    """Status and body."""

    status: int
    body: bytes


def request(place: Place, method: str, path: str, body: Optional[bytes], kind: str) -> bytes:
    """The bytes of a request. The service closes the connection after its answer."""
    host = f"[{place.host}]" if ":" in place.host else place.host
    head = [f"{method} {place.prefix}{path} HTTP/1.1", f"host: {host}:{place.port}", "connection: close", "accept: application/json"]
    if body is not None:
        head += [f"content-type: {kind}", f"content-length: {len(body)}"]
    return ("\r\n".join(head) + "\r\n\r\n").encode("ascii") + (body or b"")


def answer(data: bytes) -> Answer:
    """The answer in all that came before the connection was closed.

    Raises Unreachable for one that is cut or is none.
    """
    head, separator, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if not separator or len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise Unreachable("the connection was closed before there was an answer" if not data else "what came is no answer of HTTP/1.1")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _joined(body)
    elif "content-length" in headers and headers["content-length"] != str(len(body)):
        raise Unreachable(f"the answer was cut: {len(body)} of {headers['content-length']:.20} bytes came")
    return Answer(int(words[1]), body)


def _joined(body: bytes) -> bytes:
    """The chunks of a body (RFC 9112, section 7.1), joined."""
    out: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at)
        digits = body[at:end].split(b";")[0].strip() if end >= 0 else b""
        try:
            size = int(digits, 16)
        except ValueError:
            raise Unreachable("the answer was cut in a chunk") from None
        if size == 0:
            return b"".join(out)
        chunk = body[end + 2 : end + 2 + size]
        if len(chunk) < size:
            raise Unreachable("the answer was cut in a chunk")
        out.append(chunk)
        at = end + 2 + size + 2
