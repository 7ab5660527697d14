"""What is released: the checkout, its version, and the time that all files in packages have, so that the same commit makes the same bytes."""

import os
import pathlib
import re
import subprocess

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent


def version():
    """The workspace's version, which all packages have."""
    table = (CHECKOUT / "Cargo.toml").read_text().partition("[workspace.package]")[2]
    found = re.search(r'^version = "([0-9.]+)"$', table, re.MULTILINE)
    if found is None:
        raise SystemExit("packages: Cargo.toml has no version")
    return found.group(1)


def epoch():
    """Seconds since 1970: SOURCE_DATE_EPOCH, else the commit's time; without git the first time that a zip archive can have."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told is None:
        asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=str(CHECKOUT), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        told = asked.stdout.decode().strip() if asked.returncode == 0 else ""
    return max(int(told or 0), 315532800)
