#!/usr/bin/env bash
# Checks that what the build and the tests need is here, and installs what is missing.
# Nothing is fetched when nothing is missing. Called by `make demo` and `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()

# need PACKAGES WHY PROBE...: Debian packages, what they are for, and a command that succeeds when they are here.
need() {
    local packages=$1 why=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        echo "setup: missing $packages ($why)"
        read -ra names <<<"$packages"
        missing+=("${names[@]}")
    fi
}

# A compiler without the C library's start files is there, but cannot link.
links() {
    local out status=0
    out=$(mktemp)
    echo 'int main(void) { return 0; }' | cc -x c -o "$out" - || status=1
    rm -f "$out"
    return $status
}

need "gcc libc6-dev" "Rust links programs with cc" links
need "git" "the house tests ask git which files are ours" git --version

if ((${#missing[@]})); then
    if ! command -v apt-get >/dev/null; then
        echo "setup: there is no apt-get here; install your system's packages for: ${missing[*]}" >&2
        exit 1
    elif [[ $(id -u) != 0 ]]; then
        echo "setup: run this, then try again:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    # A failed update is not yet a failure: the lists may be there already.
    apt-get update -qq || echo "setup: apt-get update failed, trying with the package lists that are here"
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
fi

# Rust comes from rustup: the one in Debian 12 is older than what we need.
wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null; then
    echo "setup: cargo is not on PATH; install Rust $wanted or newer with rustup: https://rustup.rs" >&2
    exit 1
fi
have=$(cargo --version | cut -d ' ' -f 2)
if [[ $(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1) != "$wanted" ]]; then
    echo "setup: cargo is $have, and Antiphase needs $wanted or newer; run: rustup update stable" >&2
    exit 1
fi
