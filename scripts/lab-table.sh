#!/usr/bin/env bash
# Plays every case of the lab on the kernel (root; the service and agents hold the jobs) and in virtual time, and prints one
# table: formula, virtual time and kernel side by side. It says PASS when all three agree within 5 % on every iteration time,
# and ECN marks of virtual time and kernel within a factor of 2 where jobs contend; else which job misses, and fails.
#
# REPEATS (5), ITERATIONS (12) and CONTENDED (60) say how much: jobs that fall out of step and come back need many iterations to
# show their mean. CASES names cases; TRAINER=ddp trains with real PyTorch. PROGRAMS is a folder with the programs; without it they are built. Documents go to out/.
# ONLY_TABLE=1 plays nothing and prints the documents that are there.
# Let nothing else run meanwhile: two cores carry every rank.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=${PROGRAMS:-${CARGO_TARGET_DIR:-$PWD/target}/debug}
[[ -n ${PROGRAMS:-}${ONLY_TABLE:-} ]] || cargo build --workspace
antiphase=$programs/antiphase
trainer=${TRAINER:-native}
cases=${CASES:-two-equal one-to-two three-on-two-links three-in-a-loop low-score}
mkdir -p out
for case in $cases; do
    [[ -z ${ONLY_TABLE:-} ]] || break
    "$antiphase" lab run "$case" --virtual --repeats 9 --iterations 60 -q -o json >"out/$case-virtual.json"
    nice -n -10 "$antiphase" lab run "$case" --repeats "${REPEATS:-5}" --iterations "${ITERATIONS:-12}" \
        --contended-iterations "${CONTENDED:-60}" --trainer "$trainer" --control service --programs "$programs" -q -o json >"out/$case-$trainer.json"
done
# shellcheck disable=SC2086
python3 - "$trainer" $cases <<'PYTHON'
import json, sys
WITHIN, FACTOR = 0.05, 2.0
misses = []
trainer, *cases = sys.argv[1:]
for case in cases:
    kernel, virtual = (json.load(open(f"out/{case}-{place}.json")) for place in (trainer, "virtual"))
    load = kernel["load"]
    print(f"\n### {case}\n\nScore {kernel['score']:.3f}, {kernel['repeats']} repeats, load {load[0]:.1f} to {load[1]:.1f}{', PyTorch ' + kernel['torch'] if kernel['torch'] else ''}; medians (least to most).\n")
    print("| job | run | formula ms | virtual ms | kernel ms | kernel / formula | kernel / virtual | virtual / formula |\n|---|---|---|---|---|---|---|---|")
    text = lambda s: f"{s['median']:.1f} ({s['least']:.1f} to {s['most']:.1f})"
    for seen, simulated in zip(kernel["jobs"], virtual["jobs"]):
        for run in ("solo", "contended", "interleaved"):
            formula, sim, time = seen["formula_ms"][run], simulated["mean_ms"][run], seen["mean_ms"][run]
            ratios = [time["median"] / formula["median"], time["median"] / sim["median"], sim["median"] / formula["median"]]
            if any(abs(ratio - 1) > WITHIN for ratio in ratios):
                names = ("kernel / formula", "kernel / virtual", "virtual / formula")
                misses.append(f"{case}: job {seen['id']} {run}: " + ", ".join(f"{name} {ratio:.3f}" for name, ratio in zip(names, ratios)))
            print(f"| {seen['id']} | {run} | {text(formula)} | {text(sim)} | {text(time)} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |")
    print("\n| link | ECN marks per iteration, solo | contended: virtual | kernel | held: virtual | kernel | overlap contended: virtual | kernel | held: kernel |\n|---|---|---|---|---|---|---|---|---|")
    simulated = {link["link"]: link for link in virtual["links"]}
    met = {}
    for link in kernel["links"]:
        if not link["shared"] or link["link"] not in simulated:
            continue
        sim, marks, sim_marks = simulated[link["link"]], link["marks_per_iteration"], simulated[link["link"]]["marks_per_iteration"]
        # Traffic that one link has shaped makes no queue on the next, which the model does not know: of the links of the same
        # jobs, those with most marks are compared.
        pair = met.setdefault(tuple(link["jobs"]), [0.0, 0.0])
        pair[:] = max(pair[0], sim_marks["contended"]["median"]), max(pair[1], marks["contended"]["median"])
        print(f"| {link['link']} | {marks['solo']['median']:.2f} | {sim_marks['contended']['median']:.2f} | {marks['contended']['median']:.2f} "
              f"| {sim_marks['interleaved']['median']:.2f} | {marks['interleaved']['median']:.2f} "
              f"| {sim['overlap_contended']['median']:.2f} | {link['overlap_contended']['median']:.2f} | {link['overlap_interleaved']['median']:.2f} |")
    for jobs, (sim_marks, marks) in met.items():
        if not 1 / FACTOR <= sim_marks / max(marks, 1e-9) <= FACTOR:
            misses.append(f"{case}: marks of {' '.join(jobs)} contended: virtual {sim_marks:.2f}, kernel {marks:.2f}")
    print("\nslips / starts:", ", ".join(f"{j['id']} {j['gates']['slips']}/{j['gates']['iterations']}" for j in kernel["jobs"]))
print()
for miss in misses:
    print(f"MISS {miss}")
if not misses:
    print(f"PASS: formula, virtual time and kernel agree within {WITHIN:.0%} on every iteration time, and marks within a factor of {FACTOR:.0f}")
sys.exit(bool(misses))
PYTHON
