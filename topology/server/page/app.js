// The page: asks, draws, follows events. What is open is in the address, so that a link can be sent to somebody.

import { get, follow } from "./api.js";
import { byId, chip, count, duration, html, rate, render, SCORES } from "./dom.js";
import { circle, perimeter } from "./circle.js";
import { chart } from "./chart.js";
import { map } from "./map.js";
import { agents, jobs, links, ROWS_MAX } from "./tables.js";

const REFRESH_MS = 2_000;
// Events come in bursts: one refresh for all of them.
const SETTLE_MS = 150;
const EVENTS_MAX = 200;
const LINKS_ASKED = 1_000;
// Ports drawn with their marks; the busiest.
const PORTS_MAX = 12;
const MARKS = [["ecn_marked_rx", "ECN marks received", "var(--s4)"], ["cnp_tx", "CNPs sent", "var(--j5)"], ["cnp_rx_handled", "CNPs handled", "var(--j4)"]];

const seen = { links: [], total: 0, jobs: [], epoch: 0, agents: [], series: new Map(), hosts: [], events: [], fabric: null };

const opened = () => new URLSearchParams(location.hash.slice(1)).get("link");
const open = (id) => { location.hash = new URLSearchParams({ link: id }); };
const has = (text, filter) => text.toLowerCase().includes(filter.trim().toLowerCase());

function drawVitals() {
  const state = (list, name) => list.filter((x) => x.state === name).length;
  const lost = state(seen.agents, "lost"), quarantined = state(seen.agents, "quarantined");
  const bad = [
    lost && count(lost, "agent lost", "agents lost"), quarantined && `${quarantined} quarantined`,
    state(seen.jobs, "drifting") && `${state(seen.jobs, "drifting")} drifting`, state(seen.jobs, "open") && `${state(seen.jobs, "open")} failing open`,
  ].filter(Boolean);
  const fabric = seen.fabric ? `${count(seen.fabric.hosts, "host")}, ${count(seen.fabric.links, "link")}` : "no fabric";
  const text = [html("b", {}, `epoch ${seen.epoch}`), ` · ${fabric} · ${count(seen.jobs.length, "job")} (${state(seen.jobs, "held")} held) · ${count(seen.agents.length, "agent")}`];
  if (bad.length) text.push(" · ", html("span", { class: "bad" }, bad.join(", ")));
  render(byId("vitals"), JSON.stringify([seen.epoch, fabric, seen.jobs.length, state(seen.jobs, "held"), seen.agents.length, bad]), () => text);
}

function drawLinks() {
  const filter = byId("links-filter").value;
  const found = seen.links.filter((l) => has(`${l.id} ${l.jobs.join(" ")}`, filter));
  const shared = seen.links.filter((l) => l.jobs.length > 1);
  const key = JSON.stringify([found.slice(0, ROWS_MAX).map((l) => [l.id, l.score, l.zero_shift_score, l.jobs]), opened()]);
  render(byId("links"), key, () => links(found, opened(), open));
  byId("links-note").textContent = seen.total ? `${count(shared.length, "link")} of ${seen.total} with demand ${shared.length === 1 ? "is" : "are"} shared` +
    (found.length > ROWS_MAX ? `; the first ${ROWS_MAX} are listed` : "") : "";
  render(byId("map"), JSON.stringify(shared.map((l) => [l.id, l.score])), () => {
    if (!shared.length) return html("p", { class: "empty" }, "No link is shared by two jobs.");
    const { drawing, shown, wide } = map(shared, open);
    byId("map-section").classList.toggle("wide", wide);
    byId("map-note").textContent = shown < shared.length ? `the ${shown} worst of ${shared.length} shared links` : `all ${count(shown, "shared link")}`;
    return drawing;
  });
}

function figure(link, shifted, score) {
  const says = score === undefined || score === null ? "" : html("b", {}, ` score ${score.toFixed(4)}`);
  return html("figure", {}, circle(link, shifted), html("figcaption", {}, shifted ? "with the committed shifts" : "if nobody were shifted", says));
}

async function drawLink() {
  const id = opened();
  byId("link-section").hidden = !id;
  if (!id) return;
  const answer = await get("links", { links: id, demands: true });
  if (id !== opened()) return;
  const link = answer.links.find((l) => l.id === id);
  byId("link-title").textContent = id;
  render(byId("link-detail"), JSON.stringify([id, link]), () => {
    if (!link) return html("p", { class: "empty" }, "This link carries no demand now.");
    const demands = link.demands ?? [];
    const { length, exact } = demands.length ? perimeter(demands) : { length: 0, exact: true };
    const around = exact ? `once around is ${duration(length)}` : `the periods do not lock: one turn of ${duration(length)} is drawn, and the next looks different`;
    return [
      html("p", {}, `${rate(link.capacity_mbps)} from ${link.from_node} to ${link.to_node}; ${around}. The dashed circle is the capacity, and what is over it waits.`),
      html("div", { class: "circles" }, demands.length ? [figure(link, false, link.zero_shift_score), figure(link, true, link.score)] : [],
        html("table", { style: "width: auto" }, html("tbody", {}, demands.map((d) => html("tr", {},
          html("td", {}, chip(d.job)), html("td", {}, `every ${duration(d.period_ns)}`), html("td", {}, `shifted by ${duration(d.shift_ns)}`),
          html("td", {}, `sends ${duration(d.phases.reduce((s, p) => s + p.end_ns - p.start_ns, 0))}, up to ${rate(Math.max(0, ...d.phases.map((p) => p.rate_mbps)))}`)))))),
    ];
  });
}

