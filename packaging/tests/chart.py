"""Checks the chart with Helm's own engine and the schemas of Kubernetes, and what it renders for our programs with the programs.

Needs the packages helm-python-sdk and kubernetes-validate (`make setup` does not have them; scripts/setup.sh test-packages does).
"""

import argparse
import contextlib
import io
import pathlib
import re
import subprocess
import sys
import tempfile

import helm_python
import kubernetes_validate
import yaml

# Oldest and newest of the versions whose schemas are checked; Chart.yaml says the oldest that the chart takes.
VERSIONS = ("1.26.0", "1.31.0", "1.37.0")

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
FABRIC = CHECKOUT / "examples/testbed/fabric.yaml"

# A switch that tells by sFlow, and what it needs of the chart: a key, ports of container and Service, and of the policy.
SWITCH = '[sflow.exporters.leaf1]\naddress = "192.0.2.1"\n[sflow.exporters.leaf1.ports]\nh1 = 1001\n'
SFLOW = ['listen = "0.0.0.0:6343"', "{name: sflow, containerPort: 6343,", "{name: sflow, port: 6343,", "{port: 6343, protocol: UDP}"]

# Values as somebody may set them, with what has to be in the text that is rendered.
CASES = {
    "defaults": ({}, ["kind: DaemonSet", "kind: StatefulSet", "kind: NetworkPolicy", 'address = "demo-topology.antiphase.svc:7480"']),
    "all": (
        {
            "images": {"topology": "registry.example/a", "tag": "9", "pullSecrets": [{"name": "pull"}]},
            "topology": {
                "fabric": FABRIC.read_text(),
                "control": "turns",
                "keys": {"ecmp": "hashed:7", "objective": "quiet", "discovery": "grow"},
                "extraConfig": "[plan]\nttl_s = 30\n",
                "sflow": {"port": 6343, "exporters": SWITCH},
                "revoked": "revoked.pem",
                "storage": {"size": "2Gi", "className": "fast"},
                "service": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "annotations": {"a": "b"}},
                "nodeSelector": {"a": "b"},
                "tolerations": [{"operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
            },
            "agent": {
                "address": "topology.example:7480",
                "tls": {"secret": "agents"},
                "serverName": "topology.internal",
                "keys": {"host": "gpu-01"},
                "extraConfig": "# ours\n[lldp]\nmode = \"capture\"\n",
                "capabilities": ["NET_RAW"],
                "nodeSelector": {"nvidia.com/gpu.present": "true"},
            },
            "networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "sflowFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]},
            "serviceAccount": {"annotations": {"a": "b"}},
        },
        SFLOW
        + ['ecmp = "hashed:7"', 'discovery = "grow"', 'host = "gpu-01"', 'add: ["NET_RAW"]', 'server_name = "topology.internal"']
        + ["revoked.pem", "externalTrafficPolicy: Local", "cidr: 192.0.2.0/24"]
        + ["fabric.yaml", 'control = "turns"', "registry.example/a:9", "secretName: agents", "cidr: 10.0.0.0/8", "storageClassName: fast"],
    ),
    "programs": (
        {
            "images": {"python": "registry.example/python:3.12"},
            "controller": {"enabled": True, "args": ["--place-s=300"]},
            "exporter": {"enabled": True},
            "networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        },
        ["--nodes=fabric.topograph.run/tier-0", '"--owner=antiphase.demo"', "app.kubernetes.io/component: exporter", "- podSelector:"]
        + ["ingress: []", "secretName: antiphase-controller-tls", "name: antiphase-demo-exporter"],
    ),
    "other labels": (
        {
            "images": {"python": "p"},
            "controller": {"enabled": True, "nodes": "example.com/t0"},
            "exporter": {"enabled": True, "labelKeys": "example.com/t{tier}"},
        },
        ["--nodes=example.com/t0", "--label-keys=example.com/t{tier}"],
    ),
    # Somebody else writes the labels that the controller asks for.
    "labels of others": ({"images": {"python": "p"}, "controller": {"enabled": True}, "exporter": {"labelKeys": "nvidia"}}, ["--nodes="]),
    "hyper nodes": (
        {"images": {"python": "p"}, "exporter": {"enabled": True, "format": "hyper-node", "args": ["--every-s=60"]}},
        ["resources: [hypernodes]", "--format=hyper-node"],
    ),
    "extender": (
        {"extender": {"enabled": True, "slowerPercent": 20, "names": {"job": "example.com/job"}}},
        ["[extender]\n    enabled = true\n    slower_percent = 20", 'job = "example.com/job"'],
    ),
    "scheduler": (
        {"extender": {"enabled": True, "scheduler": {"configMap": True}}, "topology": {"extraConfig": "[plan]\nttl_s = 30\n"}},
        ["[extender]", "name: demo-scheduler", "urlPrefix: https://demo-topology.antiphase.svc:7480/extender"],
    ),
    "another scheduler": (
        {
            "extender": {
                "enabled": True,
                "scheduler": {
                    "configMap": True,
                    "server": "https://topology.example:7480",
                    "certificates": "/etc/kubernetes/antiphase",
                    "weight": 1,
                    "httpTimeout": "500ms",
                    "managedResources": [],
                },
            }
        },
        ["urlPrefix: https://topology.example:7480/extender", "keyFile: /etc/kubernetes/antiphase/kube-scheduler.key", "managedResources: []"],
    ),
    "no agent": ({"agent": {"enabled": False}, "networkPolicy": {"enabled": False}}, ["kind: StatefulSet"]),
}

