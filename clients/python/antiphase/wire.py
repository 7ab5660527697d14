"""HTTP/1.1 as bytes, without sockets: one request and one answer for each connection.

The client with and the client without asyncio send and read the same bytes, so both behave alike.
"""

from __future__ import annotations

import os
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


def _stamp(path: str) -> tuple[int, ...]:
    """What is another one where the file is another one. The error for a file that cannot be read has its name, which those of `ssl` lack."""
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


class Certificates:
    """Files of certificates. They are read again where they have changed: a program runs for longer than a certificate is good."""

    def __init__(self, authority: Optional[str], certificate: Optional[str], key: Optional[str]) -> None:
        """Raises OSError for a file that cannot be read, and ValueError for one that holds something else."""
        self._authority, self._certificate, self._key = authority, certificate, key
        stamps = self._stamps()
        # One value, so that threads see both of one time.
        self._read = stamps, self._made()

    def _stamps(self) -> list[tuple[int, ...]]:
        return [_stamp(path) for path in (self._authority, self._certificate, self._key) if path is not None]

    def _made(self) -> ssl.SSLContext:
        try:
            made = ssl.create_default_context(cafile=self._authority)
        except ssl.SSLError as error:
            raise ValueError(f"{self._authority}: no certificate of an authority: {error}") from error
        if self._certificate is not None:
            try:
                made.load_cert_chain(self._certificate, self._key)
            except ssl.SSLError as error:
                raise ValueError(f"{self._certificate}, {self._key}: no certificate with its key: {error}") from error
        return made

    def context(self) -> ssl.SSLContext:
        """What the files hold now. Where one is missing or does not fit another, as in the middle of a renewal: what they held before."""
        before, context = self._read
        try:
            # In this order: files that change in between are read again the next time.
            stamps = self._stamps()
            if stamps != before:
                context = self._made()
                self._read = stamps, context
        except (OSError, ValueError):
            pass
        return context


@dataclass(frozen=True)
class Place:
    """Where the service is, and who we are."""

    host: str
    port: int
    prefix: str
    certificates: Optional[Certificates]
    """With https."""

    @staticmethod
    def of(url: str, authority: Optional[str], certificate: Optional[str], key: Optional[str]) -> Place:
        """Reads an address such as `http://127.0.0.1:7480`, and the files of certificates."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address; expected http://HOST:PORT or https://HOST:PORT")
        secured = parts.scheme == "https"
        if not secured and (authority or certificate or key):
            raise ValueError(f"{url!r}: certificates are for https")
        if key and not certificate:
            raise ValueError(f"{key}: a key needs its certificate")
        certificates = Certificates(authority, certificate, key) if secured else None
        return Place(parts.hostname, parts.port or (443 if secured else 80), parts.path.rstrip("/"), certificates)

    @property
    def tls(self) -> Optional[ssl.SSLContext]:
        """For the next connection."""
        return self.certificates.context() if self.certificates else None


class Answer(NamedTuple):
    """Status, body, and the tag of the body (RFC 9110, section 8.8.3) where it has one."""

    status: int
    body: bytes
    tag: Optional[str] = None


def request(place: Place, method: str, path: str, body: Optional[bytes], kind: str, known: Optional[str] = None) -> bytes:
    """The bytes of a request; `known` is the tag of what is known already. The service closes the connection after its answer."""
    host = f"[{place.host}]" if ":" in place.host else place.host
    head = [f"{method} {place.prefix}{path} HTTP/1.1", f"host: {host}:{place.port}", "connection: close", "accept: application/json"]
    if known is not None:
        head.append(f"if-none-match: {known}")
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
    return Answer(int(status[1]), body, headers.get("etag"))


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
