"""Writes the licences of all crates that are linked into the programs: permissive ones ask to be passed on with the program."""

import argparse
import json
import pathlib
import platform
import subprocess

from release import CHECKOUT

# What stands in a crate beside its sources and is passed on.
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def linked():
    """Crates of others that ours need when they run, in order of their names."""
    # What other systems need is linked into nothing here.
    system = "%s-unknown-linux-gnu" % platform.machine()
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", system]
    told = json.loads(subprocess.run(command, cwd=str(CHECKOUT), check=True, stdout=subprocess.PIPE).stdout)
    crates = {crate["id"]: crate for crate in told["packages"]}
    needs = {node["id"]: node["deps"] for node in told["resolve"]["nodes"]}
    # The tests' crate is in no package, and what crates need to be built or tested is linked into none.
    ours = [member for member in told["workspace_members"] if crates[member]["name"] != "antiphase-tests"]
    seen, todo = set(ours), list(ours)
    while todo:
        for need in needs[todo.pop()]:
            if any(kind["kind"] is None for kind in need["dep_kinds"]) and need["pkg"] not in seen:
                seen.add(need["pkg"])
                todo.append(need["pkg"])
    others = [crates[one] for one in seen if crates[one]["source"]]
    return sorted(others, key=lambda crate: (crate["name"], crate["version"]))


def texts(crate):
    """The texts of its licences, as they are in the crate."""
    folder = pathlib.Path(crate["manifest_path"]).parent
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name.upper().startswith(NAMES)]
    return [path.read_text(errors="replace").strip() for path in files]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("into", type=pathlib.Path, help="the file to write")
    arguments = parser.parse_args()
    crates = linked()
    # Many crates have the same text: each stands here once, below the names of those that have it.
    holders = {}
    for crate in crates:
        for text in texts(crate):
            holders.setdefault(text, []).append("%s %s" % (crate["name"], crate["version"]))
    lines = ["Antiphase links these crates in:", ""]
    lines += ["  %s %s: %s" % (crate["name"], crate["version"], crate["license"] or "see below") for crate in crates]
    for text, names in sorted(holders.items(), key=lambda held: held[1]):
        lines += ["", "-" * 80, ", ".join(names), "-" * 80, "", text]
    arguments.into.parent.mkdir(parents=True, exist_ok=True)
    arguments.into.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