# Mistakes that have to be named.
MISTAKES = [{"topolgy": {}}, {"topology": {"control": "turn"}}, {"agent": {"pageDirectory": "run"}}, {"topology": {"tlsSecret": ""}}]
# What would stand in the table above it, be in the file twice, or be a port that the service cannot open.
MISTAKES += [{"topology": {"extraConfig": 'ecmp = "spread"'}}, {"agent": {"extraConfig": 'host = "x"'}}, {"topology": {"keys": {"listen": "x"}}}]
MISTAKES += [{"topology": {"sflow": {"port": 514}}}, {"topology": {"sflow": {"port": 7480}}}, {"agent": {"capabilities": "NET_RAW"}}]

MISTAKES += [{"exporter": {"format": "slurm-conf"}}, {"controller": {"args": ["x"]}}, {"controller": {"tlsSecret": ""}}, {"exporter": {"nodes": ""}}]
MISTAKES += [{"exporter": {"labelKeys": "topology.kubernetes.io/t{tier}"}}, {"exporter": {"labelKeys": "k8s.io/{tier}"}}]

MISTAKES += [{"extender": {"slowerPercent": 1001}}, {"extender": {"names": {"jobs": "a"}}}, {"extender": {"scheduler": {"server": "topology:7480"}}}]
MISTAKES += [{"extender": {"scheduler": {"httpTimeout": "2"}}}, {"extender": {"scheduler": {"certificates": "pki"}}}, {"extender": {"scheduler": {"weight": 0}}}]


def both(keys):
    """Controller and exporter, the exporter with these keys of labels."""
    return {"images": {"python": "p"}, "controller": {"enabled": True}, "exporter": {"enabled": True, "labelKeys": keys}}


# Mistakes that only the templates see, with what they say.
REFUSED = [
    ({"agent": {"extraConfig": '[lldp]\nmode = "lldpd"\n'}}, "the image has no lldpctl"),
    ({"agent": {"extraConfig": '[lldp]\nmode = "capture"\n'}}, "needs agent.capabilities"),
    ({"topology": {"sflow": {"port": 6343, "exporters": SWITCH}, "extraConfig": "[sflow]\n"}}, "which topology.sflow writes too"),
    ({"topology": {"sflow": {"port": 6343}}}, "topology.sflow.exporters has a table"),
    ({"extender": {"enabled": True}, "topology": {"extraConfig": "[extender]\nenabled = true\n"}}, "which extender.enabled writes too"),
    ({"extender": {"scheduler": {"configMap": True}}}, "only with extender.enabled"),
    ({"controller": {"enabled": True}}, "images.python names an image"),
    ({"exporter": {"enabled": True}}, "images.python names an image"),
    (both("nvidia"), "set controller.nodes=network.topology.nvidia.com/block"),
    (both("example.com/t{tier}"), "controller.nodes=fabric.topograph.run/tier-0 selects no node: with exporter.labelKeys=example.com/t{tier}"),
]

