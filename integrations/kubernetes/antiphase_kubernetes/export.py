"""Writes the labels of nodes, or Volcano's HyperNodes, as the fabric is, and writes them again when the fabric or the cluster changes."""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Iterator, Mapping, Optional

from antiphase import AntiphaseError, Client

from .api import Api, ApiError, Object, below, path_of
from .program import Parser, say, seconds

EVERY_S = 30.0
"""Between two looks: so long a new node has no labels, and a changed fabric is not seen."""
LABELS = "kubernetes-labels"
HYPER_NODES = "hyper-node"
OWNER = "antiphase-export"
"""The name of an exporter that is alone in its cluster. Two of one name would take away what the other one writes."""
OWNER_CHARS_MAX = 47
"""Kubernetes takes 63 characters of a name: behind `exported-labels.` there are so many left."""
WRITTEN = "antiphase/exported-labels."
"""With the owner behind it: the annotation of a node with the keys which that owner wrote, and may change and take away."""
OWNED = "antiphase/exporter"
"""The label of HyperNodes with the owner that made them, and may change and delete them."""
MANAGED = ("app.kubernetes.io/managed-by", "antiphase-export")
"""What such HyperNodes say besides, for those who look at a cluster."""
LOOK_S = 60.0
"""One look changes objects for so long, and one call more: what it read of service and cluster grows old, and is read anew. A change
takes about 10 ms, so a first look at 10,000 nodes is continued once or twice; one that waits for a slow webhook is far longer."""
LINES_MAX = 20
"""Most lines about one look."""
NAMES_MAX = 5
"""Most nodes that one line names."""
PATH = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
_KINDS = {LABELS: "Node", HYPER_NODES: "HyperNode"}

Step = tuple[str, Callable[[], Object]]
"""The name of an object, and what changes it."""


class Wrong(Exception):
    """What the service sent and we cannot take, in one line."""


def wanted(text: str, kind: str) -> dict[str, Any]:
    """What each object is to have, by its name: labels of a node, or the spec of a HyperNode.

    No export is empty, so neither is the answer: nobody takes every label away because something went wrong.
    """
    try:
        items = json.loads(text)["items"]
        named = [(one["metadata"]["name"], one) for one in items if one["kind"] == kind]
        out = {name: one["spec"] if kind == "HyperNode" else one["metadata"]["labels"] for name, one in named}
        if not out or len(out) != len(items):
            raise ValueError(f"{len(items)} objects, {len(out)} of them of the kind {kind} and with names of their own")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Wrong(f"the export is no list of manifests: {type(error).__name__}: {error}") from None
    return out


def covers(has: Any, wants: Any) -> bool:
    """Whether an object has what it is to have; the API may have added defaults."""
    if isinstance(wants, dict):
        return isinstance(has, dict) and all(key in has and covers(has[key], value) for key, value in wants.items())
    if isinstance(wants, list):
        return isinstance(has, list) and len(has) == len(wants) and all(map(covers, has, wants))
    return bool(has == wants)


def reserved(key: str) -> bool:
    """Whether a label key belongs to Kubernetes: none of them is written or taken away.

    A node may write its own annotations. That must not let it lose a label which its kubelet could not change, such as those of
    `node-restriction.kubernetes.io`.
    """
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == one or domain.endswith("." + one) for one in ("kubernetes.io", "k8s.io"))


def relabelled(node: Object, labels: Mapping[str, str], owner: str = OWNER) -> tuple[Optional[Object], list[str]]:
    """The change that gives a node these labels, and takes away those that this owner wrote before; None where nothing is to change.

    And the keys that the node has of somebody else, which stay as they are: the annotation of this owner does not name them.
    """
    about = node["metadata"]
    has, said = about.get("labels") or {}, (about.get("annotations") or {}).get(WRITTEN + owner)
    before = [key for key in str(said or "").split(",") if key in has and not reserved(key)]
    foreign = [key for key in labels if key in has and key not in before]
    ours = {key: value for key, value in labels.items() if key not in foreign}
    gone = [key for key in before if key not in ours]
    change = {**{key: value for key, value in ours.items() if has.get(key) != value}, **dict.fromkeys(gone)}
    written = ",".join(sorted(ours)) or None
    if not change and said == written:
        return None, foreign
    # With the version, so that a label which somebody wrote since the list was read is refused (409) and not overwritten.
    made = {"resourceVersion": about.get("resourceVersion"), "labels": change, "annotations": {WRITTEN + owner: written}}
    return {"metadata": made}, foreign


