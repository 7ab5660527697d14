#!/usr/bin/env bash
# A service with agents and everything that comes and goes, for MINUTES (60): what they hold at the beginning, after a tenth and at the
# end, and what clients had to wait. Fails where memory or descriptors have grown, or where anything acknowledged is lost.
#
#     scripts/soak.sh [MINUTES]
#
# PROGRAMS names a folder with antiphase-topology, antiphase-agent and libantiphase_gate.so; without it they are built for release.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-60}
if ! [[ $minutes =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
    echo "soak: $minutes is no number of minutes; usage: scripts/soak.sh [MINUTES]" >&2
    exit 2
fi
if ! command -v python3 >/dev/null; then
    echo "skipped: needs python3"
    exit 0
fi
if [ -z "${PROGRAMS:-}" ]; then
    cargo build --release --package antiphase-topology --package antiphase-agent --package antiphase-gate
    PROGRAMS=${CARGO_TARGET_DIR:-$PWD/target}/release
fi
exec python3 scripts/soak.py --programs "$PROGRAMS" --minutes "$minutes"
