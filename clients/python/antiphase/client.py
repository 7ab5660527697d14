"""The clients: one that waits, and one for asyncio. Their methods are the same."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, Iterable, Mapping, Optional, TypeVar

from . import calls, messages as m, wire
from .calls import Call, Fields, Retries
from .errors import MAY_PASS, Unreachable, refused

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
        files that say who we are and so which role we have. One attempt takes `timeout_s` at most; the service gives up after 30.
        """
        self._place = wire.Place.of(url, authority, certificate, key)
        self._timeout_s = timeout_s
        self._retries = retries

    def _bytes(self, call: Call[T]) -> bytes:
        return wire.request(self._place, call.method, call.path, call.body, call.kind)

    def _unreachable(self, error: Exception) -> Unreachable:
        what = str(error) or type(error).__name__
        return Unreachable(f"{self._place.host}:{self._place.port}: {' '.join(what.split())}")


def _read(call: Call[T], data: bytes) -> T:
    answer = wire.answer(data)
    if answer.status != 200:
        raise refused(answer.status, answer.body)
    try:
        return call.read(answer.body)
    except (ValueError, TypeError, RecursionError) as error:
        raise Unreachable(f"the answer cannot be read: {error}") from error


def _bounded(size: int) -> None:
    if size > wire.ANSWER_BYTES_MAX:
        raise Unreachable(f"the answer has more than {wire.ANSWER_BYTES_MAX} bytes")


class Client(_Base):
    """Asks and waits. Threads may share it: each request has a connection of its own."""

    def _once(self, call: Call[T]) -> T:
        deadline = time.monotonic() + self._timeout_s
        parts: list[bytes] = []
        size = 0
        try:
            with socket.create_connection((self._place.host, self._place.port), self._timeout_s) as plain:
                tls = self._place.tls
                with tls.wrap_socket(plain, server_hostname=self._place.host) if tls else plain as stream:
                    stream.sendall(self._bytes(call))
                    while True:
                        # The time is that of the whole answer, however it trickles.
                        stream.settimeout(max(deadline - time.monotonic(), 0.001))
                        part = stream.recv(_CHUNK)
                        if not part:
                            break
                        parts.append(part)
                        size += len(part)
                        _bounded(size)
        except OSError as error:
            raise self._unreachable(error) from error
        return _read(call, b"".join(parts))

    def _run(self, call: Call[T]) -> T:
        for wait in self._retries.waits():
            try:
                return self._once(call)
            except MAY_PASS:
                time.sleep(wait)
        return self._once(call)

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
        fields: Fields = (),
    ) -> m.CommitResponse:
        """Commits jobs: all or none, durable when answered.

        Raises Conflict where the plan is not at `if_plan_version`. Without `idempotency_key` this call has one of its own, so it is
        carried out once however often it is sent.
        """
        return self._run(calls.commit(jobs, if_plan_version, lease_ms, idempotency_key, fields))

    def release(self, jobs: Iterable[str]) -> m.ReleaseResponse:
        """Forgets jobs; those that are not committed are listed in the answer."""
        return self._run(calls.release(jobs))

    def solve(self, scenario: Mapping[str, Any], *, mode: str = "exact") -> dict[str, Any]:
        """Solves a scenario document (antiphase.scenario/v1): the answer is an antiphase.solution/v1."""
        return self._run(calls.solve(scenario, mode))

    def set_fabric(self, text: str) -> m.SetFabricResponse:
        """Replaces the fabric by a document (antiphase.fabric/v1)."""
        return self._run(calls.set_fabric(text))

    def fabric(self, *, summary: bool = False) -> m.GetFabricResponse:
        """The fabric, or only its counts."""
        return self._run(calls.fabric(summary))

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

    def ready(self) -> None:
        """Returns where changes can be taken, and raises Unavailable with the reason elsewhere."""
        return self._run(calls.ready())


class AsyncClient(_Base):
    """Asks under asyncio."""

    async def _exchange(self, call: Call[T]) -> bytes:
        tls = self._place.tls
        name = self._place.host if tls else None
        reader, writer = await asyncio.open_connection(self._place.host, self._place.port, ssl=tls, server_hostname=name)
        try:
            writer.write(self._bytes(call))
            await writer.drain()
            parts: list[bytes] = []
            size = 0
            while part := await reader.read(_CHUNK):
                parts.append(part)
                size += len(part)
                _bounded(size)
            return b"".join(parts)
        finally:
            writer.close()

    async def _once(self, call: Call[T]) -> T:
        try:
            data = await asyncio.wait_for(self._exchange(call), self._timeout_s)
        except (OSError, asyncio.TimeoutError) as error:
            raise self._unreachable(error) from error
        return _read(call, data)

    async def _run(self, call: Call[T]) -> T:
        for wait in self._retries.waits():
            try:
                return await self._once(call)
            except MAY_PASS:
                await asyncio.sleep(wait)
        return await self._once(call)

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
        fields: Fields = (),
    ) -> m.CommitResponse:
        """Commits jobs: all or none, durable when answered.

        Raises Conflict where the plan is not at `if_plan_version`. Without `idempotency_key` this call has one of its own, so it is
        carried out once however often it is sent.
        """
        return await self._run(calls.commit(jobs, if_plan_version, lease_ms, idempotency_key, fields))

    async def release(self, jobs: Iterable[str]) -> m.ReleaseResponse:
        """Forgets jobs; those that are not committed are listed in the answer."""
        return await self._run(calls.release(jobs))

    async def solve(self, scenario: Mapping[str, Any], *, mode: str = "exact") -> dict[str, Any]:
        """Solves a scenario document (antiphase.scenario/v1): the answer is an antiphase.solution/v1."""
        return await self._run(calls.solve(scenario, mode))

    async def set_fabric(self, text: str) -> m.SetFabricResponse:
        """Replaces the fabric by a document (antiphase.fabric/v1)."""
        return await self._run(calls.set_fabric(text))

    async def fabric(self, *, summary: bool = False) -> m.GetFabricResponse:
        """The fabric, or only its counts."""
        return await self._run(calls.fabric(summary))

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

    async def ready(self) -> None:
        """Returns where changes can be taken, and raises Unavailable with the reason elsewhere."""
        return await self._run(calls.ready())
