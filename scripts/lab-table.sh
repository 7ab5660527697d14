#!/usr/bin/env bash
# Plays every case of the lab on the kernel (root; the service and agents hold the jobs) and in virtual time, and prints tables: each
# job alone, as they come, by the CASSINI paper's control, over MLTCP, held to slots and held by turns, as times over solo, overlap
# and ECN marks; and formula, virtual time and kernel side by side. It says PASS, or names each miss: scripts/lab_table.py holds the limits.
#
# REPEATS (5), ITERATIONS (12) and CONTENDED (60) say how much: jobs that fall out of step and come back need many iterations to
# show their mean. BESIDE (drift,mltcp,slots) names the baselines. CASES names cases; TRAINER=ddp trains with real PyTorch (cases of one phase). PROGRAMS is a folder with the
# programs; without it they are built. Documents go to out/. ONLY_TABLE=1 plays nothing and prints the documents that are there.
# WRONG=1 plays wrong profiles in place of the cases: periods declared 30 % short and long, Up phases half and double, each for
# WRONG_ITERATIONS (200).
# Ranks, service and agents have real-time priority where the machine gives it, so that other programs hardly count; what these do to
# caches and to the kernel's own threads remains.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=${PROGRAMS:-${CARGO_TARGET_DIR:-$PWD/target}/debug}
[[ -n ${PROGRAMS:-}${ONLY_TABLE:-} ]] || cargo build --workspace
antiphase=$programs/antiphase
trainer=${TRAINER:-native}
all="two-equal one-to-two three-on-two-links three-in-a-loop chain-of-four five-on-a-link near-equal more-jitter two-phases three-phases low-score slow-nics"
if [[ $trainer == ddp ]]; then
    all=${all/two-phases three-phases /}
fi
# PyTorch's sockets are its own, so it plays neither the paper's control nor MLTCP.
beside=${BESIDE:-drift,mltcp,slots}
[[ $trainer != ddp ]] || beside=slots
iterations=${ITERATIONS:-12}
contended=${CONTENDED:-60}
mkdir -p out
if [[ -n ${WRONG:-} ]]; then
    all=
    iterations=${WRONG_ITERATIONS:-200}
    contended=$iterations
    for wrong in period-70 period-130 up-50 up-200; do
        sed -e "s/^name: two-equal/name: wrong-$wrong/" -e "s/^about: .*/about: two equal jobs whose profiles are wrong/" \
            -e "s/\({id: [ab],\)/\1 declared: {${wrong%-*}_percent: ${wrong#*-}},/" \
            examples/lab/two-equal.yaml >"out/wrong-$wrong.yaml"
        all+=" wrong-$wrong"
    done
fi
cases=${CASES:-$all}
priority=(nice -n -10)
if chrt --rr 20 true 2>/dev/null; then priority=(chrt --rr 20); fi
for case in $cases; do
    [[ -z ${ONLY_TABLE:-} ]] || break
    file=$case
    [[ $case != wrong-* ]] || file=out/$case.yaml
    "$antiphase" lab run "$file" --virtual --with "$beside" --repeats 9 --iterations 60 -q -o json >"out/$case-virtual.json"
    "${priority[@]}" "$antiphase" lab run "$file" --with "$beside" --repeats "${REPEATS:-5}" --iterations "$iterations" \
        --contended-iterations "$contended" --trainer "$trainer" --control service --programs "$programs" -q -o json >"out/$case-$trainer.json"
done
# shellcheck disable=SC2086
exec python3 scripts/lab_table.py out "$trainer" $cases
