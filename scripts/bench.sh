#!/usr/bin/env bash
# Prints the numbers of docs/promises.md: the solver alone, then whole plans.
# Compare numbers of one run with each other; other programs on the machine change them.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo bench --package antiphase-circle
cargo run --release --package antiphase-policy --example plan_bench
