"""Pods of one job, the nodes on which they could stand, and the places that are compared. Nothing here asks anybody."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any, Collection, Iterable, Mapping, Optional

from .api import Object

GATE = "antiphase/placed"
"""The scheduling gate that the controller takes away."""
JOB = "antiphase/job"
"""The label that names the job, one name for all its pods."""
SIZE = "antiphase/size"
"""The annotation that says how many pods the job has; without it the pods that are there are all."""
MESSAGE = "antiphase/message"
"""The annotation in which the controller says what it did."""
HOSTNAME = "kubernetes.io/hostname"
"""The label by which a pod is bound to a node."""
INDEX = "batch.kubernetes.io/job-completion-index"
"""The annotation of an indexed Job's pods, in rank order."""
WAYS = 10
"""Most places that are compared."""
_OVER = ("Succeeded", "Failed")


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts n2 before n10."""
    return [(0, int(part), "") if part[0] in "0123456789" else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


def annotation(pod: Object, name: str) -> Optional[str]:
    """An annotation, or the label of that name."""
    metadata = pod["metadata"]
    value = (metadata.get("annotations") or {}).get(name, (metadata.get("labels") or {}).get(name))
    return value if isinstance(value, str) else None


def gates(pod: Object) -> list[str]:
    """Names of the pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]


def slim(pod: Object) -> Object:
    """The pod with what is read here only: what else it has, such as `managedFields`, is most of it."""
    about, spec = pod["metadata"], pod["spec"]
    said = {name: text for name, text in (about.get("annotations") or {}).items() if name.startswith("antiphase/") or name == INDEX}
    kept = {key: about[key] for key in ("name", "namespace", "uid", "labels", "resourceVersion") if key in about}
    containers = [{"resources": one.get("resources")} for one in spec.get("containers") or []]
    kept_spec = {key: spec[key] for key in ("schedulingGates", "nodeName", "nodeSelector", "tolerations") if key in spec}
    phase = (pod.get("status") or {}).get("phase")
    return {"metadata": {**kept, "annotations": said}, "spec": {**kept_spec, "containers": containers}, "status": {"phase": phase}}


def over(pod: Object) -> bool:
    """Whether it has ended."""
    return (pod.get("status") or {}).get("phase") in _OVER


def quantity(text: Any) -> int:
    """A whole number of a device, such as GPUs, of which the API writes no other form. What is none counts as 0."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", str(text)) else 0


def asks(pod: Object, resource: str) -> int:
    """How many of a device the pod's containers ask for."""
    containers = pod["spec"].get("containers") or []
    return sum(quantity(((one.get("resources") or {}).get("limits") or {}).get(resource, 0)) for one in containers)


def uid(pod: Object) -> str:
    """What the API calls this pod and no other one, also of the same name."""
    return str(pod["metadata"].get("uid", ""))


def claims(pod: Object) -> Optional[str]:
    """The node on which a pod is, or would be by its selector. Whoever may make a pod can write any node there, so this alone takes no room."""
    node = pod["spec"].get("nodeName") or (pod["spec"].get("nodeSelector") or {}).get(HOSTNAME)
    return node if isinstance(node, str) else None


def stands(pod: Object, ours: Collection[str]) -> Optional[str]:
    """The node on which a pod is, or will be: a selector counts for those pods only that we let go (`ours`, by [`uid`])."""
    node = pod["spec"].get("nodeName")
    return claims(pod) if node or uid(pod) in ours else None


