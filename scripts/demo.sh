#!/usr/bin/env bash
# Plans the jobs of examples/testbed on the CASSINI paper's 24-server testbed: tables here, a page in out/demo.html.
set -euo pipefail
cd "$(dirname "$0")/.."

testbed=examples/testbed
if [[ ! -f $testbed/fabric.yaml ]]; then
    echo "demo: $testbed/fabric.yaml is not in this checkout" >&2
    exit 1
fi

cargo build --release --package antiphase
antiphase=${CARGO_TARGET_DIR:-target}/release/antiphase
# The comments in these files say what the jobs and the candidates are, and why seed 6.
plan=("$antiphase" plan --fabric "$testbed/fabric.yaml" --jobs "$testbed/jobs.yaml" --candidates "$testbed/candidates.yaml"
    --ecmp hashed:6)

echo
"${plan[@]}" -o table
echo
echo "The same six by the rules of the CASSINI paper, which discards loops and looks at every fifth degree:"
echo
# Candidates only: what follows them is told above in exact terms.
"${plan[@]}" --mode cassini -o table | sed -n '/^CANDIDATE/,/^$/p'

mkdir -p out
# Moved into place when whole, so that a failure leaves no half page behind.
"${plan[@]}" -o html >out/demo.html.part
mv out/demo.html.part out/demo.html

echo "demo: the picture is $PWD/out/demo.html"
if [[ -z ${CI:-} && -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]] && command -v xdg-open >/dev/null; then
    xdg-open out/demo.html || echo "demo: no browser opened; open that file yourself"
fi
