// What the columns of the page's tables are.

import { byName, chip, chips, coloured, count, duration, ends, html, jobColour, linkTo, scoreColour, rate, share, signed } from "./dom.js";
import { spark } from "./chart.js";

// The score as a bar, and a stroke where it would be if nobody were shifted.
function bar(after, before) {
  const width = (score) => `width: ${(100 * Math.min(1, Math.max(0, score))).toFixed(1)}%`;
  return html("span", { class: "bar" }, html("i", { style: `${width(after)}; background: ${scoreColour(after)}` }), html("i", { class: "before", style: width(before) }));
}

// Names beside each other give way to each other.
const row = (names) => html("span", { class: "names" }, names);

const score = (link) => {
  if (typeof link.score !== "number") return "–";
  return link.by_turns ? "by turns" : coloured(link.score);
};

// What a switch counted, with the difference from the plan in percent of the capacity.
export const more = (part) => `${part < 0 ? "−" : "+"}${Math.round(100 * Math.abs(part))} %`;
export const ago = (ms) => `${Math.floor(ms / 1_000)} s ago`;
function observed(of) {
  if (typeof of?.observed_ratio !== "number") return typeof of?.observed_mbps === "number" ? rate(of.observed_mbps) : "–";
  return [share(of.observed_ratio), " ", html("small", { title: `counted ${ago(of.observed_age_ms)}` }, more(of.observed_excess_ratio))];
}

export const LINKS = [
  { title: "Link", width: 15, narrow: 8.5, hint: "From one end to the other; the other direction is a link of its own", value: (l) => l.id, cell: (l) => linkTo(l.id) },
  { title: "Unshifted", width: 6.5, number: true, phone: false, hint: "The score if nobody were shifted", value: (l) => l.zero_shift_score, cell: (l) => (typeof l.score === "number" ? coloured(l.zero_shift_score ?? 1) : "–") },
  { title: "Score", width: 5.5, number: true, hint: "With the committed shifts; jobs that take turns need none, and those that were let go keep to none. 1: nobody waits; otherwise 1 less the mean demand over capacity, in capacities", value: (l) => (l.by_turns ? l.zero_shift_score : l.score), cell: score },
  { title: "", width: 7, phone: false, hint: "The score as a bar; the stroke is the score if nobody were shifted", cell: (l) => (typeof l.score === "number" && !l.by_turns ? bar(l.score, l.zero_shift_score ?? 1) : "") },
  { title: "Jobs", hint: "Who sends over it", value: (l) => l.jobs.length, falling: true, cell: (l) => row(chips(l.jobs)) },
  { title: "Planned", width: 6, number: true, phone: false, falling: true, hint: "What its jobs send on average as they are planned, of the capacity", value: (l) => l.mean_demand_ratio, cell: (l) => share(l.mean_demand_ratio) },
  { title: "Measured", width: 6.5, number: true, phone: false, falling: true, hint: "What its host sent or received in the last ten seconds, of the capacity; only agents that count bytes tell it", value: (l) => l.measured, cell: (l) => share(l.measured) },
  { title: "Observed", width: 8.5, number: true, phone: false, falling: true, hint: "What a switch counted on it (sFlow), of the capacity, and how much more that is than planned", value: (l) => l.observed?.observed_ratio, cell: (l) => observed(l.observed) },
  { title: "Peak", width: 5, number: true, phone: false, falling: true, hint: "The jobs' highest demands together, of the capacity", value: (l) => l.peak_demand_ratio, cell: (l) => share(l.peak_demand_ratio) },
  { title: "Capacity", width: 6, number: true, phone: false, falling: true, hint: "What the link carries", value: (l) => l.capacity_mbps, cell: (l) => rate(l.capacity_mbps) },
];
export const linkText = (link) => `${link.id} ${link.jobs.join(" ")}`;

