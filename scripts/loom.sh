#!/usr/bin/env bash
# Tries every interleaving of a writer and a reader of the schedule page, and every value that the memory model lets a
# relaxed load return. Not part of `make test`: it builds the gate a second time, with a flag for all crates.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"
# Tests named loom_* only: the others use atomics that loom does not know.
exec cargo test --package antiphase-gate --lib --target-dir target/loom loom_ "$@"
