"""Tables of the lab's results: python3 scripts/lab_table.py FOLDER TRAINER CASE...

Reads FOLDER/CASE-TRAINER.json (a kernel) and FOLDER/CASE-virtual.json of each case, prints tables in Markdown, and at the end PASS or
a line that begins with MISS for each limit that was missed, with exit code 1. scripts/lab-table.sh makes the documents.
"""

import json
import os
import sys

# Formula, virtual time and kernel: iteration times, and marks of jobs that contend.
AGREE_WITHIN, MARKS_FACTOR = 0.05, 2.0
# By turns, over solo, where the score is 1: the same where jitter is 5 %, or a link is used for more than LOAD_HIGH of the time.
TURNS_MAX, TURNS_HARD_MAX, LOAD_HIGH = 1.01, 1.02, 0.95
HARD = {"more-jitter"}
# Cases of periods that no shift keeps apart, but turns lock: the slowest job sets the pace of all.
LOCKING = {"near-equal"}
# Share of communication during which another job of the link communicates too.
OVERLAP_MAX = 0.02
# Held over as they come, where jobs do not fit beside each other, or their profiles are wrong.
NO_HARM_MAX = 1.01
SCORE_1 = 0.995


def runs(report):
    """The runs of a document: the name in the table, and the key. `held` is the column of what held the jobs."""
    slots = "held" if report["held_by"] == "slots" else "slots"
    turns = "held" if report["held_by"] == "turns" else None
    return [("as they come", "contended"), ("paper", "drift"), ("mltcp", "mltcp"), ("slots", slots), ("turns", turns)]


def of(quantity, key):
    return quantity.get(key) if key else None


def spread(value, digits):
    if value is None:
        return "-"
    return f"{value['median']:.{digits}f} ({value['least']:.{digits}f} to {value['most']:.{digits}f})"


def is_wrong(case):
    return case.startswith("wrong-")


def head(case, kernel):
    load = kernel["load"]
    torch = f", PyTorch {kernel['torch']}" if kernel["torch"] else ""
    print(f"\n### {case}\n\nScore {kernel['score']:.3f}, {kernel['repeats']} repeats, load {load[0]:.1f} to {load[1]:.1f}{torch}; medians (least to most).")


def four_columns(case, kernel):
    """Each job and each shared link in all runs."""
    names = [name for name, _ in runs(kernel)]
    print("\n| job | alone ms | " + " | ".join(f"{name} / solo" for name in names) + " | slips or waits / starts |\n|" + "---|" * (len(names) + 3))
    for job in kernel["jobs"]:
        solo = job["mean_ms"]["solo"]["median"]
        cells = [of(job["mean_ms"], key) for _, key in runs(kernel)]
        cells = ["-" if cell is None else f"{cell['median'] / solo:.3f} ({cell['least'] / solo:.3f} to {cell['most'] / solo:.3f})" for cell in cells]
        gates = [f"{name} {g['slips' if name == 'slots' else 'holds']}/{g['iterations']}" for name, g in gates_of(kernel, job)]
        print(f"| {job['id']} | {spread(job['mean_ms']['solo'], 1)} | " + " | ".join(cells) + f" | {', '.join(gates)} |")
    print("\n| link | marks alone | " + " | ".join(names) + " | overlap " + " | ".join(names) + " |\n|" + "---|" * (2 * len(names) + 2))
    for link in kernel["links"]:
        if link["shared"]:
            marks = [link["marks_per_iteration"]["solo"]] + [of(link["marks_per_iteration"], key) for _, key in runs(kernel)]
            overlap = [link.get(f"overlap_{key}") or link["overlap_beside"].get(key) for _, key in runs(kernel)]
            cells = ["-" if cell is None else f"{cell['median']:.2f}" for cell in marks + overlap]
            print(f"| {link['link']} | " + " | ".join(cells) + " |")


def gates_of(kernel, job):
    return [(kernel["held_by"], job["gates"])] + ([("slots", job["gates_slots"])] if job.get("gates_slots") else [])


