"""Client of the Antiphase topology service. See README.md of this package."""

from .calls import Export, Retries
from .client import AsyncClient, Client
from .errors import (
    AntiphaseError,
    Conflict,
    Exhausted,
    Forbidden,
    Gone,
    Internal,
    InvalidRequest,
    NotFound,
    Precondition,
    Refused,
    TimedOut,
    TooLarge,
    Unavailable,
    Unreachable,
)
from .messages import Candidate, JobHosts, JobSpec, Model

__version__ = "0.1.0"
__all__ = [
    "AntiphaseError",
    "AsyncClient",
    "Candidate",
    "Client",
    "Conflict",
    "Exhausted",
    "Export",
    "Forbidden",
    "Gone",
    "Internal",
    "InvalidRequest",
    "JobHosts",
    "JobSpec",
    "Model",
    "NotFound",
    "Precondition",
    "Refused",
    "Retries",
    "TimedOut",
    "TooLarge",
    "Unavailable",
    "Unreachable",
]
