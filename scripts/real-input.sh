#!/usr/bin/env bash
# Plans a cluster's worth of synthesised jobs on a real fabric, or on a generated one of the same shape, and prints tables.
#
#   scripts/real-input.sh TOPO_CSV [SEED] [ROUNDS]      topo.csv of the Lingjun data set (alibaba-lingjun-dataset-2023)
#   scripts/real-input.sh --generated [SEED] [ROUNDS]   three tiers, 840 hosts: needs no data
#
# Seeds are SEED, SEED+1, ... one per round; each draws jobs, placements, candidates and ECMP hashes.
# JOBS and CANDIDATES change their numbers (200 and 10). ANTIPHASE_PROGRAM names a program to use instead of building one, and
# ANTIPHASE_PLAN_SUMMARY the example plan_summary.
# docs/real-input.md has the tables and says what is assumed and what follows.
set -euo pipefail

usage() { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; }
if (($# < 1 || $# > 3)); then
    usage
    exit 2
fi
source=$1
seed=${2:-1}
rounds=${3:-5}
for number in "$seed" "$rounds" "${JOBS:=200}" "${CANDIDATES:=10}"; do
    if ! [[ $number =~ ^[1-9][0-9]{0,5}$ ]]; then
        echo "real-input: \"$number\" is not a number from 1 to 999999" >&2
        exit 2
    fi
done
if [[ $source != --generated ]]; then
    if [[ ! -f $source ]]; then
        echo "real-input: $source: no such file" >&2
        exit 2
    fi
    source=$(realpath "$source")
fi
cd "$(dirname "$0")/.."

if [[ -n ${ANTIPHASE_PROGRAM:-} ]]; then
    antiphase=$ANTIPHASE_PROGRAM
else
    cargo build --quiet --release --package antiphase
    antiphase=${CARGO_TARGET_DIR:-target}/release/antiphase
fi
if [[ -n ${ANTIPHASE_PLAN_SUMMARY:-} ]]; then
    summary=("$ANTIPHASE_PLAN_SUMMARY")
else
    summary=(cargo run --quiet --package antiphase-tests --example plan_summary --)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Data-parallel models of the CASSINI paper, on hosts of eight GPUs; not DLRM, whose profile contradicts it (docs/paper.md).
mixed=bert,roberta,camembert,xlm,vgg16,vgg19,wideresnet101,resnet50

# A host has one NIC of 400 Gb/s (two bonded ports of 200). A leaf of up to eight hosts has CABLES uplinks of 400 Gb/s, and so
# is oversubscribed 8:CABLES. Above, 64 cables join each spine group to the core.
fabric() { # CABLES FILE
    if [[ $source == --generated ]]; then
        "$antiphase" fabric generate clos3 --pods 3 --leaves-per-pod 40 --hosts-per-leaf 7 --spines-per-pod "$1" \
            --cores-per-spine 8 >"$2" 2>/dev/null
    else
        # Rows by switch, so that a leaf's neighbours in the fabric are those below the same spine group.
        { head -n 1 "$source" && tail -n +2 "$source" | LC_ALL=C sort -t , -k 3,3 -k 4,4 -k 1,1; } >"$work/topo.csv"
        "$antiphase" fabric import lingjun "$work/topo.csv" \
            --assume-capacity "host-leaf=400G,leaf-spine=400G*$1,spine-core=400G*64" --out "$2" 2>/dev/null
    fi
}

# setting NAME LABEL CABLES MODELS BATCHES [spread]: one folder per round with the plans of three kinds.
names=()
declare -A labels
setting() {
    names+=("$1")
    labels[$1]=$2
    fabric "$3" "$work/fabric.yaml"
    for ((i = seed; i < seed + rounds; i++)); do
        local folder=$work/$1-$i
        mkdir "$folder"
        "$antiphase" jobs synth --fabric "$work/fabric.yaml" --count "$JOBS" --candidates "$CANDIDATES" --gpus-per-host 8 \
            --models "$4" --batches "$5" --seed "$i" --jobs-out "$folder/jobs.yaml" --candidates-out "$folder/candidates.yaml" 2>/dev/null
        local plan=("$antiphase" plan --fabric "$work/fabric.yaml" --jobs "$folder/jobs.yaml"
            --candidates "$folder/candidates.yaml" --ecmp "${6:-hashed:$i}" --output json)
        "${plan[@]}" --control slots >"$folder/exact.json"
        "${plan[@]}" --control slots --objective time >"$folder/time.json"
        "${plan[@]}" --control turns --objective time >"$folder/turns.json"
        # 3: every candidate has a loop.
        "${plan[@]}" --control slots --mode cassini >"$folder/cassini.json" || [[ $? == 3 ]]
    done
}

setting mixed-1to1 "mixed, 1:1" 8 "$mixed" 1
setting mixed-2to1 "mixed, 2:1" 4 "$mixed" 1
setting mixed-4to1 "mixed, 4:1" 2 "$mixed" 1
setting spread-4to1 "mixed, 4:1, spread" 2 "$mixed" 1 spread
setting batches-2to1 "mixed batches, 2:1" 4 "$mixed" 8
setting bert-2to1 "bert only, 2:1" 4 bert 1
setting xlm-2to1 "bert and xlm, 2:1" 4 bert,xlm 1

table() { # NUMBER TITLE
    echo "$2"
    echo
    "${summary[@]}" --headings "$1"
    for name in "${names[@]}"; do
        folders=()
        for ((i = seed; i < seed + rounds; i++)); do folders+=("$work/$name-$i"); done
        "${summary[@]}" "$1" "${labels[$name]}" "${folders[@]}"
    done
    echo
}

kind=$([[ $source == --generated ]] && echo "generated fabric" || basename "$source")
echo "$kind; $JOBS jobs, $CANDIDATES candidates a round, seeds $seed to $((seed + rounds - 1)); means over the rounds"
echo
table 1 "links and loops, per candidate"
table 2 "scores"
table 3 "predicted iteration time over the period, mean over the GPUs"
table 4 "predicted iteration time over the period, by turns beside slots"
