"""What can be asked: method, path and body of each request, and what its answer is."""

from __future__ import annotations

import json
import random
import re
import uuid
from dataclasses import dataclass
from typing import Any, Callable, Generic, Iterable, Iterator, Mapping, Optional, TypeVar, Union
from urllib.parse import urlencode

from . import messages as m
from .message import Message
from .wire import Answer

T = TypeVar("T")
A = TypeVar("A", bound=Message)

Fields = Union[str, Iterable[str]]
"""Paths of the fields that are answered: one text with commas, or several texts. None at all: everything is answered."""

_ROOT = "/v1alpha1/"
_TAG = re.compile(r'(W/)?"[\x21\x23-\x7e]*"')
"""An entity tag (RFC 9110, section 8.8.3) in ASCII."""


@dataclass(frozen=True)
class Export:
    """The fabric in the format of another program."""

    text: str
    tag: str
    """Another one exactly when the text is; empty where the answer has none, such as behind a proxy that drops it."""


@dataclass(frozen=True)
class Retries:
    """How often a request is sent that found nobody or that was refused for now, and how long is waited before each time."""

    attempts: int = 4
    """How often at most, the first time included."""
    first_s: float = 0.1
    """The first wait; each next one is twice as long."""
    most_s: float = 2.0
    """No wait is longer."""

    def waits(self) -> Iterator[float]:
        """The waits between attempts, each shortened by chance, so that those who failed together do not come back together."""
        for n in range(self.attempts - 1):
            yield min(self.most_s, self.first_s * 2**n) * random.uniform(0.5, 1.0)


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request."""

    method: str
    path: str
    read: Callable[[Answer], T]
    body: Optional[bytes] = None
    kind: str = "application/json"
    known: Optional[str] = None
    """The tag of what is known already: the answer is 304, without a body, where it is still so (RFC 9110, section 13.1.2)."""


def _names(what: str, names: Iterable[str]) -> list[str]:
    """Names as a list. A text is an iterable of its letters, which no type checker minds: `release("ab")` would release a and b."""
    if isinstance(names, str):
        raise TypeError(f"{what}: {names!r:.100} is a text; expected a list of names, such as [{names!r:.100}]")
    several = list(names)
    for one in several:
        if not isinstance(one, str):
            raise TypeError(f"{what}: {one!r:.100} is no text; expected a list of names")
    return several


def _paths(fields: Fields) -> Union[list[str], str]:
    """The service takes both forms."""
    return fields if isinstance(fields, str) else _names("fields", fields)


def _reader(message: type[A]) -> Callable[[Answer], A]:
    return lambda answer: message.from_json(json.loads(answer.body))


def _get(name: str, keys: Mapping[str, Any], answer: type[A]) -> Call[A]:
    pairs: list[tuple[str, str]] = []
    for key, value in keys.items():
        several = value if isinstance(value, (list, tuple)) else [value]
        pairs += [(key, str(one).lower() if isinstance(one, bool) else str(one)) for one in several if one not in (None, False, 0)]
    return Call("GET", f"{_ROOT}{name}" + (f"?{urlencode(pairs)}" if pairs else ""), _reader(answer))


def _post(name: str, message: Message, answer: type[A]) -> Call[A]:
    return Call("POST", _ROOT + name, _reader(answer), json.dumps(message.to_json()).encode())


def evaluate(
    jobs: Iterable[m.JobSpec], candidates: Iterable[m.Candidate], objective: m.Objective, predict: bool, explain: bool, fields: Fields
) -> Call[m.EvaluateResponse]:
    request = m.EvaluateRequest(
        jobs=list(jobs), candidates=list(candidates), objective=objective, predict=predict, explain=explain, fields=_paths(fields)
    )
    return _post("evaluate", request, m.EvaluateResponse)


def commit(
    jobs: Iterable[m.JobSpec],
    if_plan_version: Optional[int],
    lease_ms: int,
    idempotency_key: Optional[str],
    explain: bool,
    fields: Fields,
) -> Call[m.CommitResponse]:
    # With a key a repetition is answered as the first one was, so a commit whose answer was lost can be sent again.
    key = uuid.uuid4().hex if idempotency_key is None else idempotency_key
    request = m.CommitRequest(
        jobs=list(jobs),
        if_plan_version=if_plan_version,
        lease_ms=lease_ms,
        idempotency_key=key,
        explain=explain,
        fields=_paths(fields),
    )
    return _post("commit", request, m.CommitResponse)


def release(jobs: Iterable[str], explain: bool, fields: Fields) -> Call[m.ReleaseResponse]:
    request = m.ReleaseRequest(jobs=_names("jobs", jobs), explain=explain, fields=_paths(fields))
    return _post("release", request, m.ReleaseResponse)


def solve(scenario: Mapping[str, Any], mode: str) -> Call[dict[str, Any]]:
    def read(answer: Answer) -> dict[str, Any]:
        solution: dict[str, Any] = json.loads(answer.body)
        return solution

    return Call("POST", f"{_ROOT}solve?{urlencode({'mode': mode})}", read, json.dumps(scenario).encode())


def set_fabric(text: str) -> Call[m.SetFabricResponse]:
    return Call("PUT", _ROOT + "fabric", _reader(m.SetFabricResponse), text.encode(), "application/yaml")


def fabric(summary: bool) -> Call[m.GetFabricResponse]:
    return _get("fabric", {"summary": summary}, m.GetFabricResponse)


def export(name: str, label_keys: Optional[str], manifests: bool, known: Optional[str]) -> Call[Optional[Export]]:
    if known is not None and not _TAG.fullmatch(known):
        raise ValueError(f"known: {known!r:.100} is no tag; expected that of an earlier export")

    def read(answer: Answer) -> Optional[Export]:
        tag = answer.tag if answer.tag is not None and _TAG.fullmatch(answer.tag) else ""
        return None if answer.status == 304 else Export(answer.body.decode(), tag)

    keys = {"format": name, "label_keys": label_keys, "json": "true" if manifests else None}
    query = urlencode({key: value for key, value in keys.items() if value is not None})
    return Call("GET", f"{_ROOT}fabric/export?{query}", read, known=known)


def observed(summary: bool) -> Call[m.GetObservedResponse]:
    return _get("fabric/observed", {"summary": summary}, m.GetObservedResponse)


def jobs(names: Iterable[str], fields: Fields) -> Call[m.ListJobsResponse]:
    return _get("jobs", {"jobs": _names("names", names), "fields": _paths(fields)}, m.ListJobsResponse)


def links(names: Iterable[str], limit: int, demands: bool, fields: Fields) -> Call[m.ListLinksResponse]:
    keys = {"links": _names("names", names), "limit": limit, "demands": demands, "fields": _paths(fields)}
    return _get("links", keys, m.ListLinksResponse)


def agents() -> Call[m.ListAgentsResponse]:
    return _get("agents", {}, m.ListAgentsResponse)


def turns(names: Iterable[str], limit: int, fields: Fields) -> Call[m.ListTurnsResponse]:
    return _get("turns", {"jobs": _names("names", names), "limit": limit, "fields": _paths(fields)}, m.ListTurnsResponse)


def plan() -> Call[m.Plan]:
    return _get("plan", {}, m.Plan)


def events(after: int, limit: int) -> Call[m.ListEventsResponse]:
    return _get("events", {"after": after, "limit": limit}, m.ListEventsResponse)


def audit(after: int, limit: int) -> Call[m.ListAuditResponse]:
    return _get("audit", {"after": after, "limit": limit}, m.ListAuditResponse)


def submit(request: m.SubmitRequest) -> Call[m.Submission]:
    return _post("submit", request, m.Submission)


def withdraw(job: str) -> Call[m.Submission]:
    return _post("withdraw", m.WithdrawRequest(job=job), m.Submission)


def submissions(names: Iterable[str], live: bool, fields: Fields) -> Call[m.ListSubmissionsResponse]:
    keys = {"jobs": _names("names", names), "live": live, "fields": _paths(fields)}
    return _get("submissions", keys, m.ListSubmissionsResponse)


def report(job: str, attempt: int, report: m.RunReport) -> Call[m.Submission]:
    return _post("report", m.ReportRequest(job=job, attempt=attempt, report=report), m.Submission)


def ready() -> Call[None]:
    return Call("GET", "/readyz", lambda _: None)
