#!/usr/bin/env bash
# Fuzzes decoders by what inputs cover (libFuzzer), beginning with tests/corpus. What is found is kept in out/fuzz/DECODER and printed.
#
#     scripts/fuzz.sh [--seconds N] [--runs N] [DECODER]...
#
# Without names each decoder has its turn. --seconds (60) is for each of them; --runs ends it after so many inputs before that. Exit code 1
# where something does not hold. Rust's stable compiler is enough: its LLVM counts which edges an input takes.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: scripts/fuzz.sh [--seconds N] [--runs N] [DECODER]..."
seconds=60 runs=-1 decoders=()
while (($#)); do
    case $1 in
        --seconds | --runs)
            [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: $1 needs a number above 0; $usage" >&2; exit 2; }
            declare "${1#--}=$2"
            shift 2
            ;;
        -*) echo "fuzz: unknown option $1; $usage" >&2 && exit 2 ;;
        *)
            [[ -d tests/corpus/$1 ]] || { echo "fuzz: no decoder $1; there are: $(ls tests/corpus | xargs)" >&2; exit 2; }
            decoders+=("$1")
            shift
            ;;
    esac
done
if ((${#decoders[@]} == 0)); then mapfile -t decoders < <(ls tests/corpus); fi

# Edges of all crates are counted, in eight bits each, and comparisons told, so that a magic number is found by its parts.
flags=(-Cpasses=sancov-module -Ccodegen-units=1)
for option in level=4 inline-8bit-counters pc-table trace-compares; do flags+=("-Cllvm-args=-sanitizer-coverage-$option"); done
machine=$(uname -m)-unknown-linux-gnu
# A target of its own is named, or build scripts and macros would be instrumented too, and not link.
RUSTFLAGS="${flags[*]}" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/fuzz \
    cargo build --release --target "$machine" --manifest-path tests/fuzz/Cargo.toml
program=${CARGO_TARGET_DIR:-$PWD/target}/fuzz/$machine/release/antiphase-fuzz

failed=()
for decoder in "${decoders[@]}"; do
    kept=out/fuzz/$decoder
    mkdir -p "$kept/corpus" "$kept/found"
    log=$kept/log
    status=0
    # 4 KiB is the longest input that a decoder gets. Memory above 1 GiB, or one input that takes ten seconds, is a finding.
    ANTIPHASE_DECODER=$decoder ANTIPHASE_SEEDS=$kept/corpus "$program" "$kept/corpus" "tests/corpus/$decoder" \
        -max_len=4096 -max_total_time="$seconds" -runs="$runs" -rss_limit_mb=1024 -timeout=10 -artifact_prefix="$kept/found/" \
        -print_final_stats=1 >"$log" 2>&1 || status=$?
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    covered=$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -1)
    if ((status)); then
        failed+=("$decoder")
        echo "fuzz: $decoder: FAILED after ${inputs:-?} inputs (${covered:-nothing covered}); the input is in $kept/found, what it broke in $log:"
        grep -m1 -A2 'panicked at\|ERROR:' "$log" || tail -3 "$log"
    else
        echo "fuzz: $decoder: $inputs inputs, $covered, no finding"
    fi
done
if ((${#failed[@]})); then
    echo "fuzz: keep each input in tests/corpus/DECODER, where the tests replay it: ${failed[*]}" >&2
    exit 1
fi
