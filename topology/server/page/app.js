// The page: asks, draws, follows events. What is open is in the address, so that a link can be sent to somebody.

import { get, follow } from "./api.js";
import { byId, chip, count, duration, html, rate, render, scoreClass, SCORES } from "./dom.js";
import { circle, perimeter } from "./circle.js";
import { chart } from "./chart.js";
import { map } from "./map.js";
import { agents, chips, jobs, links, ROWS_MAX } from "./tables.js";

const REFRESH_MS = 2_000;
// Events come in bursts: one refresh for all of them.
const SETTLE_MS = 150;
const EVENTS_MAX = 200;
const LINKS_ASKED = 2_000;
// Scores closer than this are the same.
const SAME = 1e-9;
// Ports drawn with their marks; the busiest.
const PORTS_MAX = 12;
const MARKS = [["ecn_marked_rx", "ECN marks received", "var(--s4)"], ["cnp_tx", "CNPs sent", "var(--j5)"], ["cnp_rx_handled", "CNPs handled", "var(--j4)"]];

// `fabric`: undefined until asked, null where none is set.
const seen = { links: [], total: 0, jobs: [], epoch: 0, agents: [], series: new Map(), hosts: [], events: [], fabric: undefined };

const opened = () => new URLSearchParams(location.hash.slice(1)).get("link");
// Without an id: closes. The address bar keeps no lone "#".
function open(id) {
  if (id === opened()) return;
  history.pushState(null, "", id ? `#${new URLSearchParams({ link: id })}` : location.pathname);
  moved();
}
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

// What to do next where there is nothing to show; null where there is.
function next() {
  const at = location.origin === "http://127.0.0.1:7480" ? "" : ` --server ${location.origin}`;
  if (!seen.fabric) return ["No fabric is set. Load one: ", html("code", {}, `antiphase fabric set${at} FILE`)];
  if (!seen.jobs.length) return ["No jobs are committed. Commit some: ", html("code", {}, `antiphase commit${at} --jobs FILE`)];
  return null;
}

// The page in two sentences: which link is worst and whose it is, and whether the shifts help.
function drawVerdict(shared) {
  const worst = shared[0];
  const raised = shared.filter((l) => l.score > l.zero_shift_score + SAME).length;
  const apart = shared.filter((l) => l.score >= 1 - SAME).length;
  const key = JSON.stringify([worst, shared.length, raised, apart, !seen.fabric, seen.jobs.length, seen.agents.length]);
  render(byId("verdict"), key, () => {
    const missing = next();
    if (missing) return html("p", {}, missing);
    if (!worst) return html("p", {}, "No link is shared by two jobs: there is nothing to shift.");
    const name = html("button", { class: "link", type: "button", "data-link": worst.id, onclick: () => open(worst.id) }, worst.id);
    const figure = (score) => html("b", { class: `s${scoreClass(score)}` }, score.toFixed(3));
    const all = shared.length === 1 ? "the one shared link" : `${shared.length} shared links`;
    const help = !raised ? `No shift raises a score; jobs are apart on ${apart} of ${all}.`
      : `The shifts raise the score of ${raised} of ${all}; on ${apart} nobody waits.`;
    return [
      html("p", {}, "Worst link: ", name, " at ", figure(worst.score), ", ", figure(worst.zero_shift_score), " if nobody were shifted; shared by ", chips(worst.jobs)),
      html("p", {}, help),
    ];
  });
}

