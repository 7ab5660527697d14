"""What a program or library needs of the machine that it will run on, and the file without what only a debugger reads: by binutils."""

import os
import pathlib
import re
import subprocess
import tempfile

# Libraries that belong to the C library's package, so that a version of it says all about them.
C_LIBRARY = ("ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1")
# What every image of a job has beside it: the unwinder of GCC.
UNWINDER = "libgcc_s.so.1"

# e_machine of an ELF header (elf.h): the name in a wheel's tag, Debian's, and that of an image.
MACHINES = {62: ("x86_64", "amd64", "amd64"), 183: ("aarch64", "arm64", "arm64")}


class Needs:
    """What one file needs: `libraries` by name, and the oldest `glibc` that has all symbols, as a pair of numbers."""

    def __init__(self, path):
        with open(path, "rb") as file:
            header = file.read(20)
        if header[:4] != b"\x7fELF":
            raise SystemExit("packages: %s is no program or library (ELF)" % path)
        machine = int.from_bytes(header[18:20], "little")
        if machine not in MACHINES:
            raise SystemExit("packages: %s is for machine %d of elf.h, and packages are made for %s" % (path, machine, sorted(MACHINES)))
        self.wheel_machine, self.debian_machine, self.image_machine = MACHINES[machine]
        told = subprocess.run(["objdump", "-p", path], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
        self.libraries = re.findall(r"^\s+NEEDED\s+(\S+)$", told, re.MULTILINE)
        strange = [name for name in self.libraries if name not in C_LIBRARY and name != UNWINDER]
        if strange:
            raise SystemExit("packages: %s needs %s, which no package of ours asks for" % (path, ", ".join(strange)))
        versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", told)
        self.glibc = max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def stripped(path):
    """The bytes of a program or library without symbols that the loader does not ask for."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "stripped")
        subprocess.run(["strip", "--strip-unneeded", "-o", copy, str(path)], check=True)
        return pathlib.Path(copy).read_bytes()
