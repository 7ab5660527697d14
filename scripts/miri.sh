#!/usr/bin/env bash
# Interprets unsafe code of the gate with Miri, which finds undefined behaviour that a run does not show: the lock of the page, notes as
# bytes, and what C hands over. Maps of memory, futexes and sealed files are beyond Miri; those tests run on the kernel only.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "miri: missing; install it: rustup toolchain install nightly --component miri,rust-src" >&2
    exit 1
fi
# Tests read the environment and the clock.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}"
exec cargo +nightly miri test --package antiphase-gate --lib --target-dir target/miri -- \
    seqlock:: page:: turn:: notes:: directory:: capi::tests::null capi::tests::words another:: "$@"
