"""HTTP/1.1 as bytes, without sockets: one request and one answer for each connection.

The client with and the client without asyncio send and read the same bytes, so both behave alike.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import NamedTuple, Optional
from urllib.parse import urlsplit

from .errors import Unreachable

ANSWER_BYTES_MAX = 256 << 20
"""Most bytes of an answer: a fabric of 100,000 NICs takes 11 MiB, and an evaluation of a thousand candidates 200 MiB."""
_STATUS = re.compile(rb"HTTP/1\.[0-9] ([0-9]{3})(?: .*)?")
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,16}")


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


def answer(data: bytes, broke: bool = False) -> Answer:
    """The answer in all that came before the connection was closed, or before it `broke`.

    Raises Unreachable for one that is cut or is none.
    """
    head, separator, body = data.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if not separator or status is None:
        raise Unreachable("the connection was closed before there was an answer" if not data else "what came is no answer of HTTP/1.1")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.decode("latin-1").partition(":") for line in lines)}
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _joined(body)
    elif "content-length" in headers and headers["content-length"] != str(len(body)):
        raise Unreachable(f"the answer was cut: {len(body)} of {headers['content-length']!r:.20} bytes came")
    elif broke and "content-length" not in headers:
        raise Unreachable("the connection broke, and only its end would say how long the answer is")
    return Answer(int(status[1]), body)


def _joined(body: bytes) -> bytes:
    """The chunks of a body (RFC 9112, section 7.1), joined."""
    out: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at)
        digits = body[at:end].split(b";")[0].strip() if end >= 0 else b""
        # `int` alone takes more than the RFC does, such as "-e", with which this loop would go back and never end.
        if not _CHUNK_SIZE.fullmatch(digits):
            raise Unreachable("the answer was cut in a chunk")
        size = int(digits, 16)
        if size == 0:
            return b"".join(out)
        at = end + 2 + size
        if body[at : at + 2] != b"\r\n":
            raise Unreachable("the answer was cut in a chunk")
        out.append(body[end + 2 : at])
        at += 2