# Where the rules of each program's ClusterRole stand for whoever takes no chart.
MANIFESTS = {"controller": "integrations/kubernetes/controller.yaml", "exporter": "integrations/kubernetes/export.yaml"}


def configuration_is_taken(document, programs):
    """What a ConfigMap holds for a program of ours is what that program takes."""
    for name, text in document["data"].items():
        if not name.endswith(".toml"):
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            # The certificates are those of a cluster, and are not read by a check.
            file.write(text)
            file.flush()
            command = [str(programs / name[: -len(".toml")]), "config", "check", "--config", file.name]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            assert done.returncode == 0, (name, done.stdout.decode(), text)


def scheduler_is_ours(document, values):
    """What the ConfigMap has for kube-scheduler is our scheduler.yaml, with what the values change."""
    text = document["data"].get("scheduler.yaml")
    if text is None:
        return 0
    told = {"weight": 5, "httpTimeout": "2s", "managedResources": ["nvidia.com/gpu"], "certificates": "/etc/antiphase"}
    told["server"] = "https://demo-topology.antiphase.svc:7480"
    told.update(values["extender"]["scheduler"])
    wanted = yaml.safe_load((CHECKOUT / "integrations/kubernetes/scheduler.yaml").read_text())
    (extender,) = wanted["extenders"]
    extender.update({"weight": told["weight"], "httpTimeout": told["httpTimeout"], "urlPrefix": told["server"] + "/extender"})
    extender["managedResources"] = [{"name": name, "ignoredByScheduler": False} for name in told["managedResources"]]
    for key, file in extender["tlsConfig"].items():
        extender["tlsConfig"][key] = "%s/%s" % (told["certificates"], file.rsplit("/", 1)[1])
    assert yaml.safe_load(text) == wanted, text
    return 1


