#!/usr/bin/env bash
# Plays training jobs on shared links, first as they come and then held, and prints what changed.
# Root on Linux: network namespaces, TCP, ECN marks counted by the kernel, the real service and agents. Otherwise: virtual time.
# CASE=... plays another case of examples/lab, TRAINER=ddp trains with real PyTorch (root).
# --serve then leaves a page up, until Ctrl-C or SERVE_SECONDS (an hour): as root the same lab with its jobs running on, otherwise
# the CASSINI paper's testbed with its jobs committed. PAGE=... is another address than 127.0.0.1:7480.
set -euo pipefail
cd "$(dirname "$0")/.."

serve=
[[ ${1:-} == --serve ]] && serve=1
case=${CASE:-two-equal}
repeats=${REPEATS:-1}
iterations=${ITERATIONS:-15}
page=${PAGE:-127.0.0.1:7480}
serve_seconds=${SERVE_SECONDS:-3600}

began=$SECONDS
# The same build as that of the tests: what the demo shows does not depend on how fast our own code runs.
cargo build --workspace
built=$((SECONDS - began))
programs=${CARGO_TARGET_DIR:-$PWD/target}/debug
antiphase=$programs/antiphase

play=("$antiphase" lab run "$case" --with slots --repeats "$repeats")
missing=()
for tool in ip tc clang bpftool; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
echo
if [[ $(uname) == Linux && $(id -u) == 0 && ${#missing[@]} == 0 ]]; then
    echo "demo: on this kernel: a namespace per host and switch, TCP traffic, the topology service, an agent beside each rank"
    live=("$antiphase" lab live "$case" --trainer "${TRAINER:-native}" --programs "$programs" --listen "$page" --for "$serve_seconds")
    play+=(--trainer "${TRAINER:-native}" --iterations "$iterations" --control service --programs "$programs")
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

[[ $serve ]] || exit 0
echo

if [[ ${live[*]:-} ]]; then
    # Takes itself down, also after Ctrl-C.
    exec "${live[@]}"
fi

echo "demo: virtual time is over as soon as it has begun, so there is no run to watch without root. In its place, a plan:"
echo "demo: the CASSINI paper's testbed, where four jobs meet in a ring of links. No agents are here: nobody runs, nothing is measured."
state=$(mktemp -d)
service=
trap 'kill ${service:-} 2>/dev/null || true; rm -rf "$state"' EXIT
# Each flow takes one of the equally short routes; seed 6 and the hosts are those of the candidate ring-of-four in candidates.yaml.
cat >"$state/topology.toml" <<TOML
listen = "$page"
state = "$state/state.redb"
fabric = "examples/testbed/fabric.yaml"
ecmp = "hashed:6"
control = "turns"
TOML
sed -e '/id: wrn101-x/s/}}$/}, hosts: [h4, h12]}/' -e '/id: vgg16-y/s/}}$/}, hosts: [h8, h16]}/' \
    -e '/id: vgg19-z/s/}}$/}, hosts: [h20, h24]}/' examples/testbed/jobs.yaml >"$state/jobs.yaml"
timeout "$serve_seconds" "$antiphase" serve --config "$state/topology.toml" 2>"$state/log" &
service=$!
committed=
for _ in $(seq 50); do
    # A service that is not there yet is not worth a line; one that is gone is.
    "$antiphase" commit --server "http://$page" --jobs "$state/jobs.yaml" >"$state/said" 2>&1 && committed=1 && break
    kill -0 "$service" 2>/dev/null || break
    sleep 0.1
done
if [[ ! $committed ]]; then
    cat "$state/log" "$state/said" >&2
    exit 1
fi
cat "$state/said"
echo "demo: the page is http://$page/ until you press Ctrl-C, or for $serve_seconds s"
wait "$service" || true
