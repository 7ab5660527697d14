// The tables of the page.

import { html, chip, count, duration, jobColour, rate, scoreClass, scoreColour, signed } from "./dom.js";
import { spark } from "./chart.js";

// Rows that a browser lays out at once without stutter; the filter finds the rest.
export const ROWS_MAX = 200;

function table(headings, rows) {
  const head = headings.map((h) => html("th", { scope: "col", class: h.startsWith(">") ? "number" : undefined }, h.replace(">", "")));
  return [html("thead", {}, html("tr", {}, head)), html("tbody", {}, rows)];
}

const cell = (content, kind) => html("td", { class: kind }, content);
// Whose a link is; on a backbone that can be very many.
export const chips = (jobs) => (jobs.length > 6 ? [...jobs.slice(0, 5).map(chip), ` and ${jobs.length - 5} more`] : jobs.map(chip));
const empty = (columns, text) => [html("tr", {}, html("td", { class: "empty", colspan: columns }, text))];

function bar(after, before) {
  const width = (score) => `width: ${(100 * Math.min(1, Math.max(0, score))).toFixed(1)}%`;
  return html("span", { class: "bar", title: `unshifted ${before.toFixed(4)}, shifted ${after.toFixed(4)}` },
    html("i", { style: `${width(after)}; background: ${scoreColour(after)}` }), html("i", { class: "before", style: width(before) }));
}

export function links(all, open, pick, nothing) {
  const rows = all.slice(0, ROWS_MAX).map((link) => {
    const score = link.score ?? null;
    return html("tr", { class: `pick${link.id === open ? " open" : ""}`, onclick: () => pick(link.id) },
      cell(html("button", { class: "link", type: "button", "data-link": link.id }, link.id)),
      cell(rate(link.capacity_mbps), "number"),
      cell(score === null ? "–" : html("b", { class: `s${scoreClass(score)}` }, score.toFixed(3)), "number"),
      cell(score === null ? "–" : (link.zero_shift_score ?? 1).toFixed(3), "number"),
      cell(score === null ? "" : bar(score, link.zero_shift_score ?? 1)),
      cell(`${Math.round(link.peak_demand_ratio * 100)} %`, "number"),
      cell(chips(link.jobs), "wrap"));
  });
  return table(["Link", ">Capacity", ">Score", ">Unshifted", "", ">Peak demand", "Jobs"],
    rows.length ? rows : empty(7, nothing));
}

export function jobs(all, series, nothing) {
  const rows = all.slice(0, ROWS_MAX).map((job) => {
    const slot = job.slot ?? {};
    const past = series.get(job.id)?.iteration_ns ?? [];
    return html("tr", {},
      cell(chip(job.id)),
      cell(html("span", { class: `state-${job.state}` }, job.state)),
      cell(`${job.hosts.length}`, "number"),
      cell(duration(job.solo_period_ns), "number"),
      cell(duration(job.predicted_unshifted_ns), "number"),
      cell(duration(job.iteration_ns), "number"),
      cell(past.length > 1 ? spark(past, jobColour(job.id)) : ""),
      cell(duration(slot.period_ns), "number"),
      cell(duration(slot.offset_ns), "number"),
      cell(signed(job.phase_error_ns), "number"),
      cell(duration(slot.slack_ns), "number"),
      cell(job.slips === undefined || job.slips === null ? "–" : `${job.slips}`, "number"),
      cell(job.fail_opens ? html("span", { class: "state-open" }, `${job.fail_opens}`) : "–", "number"),
      cell(job.shared_links.length ? count(job.shared_links.length, "link") : "none"));
  });
  return table(["Job", "State", ">Hosts", ">Solo", ">Unshifted", ">Now", "", ">Period", ">Offset", ">Late by", ">Slack", ">Slips", ">Failed open", "Shares"],
    rows.length ? rows : empty(14, nothing));
}

export function agents(all) {
  const rows = all.slice(0, ROWS_MAX).map((agent) => html("tr", {},
    cell(agent.host),
    cell(html("span", { class: `state-${agent.state}` }, agent.state)),
    cell(duration(agent.clock_bound_ns), "number"),
    cell(duration(agent.clock_rtt_ns), "number"),
    cell(`${agent.epoch}`, "number"),
    cell(agent.version),
    cell(chips(agent.jobs), "wrap")));
  return table(["Host", "State", ">Clock bound", ">Round trip", ">Epoch", "Version", "Jobs"],
    rows.length ? rows : empty(7, ["No agent has connected: nobody holds a job to its slot. Start ", html("code", {}, "antiphase-agent"), " on the hosts."]));
}
