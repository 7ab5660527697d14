// The page: asks, draws, follows events. What is open is in the address, so that it can be sent to somebody.

import { follow, get, Refused } from "./api.js";
import { byId, count, html, meetings, number, render, SCORES } from "./dom.js";
import { drawCabling } from "./cabling.js";
import { chart } from "./chart.js";
import { drawJob, drawLink, drawSwitch } from "./details.js";
import { Grid, has } from "./grid.js";
import { chooses, drawHistory } from "./history.js";
import { drawMap } from "./map.js";
import { keptApart, seen, shared } from "./state.js";
import { AGENTS, agentText, AUDIT, auditText, JOBS, jobText, LINKS, linkText, worstAgents, worstJobs } from "./tables.js";
import { ROWS_MAX, turns } from "./turns.js";
import { drawVerdict, drawVitals } from "./verdict.js";

const REFRESH_MS = 2_000;
// Counters of all ports are megabytes on a large fabric.
const HOSTS_MS = 5_000;
// What charts and sparks show.
const SECONDS = 120;
// Events come in bursts: one refresh for all of them.
const SETTLE_MS = 150;
const EVENTS_MAX = 200;
// As many as the service tells at most.
const LINKS_ASKED = 10_000;
// What is asked for before that, so that the first rows are there at once.
const LINKS_FIRST = 200;
// What switches count.
const OBSERVED = "links.id,links.from_node,links.to_node,links.capacity_mbps,links.observed_mbps,links.observed_ratio,links.observed_excess_ratio,links.observed_age_ms";
const GROUPS_ASKED = 200;
// As many as the service tells at once.
const AUDIT_ASKED = 1_000;
// Ports drawn with their marks; the busiest.
const PORTS_MAX = 12;
// Kinds of events that change what the marks tell.
const PLANS = ["committed", "released", "moved", "expired", "measured", "headroom", "let_go", "fabric"];
const MARKS = [["ecn_marked_rx", "ECN marks received", "var(--s4)"], ["cnp_tx", "CNPs sent", "var(--j5)"], ["cnp_rx_handled", "CNPs handled", "var(--j4)"]];

const linkGrid = new Grid(byId("links"), LINKS, { id: (l) => l.id, text: linkText, nothing: (filtered) => (filtered ? "No link or job of this name." : "No link carries demand.") });
const jobGrid = new Grid(byId("jobs"), JOBS, { id: (j) => j.id, text: jobText, nothing: (filtered) => (filtered ? "No job of this name, host or state." : "No job is committed.") });
const agentGrid = new Grid(byId("agents"), AGENTS, { id: (a) => a.host, text: agentText, nothing: (filtered) => (filtered ? "No agent of this host, state or job." : ["No agent has connected: nobody holds a job. Start ", html("code", {}, "antiphase-agent"), " on the hosts."]) });
const auditGrid = new Grid(byId("audit"), AUDIT, { id: (a) => `${a.number}`, text: auditText, nothing: (filtered) => (filtered ? "No change of this user, kind or word." : "Nobody has changed anything yet.") });

// What the address names: [kind, id]; of the overview, none.
const PAGES = { link: drawLink, job: drawJob, switch: drawSwitch };
function opened() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const kind = Object.keys(PAGES).find((kind) => asked.get(kind));
  return kind ? [kind, asked.get(kind)] : [];
}

// How much of a list is shown.
const shows = (grid, what) => (grid.found.length === grid.rows.length ? count(grid.rows.length, what) : `${number(grid.found.length)} of ${count(grid.rows.length, what)}`);

function drawLinks() {
  linkGrid.show(seen.links, byId("links-filter").value);
  const some = shared();
  byId("links-note").textContent = seen.total ? `${number(some.length)} of ${count(seen.total, "link")} with demand ${some.length === 1 ? "is" : "are"} shared` +
    (seen.total > seen.links.length ? `; the worst ${number(seen.links.length)} are listed` : "") : "";
  byId("legend").hidden = !some.length;
}

function drawJobs() {
  jobGrid.show(worstJobs(seen.jobs), byId("jobs-filter").value);
  byId("jobs-note").textContent = seen.jobs.length ? shows(jobGrid, "job") : "";
}

function drawAgents() {
  agentGrid.show(worstAgents(seen.agents), byId("agents-filter").value);
  byId("agents-note").textContent = seen.agents.length ? shows(agentGrid, "agent") : "";
}

