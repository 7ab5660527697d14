#!/usr/bin/env bash
# Prints what the agent costs on eight real ports: its share of a core and its memory, with a live session to a real service.
#
#     scripts/agent-cost.sh [SECONDS]
#
# Makes a network namespace with eight veth ports that carry a burst five times a second, runs the service and the agent in it
# (byte counters every 10 ms), and measures SECONDS (30) of it after 5 to settle. Needs root and iproute2. PROGRAMS names a
# folder with both programs; without it they are built for release. PERF=FILE records a profile of the agent with perf.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
if [ "$(id -u)" -ne 0 ]; then
    echo "skipped: needs root, for a network namespace"
    exit 0
fi
if ! command -v ip >/dev/null; then
    echo "skipped: needs iproute2 (ip)"
    exit 0
fi
if [ -z "${PROGRAMS:-}" ]; then
    cargo build --release --package antiphase-topology --package antiphase-agent
    PROGRAMS=${CARGO_TARGET_DIR:-$PWD/target}/release
fi

here=apcost$$ there=apcost$$x
folder=$(mktemp -d)
children=()
finish() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ip netns del "$here" 2>/dev/null || true
    ip netns del "$there" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

if ! ip netns add "$here" 2>/dev/null || ! ip netns add "$there" 2>/dev/null; then
    echo "skipped: network namespaces cannot be made here"
    exit 0
fi
ip -n "$here" link set lo up
for port in 0 1 2 3 4 5 6 7; do
    ip -n "$here" link add "port$port" type veth peer name "peer$port" netns "$there"
    ip -n "$here" addr add "10.77.$port.1/24" dev "port$port"
    ip -n "$there" addr add "10.77.$port.2/24" dev "peer$port"
    ip -n "$here" link set "port$port" up
    ip -n "$there" link set "peer$port" up
done

cat >"$folder/topology.toml" <<TOML
listen = "127.0.0.1:7480"
state = "$folder/state.redb"
TOML
cat >"$folder/agent.toml" <<TOML
host = "h1"
page_dir = "$folder/pages"
[service]
address = "127.0.0.1:7480"
insecure_loopback = true
[counters]
include = ["port*"]
sampling_ms = 10
[metrics]
listen = "127.0.0.1:7481"
TOML
mkdir "$folder/pages"
ip netns exec "$here" "$PROGRAMS/antiphase-topology" --config "$folder/topology.toml" --fabric examples/testbed/fabric.yaml \
    >"$folder/topology.log" 2>&1 &
children+=($!)
ip netns exec "$here" "$PROGRAMS/antiphase-agent" --config "$folder/agent.toml" >"$folder/agent.log" 2>&1 &
agent=$!
children+=("$agent")
# Bursts of 40 KB, so that there is a period to find.
ip netns exec "$here" bash -c '
    while :; do
        for port in 0 1 2 3 4 5 6 7; do head -c 40000 /dev/zero >"/dev/udp/10.77.$port.2/9"; done 2>/dev/null
        sleep 0.2
    done' >/dev/null 2>&1 &
children+=($!)

# One scrape, by bash alone.
metric() {
    ip netns exec "$here" bash -c 'exec 3<>/dev/tcp/127.0.0.1/7481
        printf "GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n" >&3; cat <&3' 2>/dev/null |
        awk -v name="$1" '$1 == name || index($1, name "{") == 1 { sum += $2 } END { print sum + 0 }'
}
for ((tries = 0; ; tries++)); do
    [ "$(metric antiphase_agent_connected)" = 1 ] && break
    if [ "$tries" -ge 100 ]; then
        echo "the agent found no session:" >&2
        cat "$folder/topology.log" "$folder/agent.log" >&2
        exit 1
    fi
    sleep 0.1
done
# Nanoseconds on a processor, of all threads.
spent() { cat /proc/"$agent"/task/*/schedstat | awk '{ sum += $1 } END { printf "%d\n", sum }'; }
memory() { awk -v key="$1:" '$1 == key { printf "%.1f", $2 / 1024 }' "/proc/$agent/status"; }

sleep 5
before=$(spent) begun=$(date +%s%N)
if [ -n "${PERF:-}" ]; then
    perf record --quiet --freq 999 --pid "$agent" --output "$PERF" -- sleep "$seconds"
else
    sleep "$seconds"
fi
after=$(spent) ended=$(date +%s%N)
connected=$(metric antiphase_agent_connected)
skipped=$(metric antiphase_agent_samples_skipped_total)
dropped=$(metric antiphase_agent_samples_dropped_total)
ports=$(metric antiphase_agent_port_info)
found=$(metric antiphase_agent_port_observed_period_seconds)
awk -v cpu=$((after - before)) -v wall=$((ended - begun)) -v rss="$(memory VmRSS)" -v peak="$(memory VmHWM)" 'BEGIN {
    printf "agent, 8 veth ports at 10 ms, live session: %.3f %% of a core over %.0f s, %.1f MiB (peak %.1f)\n",
        100 * cpu / wall, wall / 1e9, rss, peak }'
echo "sources read $ports (8 ports, and IP), session $connected, readings skipped $skipped, frames dropped $dropped," \
    "sum of the periods found $found s; load $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) cores"
