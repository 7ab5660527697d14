"""Makes images for containers (OCI layout, one archive each) of programs that are built, without a container engine.

An image has the program, the C library as this Debian machine has it, and nothing else: no shell, no package manager.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile
import time
from typing import NamedTuple

import elf
import release
from release import CHECKOUT

# The user of distroless images, which is nobody's on a host.
USER = 65532

# Debian's packages whose files are copied, and which of those: what programs load at the start, and name resolution. libc6 has the
# rest as converters of characters and tools.
BASE = {
    "libc6": re.compile(r"/(ld-linux[^/]*|lib(c|m|dl|pthread|rt|resolv|nss_dns|nss_files))\.so\.[0-9]+$"),
    "libgcc-s1": re.compile(r"/libgcc_s\.so\.1$"),
}

FILES = {
    "etc/passwd": "root:x:0:0:root:/:/nonexistent\nantiphase:x:%d:%d:antiphase:/var/lib/antiphase:/nonexistent\n" % (USER, USER),
    "etc/group": "root:x:0:\nantiphase:x:%d:\n" % USER,
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


class Image(NamedTuple):
    """One image: a program, its example configuration, and the ports that it takes."""

    name: str
    title: str
    configuration: str
    ports: tuple


IMAGES = [
    Image("antiphase-topology", "topology service of Antiphase", "topology/server/antiphase-topology.toml", ("7480/tcp", "7480/udp")),
    Image("antiphase-agent", "agent of Antiphase, for every host with GPUs", "agent/daemon/antiphase-agent.toml", ()),
]


class Layer:
    """A tar archive in memory whose entries have one time and one order, so that the same files are the same bytes."""

    def __init__(self):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.PAX_FORMAT)
        self.folders = set()

    def add(self, name, data=b"", mode=0o644, owner=0, kind=tarfile.REGTYPE, target=""):
        self.folder(str(pathlib.PurePosixPath(name).parent))
        self.entry(name, data, mode, owner, kind, target)

    def folder(self, name, mode=0o755, owner=0):
        if name not in self.folders and name != ".":
            self.folder(str(pathlib.PurePosixPath(name).parent))
            self.folders.add(name)
            self.entry(name, b"", mode, owner, tarfile.DIRTYPE, "")

    def entry(self, name, data, mode, owner, kind, target):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.uid, entry.gid, entry.type, entry.linkname = len(data), mode, owner, owner, kind, target
        entry.mtime = release.epoch()
        self.tar.addfile(entry, io.BytesIO(data))

    def link(self, name, target):
        self.folders.add(name)
        self.entry(name, b"", 0o777, 0, tarfile.SYMTYPE, target)

    def done(self):
        self.tar.close()
        return self.bytes.getvalue()


def told(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def base(interpreter):
    """The C library, and what it reads. The layer is the same for all images of one machine."""
    layer = Layer()
    # As on a Debian since 2019: /lib is /usr/lib.
    for folder in ("lib", "lib64"):
        layer.link(folder, "usr/" + folder)
    loaded = set()
    for package, wanted in BASE.items():
        # A file that somebody changed by hand is in no image.
        if told("dpkg", "--verify", package).strip():
            raise SystemExit("packages: files of %s are not as Debian made them; dpkg --verify %s names them" % (package, package))
        for path in sorted(told("dpkg-query", "--listfiles", package).splitlines()):
            if wanted.search(path):
                place = os.path.join("usr", os.path.relpath(path, "/").split("usr/")[-1])
                loaded.add("/" + place)
                layer.add(place, pathlib.Path(os.path.realpath(path)).read_bytes(), 0o755)
        layer.add("var/lib/dpkg/status.d/" + package, told("dpkg-query", "--status", package).encode())
        layer.add("usr/share/doc/%s/copyright" % package, pathlib.Path("/usr/share/doc/%s/copyright" % package).read_bytes())
    if "/usr" + interpreter not in loaded:
        target = next(path for path in sorted(loaded) if path.endswith("/" + os.path.basename(interpreter)))
        layer.folder(os.path.dirname("usr" + interpreter))
        layer.link("usr" + interpreter, target)
    layer.add("usr/lib/os-release", pathlib.Path("/usr/lib/os-release").read_bytes())
    for name, text in FILES.items():
        layer.add(name, text.encode())
    # Where an engine mounts, and where programs may write.
    for name in ("dev", "proc", "sys"):
        layer.folder(name)
    layer.folder("tmp", 0o1777)
    layer.folder("var/lib/antiphase", 0o700, USER)
    layer.folder("run/antiphase", 0o755, USER)
    return layer.done()


def program(image, programs, notices):
    layer = Layer()
    folder = "usr/share/doc/%s" % image.name
    layer.add("usr/bin/" + image.name, elf.stripped(programs / image.name), 0o755)
    layer.add("etc/antiphase/%s.toml" % image.name, (CHECKOUT / image.configuration).read_bytes())
    layer.add(folder + "/copyright", (CHECKOUT / "packaging/deb/copyright").read_bytes())
    layer.add(folder + "/LICENSE", (CHECKOUT / "LICENSE").read_bytes())
    layer.add(folder + "/third-party.txt.gz", gzip.compress(notices.read_bytes(), 9, mtime=0))
    return layer.done()


class Archive:
    """The layout: blobs by their digests, an index, and the file that says that it is one."""

    def __init__(self, level):
        self.level = level
        self.blobs = {}

    def blob(self, media, data):
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": media, "digest": "sha256:" + digest, "size": len(data)}

    def document(self, media, document):
        return self.blob(media, json.dumps(document, sort_keys=True, separators=(",", ":")).encode())

    def image(self, image, layers, machine):
        told_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.epoch()))
        labels = {
            "org.opencontainers.image.title": image.title,
            "org.opencontainers.image.version": release.version(),
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.created": told_at,
        }
        config = {
            "created": told_at,
            "architecture": machine,
            "os": "linux",
            "config": {
                "User": "%d:%d" % (USER, USER),
                "Entrypoint": ["/usr/bin/" + image.name],
                "Cmd": ["--config", "/etc/antiphase/%s.toml" % image.name],
                "Env": ["PATH=/usr/bin"],
                "WorkingDir": "/",
                "ExposedPorts": {port: {} for port in image.ports},
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]},
        }
        zipped = [gzip.compress(layer, self.level, mtime=0) for layer in layers]
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self.document("application/vnd.oci.image.config.v1+json", config),
            "layers": [self.blob("application/vnd.oci.image.layer.v1.tar+gzip", layer) for layer in zipped],
            "annotations": labels,
        }
        entry = self.document(manifest["mediaType"], manifest)
        entry["platform"] = {"architecture": machine, "os": "linux"}
        # The second is how containerd names an image that it imports.
        name = "%s:%s" % (image.name, release.version())
        entry["annotations"] = {"org.opencontainers.image.ref.name": release.version(), "io.containerd.image.name": name}
        return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}

    def write(self, path, index):
        layer = Layer()
        layer.add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        layer.add("index.json", json.dumps(index, sort_keys=True).encode())
        for digest, data in sorted(self.blobs.items()):
            layer.add("blobs/sha256/" + digest, data)
        path.write_bytes(layer.done())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=pathlib.Path, help="folder of the programs")
    parser.add_argument("into", type=pathlib.Path, help="folder for the archives")
    parser.add_argument("--notices", type=pathlib.Path, required=True, help="licences of what is linked in")
    parser.add_argument("--fast", action="store_true", help="compress little")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    for image in IMAGES:
        path = str(arguments.programs / image.name)
        interpreter = re.search(r"interpreter: ([^\]]+)\]", told("readelf", "--wide", "--program-headers", path)).group(1)
        needs = elf.Needs(path)
        layers = [base(interpreter), program(image, arguments.programs, arguments.notices)]
        archive = Archive(1 if arguments.fast else 9)
        target = arguments.into / ("%s-%s-%s.oci.tar" % (image.name, release.version(), needs.image_machine))
        archive.write(target, archive.image(image, layers, needs.image_machine))
        print(target)


if __name__ == "__main__":
    main()