@dataclass
class Exporter:
    """Asks the service for what is new, and changes what in the cluster is otherwise."""

    api: Api
    client: Client
    format: str = LABELS
    label_keys: Optional[str] = None
    say: Callable[[str], None] = say
    owner: str = OWNER
    look_s: float = LOOK_S
    _tag: Optional[str] = None
    _wanted: dict[str, Any] = field(default_factory=dict)
    """Of the last answer; it holds while the service is away."""
    _said: set[str] = field(default_factory=set)
    """What went wrong in the last look: said once, as long as it stays so."""
    _refused: dict[str, float] = field(default_factory=dict)
    """When the API last refused an object that still is to be changed."""

    def look(self) -> None:
        """One look."""
        wrong = list(dict.fromkeys(self._look()))
        # Thousands of nodes can be refused for one reason.
        for line in [line for line in wrong[:LINES_MAX] if line not in self._said]:
            self.say(line)
        self._said = set(wrong)

    def _look(self) -> Iterator[str]:
        """Does what is to be done; what went wrong is told."""
        try:
            new = self.client.export(self.format, label_keys=self.label_keys, manifests=True, known=self._tag)
            if new is not None:
                self._wanted, self._tag = wanted(new.text, _KINDS[self.format]), new.tag or None
                self.say(f"the fabric has {len(self._wanted)} objects of the kind {_KINDS[self.format]}")
        except (AntiphaseError, Wrong) as error:
            yield f"the service: {error}"
        if self._wanted:
            try:
                yield from self._labels() if self.format == LABELS else self._hyper_nodes()
            except ApiError as error:
                yield f"the API of Kubernetes: {error}"

    def _labels(self) -> Iterator[str]:
        foreign: dict[str, list[str]] = {}

        def change(node: Object) -> Optional[tuple[str, Object]]:
            name = node["metadata"]["name"]
            made, others = relabelled(node, self._wanted.get(name, {}), self.owner)
            for key in others:
                foreign.setdefault(key, []).append(name)
            return None if made is None else (name, made)

        # A host that is no node is none of ours to make: a patch, and not an apply, which would make one.
        changes, _ = self.api.list_metadata(path_of("nodes"), change)
        for key, names in sorted(foreign.items()):
            some = ", ".join(names[:NAMES_MAX]) + (", ..." if len(names) > NAMES_MAX else "")
            yield f"a label {key!r} of somebody else stays as it is; nodes with it: {len(names)}: {some}"
        yield from self._carried_out([(name, partial(self.api.patch, path_of("nodes", name), made)) for name, made in changes])

    def _hyper_nodes(self) -> Iterator[str]:
        def seen(one: Object) -> Object:
            about = one["metadata"]
            kept = {key: about.get(key) for key in ("name", "labels", "resourceVersion")}
            return {"metadata": kept, "spec": one.get("spec")}

        listed, _ = self.api.list(PATH, seen)
        there = {one["metadata"]["name"]: one for one in listed}
        mine = {name for name, one in there.items() if (one["metadata"]["labels"] or {}).get(OWNED) == self.owner}
        steps: list[Step] = []
        # The lowest tier comes first, so that nobody is a member before it is there.
        for name, spec in self._wanted.items():
            if name not in there:
                about = {"name": name, "labels": dict([MANAGED, (OWNED, self.owner)])}
                made = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": about, "spec": spec}
                steps.append((name, partial(self.api.create, PATH, made)))
            elif name not in mine:
                yield f"there is a HyperNode {name!r:.100} of somebody else, which stays as it is"
            elif not covers(there[name]["spec"], spec):
                change = {"metadata": {"resourceVersion": there[name]["metadata"]["resourceVersion"]}, "spec": spec}
                steps.append((name, partial(self.api.patch, below(PATH, name), change)))
        steps += [(name, partial(self.api.delete, below(PATH, name))) for name in sorted(mine - self._wanted.keys())]
        yield from self._carried_out(steps)

    def _carried_out(self, steps: list[Step]) -> Iterator[str]:
        """Carries steps out, each of one object. One that the API refuses holds no other up: a later look tries it again."""
        names = {name for name, _ in steps}
        self._refused = {name: at for name, at in self._refused.items() if name in names}
        # What was refused comes last, the latest at the end: else slow refusals would take the whole time of each look.
        steps.sort(key=lambda step: self._refused.get(step[0], 0.0))
        begun, done, tried, why = time.monotonic(), 0, 0, ""
        for name, step in steps:
            tried += 1
            try:
                step()
                done += 1
                self._refused.pop(name, None)
            except ApiError as error:
                # 404, 409: somebody was faster, and the next look sees what he did.
                if error.status not in (404, 409):
                    self._refused[name] = time.monotonic()
                    yield f"the API of Kubernetes: {error}"
                if error.status == 0:
                    why = "the API does not answer"
                    break
            if time.monotonic() - begun >= self.look_s:
                why = f"one look changes objects for {self.look_s:g} s"
                break
        left = len(steps) - tried
        if done or left:
            more = f"; {left} are left for the next look: {why}" if left else ""
            self.say(f"changed {done} objects of the kind {_KINDS[self.format]}{more}")


