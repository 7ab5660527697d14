#!/usr/bin/env bash
# The gate and the plugin for NCCL on a machine with an NVIDIA GPU. No part of `make test`, because machines of CI have none.
#
#     scripts/test-gpu.sh [PART...]      # all: streams waits costs graphs calls turns calls-held
#
#   streams  streams pass the gate, with the driver (the test that runs with a stand-in elsewhere)
#   waits    what a wait in a stream does to its process and to others: docs/adr/0012
#   costs    what a gate costs a job that nobody is in the way of
#   graphs   a job whose iteration is a CUDA graph, with the gate around its replays
#   calls    iterations that the agent finds in the calls of a job, by the plugin and by LD_PRELOAD
#   turns    the lab's jobs over NCCL: alone, together, by turns (root, and the lab's tools)
#   calls-held  the same, held in the calls of NCCL, without a line in the job
#
# Needs PyTorch with CUDA and NCCL (ANTIPHASE_PYTHON, else python3). PROGRAMS names a folder with the programs and libraries; without
# it they are built. CASE names another case of the lab, REPEATS how often it is played. GATE_TESTS names the built tests of agent/gate where there is no cargo.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=${*:-streams waits costs graphs calls turns calls-held}
python=${ANTIPHASE_PYTHON:-python3}
if ! "$python" -c 'import sys, torch; sys.exit(not (torch.cuda.is_available() and torch.distributed.is_nccl_available()))' 2>/dev/null; then
    echo "skipped: $python has no PyTorch that sees a GPU and has NCCL"
    exit 0
fi
if [ -z "${PROGRAMS:-}" ]; then
    cargo build --workspace --lib --bins
    PROGRAMS=${CARGO_TARGET_DIR:-$PWD/target}/debug
fi
export ANTIPHASE_GATE_LIBRARY=$PROGRAMS/libantiphase_gate.so PYTHONPATH=$PWD/agent/gate/python${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
export ANTIPHASE_GATE_PYTHON=$PWD/agent/gate/python

streams() {
    if [ -n "${GATE_TESTS:-}" ]; then
        ANTIPHASE_CUDA=1 "$GATE_TESTS" stream --nocapture
    else
        ANTIPHASE_CUDA=1 cargo test -p antiphase-gate --test gate stream -- --nocapture
    fi
}

waits() { "$python" tests/gpu/stream_wait.py; }

# Runs what is given beside a service and the agents of examples/two-hosts, whose two jobs are committed; the job `left` may train.
beside_agents() {
    local folder pids=() failed=0
    folder=$(mktemp -d)
    cp examples/two-hosts/* "$folder"
    pushd "$folder" >/dev/null
    "$PROGRAMS/antiphase-topology" --config topology.toml >service.log 2>&1 & pids+=($!)
    for agent in h1 h2; do "$PROGRAMS/antiphase-agent" --config "agent-$agent.toml" >"$agent.log" 2>&1 & pids+=($!); done
    for _ in $(seq 100); do grep -q listening service.log 2>/dev/null && break || sleep 0.1; done
    "$PROGRAMS/antiphase" commit --jobs jobs.yaml >commit.log 2>&1 || failed=1
    popd >/dev/null
    ANTIPHASE_JOB=left ANTIPHASE_DIR=/tmp/antiphase-h1 "$@" || failed=1
    kill "${pids[@]}"
    wait "${pids[@]}" 2>/dev/null || true
    if [ $failed = 0 ]; then rm -rf "$folder"; else echo "logs: $folder" >&2; fi
    return $failed
}

train_and_tell() {
    # Called where errors do not end the script.
    "$python" tests/gpu/ddp.py && "$PROGRAMS/antiphase" turns
}

costs() { beside_agents train_and_tell; }

graphs() { beside_agents "$python" tests/gpu/graphs.py; }

# A job without a line for the gate: what the agent finds in its calls is printed beside what an iteration takes.
watched() {
    local found last=
    env "$@" "$python" tests/gpu/ddp.py --ways none --blocks 8 &
    local job=$!
    while kill -0 $job 2>/dev/null; do
        found=$("$python" - <<'P'
import urllib.request
text = urllib.request.urlopen("http://127.0.0.1:7481/metrics").read().decode()
print(*(line for line in text.splitlines() if line.startswith("antiphase_agent_job_call")), sep="; ")
P
        ) && [ -n "$found" ] && last=$found
        sleep 1
    done
    wait $job || return 1
    if [ -z "$last" ]; then echo "the agent found no iterations in the calls" >&2 && return 1; fi
    echo "$last"
}

calls() {
    echo "== by the plugin"
    beside_agents watched NCCL_PROFILER_PLUGIN="$PROGRAMS/libnccl_profiler_antiphase.so"
    echo "== by the library for NCCL before 2.23"
    beside_agents watched LD_PRELOAD="$PROGRAMS/libnccl_calls_antiphase.so"
}

lab() { "$PROGRAMS/antiphase-lab" run "$@" --trainer nccl --control service --hold turns --programs "$PROGRAMS" --repeats "${REPEATS:-1}" --iterations 12 --contended-iterations 30; }

turns() {
    echo "== ends told by the stream"
    lab "${CASE:-two-equal}"
    echo "== the host waits, and the plugin for NCCL tells the ends"
    ANTIPHASE_GATE_STREAM=off NCCL_PROFILER_PLUGIN=$PROGRAMS/libnccl_profiler_antiphase.so lab "${CASE:-two-equal}"
    echo "== no link in common: what sharing the GPU alone does"
    lab tests/gpu/apart.yaml
}

calls_held() {
    # The gate learns for some forty iterations from calls where an iteration begins.
    local result
    result=$(ANTIPHASE_NCCL_GATE=on NCCL_PROFILER_PLUGIN=$PROGRAMS/libnccl_profiler_antiphase.so lab "${CASE:-two-equal}" --warm-up 50)
    echo "$result"
    # Each job's row: its name, and its iterations alone, as they come, and held.
    awk '$1 == "job" { rows = 1; next } rows && NF < 8 { rows = 0 } rows && $4 > 1.05 * $2 { print "calls-held: " $1 " is not held: " $4 " ms"; failed = 1 } END { exit failed }' <<<"$result"
}

for part in $parts; do
    case $part in
        streams | waits | costs | graphs | calls | turns) echo "= $part" && "$part" ;;
        calls-held) echo "= $part" && calls_held ;;
        *) echo "test-gpu: no part $part" >&2 && exit 2 ;;
    esac
done
