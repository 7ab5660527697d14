// The page: asks, draws, follows events. What is open is in the address, so that a link can be sent to somebody.

import { follow, get, Refused } from "./api.js";
import { byId, chip, count, duration, html, rate, render, SCORES } from "./dom.js";
import { chart } from "./chart.js";
import { mark, openable } from "./map.js";
import { circles, map } from "./pictures.js";
import { agents, brings, chips, coloured, jobs, links, ROWS_MAX, turns } from "./tables.js";

const REFRESH_MS = 2_000;
// Counters of all ports are megabytes on a large fabric.
const HOSTS_MS = 5_000;
// What charts and sparks show.
const SECONDS = 120;
// Events come in bursts: one refresh for all of them.
const SETTLE_MS = 150;
const EVENTS_MAX = 200;
const LINKS_ASKED = 2_000;
const GROUPS_ASKED = 200;
// Scores closer than this are the same.
const SAME = 1e-9;
// Ports drawn with their marks; the busiest.
const PORTS_MAX = 12;
// Kinds of events that change what the marks tell.
const PLANS = ["committed", "released", "moved", "expired"];
const MARKS = [["ecn_marked_rx", "ECN marks received", "var(--s4)"], ["cnp_tx", "CNPs sent", "var(--j5)"], ["cnp_rx_handled", "CNPs handled", "var(--j4)"]];

// `fabric`: undefined until answered, null where none is set.
const seen = { links: [], total: 0, jobs: [], plan_version: 0, agents: [], series: new Map(), hosts: [], events: [], fabric: undefined, turns: [], turns_total: 0, turns_at: 0 };

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
  const text = [html("b", {}, `plan version ${seen.plan_version}`), ` · ${fabric} · ${count(seen.jobs.length, "job")} (${state(seen.jobs, "held")} held) · ${count(seen.agents.length, "agent")}`];
  if (bad.length) text.push(" · ", html("span", { class: "bad" }, bad.join(", ")));
  render(byId("vitals"), JSON.stringify([seen.plan_version, fabric, seen.jobs.length, state(seen.jobs, "held"), seen.agents.length, bad]), () => text);
}

// What to do next where there is nothing to show; null where there is.
function next() {
  const at = location.origin === "http://127.0.0.1:7480" ? "" : ` --server ${location.origin}`;
  if (seen.fabric === null) return ["No fabric is set. Load one: ", html("code", {}, `antiphase fabric set${at} FILE`)];
  if (!seen.jobs.length) return ["No jobs are committed: whatever runs, runs as it comes. They appear here once somebody commits them: ", html("code", {}, `antiphase commit${at} --jobs FILE`)];
  return null;
}

// What holding does for the iterations of jobs that share links: as their gates see it, or as predicted where none has reported.
function gain() {
  const sharing = seen.jobs.filter((j) => j.shared_links.length && j.predicted_contended_ns && !j.slot?.turns);
  const measured = sharing.filter((j) => j.iteration_ns);
  const part = (jobs, now) => jobs.reduce((sum, j) => sum + now(j) / j.predicted_contended_ns, 0) / jobs.length;
  const says = (part) => (Math.abs(part - 1) < 0.0005 ? "as long as" : `${Math.abs(100 * (1 - part)).toFixed(1)} % ${part < 1 ? "shorter" : "longer"} than`) ;
  if (measured.length) return `Measured: iterations of ${count(measured.length, "job")} are on average ${says(part(measured, (j) => j.iteration_ns))} predicted with nobody held.`;
  const planned = (j) => j.predicted_interleaved_ns ?? j.predicted_contended_ns;
  if (sharing.length) return `Predicted: iterations of ${count(sharing.length, "job")} are on average ${says(part(sharing, planned))} with nobody held. No gate has reported yet.`;
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
  const waits = mean((job) => (job.held ? job.held.mean_wait_ns / Math.max(1, job.held.mean_ns) : 0));
  const part = mean((job) => job.brings.part);
  const says = Math.abs(part) < 0.0005 ? "as long as" : `${(100 * Math.abs(part)).toFixed(1)} % ${part < 0 ? "shorter" : "longer"} than`;
  return measured.length
    ? `Measured: by turns, iterations of ${count(among.length, "job")} are on average ${says} free, and ${(100 * waits).toFixed(1)} % of their time is waiting. ${freed}`
    : `Predicted: by turns, iterations of ${count(among.length, "job")} are on average ${says} free; what they take free is not measured yet. ${freed}`;
}