def programs_run(documents):
    """Each program starts from the ConfigMap as its container does, takes the arguments, and has the rights of our own manifests."""
    named = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    for (kind, name), deployment in named.items():
        if kind != "Deployment":
            continue
        component = deployment["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mount = next(mount for mount in container["volumeMounts"] if mount["name"] == "programs")
        with tempfile.TemporaryDirectory() as folder:
            config_map = volumes["programs"]["configMap"]
            data = named["ConfigMap", config_map["name"]]["data"]
            assert sorted(data) == sorted(item["key"] for item in config_map["items"]), "keys that are not mounted, or not there"
            for item in config_map["items"]:
                target = pathlib.Path(folder) / item["path"]
                target.parent.mkdir(exist_ok=True)
                target.write_text(data[item["key"]])
                assert data[item["key"]] == sources()[item["path"]], item
            environment = {entry["name"]: entry["value"].replace(mount["mountPath"], folder) for entry in container["env"]}
            # As in the container but for the cluster, so the address of the API is the first thing that is missing.
            command = [sys.executable, *container["command"][1:], *container["args"]]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
            said = done.stdout.decode()
            assert done.returncode == 2 and "KUBERNETES_SERVICE_HOST is not set" in said, (name, said)
        binding = named["ClusterRoleBinding", "antiphase-" + name]
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": "antiphase"}], binding
        assert ("ServiceAccount", pod["serviceAccountName"]) in named, pod["serviceAccountName"]
        ours = list(yaml.safe_load_all((CHECKOUT / MANIFESTS[component]).read_text()))
        # The manifest has a role for each of the exporter's formats.
        wanted = [document["rules"] for document in ours if document["kind"] == "ClusterRole"]
        rules = named["ClusterRole", binding["roleRef"]["name"]]["rules"]
        assert rules in wanted, (name, rules)
        print("%s: it starts from its ConfigMap, with %d rules" % (name, len(rules)))


def sources():
    """Our Python by its path in the container."""
    folders = (CHECKOUT / "clients/python/antiphase", CHECKOUT / "integrations/kubernetes/antiphase_kubernetes")
    return {"%s/%s" % (folder.name, path.name): path.read_text() for folder in folders for path in folder.glob("*.py")}


def check(chart, values, wanted, programs):
    rendered = chart.render(values=values, name="demo", namespace="antiphase")
    parts = [part for name, part in rendered.items() if not name.endswith("NOTES.txt")]
    for word in wanted:
        assert any(word in part for part in parts), "%r is not rendered" % word
    documents = [document for part in parts for document in yaml.safe_load_all(part) if document]
    for document in documents:
        for version in VERSIONS:
            with contextlib.redirect_stderr(io.StringIO()):
                kubernetes_validate.validate(document, version, strict=True)
        if document["kind"] == "ConfigMap":
            configuration_is_taken(document, programs)
    configured = sum(scheduler_is_ours(document, values) for document in documents if document["kind"] == "ConfigMap")
    assert configured == bool(values.get("extender", {}).get("scheduler", {}).get("configMap")), "a configuration of kube-scheduler too many or few"
    programs_run(documents)
    return documents


def owners_differ(chart):
    """Exporters of two releases have two names, and the exporter takes the longest."""
    sys.path[:0] = [str(CHECKOUT / "clients/python"), str(CHECKOUT / "integrations/kubernetes")]
    from antiphase_kubernetes.export import name_of_owner

    values = {"images": {"python": "p"}, "exporter": {"enabled": True}}
    names = set()
    releases = [("demo", "a"), ("a", "demo"), ("r" * 53, "n" * 63), ("r" * 52 + "s", "n" * 63), ("r" * 44, "ab"), ("r" * 45, "a")]
    for release, namespace in releases:
        text = "".join(chart.render(values=values, name=release, namespace=namespace).values())
        (name,) = re.findall('"--owner=([^"]*)"', text)
        names.add(name_of_owner(name))
    assert len(names) == len(releases), names
    print("exporters of %d releases: %s" % (len(releases), ", ".join(sorted(names))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chart", type=pathlib.Path, help="the archive")
    parser.add_argument("programs", type=pathlib.Path, help="folder with antiphase-topology and antiphase-agent")
    arguments = parser.parse_args()
    path = str(arguments.chart)
    with helm_python.Chart.load(path) as chart:
        for name, (values, wanted) in CASES.items():
            report = helm_python.chart.lint(path, values=values, strict=True)
            findings = [message for message in report["messages"] if message["severity"] > 1]
            assert not report["errors"] and not findings, report
            documents = check(chart, values, wanted, arguments.programs)
            # Who asks for no program of Kubernetes gives no rights.
            asked = [one for one in ("controller", "exporter") if values.get(one, {}).get("enabled")]
            for kind in ("Deployment", "ClusterRole", "ClusterRoleBinding"):
                assert sum(document["kind"] == kind for document in documents) == len(asked), (name, kind)
            print("%s: %d documents fit Kubernetes %s" % (name, len(documents), ", ".join(VERSIONS)))
        owners_differ(chart)
        for values in MISTAKES:
            try:
                chart.validate_schema(values)
            except helm_python.HelmError as error:
                print("refused: %s" % str(error).splitlines()[-1].strip())
            else:
                raise AssertionError("%s is taken" % values)

        for values, words in REFUSED:
            try:
                chart.render(values=values, name="demo", namespace="antiphase")
            except helm_python.HelmError as error:
                assert words in str(error), error
                print("refused: %s" % words)
            else:
                raise AssertionError("%s is taken" % values)


if __name__ == "__main__":
    main()