function drawTurns() {
  byId("turns-section").hidden = !seen.turns.length;
  const filter = byId("turns-filter").value;
  const found = seen.turns.filter((group) => has(group.jobs.map((j) => j.job).join(" "), filter));
  const state = (name) => seen.turns.filter((group) => group.state === name).length;
  const rows = found.reduce((sum, group) => sum + 1 + group.jobs.length, 0);
  byId("turns-note").textContent = [
    count(seen.turns_total, "group"), state("let_go") && `${state("let_go")} let go`,
    seen.turns.length < seen.turns_total && `${seen.turns.length} asked for, troubled ones and large ones first`, rows > ROWS_MAX && `the first ${ROWS_MAX} rows are listed`,
  ].filter(Boolean).join("; ");
  const at = found.some((group) => group.jobs.some((job) => job.last_starts.length)) ? seen.turns_at : 0;
  render(byId("turns"), JSON.stringify([found, at, filter === ""]), () => turns(found, at, filter ? "No job of this name." : "No group."));
}

function drawMarks() {
  const ports = seen.hosts.map((h) => {
    const series = MARKS.flatMap(([name, title, colour]) => {
      const found = h.counters.find((c) => c.name === name);
      return found ? [{ at: h.at_ms, value: found.delta, colour, name: title }] : [];
    });
    return { title: `${h.host} ${h.port}`, series, sum: series.reduce((s, x) => s + x.value.reduce((a, b) => a + b, 0), 0) };
  }).filter((p) => p.series.length && p.series[0].at.length).sort((a, b) => b.sum - a.sum || a.title.localeCompare(b.title));
  const commits = seen.events.filter((e) => PLANS.includes(e.kind)).map((e) => ({ at: e.at_ns / 1e6, name: e.message }));
  byId("marks-note").textContent = [ports.length > PORTS_MAX && `the ${PORTS_MAX} ports with most of ${ports.length}`,
    seen.hosts.length < seen.ports_total && `${number(seen.hosts.length)} of ${count(seen.ports_total, "port")} asked for, one of each host first`, ports.length && commits.length && "upright lines: the plan changed"].filter(Boolean).join("; ");
  render(byId("marks"), JSON.stringify([ports.slice(0, PORTS_MAX), commits]), () => ports.length
    ? ports.slice(0, PORTS_MAX).map((p) => html("div", { class: "chart" }, html("b", {}, p.title), " ", p.series.map((s) => html("small", { class: "key" }, html("i", { style: `background: ${s.colour}` }), s.name)), chart(p.series, commits, (v) => `at most ${number(v)} a second`)))
    : [html("p", { class: "empty" }, "No port reports marks or CNPs: not collected is not the same as none.")]);
}

function drawEvents() {
  const filter = byId("events-filter").value;
  const found = seen.events.filter((e) => has(`${e.kind} ${e.severity} ${e.message}`, filter));
  const item = (e) => html("li", {}, html("time", {}, new Date(e.at_ns / 1e6).toLocaleTimeString()), html("span", { class: "kind" }, e.kind), html("span", { class: e.severity }, e.message));
  render(byId("events"), `${seen.events.at(-1)?.sequence} ${filter}`, () => found.length ? [...found].reverse().map(item) : [html("li", { class: "empty" }, filter ? "No event says this." : "Nothing has happened yet.")]);
}

function drawAudit() {
  byId("audit-section").hidden = !seen.audit;
  if (!seen.audit) return;
  auditGrid.show(seen.audit, byId("audit-filter").value);
  const all = seen.audit.length < AUDIT_ASKED ? "" : "; antiphase audit has those before";
  byId("audit-note").textContent = seen.audit.length ? shows(auditGrid, "change") + all : "";
}

function draw() {
  keptApart();
  drawVitals();
  drawVerdict();
  if (opened().length) return;
  drawLinks();
  drawTurns();
  drawJobs();
  drawMarks();
  drawCabling();
  drawAgents();
  drawEvents();
  drawAudit();
}

function linked({ links, total }) {
  Object.assign(seen, { links, total });
  meetings(links.map((link) => link.jobs));
}