def turns_missed(case, kernel):
    """What turns have to reach, and did not."""
    if kernel["held_by"] != "turns":
        return
    jobs, most = {job["id"]: job for job in kernel["jobs"]}, max(job["mean_ms"]["solo"]["median"] for job in kernel["jobs"])
    apart = kernel["score"] > SCORE_1 and not is_wrong(case)
    for job in kernel["jobs"]:
        times = {key: value["median"] for key, value in job["mean_ms"].items()}
        used = max((sum(jobs[j]["up_ms"] / jobs[j]["mean_ms"]["solo"]["median"] for j in link["jobs"]) for link in kernel["links"] if job["id"] in link["jobs"] and link.get("demand_mbps")), default=0)
        limit = TURNS_HARD_MAX if case in HARD or used > LOAD_HIGH else TURNS_MAX
        if case in LOCKING and times["held"] > TURNS_MAX * most:
            yield f"{case}: job {job['id']} by turns takes {times['held'] / most:.3f} of the slowest job's solo, over {TURNS_MAX}"
        elif apart and times["held"] > limit * times["solo"]:
            yield f"{case}: job {job['id']} by turns takes {times['held'] / times['solo']:.3f} x solo, over {limit}"
        elif not apart and case not in LOCKING and times["held"] > NO_HARM_MAX * times["contended"]:
            yield f"{case}: job {job['id']} by turns takes {times['held'] / times['contended']:.3f} of its time as they come, over {NO_HARM_MAX}"
    for link in kernel["links"]:
        # Where the demands of a link's jobs fit together, they may overlap.
        if not link["shared"] or not link.get("demand_mbps") or not (apart or case in LOCKING):
            continue
        if link["overlap_held"]["median"] >= OVERLAP_MAX:
            yield f"{case}: overlap on {link['link']} by turns is {link['overlap_held']['median']:.3f}, not below {OVERLAP_MAX}"
        marks = link["marks_per_iteration"]
        # Both are counts of few packets, so a repeat of slots with as many is no difference.
        if marks.get("slots") and marks["held"]["median"] > marks["slots"]["most"]:
            yield (
                f"{case}: marks on {link['link']} by turns are {marks['held']['median']:.2f},"
                f" above the {spread(marks['slots'], 2)} of slots (alone {spread(marks['solo'], 2)})"
            )


def agreement(case, kernel, virtual):
    """Formula, virtual time and kernel side by side; yields what is too far apart."""
    print("\n| job | run | formula ms | virtual ms | kernel ms | kernel / formula | kernel / virtual | virtual / formula |\n|---|---|---|---|---|---|---|---|")
    keys = {"contended": "contended"} | {name: key for name, key in runs(kernel)[1:] if key}
    simulated_keys = dict(runs(virtual)[1:]) | {"contended": "contended"}
    for seen, simulated in zip(kernel["jobs"], virtual["jobs"]):
        for run in ("solo", *keys):
            key, there = ("solo", "solo") if run == "solo" else (keys[run], simulated_keys[run])
            formula, time, sim = of(seen["formula_ms"], key), of(seen["mean_ms"], key), of(simulated["mean_ms"], there)
            if time is None:
                continue
            pairs = [("kernel / formula", time, formula), ("kernel / virtual", time, sim), ("virtual / formula", sim, formula)]
            ratios = [(name, a["median"] / b["median"]) if a and b else (name, None) for name, a, b in pairs]
            # The formula does not know that a profile is wrong.
            guesses = run != "solo" and run != "contended" and is_wrong(case)
            far = [f"{name} {ratio:.3f}" for name, ratio in ratios if ratio and abs(ratio - 1) > AGREE_WITHIN and not (guesses and "formula" in name)]
            # How fast MLTCP slides jobs apart depends on a window's growth, which a fluid model has not.
            if far and run != "mltcp":
                yield f"{case}: job {seen['id']} {run}: " + ", ".join(far)
            cells = ["-" if ratio is None else f"{ratio:.3f}" for _, ratio in ratios]
            print(f"| {seen['id']} | {run} | {spread(formula, 1)} | {spread(sim, 1)} | {spread(time, 1)} | " + " | ".join(cells) + " |")
    yield from marks_apart(case, kernel, virtual)


def marks_apart(case, kernel, virtual):
    simulated, met = {link["link"]: link for link in virtual["links"]}, {}
    for link in kernel["links"]:
        if link["shared"] and link["link"] in simulated:
            # Traffic that one link has shaped makes no queue on the next, which the model does not know: of the links of the same
            # jobs, those with most marks are compared.
            pair = met.setdefault(tuple(link["jobs"]), [0.0, 0.0])
            both = [document["marks_per_iteration"]["contended"]["median"] for document in (simulated[link["link"]], link)]
            pair[:] = max(pair[0], both[0]), max(pair[1], both[1])
    for jobs, (sim, marks) in met.items():
        if not 1 / MARKS_FACTOR <= sim / max(marks, 1e-9) <= MARKS_FACTOR:
            yield f"{case}: marks of {' '.join(jobs)} contended: virtual {sim:.2f}, kernel {marks:.2f}"


def read(folder, name):
    with open(os.path.join(folder, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def main():
    folder, trainer, *cases = sys.argv[1:]
    misses, held_by = [], set()
    for case in cases:
        kernel, virtual = read(folder, f"{case}-{trainer}"), read(folder, f"{case}-virtual")
        head(case, kernel)
        four_columns(case, kernel)
        misses += turns_missed(case, kernel)
        misses += agreement(case, kernel, virtual)
        held_by.add(kernel["held_by"])
    print()
    for miss in misses:
        print(f"MISS {miss}")
    if not misses:
        reached = "turns reach their limits; " if held_by == {"turns"} else "no turns were played, so nothing is said of them; "
        print(f"PASS: {reached}formula, virtual time and kernel agree within {AGREE_WITHIN:.0%} on every iteration time, and marks within a factor of {MARKS_FACTOR:.0f}")
    sys.exit(bool(misses))


if __name__ == "__main__":
    main()
