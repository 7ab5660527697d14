// Who takes turns with whom: a row for each job below one for its group.

import { chip, chips, duration, html, jobColour } from "./dom.js";
import { lane, shown } from "./chart.js";
import { percent } from "./tables.js";

// Rows that a browser lays out at once without stutter; the filter finds the rest.
export const ROWS_MAX = 200;
const NOW = { sending: "sends", waiting: "waits", ahead: "may start", away: "computes" };
// Less is chance.
const EVEN = 0.005;

// What a job does at this moment. No times: they would be others at each look.
export function now(job) {
  if (job.has_no_ends) return html("span", { class: "state-drifting", title: "Neither its gate (gate.done()) nor its agent finds when it has sent everything" }, "takes no turns");
  const word = html("span", { class: `now now-${job.activity}`, style: `--job: ${jobColour(job.job)}` }, NOW[job.activity] ?? job.activity);
  return job.activity === "waiting" && job.waits_for.length ? [word, " for ", chips(job.waits_for)] : word;
}

// What turns bring: measured where both was measured, else predicted.
export function brings(job) {
  const part = (held, free) => (held && free ? { part: held / free - 1 } : null);
  const measured = part(job.held?.mean_ns, job.free?.mean_ns);
  if (measured) return { ...measured, measured: true };
  const predicted = part(job.predicted_held_ns, job.predicted_free_ns);
  return predicted && { ...predicted, measured: false };
}

export function gain(job) {
  const found = brings(job);
  if (!found) return "–";
  const kind = found.part < -EVEN ? "gain" : found.part > EVEN ? "loss" : "even";
  return [html("span", { class: kind }, percent(found.part)), found.measured ? "" : html("small", { class: "predicted" }, " predicted")];
}

// How much of its time a job waits.
export const waiting = (times) => (times ? times.mean_wait_ns / Math.max(1, times.mean_ns) : 0);

function waits(times) {
  if (!times) return "–";
  const part = waiting(times);
  return [html("span", { class: "bar waits" }, html("i", { style: `width: ${(100 * Math.min(1, part)).toFixed(1)}%` })), ` ${(100 * part).toFixed(1)} %`];
}

// For whom a job waited in its last starts: [{ job, ns, starts }], most first. Time in which several sent counts for each of them.
export function waitedFor(name, group) {
  const mine = group.jobs.find((job) => job.job === name);
  const spans = (mine?.last_starts ?? []).filter((s) => s.began_ns > s.ready_ns).map((s) => [s.ready_ns, s.began_ns]);
  const found = group.jobs.filter((job) => job.job !== name).map((job) => {
    const sent = job.last_starts.flatMap((s, i) => (s.began_ns ? [[s.began_ns, s.ended_ns ?? job.last_starts[i + 1]?.ready_ns ?? s.began_ns]] : []));
    const together = spans.map(([from, to]) => sent.reduce((sum, [begin, end]) => sum + Math.max(0, Math.min(to, end) - Math.max(from, begin)), 0));
    return { job: job.job, ns: together.reduce((a, b) => a + b, 0), starts: together.filter((ns) => ns > 0).length };
  });
  return { looked: mine?.last_starts.length ?? 0, waited: spans.reduce((sum, [from, to]) => sum + to - from, 0), among: found.filter((one) => one.ns > 0).sort((a, b) => b.ns - a.ns) };
}

// Why a group is as it is. What was measured is of the comparison, and no longer that of the rows.
export const reason = (group) => (group.verdict?.at_ns ? `${group.reason}, at the comparison of ${new Date(group.verdict.at_ns / 1e6).toLocaleTimeString([], { hour: "numeric", minute: "2-digit" })}` : group.reason);

const cell = (content, kind) => html("td", { class: kind }, content);

const HEADINGS = [
  ["Job", ""],
  ["Now", "sends: it has the turn; waits: it is ready, and goes when those ahead have ended; may start: nobody is in its way; computes: it needs no turn"],
  ["Last starts", "Full: it sent; thin: it was ready and waited. The lanes of a group show the same time, up to when the page asked"],
  [">Change by turns", "How much longer (+) or shorter (−) an iteration is by turns than free, in the mean: measured where both was, else predicted"],
  [">By turns", "The mean of its last iterations by turns, at most 128; predicted before the first"],
  [">99 %", "Of its iterations by turns, 99 % took no longer"],
  [">Free", "The mean of its last iterations while its group ran free; predicted before the first"],
  [">99 %", "Of its iterations free, 99 % took no longer"],
  [">Waits", "The share of its time by turns that it waits"],
  [">At bound", "Starts that went because they had waited for as long as an iteration takes"],
];

export function turns(groups, at, nothing) {
  const times = (t, predicted) => (t ? duration(t.mean_ns) : predicted ? html("small", { class: "predicted" }, `${duration(predicted)} predicted`) : "–");
  const worst = (t) => (t ? duration(t.p99_ns) : "–");
  const row = (time) => (job) => html("tr", {},
    cell(chip(job.job)),
    cell(now(job), "wrap"),
    cell(time ? lane(job, time, jobColour(job.job)) : ""),
    cell(gain(job), "number"),
    cell(times(job.held, job.predicted_held_ns), "number"),
    cell(worst(job.held), "number"),
    cell(times(job.free, job.predicted_free_ns), "number"),
    cell(worst(job.free), "number"),
    cell(waits(job.held), "number"),
    cell(job.starts ? `${(100 * job.bound / job.starts).toFixed(1)} %` : "–", "number"));
  const head = (group) => html("tr", { class: "group" }, html("th", { colspan: HEADINGS.length, scope: "rowgroup" },
    html("p", {}, html("b", { class: `group-${group.state}` }, `Group of ${group.jobs.length}`), ` ${reason(group)}`)));
  const rows = [];
  for (const group of groups) {
    if (rows.length >= ROWS_MAX) break;
    rows.push(head(group), ...group.jobs.slice(0, ROWS_MAX - rows.length).map(row(shown(group.jobs, at))));
  }
  const headings = HEADINGS.map(([text, title]) => html("th", { scope: "col", title: title || undefined, class: text.startsWith(">") ? "number" : undefined }, text.replace(">", "")));
  return [html("thead", {}, html("tr", {}, headings)), html("tbody", {}, rows.length ? rows : html("tr", {}, html("td", { class: "empty", colspan: HEADINGS.length }, nothing)))];
}