// The page in three sentences: which link is worst and whose it is, what the shifts do to scores, and to iterations.
function drawVerdict(shared) {
  const turns = planned();
  const shifted = shared.filter((l) => !meet(l, turns));
  const clear = shifted.filter((l) => l.score >= 1 - SAME).length;
  const raised = shifted.filter((l) => l.score > l.zero_shift_score + SAME).length;
  const bad = shared.filter((l) => !l.by_turns && l.score < 1 - SAME);
  // Where every link is clear, the one that would be worst with nobody held.
  const worst = bad.length ? bad.reduce((a, b) => (b.score < a.score ? b : a)) : shared.reduce((a, b) => (b.zero_shift_score < a.zero_shift_score ? b : a), shared[0]);
  const key = JSON.stringify([worst, bad.length, shared.length, shifted.length, raised, clear, seen.fabric === null, seen.jobs.length, gain(), turning()]);
  render(byId("verdict"), key, () => {
    const missing = next();
    if (missing) return html("p", { class: "first" }, missing);
    if (!worst) return html("p", { class: "first" }, "No link is shared by two jobs: there is nothing to keep apart.");
    const name = html("button", { class: "link", type: "button", "data-link": worst.id, onclick: () => open(worst.id) }, worst.id);
    const who = ["shared by ", chips(worst.jobs)];
    const all = shared.some((l) => l.by_turns) ? ["Jobs that meet take turns. Free, the worst link would be "] : ["Nobody waits for a link. Unshifted, the worst would be "];
    const scores = `The shifts raise the score of ${raised ? raised.toLocaleString() : "none"} of ${count(shifted.length, "shared link")}${clear === shifted.length ? "" : `; on ${clear.toLocaleString()} nobody waits`}. `;
    return [
      !bad.length
        ? html("p", { class: "first" }, all, name, " with a score of ", coloured(worst.zero_shift_score), ", ", who)
        : html("p", { class: "first" }, "Worst link: ", name, " with a score of ", coloured(worst.score), " (unshifted ", coloured(worst.zero_shift_score), "), ", who),
      html("p", {}, [shifted.length ? scores : "", gain(), turning()].filter(Boolean).join(" ")),
    ];
  });
}

function drawLinks() {
  const filter = byId("links-filter").value;
  const found = seen.links.filter((l) => has(`${l.id} ${l.jobs.join(" ")}`, filter));
  const shared = seen.links.filter((l) => typeof l.score === "number");
  drawVerdict(shared);
  const key = JSON.stringify([found.slice(0, ROWS_MAX).map((l) => [l.id, l.score, l.zero_shift_score, l.jobs, l.by_turns]), opened(), filter === ""]);
  render(byId("links"), key, () => links(found, opened(), open,
    filter ? "No link or job of this name." : "No link carries demand."));
  byId("links-note").textContent = seen.total ? `${shared.length.toLocaleString()} of ${count(seen.total, "link")} with demand ${shared.length === 1 ? "is" : "are"} shared` +
    (found.length > ROWS_MAX ? `; the first ${ROWS_MAX} are listed` : "") : "";
  byId("legend").hidden = !shared.length;
  if (byId("map").dataset.key) mark(byId("map"), seen.links, opened());
}

// The drawing is asked for where the plan or the fabric changed; the rest is marked on it.
async function drawMap() {
  const key = JSON.stringify([seen.plan_version, seen.fabric]);
  if (byId("map").dataset.key !== key) {
    const drawing = seen.fabric ? await map() : null;
    render(byId("map"), key, () => (drawing ? openable(drawing, open) : html("p", { class: "empty" }, "The fabric is drawn here.")));
  }
  mark(byId("map"), seen.links, opened());
}