function drawJobs() {
  const filter = byId("jobs-filter").value;
  const found = seen.jobs.filter((j) => has(`${j.id} ${j.state} ${j.hosts.join(" ")}`, filter));
  byId("jobs-note").textContent = found.length > ROWS_MAX ? `the first ${ROWS_MAX} of ${found.length} are listed` : "";
  render(byId("jobs"), JSON.stringify([found.slice(0, ROWS_MAX), [...seen.series.values()].map((s) => s.at_ms.at(-1))]), () => jobs(found, seen.series));
}

function drawMarks() {
  const ports = seen.hosts.map((h) => {
    const series = MARKS.flatMap(([name, title, colour]) => {
      const found = h.counters.find((c) => c.name === name);
      return found ? [{ at: h.at_ms, value: found.delta, colour, name: title }] : [];
    });
    return { title: `${h.host} ${h.port}`, series, sum: series.reduce((s, x) => s + x.value.reduce((a, b) => a + b, 0), 0) };
  }).filter((p) => p.series.length && p.series[0].at.length).sort((a, b) => b.sum - a.sum || a.title.localeCompare(b.title));
  byId("marks-note").textContent = ports.length > PORTS_MAX ? `the ${PORTS_MAX} ports with most of ${ports.length}` : "";
  render(byId("marks"), JSON.stringify(ports.slice(0, PORTS_MAX)), () => ports.length
    ? ports.slice(0, PORTS_MAX).map((p) => html("div", { class: "chart" }, html("b", {}, p.title), " ", p.series.map((s) => html("small", { style: `color: ${s.colour}` }, ` ${s.name}`)), chart(p.series, (v) => `${v} per step`)))
    : [html("p", { class: "empty" }, "No port reports marks or CNPs: not collected is not the same as none.")]);
}

function drawEvents() {
  const item = (e) => html("li", {}, html("time", {}, new Date(e.at_ns / 1e6).toLocaleTimeString()), html("span", { class: "kind" }, e.kind), html("span", { class: e.severity }, e.message));
  render(byId("events"), `${seen.events.at(-1)?.sequence}`, () => seen.events.length ? [...seen.events].reverse().map(item) : [html("li", { class: "empty" }, "Nothing has happened yet.")]);
}

function drawAgents() {
  const order = { lost: 0, quarantined: 1, connected: 2 };
  const sorted = [...seen.agents].sort((a, b) => (order[a.state] ?? 3) - (order[b.state] ?? 3) || a.host.localeCompare(b.host, undefined, { numeric: true }));
  byId("agents-note").textContent = sorted.length > ROWS_MAX ? `the first ${ROWS_MAX} of ${sorted.length} are listed, troubled ones first` : "";
  render(byId("agents"), JSON.stringify(sorted.slice(0, ROWS_MAX).map((a) => ({ ...a, last_seen_ns: 0 }))), () => agents(sorted));
}

function draw() {
  drawVitals();
  drawLinks();
  drawJobs();
  drawMarks();
  drawAgents();
  drawEvents();
  document.body.dataset.drawn = seen.epoch;
}

async function refresh() {
  try {
    const [links, jobs, agents, telemetry] = await Promise.all([
      get("links", { limit: LINKS_ASKED }), get("jobs"), get("agents"), get("telemetry", { seconds: 120, all_hosts: true }),
    ]);
    Object.assign(seen, { links: links.links, total: links.total, jobs: jobs.jobs, epoch: jobs.epoch, agents: agents.agents, hosts: telemetry.hosts });
    seen.series = new Map(telemetry.jobs.map((s) => [s.job, s]));
    seen.fabric ??= await get("fabric", { summary: true }).catch(() => null);
    draw();
    await drawLink();
  } catch (error) {
    byId("live").className = "live off";
    byId("live").textContent = error.message;
  }
}

let settling = null;
const soon = () => { settling ??= setTimeout(async () => { settling = null; await refresh(); }, SETTLE_MS); };

byId("legend").append(...SCORES.map(([, text], i) => html("li", {}, html("i", { style: `background: var(--s${i + 1})` }), text)));
byId("links-filter").addEventListener("input", drawLinks);
byId("jobs-filter").addEventListener("input", drawJobs);
addEventListener("hashchange", () => { drawLinks(); drawLink().catch(() => {}); });

// The page is never quicker than the service: the next refresh is set when the last has ended.
const loop = async () => { if (!document.hidden) await refresh(); setTimeout(loop, REFRESH_MS); };
get("events", { limit: EVENTS_MAX }).then((answer) => { seen.events = answer.events; drawEvents(); }).catch(() => {}).finally(loop);
follow((event) => {
  if (seen.events.at(-1)?.sequence >= event.sequence) return;
  seen.events = [...seen.events, event].slice(-EVENTS_MAX);
  if (event.kind === "fabric") seen.fabric = null;
  soon();
}, (live) => {
  byId("live").className = live ? "live" : "live off";
  byId("live").textContent = live ? "live" : "not live: reconnecting …";
});
