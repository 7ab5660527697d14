"""`python3 -m antiphase_kubernetes.export`: keeps the labels of nodes, or Volcano's HyperNodes, as the fabric is."""

from __future__ import annotations

import json
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
WRITTEN = "antiphase/exported-labels"
"""The annotation of a node with the keys that we wrote, so that they can be taken away when the fabric has the node no more."""
OWNER = ("app.kubernetes.io/managed-by", "antiphase-export")
"""The label of HyperNodes that we made: no other one is changed or deleted."""
LINES_MAX = 20
"""Most lines about one look."""
PATH = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
_KINDS = {LABELS: "Node", HYPER_NODES: "HyperNode"}


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


def _ours(key: str) -> bool:
    """Whether a label that the annotation names can be ours.

    A node may write its own annotations. That must not let it lose a label which its kubelet could not change, such as those of
    `node-restriction.kubernetes.io`.
    """
    domain = key.partition("/")[0] if "/" in key else ""
    return not any(domain == one or domain.endswith("." + one) for one in ("kubernetes.io", "k8s.io"))


def relabelled(node: Object, labels: Mapping[str, str]) -> Optional[Object]:
    """The change that gives a node these labels, and takes away those that we wrote before; None where nothing is to change."""
    about = node["metadata"]
    has, said = about.get("labels") or {}, about.get("annotations") or {}
    before = [key for key in str(said.get(WRITTEN, "")).split(",") if key in has and key not in labels and _ours(key)]
    change = {**{key: value for key, value in labels.items() if has.get(key) != value}, **dict.fromkeys(before)}
    written = ",".join(sorted(labels)) or None
    if not change and said.get(WRITTEN) == written:
        return None
    return {"metadata": {"labels": change, "annotations": {WRITTEN: written}}}


@dataclass
class Exporter:
    """Asks the service for what is new, and changes what in the cluster is otherwise."""

    api: Api
    client: Client
    format: str = LABELS
    label_keys: Optional[str] = None
    say: Callable[[str], None] = say
    _tag: Optional[str] = None
    _wanted: dict[str, Any] = field(default_factory=dict)
    """Of the last answer; it holds while the service is away."""
    _said: set[str] = field(default_factory=set)
    """What went wrong in the last look: said once, as long as it stays so."""

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
                self._wanted, self._tag = wanted(new.text, _KINDS[self.format]), new.tag
                self.say(f"the fabric has {len(self._wanted)} objects of the kind {_KINDS[self.format]}")
        except (AntiphaseError, Wrong) as error:
            yield f"the service: {error}"
        if self._wanted:
            try:
                yield from self._labels() if self.format == LABELS else self._hyper_nodes()
            except ApiError as error:
                yield f"the API of Kubernetes: {error}"

    def _labels(self) -> Iterator[str]:
        def change(node: Object) -> Optional[tuple[str, Object]]:
            made = relabelled(node, self._wanted.get(node["metadata"]["name"], {}))
            return None if made is None else (node["metadata"]["name"], made)

        # A host that is no node is none of ours to make: a patch, and not an apply, which would make one.
        changes, _ = self.api.list_metadata(path_of("nodes"), change)
        yield from self._carried_out([partial(self.api.patch, path_of("nodes", name), made) for name, made in changes])

    def _hyper_nodes(self) -> Iterator[str]:
        def seen(one: Object) -> Object:
            about = one["metadata"]
            kept = {key: about.get(key) for key in ("name", "labels", "resourceVersion")}
            return {"metadata": kept, "spec": one.get("spec")}

        listed, _ = self.api.list(PATH, seen)
        there = {one["metadata"]["name"]: one for one in listed}
        key, owner = OWNER
        mine = {name for name, one in there.items() if (one["metadata"]["labels"] or {}).get(key) == owner}
        steps: list[Callable[[], Object]] = []
        # The lowest tier comes first, so that nobody is a member before it is there.
        for name, spec in self._wanted.items():
            if name not in there:
                about = {"name": name, "labels": {key: owner}}
                made = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": about, "spec": spec}
                steps.append(partial(self.api.create, PATH, made))
            elif name not in mine:
                yield f"there is a HyperNode {name!r:.100} of somebody else, which stays as it is"
            elif not covers(there[name]["spec"], spec):
                version = there[name]["metadata"]["resourceVersion"]
                steps.append(partial(self.api.patch, below(PATH, name), {"metadata": {"resourceVersion": version}, "spec": spec}))
        steps += [partial(self.api.delete, below(PATH, name)) for name in sorted(mine - self._wanted.keys())]
        yield from self._carried_out(steps)

    def _carried_out(self, steps: list[Callable[[], Object]]) -> Iterator[str]:
        """Carries steps out, each of one object. One that the API refuses holds no other up: the next look tries it again."""
        done = 0
        for step in steps:
            try:
                step()
                done += 1
            except ApiError as error:
                # 404, 409: somebody was faster, and the next look sees what he did.
                if error.status not in (404, 409):
                    yield f"the API of Kubernetes: {error}"
        if done:
            self.say(f"changed {done} objects of the kind {_KINDS[self.format]}")


def main() -> None:
    """Runs until it is ended."""
    parser = Parser("antiphase_kubernetes.export", str(__doc__), "read")
    parser.add_argument("--format", choices=list(_KINDS), default=LABELS, help="what is written (%(default)s)")
    parser.add_argument("--label-keys", help="nvidia, topograph, or a key with {tier} in it; topograph unless set")
    parser.add_argument("--every-s", type=seconds, default=EVERY_S, metavar="SECONDS", help="between two looks (%(default)s)")
    options = parser.parse_args()
    if options.every_s < 1:
        parser.error(f"argument --every-s: {options.every_s}; expected 1 s at least")
    if options.label_keys is not None and options.format != LABELS:
        parser.error(f"argument --label-keys: it belongs to --format {LABELS}")
    api, client = parser.both(options)
    exporter = Exporter(api, client, options.format, options.label_keys)
    while True:
        try:
            exporter.look()
        except Exception as error:  # The next look may have more luck.
            say(f"{type(error).__name__}: {error}")
        time.sleep(options.every_s)


if __name__ == "__main__":
    main()
