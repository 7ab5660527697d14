#!/usr/bin/env bash
# Draws cases that nobody has seen: property tests with new seeds, then the solver's fuzzer with another. It reports and does not
# block: the exit code is 0 whatever is found, unless --strict is given. Each finding comes with the command that shows it again.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: scripts/fresh.sh [--rounds N] [--documents N] [--seed S] [--strict]"
# Each round runs every property test once, with a seed of its own and as many cases as the test always draws.
rounds=4
# Of the fuzzer: some minutes of one core, most of them for the one document in 64 whose LCM is long.
documents=100000
seed=
strict=false

while (($#)); do
    case $1 in
        --rounds | --documents | --seed)
            [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "fresh: $1 needs a whole number; $usage" >&2; exit 2; }
            declare "${1#--}=$2"
            shift 2
            ;;
        --strict)
            strict=true
            shift
            ;;
        *)
            echo "fresh: unknown option $1; $usage" >&2
            exit 2
            ;;
    esac
done
# Nine digits: easily copied, and far from the largest seed of either tool.
seed=${seed:-$(od -An -N4 -tu4 /dev/urandom | awk '{ print $1 % 1000000000 }')}

# Names of the tests within proptest! { ... }, one per line.
properties() {
    git ls-files -z '*.rs' | xargs -0 awk '
        FNR == 1 { inside = 0 }
        /^ *(proptest::)?proptest! *\{/ { inside = 1; match($0, /^ */); indent = RLENGTH; next }
        inside && /^ *\}/ { match($0, /^ */); if (RLENGTH == indent) inside = 0 }
        inside && match($0, /^ *fn [a-z0-9_]+/) { name = substr($0, RSTART, RLENGTH); sub(/^ *fn /, "", name); print name }
    ' | sort -u
}

mapfile -t names < <(properties)
if ((${#names[@]} == 0)); then
    echo "fresh: no property test was found" >&2
    exit 2
fi

# Runs the property tests; what they print is passed on.
run_tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --workspace -- "${names[@]}"
    else
        cargo test --workspace --lib --bins --tests --no-fail-fast -- "${names[@]}"
    fi
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
findings=()

for ((round = 1; round <= rounds; round++)); do
    echo "fresh: round $round of $rounds: ${#names[@]} property tests with PROPTEST_RNG_SEED=$seed"
    if ! PROPTEST_RNG_SEED=$seed run_tests 2>&1 | tee "$log"; then
        # "FAIL [ 0.1s] (1/9) package module::name" of nextest, "test module::name ... FAILED" of cargo.
        mapfile -t failed < <(sed -nE 's/^ *FAIL \[.* ([a-z0-9_:]+)$/\1/p; s/^test (.*) \.\.\. FAILED$/\1/p' "$log" | sort -u)
        # Not a test, but the build or the runner.
        ((${#failed[@]})) || failed=("NAME")
        for name in "${failed[@]}"; do
            findings+=("PROPTEST_RNG_SEED=$seed cargo test --workspace --lib --bins --tests $name")
        done
    fi
    seed=$((seed + 1))
done

fuzz=(cargo run --release --package antiphase-circle --example fuzz -- --count "$documents" --seed "$seed" --jobs "$(nproc)")
echo "fresh: $documents documents for the solver, seed $seed"
"${fuzz[@]}" || findings+=("${fuzz[*]}")

if ((${#findings[@]} == 0)); then
    echo "fresh: nothing was found"
    exit 0
fi
echo "fresh: ${#findings[@]} found; each is shown again by its command:"
printf 'fresh:     %s\n' "${findings[@]}"
echo "fresh: the smallest case is above. Make it a named test; commit a file under proptest-regressions that git status shows."
if $strict; then exit 1; fi