@dataclass
class Gang:
    """The living pods of one job in one namespace."""

    namespace: str
    job: str
    pods: list[Object] = field(default_factory=list)

    @staticmethod
    def of(pods: Iterable[Object]) -> dict[tuple[str, str], Gang]:
        """The gangs of all pods, by namespace and job; those whose pods have all ended have none."""
        found: dict[tuple[str, str], Gang] = {}
        for pod in pods:
            key = (pod["metadata"]["namespace"], pod["metadata"]["labels"][JOB])
            gang = found.setdefault(key, Gang(*key))
            if not over(pod):
                gang.pods.append(pod)
        for gang in found.values():
            gang.pods.sort(key=gang._rank)
        return found

    @property
    def name(self) -> str:
        """Its name in the plan, and in ANTIPHASE_JOB. A namespace has no dot (RFC 1123), so no two gangs have one name."""
        return f"{self.namespace}.{self.job}"

    @staticmethod
    def _rank(pod: Object) -> tuple[int, list[tuple[int, int, str]]]:
        return (quantity(annotation(pod, INDEX) or "0"), natural(pod["metadata"]["name"]))

    @property
    def gated(self) -> list[Object]:
        """Pods that wait for us."""
        return [pod for pod in self.pods if GATE in gates(pod)]

    @property
    def size(self) -> int:
        """How many pods it has when it is whole."""
        said = [quantity(annotation(pod, SIZE)) for pod in self.pods if annotation(pod, SIZE)]
        return max(said, default=len(self.pods))

    @property
    def free(self) -> list[Object]:
        """Pods that do not wait for us."""
        return [pod for pod in self.pods if GATE not in gates(pod)]

    def places(self, ours: Collection[str]) -> list[Optional[str]]:
        """The node of each pod in rank order, as far as it has one."""
        return [None if GATE in gates(pod) else stands(pod, ours) for pod in self.pods]


def _tolerates(pod: Object, taint: Mapping[str, str]) -> bool:
    for one in pod["spec"].get("tolerations") or []:
        keyed = one.get("key") in (None, "", taint["key"])
        valued = one.get("operator") == "Exists" or (one.get("key") and one.get("value", "") == taint.get("value", ""))
        if keyed and valued and one.get("effect") in (None, "", taint["effect"]):
            return True
    return False


def takes(pod: Object, resource: str, ours: Collection[str]) -> Optional[tuple[str, int]]:
    """The node of a pod and how many of its devices the pod has; None for one that has none of them."""
    node, count = stands(pod, ours), asks(pod, resource)
    return (node, count) if node is not None and count and not over(pod) else None


@dataclass(frozen=True)
class Node:
    """What decides whether a pod could stand on a node."""

    name: str
    labels: Mapping[str, str]
    taints: list[Mapping[str, str]]
    """Those that keep pods away."""
    devices: int

    @staticmethod
    def of(node: Object, resource: str) -> Optional[Node]:
        """None for a node on which nothing can be placed: one that is not ready, or cordoned."""
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        spec, status = node.get("spec") or {}, node.get("status") or {}
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or [])
        # The label by which pods are bound: kubelets may name themselves otherwise.
        if not ready or spec.get("unschedulable") or labels.get(HOSTNAME) != name:
            return None
        taints = [taint for taint in spec.get("taints") or [] if taint["effect"] in ("NoSchedule", "NoExecute")]
        return Node(name, labels, taints, quantity((status.get("allocatable") or {}).get(resource, 0)))


def eligible(pod: Object, nodes: Iterable[Node], used: Mapping[str, int], resource: str) -> list[str]:
    """Nodes on which the pod could stand now: tolerated, selected, and with as many devices left as it asks for."""
    wanted, selector = asks(pod, resource), pod["spec"].get("nodeSelector") or {}
    out = [
        node.name
        for node in nodes
        if all(_tolerates(pod, taint) for taint in node.taints)
        and all(node.labels.get(key) == value for key, value in selector.items())
        and node.devices - used.get(node.name, 0) >= wanted
    ]
    return sorted(out, key=natural)


def ways(nodes: list[str], count: int, seed: str) -> list[list[str]]:
    """Up to `WAYS` choices of `count` nodes: neighbours by name, which mostly stand below one switch, then draws."""
    if count == 0 or len(nodes) < count:
        return [[]] if count == 0 else []
    last = len(nodes) - count
    starts = sorted({round(n * last / max(1, WAYS // 2 - 1)) for n in range(WAYS // 2)})
    out = [nodes[start : start + count] for start in starts]
    # The same job draws the same nodes: who looks again finds what was compared.
    draw = random.Random(seed)
    for _ in range(WAYS * 4):
        if len(out) == WAYS:
            break
        chosen = sorted(draw.sample(range(len(nodes)), count))
        if (way := [nodes[n] for n in chosen]) not in out:
            out.append(way)
    return out
