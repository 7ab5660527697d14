#!/usr/bin/env bash
# Runs every test: with cargo-nextest where it is installed, else with cargo's own runner, and all doctests.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z ${ANTIPHASE_DATA:-} ]]; then
    # Said here too, because nextest hides what a passing test prints.
    echo "test: ANTIPHASE_DATA is not set, so comparisons with third-party data are skipped"
fi

# One build for all: features of a package built alone differ from those of the workspace, and half of it would be built twice.
cargo build --workspace
export ANTIPHASE_PROGRAM=${ANTIPHASE_PROGRAM:-${CARGO_TARGET_DIR:-$PWD/target}/debug/antiphase}

if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace
else
    cargo test --workspace --lib --bins --tests
fi
# nextest does not run doctests.
cargo test --workspace --doc
