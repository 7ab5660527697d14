#!/bin/sh
# A linker for cargo: zig's, which has the symbols of every glibc, so that a library made here also loads where glibc is older.
# PACKAGES_ZIG is the interpreter that has the package ziglang, PACKAGES_GLIBC the oldest glibc that the library has to load with.
set -eu

# It knows no --exclude-libs, by which the libraries for NCCL keep the gate's C interface to themselves; so that leaves the list of exports.
for argument; do
    shift
    case $argument in
    -Wl,--exclude-libs,ALL) alone=yes ;;
    -Wl,--version-script=*) exports=${argument#*=} && set -- "$@" "$argument" ;;
    *) set -- "$@" "$argument" ;;
    esac
done
if [ "${alone:-}" ]; then sed -i '/^ *antiphase_gate_/d' "$exports"; fi

exec "$PACKAGES_ZIG" -m ziglang cc -target "$(uname -m)-linux-gnu.$PACKAGES_GLIBC" "$@"
