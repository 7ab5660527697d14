"""Makes the wheel, with the gate's library and those for NCCL inside: a build backend (PEP 517) of the standard library alone.

`pip install agent/gate/python`, in a checkout, calls it and builds the libraries with cargo.
`scripts/packages.sh` calls it as a program, with libraries that link an old C library, for machines that are older than the one that builds.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent.parent

GATE = "libantiphase_gate.so"
# What cargo calls the plugin, and the name by which NCCL finds it for NCCL_PROFILER_PLUGIN=antiphase.
PLUGIN_BUILT, PLUGIN = "libnccl_profiler_antiphase.so", "libnccl-profiler-antiphase.so"
# The same of the library to preload.
CALLS_BUILT, CALLS = "libnccl_calls_antiphase.so", "libnccl-calls-antiphase.so"
# What cargo has to build for them.
CRATES = ("antiphase-gate", "antiphase-nccl", "antiphase-nccl-calls")


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    # An old pip copies this folder alone to build it elsewhere.
    if not (CHECKOUT / "Cargo.toml").is_file():
        raise SystemExit("antiphase-gate: the library is built from the whole checkout: use pip 21.3 or newer, or install a wheel")
    named = [word for crate in CRATES for word in ("-p", crate)]
    subprocess.run(["cargo", "build", "--release", *named], check=True, cwd=str(CHECKOUT))
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target"))
    notices = target / "third-party.txt"
    subprocess.run([sys.executable, str(CHECKOUT / "packaging/notices.py"), str(notices)], check=True)
    return pack(target / "release", pathlib.Path(wheel_directory), notices)


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("antiphase-gate: there is no source distribution, because the library is built from the whole checkout")


def project():
    """The plain texts of pyproject.toml; Python 3.8 reads no TOML."""
    return dict(re.findall(r'^([a-z-]+) = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.MULTILINE))


def tag(needs):
    """PEP 600: the oldest glibc that has every symbol. Older ones than 2.17 have no such tag, and Rust needs that one anyway."""
    glibc = max([need.glibc for need in needs] + [(2, 17)])
    return "py3-none-manylinux_%d_%d_%s" % (*glibc, needs[0].wheel_machine)


def pack(libraries, into, notices):
    """Writes the wheel with the libraries of a folder that cargo built, and the licences of what is linked into them; its name."""
    sys.path.insert(0, str(CHECKOUT / "packaging"))
    import elf
    import release

    facts = project()
    spoken = re.search(r'^__version__ = "(.*)"$', (HERE / "antiphase_gate/__init__.py").read_text(), re.MULTILINE).group(1)
    if {facts["version"], spoken} != {release.version()}:
        raise SystemExit("packages: the Python package says %s and %s, the workspace %s" % (facts["version"], spoken, release.version()))
    stem = "antiphase_gate-" + facts["version"]
    built = [(GATE, libraries / GATE), (PLUGIN, libraries / PLUGIN_BUILT), (CALLS, libraries / CALLS_BUILT)]
    label = tag([elf.Needs(str(path)) for _, path in built])
    files = {"antiphase_gate/" + path.name: path.read_bytes() for path in sorted((HERE / "antiphase_gate").glob("*.py"))}
    for name, path in built:
        files["antiphase_gate/" + name] = elf.stripped(path)
    info = stem + ".dist-info/"
    files[info + "METADATA"] = metadata(facts).encode()
    files[info + "WHEEL"] = ("Wheel-Version: 1.0\nGenerator: antiphase-gate\nRoot-Is-Purelib: false\nTag: %s\n" % label).encode()
    files[info + "LICENSE"] = (CHECKOUT / "LICENSE").read_bytes()
    files[info + "third-party.txt"] = notices.read_bytes()
    records = ["%s,sha256=%s,%d" % (name, digest(data), len(data)) for name, data in files.items()]
    files[info + "RECORD"] = "".join(line + "\n" for line in [*records, info + "RECORD,,"]).encode()
    name = "%s-%s.whl" % (stem, label)
    write(into / name, files, time.gmtime(release.epoch())[:6])
    return name


def metadata(facts):
    lines = [
        "Metadata-Version: 2.1",
        "Name: " + facts["name"],
        "Version: " + facts["version"],
        "Summary: " + facts["description"],
        "License: Apache-2.0",
        "Requires-Python: " + facts["requires-python"],
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (HERE / "README.md").read_text()


def digest(data):
    """As RECORD has it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write(path, files, when):
    partly = path.with_name(path.name + ".part")
    with zipfile.ZipFile(str(partly), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data)
    os.replace(str(partly), str(path))


def main():
    parser = argparse.ArgumentParser(description="Make the wheel of libraries that are built.")
    parser.add_argument("libraries", type=pathlib.Path, help="folder with %s, %s and %s" % (GATE, PLUGIN_BUILT, CALLS_BUILT))
    parser.add_argument("into", type=pathlib.Path, help="folder for the wheel")
    parser.add_argument("--notices", type=pathlib.Path, required=True, help="licences of what is linked in (packaging/notices.py)")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    print(arguments.into / pack(arguments.libraries, arguments.into, arguments.notices))


if __name__ == "__main__":
    main()