// The address names another link, or none.
function moved() {
  drawLinks();
  drawLink().then(() => { if (opened()) byId("link-section").scrollIntoView({ block: "nearest" }); }, trouble);
}

async function drawLink() {
  const id = opened();
  byId("link-section").hidden = !id;
  if (!id) return;
  // The answer is empty where the link carries no job, or none any more.
  const link = (await get("links", { links: id, demands: true })).links[0] ?? null;
  if (id !== opened()) return;
  byId("link-title").textContent = `Link ${id}`;
  const key = JSON.stringify([id, link]);
  // Drawn anew only where something changed.
  if (byId("link-detail").dataset.key === key) return;
  const demands = link?.demands ?? [];
  // None where the link lost its jobs between the two questions: the next refresh says so.
  const drawing = demands.length ? await circles(link).catch(absent) : null;
  if (id !== opened()) return;
  render(byId("link-detail"), key, () => {
    if (!link) return html("p", { class: "empty" }, "This link carries no demand now.");
    return [
      html("p", {}, `${rate(link.capacity_mbps)} from ${link.from_node} to ${link.to_node}. Each ring is when a job sends; the outermost, where there is a common turn, is all of them together: the dashed circle is the capacity, and what is `, html("b", { class: "bad" }, "over it"), " waits."),
      html("div", { class: "circles" }, html("figure", {}, drawing),
        html("table", { class: "demands" }, html("tbody", {}, demands.map((d) => html("tr", {},
          html("td", {}, chip(d.job)), html("td", {}, `every ${duration(d.period_ns)}`), html("td", {}, d.shift_ns ? `shifted by ${duration(d.shift_ns)}` : "not shifted"),
          html("td", {}, `sends ${duration(d.phases.reduce((s, p) => s + p.end_ns - p.start_ns, 0))}, up to ${rate(Math.max(0, ...d.phases.map((p) => p.rate_mbps)))}`)))))),
    ];
  });
}

function drawJobs() {
  const filter = byId("jobs-filter").value;
  const found = seen.jobs.filter((j) => has(`${j.id} ${j.state} ${j.hosts.join(" ")}`, filter));
  byId("jobs-note").textContent = found.length > ROWS_MAX ? `the first ${ROWS_MAX} of ${found.length} are listed` : "";
  render(byId("jobs"), JSON.stringify([found.slice(0, ROWS_MAX), filter === "", [...seen.series.values()].map((s) => s.at_ms.at(-1))]), () => jobs(found, seen.series, filter ? "No job of this name, host or state." : "No job is committed."));
}

