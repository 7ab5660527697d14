// The page in a few sentences: whether anything is in force, which link is worst and whose it is, what the plan does for scores and iterations.

import { byId, chips, coloured, count, html, linkTo, number, render } from "./dom.js";
import { measured } from "./tables.js";
import { SAME, TOLD, force, seen, shared, shifted } from "./state.js";
import { brings, waiting } from "./turns.js";

const here = () => (location.origin === "http://127.0.0.1:7480" ? "" : ` --server ${location.origin}`);

// What to do next where there is nothing to show; null where there is.
function next() {
  if (seen.fabric === null) return ["No fabric is set. Load one: ", html("code", {}, `antiphase fabric set${here()} FILE`)];
  if (!seen.jobs.length) return ["No jobs are committed: whatever runs, runs as it comes. They appear here once somebody commits them: ", html("code", {}, `antiphase commit${here()} --jobs FILE`)];
  return null;
}

// Why nothing is in force though jobs are committed; null where something is.
function nothing() {
  const { connected, held, turning } = force();
  if (!seen.jobs.length || held || turning) return null;
  const jobs = count(seen.jobs.length, "job");
  if (seen.outlook) return { title: "Nothing is in force", why: `This service only observes. ${seen.outlook}` };
  if (seen.turns.length && seen.turns.every((group) => group.state === "let_go")) return { title: "Nothing is in force", why: `${seen.turns.length === 1 ? "The only group" : `All ${seen.turns.length} groups`} of jobs that could take turns ${seen.turns.length === 1 ? "was" : "were"} let go, because turns brought nothing: every job runs as it comes.` };
  if (!seen.agents.length) return { title: "Nothing is in force", why: [`${jobs} ${seen.jobs.length === 1 ? "is" : "are"} committed, but no agent is connected: every job runs as it comes, and what stands below is a plan. Start `, html("code", { class: "short" }, "antiphase-agent"), " on the hosts."] };
  if (!connected) return { title: "Nothing is in force", why: `All ${count(seen.agents.length, "agent")} are lost or quarantined: every job runs as it comes.` };
  if (seen.jobs.every((job) => job.state === "free")) return { title: "Nothing is in force", why: `${count(connected, "agent")} ${connected === 1 ? "is" : "are"} connected; every job runs free, because none gains by being held.` };
  return { title: "Nothing is in force", why: `${count(connected, "agent")} ${connected === 1 ? "is" : "are"} connected, but no gate has reported a job that is held: every job runs as it comes until one does.` };
}

// Of which jobs, measured where their gates report, and by how much of themselves iterations are shorter or longer.
const says = (part, than) => (Math.abs(part - 1) < 0.0005 ? `as long as ${than}` : `${Math.abs(100 * (1 - part)).toFixed(1)} % ${part < 1 ? "shorter" : "longer"} than ${than}`);

// What holding does for the iterations of jobs that share links: as their gates see it, or as predicted where none has reported.
function gain() {
  const sharing = seen.jobs.filter((j) => j.shared_links.length && j.predicted_contended_ns && !j.slot?.turns);
  const told = sharing.filter(measured);
  const part = (jobs, now) => jobs.reduce((sum, j) => sum + now(j) / j.predicted_contended_ns, 0) / jobs.length;
  // A median says nothing of those that wait for long: where it is all that there is, that is said.
  const medians = told.filter((j) => !j.iteration_mean_ns).length;
  const which = medians ? ` Of ${medians === told.length ? "all" : number(medians)} of them that is the median, because their agents tell no mean.` : "";
  if (told.length) return `Measured: iterations of ${count(told.length, "job")} are on average ${says(part(told, measured), "predicted with nobody held")}.${which}`;
  const planned = (j) => j.predicted_interleaved_ns ?? j.predicted_contended_ns;
  // Where nobody is held it says nothing that iterations are as they are with nobody held.
  if (sharing.length && nothing() && Math.abs(part(sharing, planned) - 1) < 0.0005) return "No gate has reported yet.";
  if (sharing.length) return `Predicted: iterations of ${count(sharing.length, "job")} are on average ${says(part(sharing, planned), "with nobody held")}. No gate has reported yet.`;
  return "";
}

// What turns do for those that take them.
function turning() {
  const groups = seen.turns.filter((g) => g.state === "held" || g.state === "tried_free");
  const jobs = groups.flatMap((g) => g.jobs).map((job) => ({ ...job, brings: brings(job) })).filter((job) => job.brings);
  const gone = seen.turns.filter((g) => g.state === "let_go").length;
  const freed = gone ? `${count(gone, "group")} ${gone === 1 ? "was" : "were"} let go, because turns brought nothing.` : "";
  if (!jobs.length) return freed;
  const measured = jobs.filter((job) => job.brings.measured);
  const among = measured.length ? measured : jobs;
  const mean = (of) => among.reduce((sum, job) => sum + of(job), 0) / among.length;
  const waits = mean((job) => waiting(job.held));
  const part = says(1 + mean((job) => job.brings.part), "free");
  return measured.length
    ? `Measured: by turns, iterations of ${count(among.length, "job")} are on average ${part}, and ${(100 * waits).toFixed(1)} % of their time is waiting. ${freed}`
    : `Predicted: by turns, iterations of ${count(among.length, "job")} are on average ${part}; what they take free is not measured yet. ${freed}`;
}

