#!/usr/bin/env bash
# Prints the numbers of docs/promises.md: the solver alone, whole plans, a month of jobs, then the gate, the agent and the service.
# Compare numbers of one run with each other; other programs on the machine change them.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo bench --package antiphase-circle
cargo run --release --package antiphase-policy --example plan_bench
cargo run --release --package antiphase-policy --example schedule_bench
cargo run --release --package antiphase-policy --example knapsack_bench
cargo run --release --package antiphase-sim --example fabric_bench
# The traces of Muri's authors are not ours to ship.
for trace in testbed_400 trace2; do
  file="${ANTIPHASE_DATA:-}/muri/traces/$trace.csv"
  if [ -n "${ANTIPHASE_DATA:-}" ] && [ -f "$file" ]; then
    cargo run --release --package antiphase-sim --example trace_bench -- "$file" artifact muri-s
  else
    echo "skipped: $trace under Muri-S: set ANTIPHASE_DATA to a folder with muri/traces/$trace.csv"
  fi
done
# So are those of Pollux's; the command fails where a mean is more than 5 % off what they shipped.
if [ -n "${ANTIPHASE_DATA:-}" ] && [ -f "$ANTIPHASE_DATA/pollux/workloads/tuned-6.csv" ]; then
  cargo run --release --package antiphase -- reproduce pollux --quick
else
  echo "skipped: workload 6 under Pollux: set ANTIPHASE_DATA to a folder with pollux/workloads/tuned-6.csv and sia/profiles"
fi
cargo bench --package antiphase-gate
cargo run --release --package antiphase-gate --example wake
cargo run --release --package antiphase-agent --example cost
scripts/agent-cost.sh
cargo run --release --package antiphase-topology --example agents_bench
cargo run --release --package antiphase-topology --example agents_bench -- turns 1000 15
scripts/first-answer.sh