function drawTurns() {
  byId("turns-section").hidden = !seen.turns.length;
  const filter = byId("turns-filter").value;
  const found = seen.turns.filter((group) => has(group.jobs.map((j) => j.job).join(" "), filter));
  const state = (name) => seen.turns.filter((group) => group.state === name).length;
  const rows = found.reduce((sum, group) => sum + 1 + group.jobs.length, 0);
  byId("turns-note").textContent = [
    count(seen.turns_total, "group"), state("let_go") && `${state("let_go")} let go`,
    (rows > ROWS_MAX || seen.turns_total > seen.turns.length) && "the first are listed",
  ].filter(Boolean).join(", ");
  render(byId("turns"), JSON.stringify([found, filter === ""]), () => turns(found, seen.turns_at, "No job of this name takes turns."));
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
  byId("marks-note").textContent = [ports.length > PORTS_MAX && `the ${PORTS_MAX} ports with most of ${ports.length}`, ports.length && commits.length && "upright lines: the plan changed"].filter(Boolean).join("; ");
  render(byId("marks"), JSON.stringify([ports.slice(0, PORTS_MAX), commits]), () => ports.length
    ? ports.slice(0, PORTS_MAX).map((p) => html("div", { class: "chart" }, html("b", {}, p.title), " ", p.series.map((s) => html("small", { class: "key" }, html("i", { style: `background: ${s.colour}` }), s.name)), chart(p.series, commits, (v) => `${v.toLocaleString()} a second`)))
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
  drawTurns();
  drawJobs();
  drawMarks();
  drawAgents();
  drawEvents();
}

const meet = (link, jobs) => link.jobs.filter((job) => jobs.has(job)).length > 1;
// Jobs whose plan says that they take turns.
const planned = () => new Set(seen.jobs.filter((j) => j.slot?.turns).map((j) => j.id));

// Shifts are nothing to jobs that take turns, nor to those that were let go: those run free whatever their plan says. A trial is too
// short to be shown as anything else.
function keptApart(groups) {
  const [turns, free] = [planned(), new Set(groups.filter((g) => g.state === "let_go").flatMap((g) => g.jobs.map((j) => j.job)))];
  for (const link of seen.links) {
    link.by_turns = link.zero_shift_score < 1 - SAME && meet(link, turns) && !meet(link, free);
    if (meet(link, free)) link.score = link.zero_shift_score;
  }
  for (const job of seen.jobs) if (job.state === "held" && free.has(job.id)) job.state = "free";
}

let nextHosts = 0;
// The fabric seldom changes: it is asked for when an event or another service says so.
let fabricKnown = false;
async function ask() {
  const hosts = performance.now() > nextHosts;
  const [links, jobs, agents, turns, telemetry] = await Promise.all([
    get("links", { limit: LINKS_ASKED }), get("jobs"), get("agents"), get("turns", { limit: GROUPS_ASKED }), get("telemetry", { seconds: SECONDS, all_hosts: hosts }),
  ]);
  Object.assign(seen, { links: links.links, total: links.total, jobs: jobs.jobs, plan_version: jobs.plan_version, agents: agents.agents, turns: turns.groups, turns_total: turns.total, turns_at: turns.at_ns });
  keptApart(turns.groups);
  seen.series = new Map(telemetry.jobs.map((s) => [s.job, s]));
  if (hosts) {
    seen.hosts = telemetry.hosts;
    nextHosts = performance.now() + HOSTS_MS;
  }
  if (!fabricKnown) {
    // Before the question, so that a change during it asks again.
    fabricKnown = true;
    seen.fabric = await get("fabric", { summary: true }).catch(absent).catch((error) => { fabricKnown = false; throw error; });
  }
  draw();
  // The detail first: a map that is refused keeps nobody from it.
  await drawLink();
  await drawMap();
  document.body.dataset.drawn = seen.plan_version;
}

// What was refused is said in the corner; anything else is a fault of this page and belongs on the console too.
function trouble(error) {
  if (!(error instanceof Refused)) reportError(error);
  says({ trouble: error.message });
}

const absent = (error) => { if (error.status === 404) return null; throw error; };

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
const health = { stream: false, trouble: null };
function says(change) {
  Object.assign(health, change);
  const live = health.stream && !health.trouble;
  byId("live").className = live ? "live" : "live off";
  byId("live").textContent = live ? "live" : `not live: ${health.stream ? health.trouble : "reconnecting …"}`;
}

let settling = null;
const soon = () => { settling ??= setTimeout(async () => { settling = null; await refresh(); }, SETTLE_MS); };

byId("legend").append(html("li", {}, "Score"), ...SCORES.map(([, text], i) => html("li", {}, html("i", { style: `background: var(--s${i + 1})` }), text)), html("li", {}, html("i", { class: "by-turns" }), "by turns"));
byId("links-filter").addEventListener("input", drawLinks);
byId("jobs-filter").addEventListener("input", drawJobs);
byId("turns-filter").addEventListener("input", drawTurns);
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
  if (event.kind === "fabric") fabricKnown = false;
  soon();
}

// The stream begins where the list ends, so that no event falls between the two.
async function begin() {
  try {
    const { events, oldest } = await get("events", { limit: EVENTS_MAX });
    seen.events = events;
    follow(events.at(-1)?.sequence ?? oldest - 1, happened, (stream) => {
      // Another service may answer now, with another fabric.
      if (stream) { fabricKnown = false; soon(); }
      says({ stream });
    });
  } catch (error) {
    trouble(error);
    setTimeout(begin, REFRESH_MS);
  }
}
begin();
loop();
