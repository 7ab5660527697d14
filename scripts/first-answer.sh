#!/usr/bin/env bash
# How soon the service answers after its start: by a fabric of 32 hosts, of 847 and of 9,984, without jobs and with what it had committed.
#
#   scripts/first-answer.sh [FOLDER]
#
# FOLDER has the programs (target/release). Times are from the start of the process to the whole answer, the best and the worst of five.
# /healthz is answered at once, while what was committed is restored; the others are refused (503) until then, and asked again.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=${1:-target/release}
if [[ ! -x $programs/antiphase-topology || ! -x $programs/antiphase ]]; then
    cargo build --release --package antiphase --package antiphase-topology --bins
fi
programs=$(realpath "$programs")
folder=$(mktemp -d)
service=''
stop() { [[ -z $service ]] || { kill "$service" && wait "$service" 2>/dev/null || true; }; service=''; }
trap 'stop; rm -rf "$folder"' EXIT
cd "$folder"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export ANTIPHASE_SERVER=http://127.0.0.1:$port

# configured HOSTS: the configuration of the service of that fabric.
configured() { printf 'listen = "127.0.0.1:%s"\nstate = "%s.redb"\nfabric = "%s.yaml"\n' "$port" "$1" "$1" >"$1.toml"; }
# serve HOSTS: starts it and waits until it is ready, for a minute at most.
serve() {
    "$programs/antiphase-topology" --config "$1.toml" >log 2>&1 &
    service=$!
    for _ in $(seq 600); do ! curl -fs "$ANTIPHASE_SERVER/readyz" >/dev/null 2>&1 || return 0; sleep 0.1; done
    cat log >&2
    return 1
}
# The time in which PATH is answered after a start, in milliseconds.
first() {
    python3 - "$programs/antiphase-topology" "$port" "$1.toml" "$2" <<'END'
import http.client, subprocess, sys, time
program, port, configuration, path = sys.argv[1:]
times = []
for _ in range(5):
    began = time.monotonic()
    with open("log", "wb") as log:
        service = subprocess.Popen([program, "--config", configuration], stdout=log, stderr=log)
    try:
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
                connection.request("GET", path)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status == 200:
                    break
            except ConnectionRefusedError:
                pass
            if service.poll() is not None or time.monotonic() - began > 60:
                sys.exit(open("log").read() or f"no answer to {path} within a minute")
            time.sleep(0.0005)
        times.append((time.monotonic() - began) * 1e3)
    finally:
        service.terminate()
        service.wait()
print(f"{min(times):8.1f} {max(times):8.1f}  {len(body):9}", end="")
END
}

# committed JOBS HOSTS: so many jobs of four hosts each, two in each half of the fabric, so that all cross its spines.
committed() {
    echo "schema: antiphase.jobs/v1"
    echo "jobs:"
    local job half=$(($2 / 2))
    for ((job = 0; job < $1; job++)); do
        printf -- '- {id: j%d, model: {name: vgg16, batch: %d}, hosts: [h%d, h%d, h%d, h%d]}\n' "$job" $((1600 + job % 5 * 20)) \
            $((2 * job + 1)) $((2 * job + 2)) $((half + 2 * job + 1)) $((half + 2 * job + 2))
    done
}

printf '%-12s %5s  %-28s %8s %8s  %9s\n' fabric jobs path 'best ms' 'worst ms' bytes
for clos in '4 8 32' '7 121 847' '32 312 9984'; do
    read -r leaves below hosts <<<"$clos"
    "$programs/antiphase" fabric generate clos2 --leaves "$leaves" --spines 4 --hosts-per-leaf "$below" --host-rate 100G --uplink-rate 400G \
        >"$hosts.yaml" 2>log
    configured "$hosts"
    serve "$hosts"
    for jobs in 0 $((hosts / 8 < 300 ? hosts / 8 : 300)); do
        if ((jobs)); then
            serve "$hosts"
            committed "$jobs" "$hosts" >jobs.yaml
            "$programs/antiphase" commit --jobs jobs.yaml >/dev/null 2>&1 || { "$programs/antiphase" commit --jobs jobs.yaml >&2; exit 1; }
        fi
        stop
        for path in /healthz /v1alpha1/jobs "/v1alpha1/fabric?summary"; do
            printf '%-12s %5d  %-28s ' "$hosts hosts" "$jobs" "$path"
            first "$hosts" "$path"
            echo
        done
    done
done