// The learned period, where it is not the planned one, and the declared one, where the job is planned as it was measured.
const learned = (job) => [
  ...(job.period_mismatch_ns ? [" ", html("span", { class: "state-drifting", title: "The period that was learned; it is planned with the other one" }, `≠ ${duration(job.period_mismatch_ns)}`)] : []),
  ...(job.declared_period_ns ? [" ", html("span", { class: "state-drifting", title: "Declared; it is planned with the other one, which was measured" }, `(${duration(job.declared_period_ns)})`)] : []),
];

// An iteration as its gate sees it: a mean, as predictions are, or of an older agent, which tells none, a median.
export const measured = (job) => job.iteration_mean_ns ?? job.iteration_ns;
// An iteration as it is: by its gate, else as predicted.
export const iteration = (job) => measured(job) ?? job.predicted_interleaved_ns ?? job.predicted_contended_ns;
// What figure that is, where it is no mean of what was measured.
export const figure = (job) => (job.iteration_mean_ns ? "" : html("small", { class: "predicted" }, job.iteration_ns ? " median" : " predicted"));
// How much longer that is than alone; none of a job that nothing is known of.
export const slower = (job) => (iteration(job) && job.solo_period_ns ? iteration(job) / job.solo_period_ns - 1 : undefined);
// Less is chance.
const EVEN = 0.005;
// What is shown as 0.0 has no sign.
export const percent = (part) => { const tenths = Math.round(1_000 * part); return `${tenths > 0 ? "+" : tenths < 0 ? "−" : ""}${(Math.abs(tenths) / 10).toFixed(1)} %`; };

// Jobs in trouble first, then those that lose most; what the table shows as equal is in the order of names.
const shown = (part) => Math.round(1_000 * (part ?? -1));
const TROUBLE = { open: 0, drifting: 1 };
export const worstJobs = (jobs) => [...jobs].sort((a, b) => (TROUBLE[a.state] ?? 2) - (TROUBLE[b.state] ?? 2) || shown(slower(b)) - shown(slower(a)) || byName(a.id, b.id));

function loss(job) {
  const part = slower(job);
  if (part === undefined) return "–";
  const kind = part > EVEN ? "loss" : part < -EVEN ? "gain" : "even";
  return [html("span", { class: kind }, percent(part)), figure(job)];
}

const slot = (job, cell) => (job.slot?.turns ? "–" : cell(job.slot ?? {}));
export const JOBS = [
  { title: "Job", width: 11, narrow: 9, value: (j) => j.id, cell: (j) => chip(j.id) },
  { title: "State", width: 6.5, narrow: 5.5, hint: "committed: its gate has not reported; held: it takes turns, or its gate holds it to its slot; free: it runs as it comes; drifting: off its slot; open: its gate fails open", value: (j) => j.state, cell: (j) => html("span", { class: `state-${j.state}` }, j.state) },
  { title: "Slower by", width: 9, narrow: 8, number: true, falling: true, hint: "An iteration over one alone: the mean that its gate sees, else as predicted; of an older agent, which tells no mean, the median", value: slower, cell: loss },
  { title: "Now", width: 6, number: true, falling: true, hint: "An iteration as its gate sees it: the mean of its last ones, 64 at most, without pauses; of an older agent the median", value: measured, cell: (j) => duration(measured(j)) },
  { title: "", width: 6.5, phone: false, hint: "Iterations of the last minutes", cell: (j) => (j.past?.length > 1 ? spark(j.past, jobColour(j.id)) : "") },
  { title: "Alone", width: 8.5, number: true, falling: true, hint: "An iteration alone, from the profile; ≠ if another period was learned", value: (j) => j.solo_period_ns, cell: (j) => [duration(j.solo_period_ns), learned(j)] },
  { title: "Contended", width: 7, number: true, phone: false, falling: true, hint: "An iteration with nobody held, predicted", value: (j) => j.predicted_contended_ns, cell: (j) => duration(j.predicted_contended_ns) },
  { title: "Interleaved", width: 7.5, number: true, phone: false, falling: true, hint: "An iteration as they are held, by turns or by slots, predicted", value: (j) => j.predicted_interleaved_ns, cell: (j) => duration(j.predicted_interleaved_ns) },
  { title: "Shares", width: 5.5, number: true, falling: true, hint: "Links that it shares with others", value: (j) => j.shared_links.length, cell: (j) => (j.shared_links.length ? count(j.shared_links.length, "link") : "none") },
  { title: "Hosts", width: 4.5, number: true, falling: true, hint: "On how many hosts it stands", value: (j) => j.hosts.length, cell: (j) => `${j.hosts.length}` },
  { title: "Late by", width: 6, number: true, phone: false, falling: true, hint: "How far it starts from its slot", value: (j) => j.phase_error_ns, cell: (j) => slot(j, () => signed(j.phase_error_ns)) },
  { title: "Slack", width: 6, number: true, phone: false, hint: "How far it may drift before a score falls", value: (j) => (j.slot?.turns ? null : j.slot?.slack_ns), cell: (j) => slot(j, (s) => duration(s.slack_ns)) },
];
export const jobText = (job) => `${job.id} ${job.state} ${job.hosts.join(" ")}`;

