#!/usr/bin/env bash
# Plays every case of the lab on the kernel (root; the service and agents hold the jobs) and in virtual time, and prints one
# table: formula, virtual time and kernel side by side. REPEATS (5) and ITERATIONS (10) say how much, CASES which, and
# TRAINER=ddp trains with real PyTorch; documents go to out/.
# Let nothing else run meanwhile: two cores carry every rank.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --workspace
programs=${CARGO_TARGET_DIR:-$PWD/target}/debug
trainer=${TRAINER:-native}
mkdir -p out
for case in ${CASES:-two-equal one-to-two three-on-two-links three-in-a-loop low-score}; do
    "$programs/antiphase" lab run "$case" --virtual --repeats 5 --iterations 60 -o json >"out/$case-virtual.json"
    "$programs/antiphase" lab run "$case" --repeats "${REPEATS:-5}" --iterations "${ITERATIONS:-10}" \
        --trainer "$trainer" --control service --programs "$programs" -o json >"out/$case-$trainer.json"
    python3 - "$case" "$trainer" <<'PYTHON'
import json, sys
case, trainer = sys.argv[1:]
kernel, virtual = (json.load(open(f"out/{case}-{place}.json")) for place in (trainer, "virtual"))
print(f"\n{case}: score {kernel['score']:.3f}, {kernel['repeats']} repeats, load {kernel['load'][0]:.1f} to {kernel['load'][1]:.1f}{', PyTorch ' + kernel['torch'] if kernel['torch'] else ''}\n")
print("| job | run | formula ms | virtual ms | kernel ms (least to most) | kernel / formula | kernel / solo |\n|---|---|---|---|---|---|---|")
for seen, simulated in zip(kernel["jobs"], virtual["jobs"]):
    solo = seen["mean_ms"]["solo"]["median"]
    for run in ("solo", "contended", "interleaved"):
        time = seen["mean_ms"][run]
        formula = seen["predicted"][f"{run}_ms"]
        print(f"| {seen['id']} | {run} | {formula:.1f} | {simulated['mean_ms'][run]['median']:.1f} | {time['median']:.1f} "
              f"({time['least']:.1f} to {time['most']:.1f}) | {time['median'] / formula:.3f} | {time['median'] / solo:.3f} |")
print("\n| link | ECN marks per iteration, solo | contended | interleaved | overlap contended | interleaved |\n|---|---|---|---|---|---|")
for link in kernel["links"]:
    if link["shared"]:
        marks = link["marks_per_iteration"]
        print(f"| {link['link']} | {marks['solo']['median']:.2f} | {marks['contended']['median']:.2f} | {marks['interleaved']['median']:.2f} "
              f"| {link['overlap_contended']['median']:.2f} | {link['overlap_interleaved']['median']:.2f} |")
print("\nslips / starts:", ", ".join(f"{j['id']} {j['gates']['slips']}/{j['gates']['iterations']}" for j in kernel["jobs"]))
PYTHON
done
