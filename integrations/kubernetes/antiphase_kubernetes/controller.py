"""Looks at all gangs again and again: places those that wait, renews those that run, releases those that ended."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field, fields
from typing import Any, Callable, Optional

from antiphase import AntiphaseError, Candidate, Client, Conflict, InvalidRequest, JobHosts, JobSpec, Model, NotFound, Precondition
from antiphase.messages import Job

from .api import Api, ApiError, Object, path_of
from .gang import GATE, HOSTNAME, JOB, MESSAGE, Gang, Node, annotation, asks, claims, eligible, gates, quantity, slim, takes, uid, ways

PROFILE = "antiphase/profile"
"""The annotation that names a model of the zoo, or holds a profile document."""
CONFIG_MAP = "antiphase/profile-configmap"
"""The annotation that names a ConfigMap with the key `profile.json` (a profile document) or `model.json` (a model)."""
GPUS = "antiphase/gpus"
"""The annotation that says, with a model, how many GPUs the job has on each host; 1 by default."""
HOLD = "antiphase/hold"
"""The annotation with the job's `hold`."""
FIELDS = "ranked.id,ranked.outcome,ranked.reason,ranked.time_by_turns,plan_version"
PLANNED = "jobs.id,jobs.hosts,jobs.lease_expires_ns"
MESSAGE_CHARS_MAX = 500
"""Longest message that is written into a pod."""
NAMESPACE_S = 5.0
"""How long one look is busy with the gangs of one namespace. Those that are left come first in the next look: whoever makes pods by the
thousand, or profiles that take the service long, keeps gangs of his own namespace waiting, and others for one call more."""


_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
"""A name that a ConfigMap can have (RFC 1123; Kubernetes: Object Names and IDs)."""


class Wrong(Exception):
    """What a pod says and we cannot take, in one line."""


@dataclass(frozen=True)
class Settings:
    """How the controller decides."""

    resource: str = "nvidia.com/gpu"
    """The device by which nodes are full."""
    nodes: str = ""
    """A selector of labels: only these nodes are chosen. Each has to be a host of the fabric."""
    open_s: float = 30.0
    """A gang is let go as it comes when the service did not answer for so long."""
    place_s: float = 600.0
    """A gang is let go when it was not whole, or found no nodes, for so long."""
    lease_s: float = 600.0
    """How long a job stays committed when nobody renews it."""