const AGENT_ORDER = { lost: 1, quarantined: 2, connected: 3 };
// An agent under a wrong name is connected, and holds nobody.
const standing = (agent) => (agent.trouble ? 0 : AGENT_ORDER[agent.state] ?? 4);
export const worstAgents = (agents) => [...agents].sort((a, b) => standing(a) - standing(b) || byName(a.host, b.host));

export const AGENTS = [
  { title: "Host", width: 9, narrow: 8.5, value: (a) => a.host, cell: (a) => row(html("span", { class: "cut", title: a.host }, ends(a.host))) },
  { title: "State", width: 6.5, hint: "wrong name: what is wrong with it stands above; lost: no session; quarantined: its clock is too uncertain for the slack of a job that it leads", value: standing, cell: (a) => (a.trouble ? html("span", { class: "state-lost", title: a.trouble }, "wrong name") : html("span", { class: `state-${a.state}` }, a.state)) },
  { title: "Clock bound", width: 7.5, number: true, falling: true, hint: "Its clock is wrong by at most this", value: (a) => a.clock_bound_ns, cell: (a) => duration(a.clock_bound_ns) },
  { title: "Round trip", width: 7, number: true, falling: true, hint: "To the service, at best", value: (a) => a.clock_rtt_ns, cell: (a) => duration(a.clock_rtt_ns) },
  { title: "Plan", width: 4.25, number: true, hint: "The version of the plan that it follows", value: (a) => a.plan_version, cell: (a) => `${a.plan_version}` },
  { title: "Version", width: 5.5, phone: false, value: (a) => a.version, cell: (a) => a.version },
  { title: "Jobs", least: 7, hint: "With a rank on this host", value: (a) => a.jobs.length, falling: true, cell: (a) => row(chips(a.jobs, 1)) },
];
export const agentText = (agent) => `${agent.host} ${agent.trouble ? "wrong name" : agent.state} ${agent.jobs.join(" ")}`;

// A message may have more than its row shows.
const whole = (text) => html("span", { title: text }, text);
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
const day = (at) => html("time", { datetime: at.toISOString() }, DAY.format(at));
export const AUDIT = [
  { title: "When", width: 12, narrow: 10.5, value: (a) => a.number, falling: true, cell: (a) => day(new Date(a.at_ns / 1e6)) },
  { title: "Who", width: 15, narrow: 10, hint: "The name and the role of its certificate, behind a proxy the user's name too; without certificates the user of this machine", value: (a) => a.by, cell: (a) => whole(a.by) },
  { title: "Kind", width: 8, phone: false, value: (a) => a.kind, cell: (a) => a.kind },
  { title: "What", least: 11, hint: "What the service said of the change", value: (a) => a.message, cell: (a) => whole(a.message) },
  { title: "Plan", width: 4.5, number: true, phone: false, hint: "The version of the plan from then on", value: (a) => a.plan_version, falling: true, cell: (a) => `${a.plan_version}` },
];
export const auditText = (entry) => `${entry.by} ${entry.kind} ${entry.message}`;
