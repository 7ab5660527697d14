// The tables of the page.

import { html, chip, count, duration, jobColour, rate, scoreClass, scoreColour, signed } from "./dom.js";
import { lane, shown, spark } from "./chart.js";

// Rows that a browser lays out at once without stutter; the filter finds the rest.
export const ROWS_MAX = 200;

// Headings: [text, what it means]; a text that begins with ">" is of numbers.
function table(headings, rows) {
  const head = headings.map(([text, title]) => html("th", { scope: "col", title, class: text.startsWith(">") ? "number" : undefined }, text.replace(">", "")));
  return [html("thead", {}, html("tr", {}, head)), html("tbody", {}, rows)];
}

const cell = (content, kind) => html("td", { class: kind }, content);
// Whose a link is; on a backbone that can be very many.
export const chips = (jobs) => (jobs.length > 6 ? [...jobs.slice(0, 5).map(chip), ` and ${jobs.length - 5} more`] : jobs.map(chip));
const empty = (columns, text) => [html("tr", {}, html("td", { class: "empty", colspan: columns }, text))];

// The score as a bar, and a stroke where it would be if nobody were shifted.
function bar(after, before) {
  const width = (score) => `width: ${(100 * Math.min(1, Math.max(0, score))).toFixed(1)}%`;
  return html("span", { class: "bar" }, html("i", { style: `${width(after)}; background: ${scoreColour(after)}` }), html("i", { class: "before", style: width(before) }));
}

// A score in the colour of its class.
export const coloured = (score) => html("b", { class: `s${scoreClass(score)}` }, score.toFixed(3));

function scores(link) {
  const after = link.score ?? null;
  if (after === null) return [cell("–", "number"), cell("–", "number"), cell("")];
  const before = link.zero_shift_score ?? 1;
  if (link.by_turns) return [cell(coloured(before), "number"), cell("by turns", "number"), cell("")];
  return [cell(coloured(before), "number"), cell(coloured(after), "number"), cell(bar(after, before))];
}

export function links(all, open, pick, nothing) {
  const rows = all.slice(0, ROWS_MAX).map((link) => html("tr", { class: `pick${link.id === open ? " open" : ""}`, onclick: () => pick(link.id) },
    cell(html("button", { class: "link cut", type: "button", title: link.id, "data-link": link.id }, link.id)),
    scores(link),
    cell(chips(link.jobs), "wrap"),
    cell(`${Math.round(link.peak_demand_ratio * 100)} %`, "number"),
    cell(rate(link.capacity_mbps), "number")));
  return table([
    ["Link", "From one end to the other; the other direction is a link of its own"],
    [">Unshifted", "The score if nobody were shifted"],
    [">Score", "With the committed shifts; jobs that take turns need none. 1: nobody waits; otherwise 1 less the mean demand over capacity, in capacities"],
    ["", "The score as a bar; the stroke is the score if nobody were shifted"],
    ["Jobs", "Who sends over it"],
    [">Peak", "The jobs' highest demands together, of the capacity"],
    [">Capacity", ""],
  ], rows.length ? rows : empty(7, nothing));
}

// The learned period, where it is not the planned one, and the declared one, where the job is planned as it was measured.
const learned = (job) => [
  ...(job.period_mismatch_ns ? [" ", html("span", { class: "state-drifting", title: "The period that was learned; it is planned with the other one" }, `≠ ${duration(job.period_mismatch_ns)}`)] : []),
  ...(job.declared_period_ns ? [" ", html("span", { class: "state-drifting", title: "Declared; it is planned with the other one, which was measured" }, `(${duration(job.declared_period_ns)})`)] : []),
];

