"""Looks at all gangs again and again: places those that wait, renews those that run, releases those that ended."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, fields
from typing import Any, Callable, Optional

from antiphase import AntiphaseError, Candidate, Client, Conflict, InvalidRequest, JobHosts, JobSpec, Model, Precondition

from .api import Api, ApiError, Object
from .gang import GATE, HOSTNAME, JOB, MESSAGE, Gang, annotation, eligible, gates, quantity, ways

PROFILE = "antiphase/profile"
"""The annotation that names a model of the zoo, or holds a profile document."""
CONFIG_MAP = "antiphase/profile-configmap"
"""The annotation that names a ConfigMap with the key `profile.json` (a profile document) or `model.json` (a model)."""
GPUS = "antiphase/gpus"
"""The annotation that says, with a model, how many GPUs the job has on each host; 1 by default."""
HOLD = "antiphase/hold"
"""The annotation with the job's `hold`."""
FIELDS = "ranked.id,ranked.outcome,ranked.reason,ranked.time_by_turns,plan_version"
COMMITTED = "committed"
"""How the message of a pod begins whose job is in the plan."""
MESSAGE_CHARS_MAX = 500
"""Longest message that is written into a pod."""


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
    """The controller. What it remembers between looks is only for how long it has waited: all else is asked anew."""

    api: Api
    client: Client
    settings: Settings = Settings()
    say: Callable[[str], None] = print
    clock: Callable[[], float] = time.monotonic
    _waits: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Since when each gang waits: for nodes or pods, and for the service."""
    _renewed: dict[str, float] = field(default_factory=dict)
    """When each job was last committed."""

    @property
    def waits(self) -> bool:
        """Whether a gang waits, so that the next look should come soon."""
        return bool(self._waits)

    def look(self) -> str:
        """One look at everything. The answer is the version of pods from which to watch."""
        pods, version = self.api.list("/api/v1/pods", labelSelector=JOB)
        gangs = Gang.of(pods)
        namespaces: dict[str, set[str]] = {}
        for namespace, job in gangs:
            namespaces.setdefault(job, set()).add(namespace)
        for key, gang in gangs.items():
            try:
                self._gang(gang, sorted(namespaces[gang.job]))
            except ApiError as error:
                # 409: somebody changed a pod, and the next look sees it.
                self.say(f"{gang.namespace}/{gang.job}: {error}")
            if not gang.gated:
                self._waits.pop(key, None)
        self._waits = {key: since for key, since in self._waits.items() if key in gangs}
        self._release({gang.job for gang in gangs.values() if gang.pods})
        return version

    @property
    def _lease_ms(self) -> int:
        return int(self.settings.lease_s * 1_000)

    def _gang(self, gang: Gang, namespaces: list[str]) -> None:
        if not gang.gated:
            self._renew(gang)
            return
        now = self.clock()
        waiting, asking = self._waits.setdefault((gang.namespace, gang.job), (now, now))
        if len(namespaces) > 1:
            self._open(gang, f"runs as it comes: pods of {', '.join(namespaces)} all say that they are job {gang.job!r}")
        elif now - waiting > self.settings.place_s:
            self._open(gang, f"runs as it comes: {len(gang.pods)} of {gang.size} pods, and no nodes for them in {self.settings.place_s:.0f} s")
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
                    self.say(f"{gang.namespace}/{gang.job}: {error}")
                return
            self._waits[(gang.namespace, gang.job)] = (waiting, now)

    def _place(self, gang: Gang) -> None:
        nodes, _ = self.api.list("/api/v1/nodes", **({"labelSelector": self.settings.nodes} if self.settings.nodes else {}))
        bound, _ = self.api.list("/api/v1/pods", fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
        places = gang.places()
        # All pods of a gang are alike, and each stands on a node of its own.
        free = [node for node in eligible(gang.gated[0], nodes, bound, self.settings.resource) if node not in places]
        found = ways(free, places.count(None), gang.job)
        if not found:
            self.say(f"{gang.namespace}/{gang.job}: {len(gang.gated)} pods wait, and could stand on {len(free)} nodes")
            return
        whole = [_filled(places, way) for way in found]
        spec = self._spec(gang)
        answer = self.client.evaluate(
            [spec([])],
            [Candidate(id=str(n), placements=[JobHosts(job=gang.job, hosts=way)]) for n, way in enumerate(whole)],
            objective="time",
            predict=True,
            fields=FIELDS,
        )
        best = answer.ranked[0]
        if best.outcome != "solved":
            raise Wrong(best.reason)
        chosen = whole[int(best.id)]
        self.client.commit([spec(chosen)], if_plan_version=answer.plan_version, lease_ms=self._lease_ms, fields="plan_version")
        self._renewed[gang.job] = self.clock()
        time_s = f", predicted {best.time_by_turns:.3f} times alone" if best.time_by_turns is not None else ""
        message = f"{COMMITTED} on {','.join(chosen)}: best of {len(whole)} places{time_s}"
        self.say(f"{gang.namespace}/{gang.job}: {message}")
        for pod, node, before in zip(gang.pods, chosen, places):
            if before is None:
                self._let(pod, message, node)

    def _renew(self, gang: Gang) -> None:
        """Commits a running gang again before its lease ends, where it stands. One that we never placed is left alone."""
        places, last = gang.places(), self._renewed.get(gang.job)
        # One that was placed before we were started says so.
        ours = last is not None or any((annotation(pod, MESSAGE) or "").startswith(COMMITTED) for pod in gang.pods)
        if not gang.pods or not ours or None in places or (last is not None and self.clock() - last < self.settings.lease_s / 3):
            return
        try:
            job = self._spec(gang)([str(node) for node in places])
            self.client.commit([job], lease_ms=self._lease_ms, fields="plan_version")
            self._renewed[gang.job] = self.clock()
        except (AntiphaseError, Wrong) as error:
            self.say(f"{gang.namespace}/{gang.job}: not renewed: {error}")

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
        self.say(f"{gang.namespace}/{gang.job}: {message}")
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
        self.api.patch(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", {"metadata": about, "spec": spec})

    def _spec(self, gang: Gang) -> Callable[[list[str]], JobSpec]:
        """How the job communicates, of the first pod that says it."""
        for pod in gang.pods:
            said = self._profile(gang.namespace, pod)
            if said is not None:
                model, profile = said
                hold = annotation(pod, HOLD)
                return lambda hosts: JobSpec(id=gang.job, model=model, profile=profile, hosts=hosts, hold=hold)
        raise Wrong(f"no pod of job {gang.job!r} has the annotation {PROFILE} or {CONFIG_MAP}")

    def _profile(self, namespace: str, pod: Object) -> Optional[tuple[Optional[Model], Optional[dict[str, Any]]]]:
        name, said = annotation(pod, CONFIG_MAP), annotation(pod, PROFILE)
        if name is not None:
            try:
                data = self.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}").get("data") or {}
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
