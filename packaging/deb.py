"""Makes the Debian packages of programs and libraries that are built, with dpkg-deb."""

import argparse
import gzip
import hashlib
import os
import pathlib
import re
import subprocess
import tempfile
import textwrap
import time
from typing import NamedTuple

import elf
import release
from release import CHECKOUT

PACKAGING = CHECKOUT / "packaging"

# Who answers for the packages; `.example` is a name that nobody can have (RFC 2606).
MAINTAINER = "Antiphase maintainers <maintainers@antiphase.example>"

# What maintainer scripts call.
SYSTEMD = ["init-system-helpers (>= 1.52)", "systemd | systemd-standalone-sysusers", "systemd | systemd-standalone-tmpfiles"]


class Package(NamedTuple):
    """One package: the files that cargo built, and what stands beside them."""

    name: str
    section: str
    summary: str
    description: str
    # Of the folder of programs, into /usr/bin.
    programs: tuple = ()
    # Of the folder of libraries, by the name under which loaders look for them.
    libraries: tuple = ()
    # Which programs have manual pages and completions.
    speaks: tuple = ()
    # Units, the service first; purge takes `state` away.
    units: tuple = ()
    state: str = ""
    # Source in the checkout, and place in the package.
    files: tuple = ()
    depends: tuple = ()
    recommends: str = ""
    suggests: str = ""


PACKAGES = [
    Package(
        name="antiphase",
        section="net",
        summary="keeps training jobs that share a link off each other's beat",
        description="The command line: imports fabrics, plans and explains placements, and asks the topology service.",
        programs=("antiphase",),
        speaks=("antiphase",),
        files=(
            ("README.md", "usr/share/doc/antiphase"),
            ("CHANGELOG.md", "usr/share/doc/antiphase"),
            ("docs", "usr/share/doc/antiphase"),
            ("examples", "usr/share/doc/antiphase"),
        ),
        suggests="antiphase-topology, antiphase-agent",
    ),
    Package(
        name="antiphase-topology",
        section="net",
        summary="topology service of Antiphase",
        description="Knows the fabric, plans which job may send when, and tells the agents. Serves gRPC, HTTP and a page.",
        programs=("antiphase-topology",),
        speaks=("antiphase-topology",),
        units=("antiphase-topology.service",),
        state="/var/lib/antiphase",
        files=(
            ("topology/server/antiphase-topology.toml", "etc/antiphase"),
            ("packaging/systemd/antiphase-topology.service", "usr/lib/systemd/system"),
        ),
        depends=tuple(SYSTEMD),
        recommends="antiphase",
    ),
    Package(
        name="antiphase-agent",
        section="net",
        summary="agent of Antiphase, for every host with GPUs",
        description="Passes the plan on to the jobs of its host, and reads the host's counters. Brings antiphase-verbs for RDMA devices.",
        programs=("antiphase-agent", "antiphase-verbs"),
        speaks=("antiphase-agent", "antiphase-verbs"),
        units=("antiphase-agent.service", "run-antiphase.mount"),
        files=(
            ("agent/daemon/antiphase-agent.toml", "etc/antiphase"),
            ("packaging/systemd/antiphase-agent.service", "usr/lib/systemd/system"),
            ("packaging/systemd/run-antiphase.mount", "usr/lib/systemd/system"),
        ),
        depends=tuple(SYSTEMD),
        recommends="antiphase-gate",
        suggests="antiphase, ibverbs-providers, lldpd",
    ),
    Package(
        name="antiphase-gate",
        section="libs",
        summary="gate of Antiphase for training jobs in C, and libraries for NCCL",
        description="The library that a job calls before it sends, its C header, and a profiler plugin that tells the agent what NCCL does. For NCCL before 2.23 a library to preload.",
        libraries=(
            ("libantiphase_gate.so", "libantiphase_gate.so"),
            ("libnccl_profiler_antiphase.so", "libnccl-profiler-antiphase.so"),
            ("libnccl_calls_antiphase.so", "libnccl-calls-antiphase.so"),
        ),
        files=(("agent/gate/include/antiphase_gate.h", "usr/include"),),
        suggests="antiphase-agent",
    ),
]

# Where each shell looks for completions of packages, and its name for the file of a program.
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/%s",
    "zsh": "usr/share/zsh/vendor-completions/_%s",
    "fish": "usr/share/fish/vendor_completions.d/%s.fish",
}


class Build(NamedTuple):
    """What all packages of one run share."""

    programs: pathlib.Path
    libraries: pathlib.Path
    revision: str
    compression: list
    man: pathlib.Path
    notices: pathlib.Path

    def version(self):
        return "%s-%s" % (release.version(), self.revision)


def write(data, target, mode=0o644):
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(mode)


def put(source, target):
    write(source.read_bytes(), target)


def zipped(data, target):
    """A gzip file without a name or a time, as documentation is packed."""
    write(gzip.compress(data, 9, mtime=0), target)


def binaries(package, build, root):
    """Puts the programs and libraries in place, stripped; what they need of the machine."""
    needs = []
    multiarch = "usr/lib/%s-linux-gnu"
    for name in package.programs:
        needs.append(elf.Needs(str(build.programs / name)))
        write(elf.stripped(build.programs / name), root / "usr/bin" / name, 0o755)
    for name, installed in package.libraries:
        needs.append(elf.Needs(str(build.libraries / name)))
        write(elf.stripped(build.libraries / name), root / (multiarch % needs[-1].wheel_machine) / installed)
    return needs


