#!/usr/bin/env bash
# Plays training jobs on shared links, first as they come and then held to their slots, and prints what changed.
# Root on Linux: network namespaces, TCP, ECN marks counted by the kernel, the real service and agents. Otherwise: virtual time.
# --serve then leaves the service up with the CASSINI paper's testbed on its page. CASE=... plays another case of examples/lab.
set -euo pipefail
cd "$(dirname "$0")/.."

serve=
[[ ${1:-} == --serve ]] && serve=1
case=${CASE:-two-equal}
repeats=${REPEATS:-1}
iterations=${ITERATIONS:-15}

began=$SECONDS
# The same build as that of the tests: what the demo shows does not depend on how fast our own code runs.
cargo build --workspace
built=$((SECONDS - began))
programs=${CARGO_TARGET_DIR:-$PWD/target}/debug
antiphase=$programs/antiphase

play=("$antiphase" lab run "$case" --repeats "$repeats")
missing=()
for tool in ip tc clang bpftool; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
echo
if [[ $(uname) == Linux && $(id -u) == 0 && ${#missing[@]} == 0 ]]; then
    echo "demo: on this kernel: a namespace per host and switch, TCP traffic, the topology service, an agent beside each leader"
    play+=(--iterations "$iterations" --control service --programs "$programs")
else
    why="not root"
    [[ $(id -u) == 0 ]] && why="no ${missing[*]}"
    echo "demo: in VIRTUAL TIME ($why): the same service and gates, but a simulated fabric and simulated ECN marks"
    echo "demo: for real traffic and real marks: sudo make demo"
    play+=(--virtual --iterations 60)
fi
echo
mkdir -p out
"${play[@]}" -o json >out/demo.json.part
mv out/demo.json.part out/demo.json
"$antiphase" lab show out/demo.json
"$antiphase" lab show out/demo.json -o html >out/demo.html.part
# Moved into place when whole, so that a failure leaves no half page behind.
mv out/demo.html.part out/demo.html

echo
echo "demo: took $((SECONDS - began)) s, of which the build $built s; the picture is $PWD/out/demo.html"
if [[ -z ${CI:-} && -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]] && command -v xdg-open >/dev/null; then
    xdg-open out/demo.html || echo "demo: no browser opened; open that file yourself"
fi

if [[ $serve ]]; then
    state=$(mktemp -d)
    trap 'kill "$service" 2>/dev/null || true; rm -rf "$state"' EXIT
    "$antiphase" serve --state "$state/state.redb" --fabric examples/testbed/fabric.yaml &
    service=$!
    # Jobs without hosts are for candidates.
    grep -v '}}$' examples/testbed/jobs.yaml >"$state/jobs.yaml"
    for _ in $(seq 50); do
        "$antiphase" commit --jobs "$state/jobs.yaml" 2>/dev/null && break
        sleep 0.1
    done
    echo "demo: the page is http://127.0.0.1:7480/ until you press Ctrl-C"
    wait "$service"
fi
