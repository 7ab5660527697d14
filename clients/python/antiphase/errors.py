"""What can go wrong: one class for each code of the service, and one for a service that cannot be reached."""

from __future__ import annotations

import json


class AntiphaseError(Exception):
    """Anything that this package raises. As text it is one line."""


class Unreachable(AntiphaseError):
    """No answer, or none that is one: nobody knows whether the request was carried out."""


class Refused(AntiphaseError):
    """The service said no: nothing was changed."""

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
    """Decided on an older plan: evaluate again."""


class Precondition(Refused):
    """Something has to be set first, such as the fabric."""


class TooLarge(Refused):
    """Larger than the service takes."""


class Exhausted(Refused):
    """A limit of the service; it was tried again before this was raised."""


class Unavailable(Refused):
    """Not now; it was tried again before this was raised."""


class TimedOut(Refused):
    """The answer took the service too long; it was tried again before this was raised."""


class Internal(Refused):
    """A bug of the service."""


_CODES: dict[str, type[Refused]] = {
    "invalid": InvalidRequest,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "method_not_allowed": NotFound,
    "conflict": Conflict,
    "precondition": Precondition,
    "too_large": TooLarge,
    "exhausted": Exhausted,
    "unavailable": Unavailable,
    "timeout": TimedOut,
    "internal": Internal,
}

MAY_PASS = (Unreachable, Exhausted, Unavailable, TimedOut)
"""What may be gone a moment later."""


def refused(status: int, body: bytes) -> Refused:
    """The error in an answer. Something between us and the service may have answered in words of its own."""
    try:
        said = json.loads(body)
        code, message, hint = said["code"], said["message"], said.get("hint", "")
    except (ValueError, KeyError, TypeError, AttributeError):
        text = " ".join(body[:200].decode("utf-8", "replace").split())
        return Refused(status, "", f"HTTP status {status}: {text}")
    return _CODES.get(code, Refused)(status, code, message, hint)