let nextHosts = 0;
// The fabric seldom changes: it is asked for when an event or another service says so.
let fabricKnown = false;
// As seldom is the audit trail, which grows when somebody asks for a change.
let auditKnown = false;
async function askAudit() {
  if (auditKnown) return;
  auditKnown = true;
  // Without an answer the trail stays as it was until the next look: the rest of the page does not wait for it.
  const audit = await get("audit", { limit: AUDIT_ASKED }).catch(forbidden).catch(() => { auditKnown = false; });
  if (audit !== undefined) seen.audit = audit && audit.entries.toReversed();
}

async function ask() {
  const hosts = performance.now() > nextHosts;
  // Before the question, so that a change during it asks again.
  const unknown = !fabricKnown;
  fabricKnown = true;
  const [jobs, agents, turns, telemetry, measured, observed, cabling, fabric, first] = await Promise.all([
    get("jobs"), get("agents"), get("turns", { limit: GROUPS_ASKED }), get("telemetry", { seconds: SECONDS, all_hosts: hosts }),
    hosts ? get("links", { limit: LINKS_ASKED, measured: true, fields: "links.id,links.measured_ratio" }) : null,
    hosts ? get("links", { limit: LINKS_ASKED, observed: true, fields: OBSERVED }) : null,
    hosts ? get("fabric/observed", { summary: true }) : null,
    unknown ? get("fabric", { summary: true }).catch(absent) : seen.fabric,
    // The worst come at once; who has read them has the rest. Where links are listed, the table would lose the others, and the reader the place.
    seen.links_version === undefined && !seen.links.length ? get("links", { limit: LINKS_FIRST }) : null,
  ]).catch((error) => { fabricKnown &&= !unknown; throw error; });
  seen.fabric = fabric;
  if (first) linked(first);
  if (hosts) {
    seen.measured = new Map((measured.links ?? []).map((link) => [link.id, link.measured_ratio]));
    seen.observed = new Map((observed.links ?? []).map((link) => [link.id, link]));
    seen.cabling = cabling;
    Object.assign(seen, { hosts: telemetry.hosts, ports_total: telemetry.ports_total });
    nextHosts = performance.now() + HOSTS_MS;
  }
  Object.assign(seen, { jobs: jobs.jobs, plan_version: jobs.plan_version, outlook: jobs.outlook, warnings: jobs.warnings ?? [], agents: agents.agents, turns: turns.groups, turns_total: turns.total, turns_at: turns.at_ns });
  seen.series = new Map(telemetry.jobs.map((s) => [s.job, s]));
  if (first) draw();
  // The map needs no links, so it need not wait for all of them.
  const early = first && !opened().length ? drawPage() : null;
  // Links change with the plan alone, and are most of what is asked for.
  const askLinks = async () => {
    if (seen.links_version === jobs.plan_version) return;
    const links = first && first.total <= first.links.length ? first : await get("links", { limit: LINKS_ASKED });
    linked(links);
    seen.links_version = links.plan_version;
  };
  await Promise.all([askLinks(), askAudit(), early]);
  draw();
  await drawPage();
  document.body.dataset.drawn = seen.plan_version;
}

const absent = (error) => { if (error.status === 404) return null; throw error; };
// What a reader may not see is not there.
const forbidden = (error) => { if (error.status === 403) return null; throw error; };

// The page of what is open, or the map of the overview.
async function drawPage() {
  const [kind, id] = opened();
  const still = () => { const [now, of] = opened(); return now === kind && of === id; };
  if (kind) await PAGES[kind](id, still);
  else {
    await drawMap();
    await drawHistory();
  }
}

// Where the reader was on the overview, and on what.
let left = { top: 0, section: "", focus: null };
let view;

// The address names another page.
function moved() {
  const [kind, id] = opened();
  const before = view;
  if (!before && kind) left = { top: scrollY, section: document.activeElement?.closest("section")?.id ?? "", focus: document.activeElement?.dataset };
  view = kind;
  for (const section of document.querySelectorAll("main > [data-view]")) section.hidden = section.dataset.view !== (kind ?? "overview");
  // Shown once there are any.
  byId("turns-section").hidden ||= !seen.turns.length;
  byId("audit-section").hidden ||= !seen.audit;
  byId("cabling-section").hidden ||= !seen.cabling?.systems;
  document.body.dataset.view = kind ?? "overview";
  document.title = kind ? `${id} · Antiphase` : "Antiphase";
  // Nothing is known before the first answer, which is not the same as nothing there.
  if (seen.fabric === undefined) return;
  draw();
  // What the pages know already is drawn at once, and the heading tells who cannot see that something else is there.
  if (kind) {
    scrollTo(0, 0);
    byId(`${kind}-title`).focus({ preventScroll: true });
  } else if (before) {
    scrollTo(0, left.top);
    const [name, value] = ["link", "job", "switch"].map((name) => [name, left.focus?.[name]]).find(([, value]) => value !== undefined) ?? [];
    if (name && left.section) [...document.querySelectorAll(`#${left.section} [data-${name}]`)].find((e) => e.dataset[name] === value)?.focus({ preventScroll: true });
  }
  drawPage().catch(trouble);
}

