"""Checks an image (OCI layout in an archive): every digest and size, then, as root, that its program runs in its files alone."""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile


class Archive:
    """The archive's members by name; what is read by a descriptor is what the descriptor says."""

    def __init__(self, path):
        with tarfile.open(path) as archive:
            members = (member for member in archive if member.isfile())
            self.files = {member.name: archive.extractfile(member).read() for member in members}
        self.read = set()
        layout = json.loads(self.files["oci-layout"])
        assert layout == {"imageLayoutVersion": "1.0.0"}, layout

    def blob(self, descriptor):
        kind, digest = descriptor["digest"].split(":")
        name = "blobs/%s/%s" % (kind, digest)
        data = self.files[name]
        assert kind == "sha256" and hashlib.sha256(data).hexdigest() == digest, "%s is not what its name says" % name
        assert len(data) == descriptor["size"], "%s has %d bytes, and should have %d" % (name, len(data), descriptor["size"])
        self.read.add(name)
        return data


def layers(archive):
    """The layers in order, unpacked, and the configuration."""
    (entry,) = json.loads(archive.files["index.json"])["manifests"]
    manifest = json.loads(archive.blob(entry))
    config = json.loads(archive.blob(manifest["config"]))
    unpacked = [gzip.decompress(archive.blob(layer)) for layer in manifest["layers"]]
    digests = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in unpacked]
    assert config["rootfs"] == {"type": "layers", "diff_ids": digests}, config["rootfs"]
    left = set(archive.files) - archive.read - {"oci-layout", "index.json"}
    assert not left, "blobs that nothing names: %s" % left
    return unpacked, config


# What a container engine does: a network and a tree of processes of its own, and the image's files as root.
INSIDE = 'mount -t proc proc "$1/proc" && ip link set lo up && root=$1 && shift && exec "$@"'
# SIGTERM as the status of a process that it ended: the program had not begun to wait for signals.
TERMINATED = 128 + 15


def run(config, root, arguments, seconds):
    """The entry point in the image's files, as the image's user, stopped after so long; its status, and what it said."""
    user = int(config["User"].split(":")[0])
    program = ["chroot", "--userspec=%d:%d" % (user, user), "--groups=", root, *config["Entrypoint"], *arguments]
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "sh", "-c", INSIDE, "sh", root]
    command += ["timeout", "--preserve-status", str(seconds), *program]
    done = subprocess.run(command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="+", type=pathlib.Path)
    for path in parser.parse_args().images:
        unpacked, image = layers(Archive(str(path)))
        config = image["config"]
        assert config["User"] == "65532:65532", config["User"]
        if os.geteuid() != 0:
            print("skipped: running %s needs root (chroot); its digests are right" % path.name)
            continue
        with tempfile.TemporaryDirectory() as root:
            for layer in unpacked:
                with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                    archive.extractall(root)
            os.chmod(root, 0o755)
            code, version = run(config, root, ["--version"], 60)
            assert code == 0, version
            # As a container starts it; a program that was stopped before it was ready gets more time.
            for seconds in (1, 4, 16):
                code, said = run(config, root, config["Cmd"], seconds)
                if code != TERMINATED:
                    break
            assert code == 0, (code, said)
            print("%s: %d layers, %s; it started and stopped:\n%s" % (path.name, len(unpacked), version, said))


if __name__ == "__main__":
    main()
