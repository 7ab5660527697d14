#!/usr/bin/env bash
# Programs of two revisions beside each other: service, agents and gates of another revision with those of this checkout, in every
# combination, and an upgrade in place on the other one's state file and back.
#
#     scripts/skew.sh [REV]
#
# REV is a commit; without it the newest tag vX.Y.Z. Its programs are built from `git archive` under target/skew (some ten minutes
# the first time), and this checkout's after them. NEW names a folder with antiphase-topology, antiphase-agent and
# libantiphase_gate.so in place of the latter. PROFILE=release builds both for release.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 1 ]; then
    echo "skew: one revision, not $#; usage: scripts/skew.sh [REV]" >&2
    exit 2
fi
rev=${1:-$(git tag --list 'v[0-9]*.[0-9]*.[0-9]*' --sort=-v:refname | head -n 1)}
if [ -z "$rev" ]; then
    echo "skew: no tag vX.Y.Z yet: name a commit, as in: make skew REV=HEAD~100" >&2
    exit 2
fi
if ! commit=$(git rev-parse --quiet --verify "$rev^{commit}"); then
    echo "skew: $rev is no commit of this repository" >&2
    exit 2
fi
if ! command -v python3 >/dev/null; then
    echo "skipped: needs python3"
    exit 0
fi
commit=${commit:0:12}
profile=${PROFILE:-dev}
folder=$PWD/target/skew
old=$folder/$commit-$profile

# build TREE INTO: the programs of a tree, copied to a folder of their own. Crates of others are built once for all revisions.
build() {
    local packages=(--package antiphase-topology --package antiphase-agent --package antiphase-gate)
    local out=$folder/build/debug
    if [ "$profile" != dev ]; then out=$folder/build/$profile; fi
    # To cargo a crate of ours is the same in each tree, and a file that is older than the last build has not changed.
    rm -rf "$out"/.fingerprint/antiphase-*
    (cd "$1" && cargo build --locked --profile "$profile" --target-dir "$folder/build" "${packages[@]}")
    mkdir -p "$2"
    cp "$out/antiphase-topology" "$out/antiphase-agent" "$out/libantiphase_gate.so" "$2"
}

if [ ! -e "$old/whole" ]; then
    echo "skew: building $rev ($commit)"
    rm -rf "$folder/tree-$commit"
    mkdir -p "$folder/tree-$commit"
    git archive "$commit" | tar -x -C "$folder/tree-$commit"
    build "$folder/tree-$commit" "$old"
    rm -rf "$folder/tree-$commit"
    touch "$old/whole"
fi
if [ -z "${NEW:-}" ]; then
    NEW=$folder/here-$profile
    echo "skew: building this checkout"
    build "$PWD" "$NEW"
fi
exec python3 scripts/skew.py --old "$old" --old-name "$commit" --new "$NEW"