// What was refused is said in the corner; anything else is a fault of this page and belongs on the console too.
function trouble(error) {
  if (!(error instanceof Refused)) reportError(error);
  says({ trouble: error.message });
}

// One refresh at a time, so that an older answer never overwrites a newer one; who asks meanwhile gets one more.
let busy = false, more = false;
async function refresh() {
  if (busy) { more = true; return; }
  busy = true;
  do {
    more = false;
    await ask().then(() => says({ trouble: null }), trouble);
  } while (more);
  busy = false;
}

// What the corner says: the stream and the last refresh, either of which can fail alone.
const health = { stream: false, trouble: null, since: null };
function says(change) {
  const answered = health.since;
  Object.assign(health, change);
  const live = health.stream && !health.trouble;
  // What is shown is of the last answer: where that is old, it looks so and says since when.
  health.since = live ? new Date() : answered;
  document.body.classList.toggle("old", !live && answered !== null);
  byId("live").className = live ? "live" : "live off";
  const since = answered ? ` since ${answered.toLocaleTimeString()}` : "";
  byId("live").textContent = live ? "live" : `not live${since}: ${health.stream ? health.trouble : "reconnecting …"}`;
}

let settling = null;
const soon = () => { settling ??= setTimeout(async () => { settling = null; await refresh(); }, SETTLE_MS); };

byId("legend").append(html("li", {}, "Score"), ...SCORES.map(([, text], i) => html("li", {}, html("i", { style: `background: var(--s${i + 1})` }), text)), html("li", {}, html("i", { class: "by-turns" }), "by turns"));
for (const [name, drawn] of Object.entries({ links: drawLinks, jobs: drawJobs, turns: drawTurns, agents: drawAgents, events: drawEvents, audit: drawAudit, cabling: drawCabling, switch: drawPage })) byId(`${name}-filter`).addEventListener("input", () => { if (seen.fabric !== undefined) drawn(); });
// The address bar keeps no lone "#".
const close = () => { if (opened().length) { history.pushState(null, "", location.pathname); moved(); } };
for (const button of document.querySelectorAll(".close")) button.addEventListener("click", close);
addEventListener("popstate", () => { if (location.hash === "" && location.href.endsWith("#")) history.replaceState(null, "", location.pathname); moved(); });
addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input");
  if (event.key === "Escape" && !typing) close();
  // As in most tools: to the filter of what is shown.
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    [...document.querySelectorAll("input[type=search]")].find((input) => input.offsetParent)?.focus();
  }
});
addEventListener("resize", () => soon());

// The page asks a slow service less often: it rests four times as long as the last refresh took.
async function loop() {
  const began = performance.now();
  if (!document.hidden) await refresh();
  setTimeout(loop, Math.max(REFRESH_MS, 4 * (performance.now() - began)));
}
addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });

function happened(event) {
  seen.events = [...seen.events, event].slice(-EVENTS_MAX);
  if (event.kind === "fabric") fabricKnown = false;
  if (event.by) auditKnown = false;
  // A group was let go, or is held again: that keeps its jobs apart otherwise, under the same plan.
  if (event.kind === "turns") seen.links_version = undefined;
  soon();
}

// The stream begins where the list ends, so that no event falls between the two.
async function begin() {
  try {
    const { events, oldest } = await get("events", { limit: EVENTS_MAX });
    seen.events = events;
    follow(events.at(-1)?.sequence ?? oldest - 1, happened, (stream) => {
      // Another service may answer now, with another fabric.
      if (stream) { fabricKnown = auditKnown = false; seen.links_version = undefined; soon(); }
      says({ stream });
    });
  } catch (error) {
    trouble(error);
    setTimeout(begin, REFRESH_MS);
  }
}
chooses(trouble);
moved();
begin();
loop();
