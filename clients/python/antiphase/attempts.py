"""One request until it is answered: what is sent, what came, and whether it is sent again.

There are no sockets and no clocks here: the client with and the one without asyncio move bytes and wait, and decide alike.
"""

from __future__ import annotations

import ssl
from typing import Generic, Optional, TypeVar

from . import wire
from .calls import Call, Retries
from .errors import MAY_PASS, AntiphaseError, Unreachable, refused

T = TypeVar("T")

BROKE = (ConnectionError, ssl.SSLEOFError)
"""How it is told that the other end hung up, without TLS and with it."""


class Received:
    """What came over one connection."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._broke: Optional[OSError] = None

    def add(self, part: bytes) -> None:
        """Keeps what came. Raises Unreachable for more than an answer may have."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > wire.ANSWER_BYTES_MAX:
            raise Unreachable(f"the answer has more than {wire.ANSWER_BYTES_MAX} bytes")

    def broke(self, error: OSError) -> None:
        """The connection broke.

        What came may be a whole answer: who finds a request too large says so, and hangs up without having read it.
        """
        self._broke = error

    def answer(self) -> wire.Answer:
        """The answer. Raises Unreachable where there is none, and the error of a connection that broke before anything came."""
        if self._broke and not self._parts:
            raise self._broke
        return wire.answer(b"".join(self._parts), broke=self._broke is not None)


class Attempts(Generic[T]):
    """The attempts of one call."""

    def __init__(self, call: Call[T], place: wire.Place, retries: Retries) -> None:
        self.request = wire.request(place, call.method, call.path, call.body, call.kind, call.known)
        """The same bytes each time: a commit keeps its key."""
        self._read = call.read
        self._expected = (200,) if call.known is None else (200, 304)
        self._place = place
        self._waits = retries.waits()

    def result(self, received: Received) -> T:
        """What the service answered. Raises what it refused, and Unreachable for what is no answer."""
        answer = received.answer()
        if answer.status not in self._expected:
            raise refused(answer.status, answer.body)
        try:
            return self._read(answer)
        except (ValueError, TypeError, RecursionError) as error:
            raise Unreachable(f"the answer cannot be read: {error}") from error

    def wait_s(self, error: Exception) -> float:
        """How long to wait before the next attempt; where there is none, raises the error as one of ours."""
        ours = error if isinstance(error, AntiphaseError) else self._unreachable(error)
        wait = next(self._waits, None) if isinstance(ours, MAY_PASS) else None
        if wait is None:
            raise ours
        return wait

    def _unreachable(self, error: Exception) -> Unreachable:
        name = type(error).__name__
        what = " ".join(str(error).split()) or ("timed out" if name == "TimeoutError" else name)
        unreachable = Unreachable(f"{self._place.host}:{self._place.port}: {what}")
        unreachable.__cause__ = error
        return unreachable