def name_of_owner(text: str) -> str:
    """The name of an exporter, as a part of the key of an annotation and as the value of a label."""
    if len(text) > OWNER_CHARS_MAX or not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", text):
        what = f"{OWNER_CHARS_MAX} characters at most: lower-case letters, digits, and - or . between them"
        raise argparse.ArgumentTypeError(f"{text!r:.100}; expected {what}")
    return text


def label_keys(text: str) -> str:
    """Label keys that are not those of Kubernetes; what else is wrong about them says the service."""
    if reserved(text):
        raise argparse.ArgumentTypeError(f"{text!r:.100}; labels of kubernetes.io and k8s.io belong to Kubernetes, and are not written")
    return text


def main() -> None:
    """Runs until it is ended."""
    parser = Parser("antiphase_kubernetes.export", str(__doc__), "read")
    parser.add_argument("--format", choices=list(_KINDS), default=LABELS, help="what the exporter writes (default: %(default)s)")
    keys = "the keys of the labels: nvidia, topograph (default), or a key that contains {tier}, such as example.com/tier-{tier}"
    parser.add_argument("--label-keys", type=label_keys, metavar="KEYS", help=keys)
    owner = "the name of this exporter, one for each exporter of a cluster: it changes only what it wrote itself (default: %(default)s)"
    parser.add_argument("--owner", type=name_of_owner, default=OWNER, metavar="NAME", help=owner)
    every = "how long the exporter waits before it asks the service and the cluster again (default: %(default)s)"
    parser.add_argument("--every-s", type=seconds, default=EVERY_S, metavar="SECONDS", help=every)
    options = parser.parse_args()
    if options.every_s < 1:
        parser.error(f"argument --every-s: {options.every_s}; expected 1 s at least")
    if options.label_keys is not None and options.format != LABELS:
        parser.error(f"argument --label-keys: it belongs to --format {LABELS}")
    api, client = parser.both(options)
    exporter = Exporter(api, client, options.format, options.label_keys, owner=options.owner)
    while True:
        try:
            exporter.look()
        except Exception as error:  # The next look may have more luck.
            say(f"{type(error).__name__}: {error}")
        time.sleep(options.every_s)


if __name__ == "__main__":
    main()