def spoken(package, build, root):
    """Manual pages and completions, which `antiphase` makes for all programs."""
    programs = sorted((name for other in PACKAGES for name in other.speaks), key=len)
    for page in sorted(build.man.glob("*.1")):
        # A page of antiphase-agent begins like one of antiphase; the longest name is the program's.
        owner = [name for name in programs if page.stem == name or page.stem.startswith(name + "-")][-1]
        if owner in package.speaks:
            zipped(page.read_bytes(), root / "usr/share/man/man1" / (page.name + ".gz"))
    for name in package.speaks:
        for shell, place in COMPLETIONS.items():
            command = [str(build.programs / "antiphase"), "completions", shell, name]
            write(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, root / (place % name))


# A link of Markdown: its text, and the path before a place in the page.
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def mend_links(folder):
    """Links of installed pages to what is not installed become text that says where it is."""
    for page in sorted(folder.rglob("*.md")):

        def mended(link, page=page):
            text, path = link.group(1), link.group(2)
            if not path or ":" in path or (page.parent / path).exists():
                return link.group(0)
            return "%s (`%s` of the sources)" % (text, os.path.relpath(os.path.normpath(page.parent / path), folder))

        page.write_text(LINK.sub(mended, page.read_text(encoding="utf-8")), encoding="utf-8")


def documents(package, build, root):
    folder = root / "usr/share/doc" / package.name
    put(PACKAGING / "deb/copyright", folder / "copyright")
    zipped(build.notices.read_bytes(), folder / "third-party.txt.gz")
    when = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(release.epoch()))
    entry = "%s (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n -- %s  %s\n"
    zipped((entry % (package.name, build.version(), MAINTAINER, when)).encode(), folder / "changelog.Debian.gz")


def place(package, root):
    """Copies files of the checkout; what is under /etc is the administrator's to change."""
    for source, folder in package.files:
        source = CHECKOUT / source
        if source.is_dir():
            for file in sorted(path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
                put(file, root / folder / source.name / file.relative_to(source))
        else:
            put(source, root / folder / source.name)
    if package.units:
        put(PACKAGING / "deb/sysusers.conf", root / "usr/lib/sysusers.d" / (package.name + ".conf"))
        put(PACKAGING / ("deb/tmpfiles.%s.conf" % package.name), root / "usr/lib/tmpfiles.d" / (package.name + ".conf"))


def control(package, build, needs, root):
    """DEBIAN/control and what stands beside it."""
    folder = root / "DEBIAN"
    files = sorted(path for path in root.rglob("*") if path.is_file())
    folder.mkdir()
    depends = ["libc6 (>= %d.%d)" % max(need.glibc for need in needs)]
    if any(elf.UNWINDER in need.libraries for need in needs):
        depends.append("libgcc-s1 (>= 4.2)")
    fields = {
        "Package": package.name,
        "Version": build.version(),
        "Architecture": needs[0].debian_machine,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(sum(path.stat().st_size for path in files) // 1024 + 1),
        "Section": package.section,
        "Priority": "optional",
        "Depends": ", ".join(dict.fromkeys([*depends, *package.depends])),
        "Recommends": package.recommends,
        "Suggests": package.suggests,
        "Description": "\n ".join([package.summary, *textwrap.wrap(package.description, 78)]),
    }
    (folder / "control").write_text("".join("%s: %s\n" % field for field in fields.items() if field[1]))
    sums = ((hashlib.md5(path.read_bytes()).hexdigest(), path.relative_to(root)) for path in files)
    (folder / "md5sums").write_text("".join("%s  %s\n" % line for line in sums))
    configuration = [path for path in files if path.relative_to(root).parts[0] == "etc"]
    if configuration:
        (folder / "conffiles").write_text("".join("/%s\n" % path.relative_to(root) for path in configuration))
    if package.libraries:
        (folder / "triggers").write_text("activate-noawait ldconfig\n")
    if package.units:
        purge = 'rm -rf "$DPKG_ROOT%s"' % package.state if package.state else ":"
        for script in ("postinst", "prerm", "postrm"):
            text = (PACKAGING / "deb" / script).read_text()
            text = text.replace("@PACKAGE@", package.name).replace("@UNITS@", " ".join(package.units)).replace("@PURGE@", purge)
            (folder / script).write_text(text)
            (folder / script).chmod(0o755)


def make(package, build, into):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / package.name
        root.mkdir(mode=0o755)
        needs = binaries(package, build, root)
        place(package, root)
        mend_links(root / "usr/share/doc" / package.name)
        if package.speaks:
            spoken(package, build, root)
        documents(package, build, root)
        control(package, build, needs, root)
        for path in root.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
        target = into / ("%s_%s_%s.deb" % (package.name, build.version(), needs[0].debian_machine))
        environment = dict(os.environ, SOURCE_DATE_EPOCH=str(release.epoch()))
        command = ["dpkg-deb", "--root-owner-group", *build.compression, "--build", str(root), str(target)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        print(target)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=pathlib.Path, help="folder of the programs")
    parser.add_argument("libraries", type=pathlib.Path, help="folder of the libraries for jobs")
    parser.add_argument("into", type=pathlib.Path, help="folder for the packages")
    parser.add_argument("--notices", type=pathlib.Path, required=True, help="licences of what is linked in")
    parser.add_argument("--revision", default="1", help="Debian revision: what follows the version")
    parser.add_argument("--fast", action="store_true", help="compress little")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as man:
        subprocess.run([str(arguments.programs / "antiphase"), "man", man], check=True)
        compression = ["-Zgzip", "-z1"] if arguments.fast else ["-Zxz"]
        build = Build(arguments.programs, arguments.libraries, arguments.revision, compression, pathlib.Path(man), arguments.notices)
        for package in PACKAGES:
            make(package, build, arguments.into)


if __name__ == "__main__":
    os.umask(0o022)
    main()