export function jobs(all, series, nothing) {
  const rows = all.slice(0, ROWS_MAX).map((job) => {
    const slot = job.slot ?? {};
    const past = series.get(job.id)?.iteration_ns ?? [];
    return html("tr", {},
      cell(chip(job.id)),
      cell(html("span", { class: `state-${job.state}` }, job.state)),
      cell(`${job.hosts.length}`, "number"),
      cell([duration(job.solo_period_ns), learned(job)], "number"),
      cell(duration(job.predicted_contended_ns), "number"),
      cell(duration(job.predicted_interleaved_ns), "number"),
      cell(duration(job.iteration_ns), "number"),
      cell(past.length > 1 ? spark(past, jobColour(job.id)) : ""),
      cell(slot.turns ? "by turns" : duration(slot.period_ns), "number"),
      cell(slot.turns ? "–" : duration(slot.offset_ns), "number"),
      cell(slot.turns ? "–" : signed(job.phase_error_ns), "number"),
      cell(slot.turns ? "–" : duration(slot.slack_ns), "number"),
      cell(job.slips === undefined || job.slips === null ? "–" : `${job.slips}`, "number"),
      cell(job.fail_opens ? html("span", { class: "state-open" }, `${job.fail_opens}`) : "–", "number"),
      cell(job.shared_links.length ? count(job.shared_links.length, "link") : "none"));
  });
  return table([
    ["Job", ""],
    ["State", "committed: its gate has not reported; held: it takes turns, or its gate holds it to its slot; free: it runs as it comes; drifting: off its slot; open: its gate fails open"],
    [">Hosts", ""],
    [">Solo", "An iteration alone, from the profile; ≠ if another period was learned"],
    [">Contended", "An iteration with nobody held, predicted"],
    [">Interleaved", "An iteration as they are held, by turns or by slots, predicted"],
    [">Now", "An iteration as its gate sees it"],
    ["", "Iterations of the last minutes"],
    [">Period", "Its starts are this far apart; by turns: it starts when those ahead of it have ended"],
    [">Offset", "Its starts are due this long after a multiple of the period"],
    [">Late by", "How far it starts from its slot"],
    [">Slack", "How far it may drift before a score falls"],
    [">Slips", "Starts so late that they waited for the next slot"],
    [">Failed open", "Starts let through because the plan could not be trusted"],
    ["Shares", "Links that it shares with others"],
  ], rows.length ? rows : empty(15, nothing));
}

const NOW = { sending: "sends", waiting: "waits", ahead: "may start", away: "computes" };
// Less is chance.
const EVEN = 0.005;

// What a job does at this moment. No times: they would be others at each look.
function now(job) {
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

export const percent = (part) => `${part > 0 ? "+" : part < 0 ? "−" : ""}${(100 * Math.abs(part)).toFixed(1)} %`;

function gain(job) {
  const found = brings(job);
  if (!found) return "–";
  const kind = found.part < -EVEN ? "gain" : found.part > EVEN ? "loss" : "even";
  return [html("span", { class: kind }, percent(found.part)), found.measured ? "" : html("small", { class: "predicted" }, " predicted")];
}

// How much of its time a job waits, as a bar and a number.
function waits(times) {
  if (!times) return "–";
  const part = times.mean_wait_ns / Math.max(1, times.mean_ns);
  return [html("span", { class: "bar waits" }, html("i", { style: `width: ${(100 * Math.min(1, part)).toFixed(1)}%` })), ` ${(100 * part).toFixed(1)} %`];
}

// A row for each job below one for its group.
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
  const head = (group) => html("tr", { class: "group" }, html("th", { colspan: 10, scope: "rowgroup" },
    html("p", {}, html("b", { class: `group-${group.state}` }, `Group of ${group.jobs.length}`), ` ${group.reason}`)));
  const rows = [];
  for (const group of groups) {
    if (rows.length >= ROWS_MAX) break;
    rows.push(head(group), ...group.jobs.slice(0, ROWS_MAX - rows.length).map(row(shown(group.jobs, at))));
  }
  return table([
    ["Job", ""],
    ["Now", "sends: it has the turn; waits: it is ready, and goes when those ahead have ended; may start: nobody is in its way; computes: it needs no turn"],
    ["Last starts", "Full: it sent; thin: it was ready and waited. The lanes of a group show the same time, up to when the page asked"],
    [">Turns bring", "Iterations by turns over iterations free, in the mean: measured where both was, else predicted"],
    [">By turns", "The mean of its last iterations by turns, at most 128; predicted before the first"],
    [">99 %", "Of its iterations by turns, 99 % took no longer"],
    [">Free", "The mean of its last iterations while its group ran free; predicted before the first"],
    [">99 %", "Of its iterations free, 99 % took no longer"],
    [">Waits", "The share of its time by turns that it waits"],
    [">At bound", "Starts that went because they had waited for as long as an iteration takes"],
  ], rows.length ? rows : empty(10, nothing));
}

export function agents(all) {
  const rows = all.slice(0, ROWS_MAX).map((agent) => html("tr", {},
    cell(agent.host),
    cell(html("span", { class: `state-${agent.state}` }, agent.state)),
    cell(duration(agent.clock_bound_ns), "number"),
    cell(duration(agent.clock_rtt_ns), "number"),
    cell(`${agent.plan_version}`, "number"),
    cell(agent.version),
    cell(chips(agent.jobs), "wrap")));
  return table([
    ["Host", ""], ["State", "lost: no session; quarantined: its clock is too uncertain for the slack of a job that it leads"],
    [">Clock bound", "Its clock is wrong by at most this"], [">Round trip", "To the service, at best"],
    [">Plan", "Of the plan that it follows"], ["Version", ""], ["Jobs", "With a rank on this host"],
  ], rows.length ? rows : empty(7, ["No agent has connected: nobody holds a job. Start ", html("code", {}, "antiphase-agent"), " on the hosts."]));
}
