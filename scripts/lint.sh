#!/usr/bin/env bash
# Checks format, lints and documentation, and licences where cargo-deny is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

for component in fmt clippy; do
    if ! cargo "$component" --version >/dev/null 2>&1; then
        echo "lint: cargo $component is not installed; run: rustup component add ${component/#fmt/rustfmt}" >&2
        exit 1
    fi
done

cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
if cargo deny --version >/dev/null 2>&1; then
    # Advisories are left out: their database is a git repository, which not every machine can fetch.
    cargo deny check licenses bans sources
else
    echo "lint: cargo-deny is not installed, so licences and sources were NOT checked; run: cargo install --locked cargo-deny"
fi
