"""The clients: one that waits, and one for asyncio. Their methods are the same."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, Callable, Iterable, Mapping, Optional, TypeVar

from . import calls, messages as m, wire
from .attempts import BROKE, Attempts, Received
from .calls import Call, Export, Fields, Retries
from .errors import AntiphaseError

T = TypeVar("T")

_CHUNK = 1 << 16


class _Base:
    def __init__(
        self,
        url: str = "http://127.0.0.1:7480",
        *,
        authority: Optional[str] = None,
        certificate: Optional[str] = None,
        key: Optional[str] = None,
        timeout_s: float = 35.0,
        retries: Retries = Retries(),
    ) -> None:
        """Asks the service at `url`.

        With https, `authority` is the file of the service's authority (else the system's), and `certificate` and `key` are the
        files that say who we are and so which role we have. Files that change are read again.

        One attempt takes `timeout_s` at most (without asyncio the look-up of the host's name comes on top); the service gives up after 30.
        """
        self._place = wire.Place.of(url, authority, certificate, key)
        self._timeout_s = timeout_s
        self._retries = retries

    def _attempts(self, call: Call[T]) -> Attempts[T]:
        return Attempts(call, self._place, self._retries)


def _clock(timeout_s: float) -> Callable[[], float]:
    """Says how much of an attempt's time is left, in seconds. Raises TimeoutError where nothing is."""
    end = time.monotonic() + timeout_s

    def left_s() -> float:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    return left_s


def _connected(place: wire.Place, left_s: Callable[[], float]) -> socket.socket:
    """A connection to the first address that takes one. Each has its share of the time: one that is silent leaves some to the next."""
    failed: OSError = OSError("the name has no address")
    addresses = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    for n, (family, kind, protocol, _, address) in enumerate(addresses):
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(left_s() / (len(addresses) - n))
            plain.connect(address)
            return plain
        except OSError as error:
            plain.close()
            failed = error
    raise failed


def _send(stream: socket.socket, data: bytes, left_s: Callable[[], float]) -> None:
    # Not sendall: under TLS its time begins anew with each piece.
    rest = memoryview(data)
    while rest:
        stream.settimeout(left_s())
        rest = rest[stream.send(rest[:_CHUNK]) :]


def _receive(stream: socket.socket, received: Received, left_s: Callable[[], float]) -> None:
    while True:
        # The time is that of the whole answer, however it trickles.
        stream.settimeout(left_s())
        part = stream.recv(_CHUNK)
        if not part:
            return
        received.add(part)


class Client(_Base):
    """Asks and waits. Threads may share it: each request has a connection of its own."""

    def _exchange(self, request: bytes) -> Received:
        left_s, received, tls = _clock(self._timeout_s), Received(), self._place.tls
        with _connected(self._place, left_s) as plain:
            plain.settimeout(left_s())
            with tls.wrap_socket(plain, server_hostname=self._place.host) if tls else plain as stream:
                try:
                    _send(stream, request, left_s)
                except BROKE as error:
                    # Whoever hangs up may have said why.
                    received.broke(error)
                try:
                    _receive(stream, received, left_s)
                except BROKE as error:
                    received.broke(error)
        return received

    def _run(self, call: Call[T]) -> T:
        attempts = self._attempts(call)
        while True:
            try:
                return attempts.result(self._exchange(attempts.request))
            except (OSError, AntiphaseError) as error:
                wait_s = attempts.wait_s(error)
            time.sleep(wait_s)

    def evaluate(
        self,
        jobs: Iterable[m.JobSpec] = (),
        candidates: Iterable[m.Candidate] = (),
        *,
        objective: m.Objective = "score",
        predict: bool = False,
        explain: bool = False,
        fields: Fields = (),
    ) -> m.EvaluateResponse:
        """Ranks candidates, best first; nothing changes. `fields` selects what is answered, such as `ranked.mean_score`."""
        return self._run(calls.evaluate(jobs, candidates, objective, predict, explain, fields))

    def commit(
        self,
        jobs: Iterable[m.JobSpec],
        *,
        if_plan_version: Optional[int] = None,
        lease_ms: int = 0,
        idempotency_key: Optional[str] = None,
        explain: bool = False,
        fields: Fields = (),
    ) -> m.CommitResponse:
        """Commits jobs: all or none, durable when answered.

        Raises Conflict where the plan is not at `if_plan_version`. Without `idempotency_key` this call has one of its own, so it is
        carried out once however often it is sent. `explain` says why the plan is as it is for these jobs.
        """
        return self._run(calls.commit(jobs, if_plan_version, lease_ms, idempotency_key, explain, fields))

    def release(self, jobs: Iterable[str], *, explain: bool = False, fields: Fields = ()) -> m.ReleaseResponse:
        """Forgets jobs; those that are not committed are listed in the answer. `explain` says how the plan is for those they met."""
        return self._run(calls.release(jobs, explain, fields))

    def solve(self, scenario: Mapping[str, Any], *, mode: str = "exact") -> dict[str, Any]:
        """Solves a scenario document (antiphase.scenario/v1): the answer is an antiphase.solution/v1."""
        return self._run(calls.solve(scenario, mode))

    def set_fabric(self, text: str) -> m.SetFabricResponse:
        """Replaces the fabric by a document (antiphase.fabric/v1)."""
        return self._run(calls.set_fabric(text))

    def fabric(self, *, summary: bool = False) -> m.GetFabricResponse:
        """The fabric, or only its counts."""
        return self._run(calls.fabric(summary))

    def export(
        self, format: str, *, label_keys: Optional[str] = None, manifests: bool = False, known: Optional[str] = None
    ) -> Optional[Export]:
        """The fabric for another program, as `antiphase fabric export --format` writes it; None where it has still the tag `known`.

        With `manifests`, what is for Kubernetes is one list in JSON.
        """
        return self._run(calls.export(format, label_keys, manifests, known))

    def observed(self, *, summary: bool = False) -> m.GetObservedResponse:
        """What agents see of the cabling beside the fabric, or only its counts and differences."""
        return self._run(calls.observed(summary))

    def jobs(self, names: Iterable[str] = (), *, fields: Fields = ()) -> m.ListJobsResponse:
        """Committed jobs, or those of them that are named."""
        return self._run(calls.jobs(names, fields))

    def links(
        self, names: Iterable[str] = (), *, limit: int = 0, demands: bool = False, fields: Fields = ()
    ) -> m.ListLinksResponse:
        """Links with demand, worst first, or those that are named."""
        return self._run(calls.links(names, limit, demands, fields))

    def agents(self) -> m.ListAgentsResponse:
        """Agents, by host."""
        return self._run(calls.agents())

    def turns(self, names: Iterable[str] = (), *, limit: int = 0, fields: Fields = ()) -> m.ListTurnsResponse:
        """Groups of jobs that take turns, or those of the jobs that are named."""
        return self._run(calls.turns(names, limit, fields))

    def plan(self) -> m.Plan:
        """Every job's slot."""
        return self._run(calls.plan())

    def events(self, *, after: int = 0, limit: int = 0) -> m.ListEventsResponse:
        """What happened after a sequence number, oldest first."""
        return self._run(calls.events(after, limit))

    def audit(self, *, after: int = 0, limit: int = 0) -> m.ListAuditResponse:
        """Who changed what after an entry of that number, oldest first; after 0 the last ones."""
        return self._run(calls.audit(after, limit))

    def submit(self, request: m.SubmitRequest) -> m.Submission:
        """Submits a job to the service's scheduler. The same again changes nothing."""
        return self._run(calls.submit(request))

    def withdraw(self, job: str) -> m.Submission:
        """Takes a job back that was submitted."""
        return self._run(calls.withdraw(job))

    def submissions(
        self, names: Iterable[str] = (), *, live: bool = False, fields: Fields = ()
    ) -> m.ListSubmissionsResponse:
        """What was submitted, and what became of it."""
        return self._run(calls.submissions(names, live, fields))

    def report(self, job: str, attempt: int, report: m.RunReport) -> m.Submission:
        """What became of an order; raises Conflict where that start of the job is over."""
        return self._run(calls.report(job, attempt, report))

    def ready(self) -> None:
        """Returns where changes can be taken, and raises Unavailable with the reason elsewhere."""
        return self._run(calls.ready())


class AsyncClient(_Base):
    """Asks under asyncio."""

    async def _exchange(self, request: bytes) -> Received:
        received, tls = Received(), self._place.tls
        name = self._place.host if tls else None
        reader, writer = await asyncio.open_connection(self._place.host, self._place.port, ssl=tls, server_hostname=name)
        try:
            # Not drained: whoever hangs up may have said why, and a stream that broke gives back only what was waited for before.
            writer.write(request)
            while part := await reader.read(_CHUNK):
                received.add(part)
        except BROKE as error:
            received.broke(error)
        finally:
            # Not closed, which would go on sending after the attempt has ended.
            writer.transport.abort()
        return received

    async def _run(self, call: Call[T]) -> T:
        attempts = self._attempts(call)
        while True:
            try:
                return attempts.result(await asyncio.wait_for(self._exchange(attempts.request), self._timeout_s))
            except (OSError, asyncio.TimeoutError, AntiphaseError) as error:
                wait_s = attempts.wait_s(error)
            await asyncio.sleep(wait_s)

    async def evaluate(
        self,
        jobs: Iterable[m.JobSpec] = (),
        candidates: Iterable[m.Candidate] = (),
        *,
        objective: m.Objective = "score",
        predict: bool = False,
        explain: bool = False,
        fields: Fields = (),
    ) -> m.EvaluateResponse:
        """Ranks candidates, best first; nothing changes. `fields` selects what is answered, such as `ranked.mean_score`."""
        return await self._run(calls.evaluate(jobs, candidates, objective, predict, explain, fields))

    async def commit(
        self,
        jobs: Iterable[m.JobSpec],
        *,
        if_plan_version: Optional[int] = None,
        lease_ms: int = 0,
        idempotency_key: Optional[str] = None,
        explain: bool = False,
        fields: Fields = (),
    ) -> m.CommitResponse:
        """Commits jobs: all or none, durable when answered.

        Raises Conflict where the plan is not at `if_plan_version`. Without `idempotency_key` this call has one of its own, so it is
        carried out once however often it is sent. `explain` says why the plan is as it is for these jobs.
        """
        return await self._run(calls.commit(jobs, if_plan_version, lease_ms, idempotency_key, explain, fields))

    async def release(self, jobs: Iterable[str], *, explain: bool = False, fields: Fields = ()) -> m.ReleaseResponse:
        """Forgets jobs; those that are not committed are listed in the answer. `explain` says how the plan is for those they met."""
        return await self._run(calls.release(jobs, explain, fields))

    async def solve(self, scenario: Mapping[str, Any], *, mode: str = "exact") -> dict[str, Any]:
        """Solves a scenario document (antiphase.scenario/v1): the answer is an antiphase.solution/v1."""
        return await self._run(calls.solve(scenario, mode))

    async def set_fabric(self, text: str) -> m.SetFabricResponse:
        """Replaces the fabric by a document (antiphase.fabric/v1)."""
        return await self._run(calls.set_fabric(text))

    async def fabric(self, *, summary: bool = False) -> m.GetFabricResponse:
        """The fabric, or only its counts."""
        return await self._run(calls.fabric(summary))

    async def export(
        self, format: str, *, label_keys: Optional[str] = None, manifests: bool = False, known: Optional[str] = None
    ) -> Optional[Export]:
        """The fabric for another program, as `antiphase fabric export --format` writes it; None where it has still the tag `known`.

        With `manifests`, what is for Kubernetes is one list in JSON.
        """
        return await self._run(calls.export(format, label_keys, manifests, known))

    async def observed(self, *, summary: bool = False) -> m.GetObservedResponse:
        """What agents see of the cabling beside the fabric, or only its counts and differences."""
        return await self._run(calls.observed(summary))

    async def jobs(self, names: Iterable[str] = (), *, fields: Fields = ()) -> m.ListJobsResponse:
        """Committed jobs, or those of them that are named."""
        return await self._run(calls.jobs(names, fields))

    async def links(
        self, names: Iterable[str] = (), *, limit: int = 0, demands: bool = False, fields: Fields = ()
    ) -> m.ListLinksResponse:
        """Links with demand, worst first, or those that are named."""
        return await self._run(calls.links(names, limit, demands, fields))

    async def agents(self) -> m.ListAgentsResponse:
        """Agents, by host."""
        return await self._run(calls.agents())

    async def turns(self, names: Iterable[str] = (), *, limit: int = 0, fields: Fields = ()) -> m.ListTurnsResponse:
        """Groups of jobs that take turns, or those of the jobs that are named."""
        return await self._run(calls.turns(names, limit, fields))

    async def plan(self) -> m.Plan:
        """Every job's slot."""
        return await self._run(calls.plan())

    async def events(self, *, after: int = 0, limit: int = 0) -> m.ListEventsResponse:
        """What happened after a sequence number, oldest first."""
        return await self._run(calls.events(after, limit))

    async def audit(self, *, after: int = 0, limit: int = 0) -> m.ListAuditResponse:
        """Who changed what after an entry of that number, oldest first; after 0 the last ones."""
        return await self._run(calls.audit(after, limit))

    async def submit(self, request: m.SubmitRequest) -> m.Submission:
        """Submits a job to the service's scheduler. The same again changes nothing."""
        return await self._run(calls.submit(request))

    async def withdraw(self, job: str) -> m.Submission:
        """Takes a job back that was submitted."""
        return await self._run(calls.withdraw(job))

    async def submissions(
        self, names: Iterable[str] = (), *, live: bool = False, fields: Fields = ()
    ) -> m.ListSubmissionsResponse:
        """What was submitted, and what became of it."""
        return await self._run(calls.submissions(names, live, fields))

    async def report(self, job: str, attempt: int, report: m.RunReport) -> m.Submission:
        """What became of an order; raises Conflict where that start of the job is over."""
        return await self._run(calls.report(job, attempt, report))

    async def ready(self) -> None:
        """Returns where changes can be taken, and raises Unavailable with the reason elsewhere."""
        return await self._run(calls.ready())