function drawLinks() {
  const filter = byId("links-filter").value;
  const found = seen.links.filter((l) => has(`${l.id} ${l.jobs.join(" ")}`, filter));
  const shared = seen.links.filter((l) => l.jobs.length > 1);
  drawVerdict(shared);
  const key = JSON.stringify([found.slice(0, ROWS_MAX).map((l) => [l.id, l.score, l.zero_shift_score, l.jobs]), opened(), filter === "", seen.jobs.length > 0, !seen.fabric]);
  render(byId("links"), key, () => links(found, opened(), open,
    filter ? "No link of this name." : next() ?? "The committed jobs send over no link."));
  byId("links-note").textContent = seen.total ? `${count(shared.length, "link")} of ${seen.total} with demand ${shared.length === 1 ? "is" : "are"} shared` +
    (found.length > ROWS_MAX ? `; the first ${ROWS_MAX} are listed` : "") : "";
  render(byId("map"), JSON.stringify(shared.map((l) => [l.id, l.score])), () => {
    byId("map-note").textContent = "";
    if (!shared.length) return html("p", { class: "empty" }, "Links that jobs share are drawn here.");
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

// The address names another link, or none.
function moved() {
  drawLinks();
  drawLink().then(() => { if (opened()) byId("link-section").scrollIntoView({ block: "nearest" }); }, (error) => says({ trouble: error.message }));
}

async function drawLink() {
  const id = opened();
  byId("link-section").hidden = !id;
  if (!id) return;
  // Asked for by name only where it can be there: the list is whole unless it was cut.
  const known = seen.links.length < seen.total || seen.links.some((l) => l.id === id);
  const link = known ? await get("links", { links: id, demands: true }).then((answer) => answer.links[0], absent) : null;
  if (id !== opened()) return;
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
  render(byId("jobs"), JSON.stringify([found.slice(0, ROWS_MAX), filter === "", !seen.fabric, [...seen.series.values()].map((s) => s.at_ms.at(-1))]), () => jobs(found, seen.series, filter ? "No job of this name, host or state." : next()));
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
}

async function ask() {
  const [links, jobs, agents, telemetry] = await Promise.all([
    get("links", { limit: LINKS_ASKED }), get("jobs"), get("agents"), get("telemetry", { seconds: 120, all_hosts: true }),
  ]);
  Object.assign(seen, { links: links.links, total: links.total, jobs: jobs.jobs, epoch: jobs.epoch, agents: agents.agents, hosts: telemetry.hosts });
  seen.series = new Map(telemetry.jobs.map((s) => [s.job, s]));
  if (seen.fabric === undefined) seen.fabric = await get("fabric", { summary: true }).catch(absent);
  draw();
  await drawLink();
  document.body.dataset.drawn = seen.epoch;
}

const absent = (error) => { if (error.status === 404) return null; throw error; };

// One refresh at a time, so that an older answer never overwrites a newer one; who asks meanwhile gets one more.
let busy = false, more = false;
async function refresh() {
  if (busy) { more = true; return; }
  busy = true;
  do {
    more = false;
    await ask().then(() => says({ trouble: null }), (error) => says({ trouble: error.message }));
  } while (more);
  busy = false;
}

// What the corner says: the stream and the last refresh, either of which can fail alone.
const health = { stream: false, trouble: null };
function says(change) {
  Object.assign(health, change);
  const live = health.stream && !health.trouble;
  byId("live").className = live ? "live" : "live off";
  byId("live").textContent = live ? "live" : `not live: ${health.stream ? health.trouble : "reconnecting …"}`;
}

let settling = null;
const soon = () => { settling ??= setTimeout(async () => { settling = null; await refresh(); }, SETTLE_MS); };

byId("legend").append(...SCORES.map(([, text], i) => html("li", {}, html("i", { style: `background: var(--s${i + 1})` }), text)));
byId("links-filter").addEventListener("input", drawLinks);
byId("jobs-filter").addEventListener("input", drawJobs);
byId("link-close").addEventListener("click", () => open(null));
addEventListener("popstate", moved);

// The page asks a slow service less often: it rests four times as long as the last refresh took.
async function loop() {
  const began = performance.now();
  if (!document.hidden) await refresh();
  setTimeout(loop, Math.max(REFRESH_MS, 4 * (performance.now() - began)));
}
addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });

function happened(event) {
  seen.events = [...seen.events, event].slice(-EVENTS_MAX);
  if (event.kind === "fabric") seen.fabric = undefined;
  soon();
}

// The stream begins where the list ends, so that no event falls between the two.
async function begin() {
  try {
    const { events, oldest } = await get("events", { limit: EVENTS_MAX });
    seen.events = events;
    follow(events.at(-1)?.sequence ?? oldest - 1, happened, (stream) => {
      // Another service may answer now, with another fabric.
      if (stream) { seen.fabric = undefined; soon(); }
      says({ stream });
    });
  } catch (error) {
    says({ trouble: error.message });
    setTimeout(begin, REFRESH_MS);
  }
}
begin();
loop();