// Hosts that lead jobs and have no agent, and agents under a wrong name, as the service says it: nothing else on the page would.
const WARNINGS_SHOWN = 3;
function unattended() {
  // That nobody is connected stands above.
  if (!force().connected) return [];
  // What the service leaves out it counts in a sentence of its own.
  const left = seen.warnings.slice(WARNINGS_SHOWN).map((line) => Number(/^and the same of (\d+) more/.exec(line)?.[1] ?? 0));
  const named = left.filter((more) => !more).length;
  const more = left.reduce((sum, more) => sum + (more || 1), 0);
  const lines = seen.warnings.slice(0, WARNINGS_SHOWN).map((line) => html("p", {}, html("span", { class: "bad" }, `${line[0].toUpperCase()}${line.slice(1)}.`)));
  return more > 0 ? [...lines, html("p", {}, `And ${number(more)} more; `, html("code", {}, `antiphase jobs${here()}`), ` ${named === more ? "has all" : `has ${number(named)} of them`}.`)] : lines;
}

export function drawVitals() {
  const state = (list, name) => list.filter((x) => x.state === name).length;
  const lost = state(seen.agents, "lost"), quarantined = state(seen.agents, "quarantined");
  const misnamed = seen.agents.filter((agent) => agent.trouble).length;
  const bad = [
    misnamed && count(misnamed, "agent under a wrong name", "agents under a wrong name"), seen.cabling?.total && count(seen.cabling.total, "cabling difference"), lost && count(lost, "agent lost", "agents lost"), quarantined && `${quarantined} quarantined`,
    state(seen.jobs, "drifting") && `${state(seen.jobs, "drifting")} drifting`, state(seen.jobs, "open") && `${state(seen.jobs, "open")} failing open`,
  ].filter(Boolean);
  const fabric = seen.fabric ? `${count(seen.fabric.hosts, "host")}, ${count(seen.fabric.links, "link")}` : "no fabric";
  const text = [html("b", {}, `plan version ${seen.plan_version}`), ` · ${fabric} · ${count(seen.jobs.length, "job")} (${state(seen.jobs, "held")} held) · ${count(seen.agents.length, "agent")}`];
  if (bad.length) text.push(" · ", html("span", { class: "bad" }, bad.join(", ")));
  render(byId("vitals"), JSON.stringify([seen.plan_version, fabric, seen.jobs.length, state(seen.jobs, "held"), seen.agents.length, bad]), () => text);
}

// Which link is worst and whose it is, what the plan does to scores, and to iterations.
export function drawVerdict() {
  const all = shared();
  const by_shifts = shifted(all);
  const clear = by_shifts.filter((l) => l.score >= 1 - SAME).length;
  const raised = by_shifts.filter((l) => l.score - l.zero_shift_score >= TOLD).length;
  const bad = all.filter((l) => !l.by_turns && l.score < 1 - SAME);
  // The service lists the worst first; where every link is clear, that is the one that would be worst with nobody held.
  const worst = all[0];
  const none = nothing();
  const key = JSON.stringify([worst && [worst.id, worst.score, worst.zero_shift_score, worst.jobs], bad.length, all.length, by_shifts.length, raised, clear, seen.fabric === null, seen.jobs.length, gain(), turning(), seen.outlook, seen.warnings, seen.agents.length, force()]);
  byId("verdict").classList.toggle("nothing", Boolean(none));
  render(byId("verdict"), key, () => {
    const missing = next();
    if (missing) return [html("p", { class: "first" }, missing), ...unattended()];
    const headline = none ? [html("p", { class: "first" }, html("b", {}, `${none.title}.`), " ", none.why)] : [];
    const first = none ? undefined : "first";
    if (!worst) return [...headline, html("p", { class: first }, "No link is shared by two jobs: there is nothing to keep apart.")];
    const name = linkTo(worst.id, false);
    const who = ["shared by ", chips(worst.jobs)];
    const turns = all.some((l) => l.by_turns);
    // What holds only on paper is said so.
    const fine = none
      ? [turns ? "Planned: jobs that meet take turns. Free, the worst link is " : "Planned: nobody waits for a link. Unshifted, the worst is "]
      : [turns ? "Jobs that meet take turns. Free, the worst link would be " : "Nobody waits for a link. Unshifted, the worst would be "];
    const raises = `raise the score of ${raised ? number(raised) : "none"} of ${count(by_shifts.length, "shared link")}`;
    const free = clear === by_shifts.length ? "" : `; on ${number(clear)} nobody ${none ? "would wait" : "waits"}`;
    const scores = `${none ? "If somebody kept to them, the shifts would" : "The shifts"} ${raises}${free}. `;
    return [
      ...headline,
      !bad.length
        ? html("p", { class: first }, fine, name, " with a score of ", coloured(worst.zero_shift_score), ", ", who)
        : html("p", { class: first }, none ? "Planned: the worst link is " : "Worst link: ", name, " with a score of ", coloured(worst.score), " (unshifted ", coloured(worst.zero_shift_score), "), ", who),
      html("p", {}, [by_shifts.length ? scores : "", gain(), turning()].filter(Boolean).join(" ")),
      ...unattended(),
    ];
  });
}