@dataclass
class Controller:
    """The controller.

    Between looks it remembers for how long gangs have waited, and which jobs are its own. What pods say of the latter is not believed:
    whoever may make a pod could have the jobs of others released. After a restart the service is asked.
    """

    api: Api
    client: Client
    settings: Settings = Settings()
    say: Callable[[str], None] = print
    clock: Callable[[], float] = time.monotonic
    _waits: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Since when each gang waits: for nodes or pods, and for the service."""
    _renewed: dict[str, float] = field(default_factory=dict)
    """When each job of ours was last committed, by its name in the plan."""
    _let_go: set[str] = field(default_factory=set)
    """Pods that we bound to a node, by uid: on it they have room before they are there, which no other pod has that names a node."""
    _knows: bool = False
    """Whether the service was asked which of the pods that are there we had let go before we started."""
    _gangs: list[Gang] = field(default_factory=list)
    """Of this look."""
    _others: set[str] = field(default_factory=set)
    """Gangs that run and are not ours, so that the service is asked once for each."""
    _looked: dict[tuple[str, str], float] = field(default_factory=dict)
    """When each gang was looked at last."""
    _room: Optional[tuple[list[Node], dict[str, int]]] = None
    """Nodes, and the devices that pods have on each, as of this look."""

    @property
    def waits(self) -> bool:
        """Whether a gang waits, so that the next look should come soon."""
        return bool(self._waits)

    def look(self) -> str:
        """One look at everything. The answer is the version of pods from which to watch."""
        pods, version = self.api.list("/api/v1/pods", slim, labelSelector=JOB)
        gangs, self._room = Gang.of(pods), None
        busy: dict[str, float] = {}
        living = {uid(pod) for gang in gangs.values() for pod in gang.pods}
        self._let_go &= living
        self._gangs = list(gangs.values())
        for key in sorted(gangs, key=lambda key: self._looked.get(key, float("-inf"))):
            gang, began = gangs[key], self.clock()
            asks = busy.get(gang.namespace, 0.0) < NAMESPACE_S
            try:
                self._gang(gang, asks)
            except ApiError as error:
                # 409: somebody changed a pod, and the next look sees it.
                self.say(f"{gang.name}: {error}")
            except Exception as error:
                # What one gang says must stop neither the others nor, if we cannot read it, itself.
                self._fail_open(gang, f"{type(error).__name__}: {error}")
            if asks:
                self._looked[key] = began
            busy[gang.namespace] = busy.get(gang.namespace, 0.0) + self.clock() - began
            if not gang.gated:
                self._waits.pop(key, None)
        self._waits = {key: since for key, since in self._waits.items() if key in gangs}
        self._looked = {key: at for key, at in self._looked.items() if key in gangs}
        alive = {gang.name for gang in gangs.values() if gang.pods}
        self._others &= alive
        self._release(alive)
        return version

    def _fail_open(self, gang: Gang, error: str) -> None:
        try:
            self._open(gang, f"runs as it comes: {error}")
        except Exception as again:
            self.say(f"{gang.name}: {type(again).__name__}: {again}")

    @property
    def _lease_ms(self) -> int:
        return int(self.settings.lease_s * 1_000)

    def _gang(self, gang: Gang, asks: bool) -> None:
        """Does for a gang what is to be done now; unless it `asks`, only what ends its wait."""
        if not gang.gated:
            if asks:
                self._renew(gang)
            return
        now = self.clock()
        waiting, asking = self._waits.setdefault((gang.namespace, gang.job), (now, now))
        if now - waiting > self.settings.place_s:
            self._open(gang, f"runs as it comes: {len(gang.pods)} of {gang.size} pods, and no nodes for them in {self.settings.place_s:.0f} s")
        elif not asks:
            # The service was not asked, so it is not the one that does not answer.
            self._waits[(gang.namespace, gang.job)] = (waiting, now)
        elif len(gang.pods) >= gang.size:
            try:
                self._place(gang)
            except (InvalidRequest, Wrong) as error:
                self._open(gang, f"runs as it comes: {error}")
            except Conflict:
                pass  # Another commit came first: the next look evaluates on the new plan.
            except AntiphaseError as error:
                if now - asking > self.settings.open_s or isinstance(error, Precondition):
                    self._open(gang, f"runs as it comes: {error}")
                else:
                    self.say(f"{gang.name}: {error}")
                return
            self._waits[(gang.namespace, gang.job)] = (waiting, now)

    def _place(self, gang: Gang) -> None:
        if not self._ours(gang):
            return
        places = gang.places(self._let_go)
        if places.count(None) > len(gang.gated):
            self.say(f"{gang.name}: waits for those of its pods that were let go and stand on no node yet")
            return
        nodes, used = self._look_around()
        # All pods of a gang are alike, and each stands on a node of its own.
        free = [node for node in eligible(gang.gated[0], nodes, used, self.settings.resource) if node not in places]
        found = ways(free, places.count(None), gang.name)
        if not found:
            self.say(f"{gang.name}: {len(gang.gated)} pods wait, and could stand on {len(free)} nodes")
            return
        whole = [_filled(places, way) for way in found]
        spec = self._spec(gang)
        answer = self.client.evaluate(
            [spec([])],
            [Candidate(id=str(n), placements=[JobHosts(job=gang.name, hosts=way)]) for n, way in enumerate(whole)],
            objective="time",
            predict=True,
            fields=FIELDS,
        )
        best = answer.ranked[0]
        if best.outcome != "solved":
            raise Wrong(best.reason)
        chosen = whole[int(best.id)]
        self.client.commit([spec(chosen)], if_plan_version=answer.plan_version, lease_ms=self._lease_ms, fields="plan_version")
        self._renewed[gang.name] = self.clock()
        time_s = f", predicted {best.time_by_turns:.3f} times alone" if best.time_by_turns is not None else ""
        message = f"committed on {','.join(chosen)}: best of {len(whole)} places{time_s}"
        self.say(f"{gang.name}: {message}")
        for pod, node, before in zip(gang.pods, chosen, places):
            if before is None:
                self._let(pod, message, node)
                self._let_go.add(uid(pod))
                used[node] = used.get(node, 0) + asks(pod, self.settings.resource)

    def _look_around(self) -> tuple[list[Node], dict[str, int]]:
        """The nodes and what of them is used, asked for once in a look. Pods are counted page by page, and not kept."""
        if not self._knows:
            # What we let go before a restart has its room, whichever gang is looked at first.
            planned = {job.id: job for job in self.client.jobs(fields=PLANNED).jobs}
            for gang in self._gangs:
                if gang.name in planned:
                    self._adopted(gang, planned[gang.name])
            self._knows = True
        if self._room is None:
            resource, labels = self.settings.resource, {"labelSelector": self.settings.nodes} if self.settings.nodes else {}
            nodes, _ = self.api.list("/api/v1/nodes", lambda node: Node.of(node, resource), **labels)
            living = "status.phase!=Succeeded,status.phase!=Failed"
            taken, _ = self.api.list("/api/v1/pods", lambda pod: takes(pod, resource, self._let_go), fieldSelector=living)
            used: dict[str, int] = {}
            for node, count in taken:
                used[node] = used.get(node, 0) + count
            self._room = nodes, used
        return self._room

    def _planned(self, name: str) -> Optional[Job]:
        """The job of that name in the plan."""
        try:
            return self.client.jobs([name], fields=PLANNED).jobs[0]
        except NotFound:
            return None

    def _ours(self, gang: Gang) -> bool:
        """Whether we may commit a gang that waits: a job that we did not place must be neither moved nor released later."""
        job = None if gang.name in self._renewed else self._planned(gang.name)
        if job is None or self._adopted(gang, job):
            return True
        if not job.lease_expires_ns:
            raise Wrong(f"job {gang.name!r} is in the plan already, and was not placed for these pods")
        self.say(f"{gang.name}: waits for the end of the lease of a job of that name, which was not placed for these pods")
        return False

    def _adopted(self, gang: Gang, job: Job) -> bool:
        """Whether a job of the plan can be of these pods: it has a lease, as all that we commit, and stands where they are or would be.

        Then we placed them before a restart, and it was we who let them go.
        """
        at = {claims(pod) for pod in gang.free} - {None}
        placed = bool(job.lease_expires_ns and at) and at <= set(job.hosts)
        if placed:
            self._let_go.update(uid(pod) for pod in gang.free)
        return placed

    def _renew(self, gang: Gang) -> None:
        """Commits a running gang again before its lease ends, where it stands. One that we never placed is left alone."""
        last = self._renewed.get(gang.name)
        early = gang.name in self._others if last is None else self.clock() - last < self.settings.lease_s / 3
        if not gang.pods or None in map(claims, gang.pods) or early:
            return
        try:
            if last is None:
                planned = self._planned(gang.name)
                if planned is None or not self._adopted(gang, planned):
                    self._others.add(gang.name)
                    return
            places = gang.places(self._let_go)
            if None in places:
                return  # One of its pods names a node, and neither we nor the scheduler said so.
            job = self._spec(gang)([str(node) for node in places])
            self.client.commit([job], lease_ms=self._lease_ms, fields="plan_version")
            self._renewed[gang.name] = self.clock()
        except (AntiphaseError, Wrong) as error:
            self.say(f"{gang.name}: not renewed: {error}")

    def _release(self, alive: set[str]) -> None:
        ended = sorted(self._renewed.keys() - alive)
        if ended:
            try:
                self.client.release(ended, fields="plan_version")
                for job in ended:
                    del self._renewed[job]
                self.say(f"released {', '.join(ended)}")
            except AntiphaseError as error:
                # The lease ends it, if nobody answers for that long.
                self.say(f"not released yet: {', '.join(ended)}: {error}")

    def _open(self, gang: Gang, message: str) -> None:
        self.say(f"{gang.name}: {message}")
        for pod in gang.gated:
            self._let(pod, message, None)

    def _let(self, pod: Object, message: str, node: Optional[str]) -> None:
        """Takes our gate away, and binds the pod to a node. The API allows the latter only while a gate is there, so both are one change."""
        metadata = pod["metadata"]
        spec: Object = {"schedulingGates": [{"name": name} for name in gates(pod) if name != GATE]}
        if node is not None:
            spec["nodeSelector"] = {HOSTNAME: node}
        # The version refuses the change of a pod that somebody else has changed.
        about = {"resourceVersion": metadata["resourceVersion"], "annotations": {MESSAGE: message[:MESSAGE_CHARS_MAX]}}
        self.api.patch(path_of("namespaces", metadata["namespace"], "pods", metadata["name"]), {"metadata": about, "spec": spec})

    def _spec(self, gang: Gang) -> Callable[[list[str]], JobSpec]:
        """How the job communicates, of the first pod that says it."""
        for pod in gang.pods:
            said = self._profile(gang.namespace, pod)
            if said is not None:
                model, profile = said
                hold = annotation(pod, HOLD)
                return lambda hosts: JobSpec(id=gang.name, model=model, profile=profile, hosts=hosts, hold=hold)
        raise Wrong(f"no pod of job {gang.job!r} has the annotation {PROFILE} or {CONFIG_MAP}")

    def _profile(self, namespace: str, pod: Object) -> Optional[tuple[Optional[Model], Optional[dict[str, Any]]]]:
        name, said = annotation(pod, CONFIG_MAP), annotation(pod, PROFILE)
        if name is not None:
            if not _SUBDOMAIN.fullmatch(name):
                raise Wrong(f"{CONFIG_MAP}: {name!r:.100} is no name of a ConfigMap")
            try:
                data = self.api.get(path_of("namespaces", namespace, "configmaps", name)).get("data") or {}
            except ApiError as error:
                if error.status != 404:
                    raise
                raise Wrong(f"there is no ConfigMap {name!r}") from None
            for key in ("profile.json", "model.json"):
                if key in data:
                    document = _document(f"ConfigMap {name}, {key}", data[key])
                    return (None, document) if key == "profile.json" else (_model(name, document), None)
            raise Wrong(f"ConfigMap {name!r} has neither profile.json nor model.json")
        if said is None:
            return None
        if said.lstrip().startswith("{"):
            return None, _document(PROFILE, said)
        gpus = annotation(pod, GPUS) or "1"
        if quantity(gpus) == 0:
            raise Wrong(f"{GPUS}: {gpus!r:.100}; expected a number above 0")
        return Model(name=said, gpus_per_host=quantity(gpus)), None


def _model(name: str, document: dict[str, Any]) -> Model:
    unknown = sorted(document.keys() - {field.name for field in fields(Model)})
    if unknown:
        raise Wrong(f"ConfigMap {name}, model.json: {unknown} are no keys of a model")
    return Model.from_json(document)


def _filled(places: list[Optional[str]], way: list[str]) -> list[str]:
    rest = iter(way)
    return [place if place is not None else next(rest) for place in places]


def _document(what: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"{what}: {error}") from None
    if not isinstance(value, dict):
        raise Wrong(f"{what}: {value!r:.100} is no object")
    return value
