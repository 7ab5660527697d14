// The tables of the page.

import { html, chip, count, duration, jobColour, rate, scoreClass, scoreColour, signed } from "./dom.js";
import { spark } from "./chart.js";

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
    [">Score", "With the committed shifts. 1: nobody waits; otherwise 1 less the mean demand over capacity, in capacities"],
    ["", "The score as a bar; the stroke is the score if nobody were shifted"],
    ["Jobs", "Who sends over it"],
    [">Peak", "The jobs' highest demands together, of the capacity"],
    [">Capacity", ""],
  ], rows.length ? rows : empty(7, nothing));
}

// The learned period, where it is not the declared one.
const learned = (job) => (job.period_mismatch_ns ? [" ", html("span", { class: "state-drifting", title: "The period that was learned; its slot is made for the declared one" }, `≠ ${duration(job.period_mismatch_ns)}`)] : []);

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
