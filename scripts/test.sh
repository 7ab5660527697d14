#!/usr/bin/env bash
# Runs every test: with cargo-nextest where it is installed, else with cargo's own runner, and all doctests.
# A test that fails stops no other test; the exit code is not 0 if any failed.
set -euo pipefail
cd "$(dirname "$0")/.."

# How many of the slowest tests are named at the end.
slowest_max=10

if [[ -z ${ANTIPHASE_DATA:-} ]]; then
    # Said here too, because nextest hides what a passing test prints.
    echo "test: ANTIPHASE_DATA is not set, so comparisons with third-party data are skipped"
fi

# Names the slowest tests of a report of nextest, which is JUnit's XML: one testcase on a line.
slowest() {
    local report=$1
    echo "test: the $slowest_max slowest tests, in seconds:"
    sed -n 's/.*<testcase name="\([^"]*\)" classname="\([^"]*\)".* time="\([0-9.]*\)".*/\3 \2 \1/p' "$report" |
        sort -rn | awk -v most="$slowest_max" 'NR <= most { printf "test: %8.1f  %s %s\n", $1, $2, $3 }'
}

# Names the tests of such a report that lacked something and passed without it: they print a line that begins with "skipped:".
skipped() {
    local report=$1 lines
    lines=$(sed -e 's/<system-\(out\|err\)>/&\n/g' "$report" | awk '
        match($0, /<testcase name="[^"]*" classname="[^"]*"/) { split(substr($0, RSTART, RLENGTH), words, "\""); test = words[4] " " words[2] }
        /^skipped: / { sub(/<.*/, ""); print "test:   " test ": " substr($0, 10) }
    ' | sed 's/&quot;/"/g; s/&apos;/'"'"'/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g')
    if [[ -n $lines ]]; then
        echo "test: skipped for want of something, and counted as passed: $(wc -l <<<"$lines") times"
        echo "$lines"
    fi
}

# One build for all: cargo gives a package other features when it is built alone, and without the tests, and much would be built
# twice or three times. Of the examples only one is run by a test; `make lint` checks that the others compile.
cargo build --workspace --lib --bins --tests --example plan_summary
target=${CARGO_TARGET_DIR:-$PWD/target}
export ANTIPHASE_PROGRAM=${ANTIPHASE_PROGRAM:-$target/debug/antiphase}
export ANTIPHASE_PLAN_SUMMARY=${ANTIPHASE_PLAN_SUMMARY:-$target/debug/examples/plan_summary}

failed=()
if cargo nextest --version >/dev/null 2>&1; then
    # Its path is in .config/nextest.toml. One of an earlier run must not be read as this one's.
    report=$target/nextest/default/junit.xml
    rm -f "$report"
    cargo nextest run --workspace --lib --bins --tests || failed+=("tests")
    if [[ -f $report ]]; then
        skipped "$report"
        slowest "$report"
    fi
else
    cargo test --workspace --lib --bins --tests --no-fail-fast || failed+=("tests")
    echo "test: cargo's own runner does not say how long a test took; with cargo-nextest installed the slowest are named here"
fi
# nextest does not run doctests.
cargo test --workspace --doc --no-fail-fast || failed+=("doctests")

if ((${#failed[@]})); then
    echo "test: FAILED: ${failed[*]}" >&2
    exit 1
fi
