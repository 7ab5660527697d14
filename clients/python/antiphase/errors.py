"""What can go wrong: one class for each code of the service, and one for a service that cannot be reached."""

from __future__ import annotations

import json


class AntiphaseError(Exception):
    """Anything that this package raises. As text it is one line."""


class Unreachable(AntiphaseError):
    """No answer, or none that is one: nobody knows whether the request was carried out."""


class Refused(AntiphaseError):
    """The service said no, and nothing was changed, except where TimedOut says more; or something before the service said no."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.status = status
        """Of HTTP."""
        self.code = code
        """The service's word for it, such as `conflict`."""
        self.message = message
        """What is wrong, with the value, on one line."""
        self.hint = hint
        """What to do about it; may be empty."""


class InvalidRequest(Refused):
    """The request is wrong; repeating it does not help."""


class Forbidden(Refused):
    """The role of the certificate is not enough."""


class NotFound(Refused):
    """No such thing."""


class Conflict(Refused):
    """Decided on an older plan: evaluate again. Or an idempotency key of another commit."""


class Gone(Refused):
    """What was committed under an idempotency key is not committed any more: take another key to commit it again."""


class Precondition(Refused):
    """Something has to be set first, such as the fabric."""


class TooLarge(Refused):
    """Larger than the service takes."""


class Exhausted(Refused):
    """A limit of the service; it was tried again before this was raised."""


class Unavailable(Refused):
    """Not now, or nobody behind a proxy; it was tried again before this was raised."""


class TimedOut(Refused):
    """The answer took too long; it was tried again before this was raised.

    A commit or a release may have been carried out, or may be yet: ask `jobs`.
    """


class Internal(Refused):
    """A bug of the service."""


_CODES: dict[str, type[Refused]] = {
    "invalid": InvalidRequest,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "method_not_allowed": NotFound,
    "conflict": Conflict,
    "gone": Gone,
    "precondition": Precondition,
    "too_large": TooLarge,
    "exhausted": Exhausted,
    "unavailable": Unavailable,
    "timeout": TimedOut,
    "internal": Internal,
}

_STATUSES: dict[int, type[Refused]] = {
    403: Forbidden,
    404: NotFound,
    413: TooLarge,
    429: Exhausted,
    502: Unavailable,
    503: Unavailable,
    504: TimedOut,
}
"""What a status means where no known code says it: a proxy answers in words of its own, and a newer service may have new codes."""

MAY_PASS = (Unreachable, Exhausted, Unavailable, TimedOut)
"""What may be gone a moment later."""


def refused(status: int, body: bytes) -> Refused:
    """The error in an answer, whoever answered."""
    kind = _STATUSES.get(status, Refused)
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict):
        code, message, hint = said.get("code"), said.get("message"), said.get("hint", "")
        if isinstance(code, str) and isinstance(message, str) and isinstance(hint, str):
            return _CODES.get(code, kind)(status, code, message, hint)
    text = " ".join(body[:200].decode("utf-8", "replace").split())
    return kind(status, "", f"HTTP status {status}: {text}")
