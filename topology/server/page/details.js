// The pages of one link, one job and one switch.

import { get } from "./api.js";
import { chart, lane, shown } from "./chart.js";
import { byId, chip, coloured, count, duration, html, jobColour, linkTo, number, rate, render, share, signed, switchTo } from "./dom.js";
import { Grid } from "./grid.js";
import { openable, pictured, widthOf } from "./map.js";
import { circles, iterations, neighbours } from "./pictures.js";
import { about, groupOf, seen } from "./state.js";
import { ago, figure, LINKS, linkText, measured, more, percent, slower } from "./tables.js";
import { gain, now, reason, waitedFor, waiting } from "./turns.js";

// Events of one page.
const EVENTS_MAX = 50;
const SECONDS = 600;
// A drawing that a small window shows in parts, which a keyboard has to scroll too.
const WIDE = { tabindex: 0, "aria-label": "What the jobs send, before and after" };
// The page of a job asks for the distribution of its iterations this often.
const SPREAD_MS = 4_000;

// Names and values, as tiles.
const facts = (all) => html("dl", { class: "facts" }, all.filter(Boolean).map(([name, value, title]) => html("div", { title }, html("dt", {}, name), html("dd", {}, value))));
const none = (text) => html("p", { class: "empty" }, text);
const happened = (events) => (events.length
  ? html("ol", { class: "log" }, events.slice(-EVENTS_MAX).reverse().map((e) => html("li", {}, html("time", {}, new Date(e.at_ns / 1e6).toLocaleTimeString()), html("span", { class: "kind" }, e.kind), html("span", { class: e.severity }, e.message))))
  : none("Nothing of the last events is about it."));
// Where the page stands in the fabric.
const path = (...parts) => html("nav", { class: "path", "aria-label": "Where this is" }, html("a", { class: "link", href: "#" }, "Fabric"), " › ", parts);
const absent = (error) => { if (error.status === 404) return null; throw error; };

// An end of a link: a switch has a page, a host has none.
const end = (name, tier) => (tier > 0 ? switchTo(name) : name);

export async function drawLink(id, still) {
  // The answer is empty where the link carries no job, or none any more.
  const link = (await get("links", { links: id, demands: true })).links[0] ?? (seen.observed.has(id) ? (await get("links", { links: id, observed: true })).links[0] : null) ?? null;
  if (!still()) return;
  byId("link-title").textContent = `Link ${id}`;
  if (link) link.by_turns = link.apart === "turns";
  const events = link ? seen.events.filter((event) => link.jobs.some((job) => about(job)(event))) : [];
  const back = link && seen.links.find((one) => one.from_node === link.to_node && one.to_node === link.from_node);
  const key = JSON.stringify([id, link, back?.id, events.map((e) => e.sequence)]);
  // Drawn anew only where something changed.
  if (byId("link-detail").dataset.key === key) return;
  const demands = link?.demands ?? [];
  // None where the link lost its jobs between the two questions: the next refresh says so.
  const drawing = demands.length ? await circles(link).catch(absent) : null;
  if (!still()) return;
  render(byId("link-detail"), key, () => (link ? linkPage(link, back, drawing, events) : none("This link carries no demand now.")));
}

function linkPage(link, back, drawing, events) {
  const isShared = typeof link.score === "number";
  const sends = (d) => d.phases.reduce((sum, p) => sum + p.end_ns - p.start_ns, 0);
  // Shifts and the periods of slots say nothing of jobs that keep to no slot.
  const slotted = !link.by_turns && link.apart !== "free";
  const alone = (d) => seen.jobs.find((job) => job.id === d.job)?.solo_period_ns ?? d.period_ns;
  const how = (d) => (link.by_turns ? "takes turns" : !slotted ? "runs as it comes" : d.shift_ns ? `shifted by ${duration(d.shift_ns)}` : "not shifted");
  const row = (d) => html("tr", {},
    html("td", {}, chip(d.job)), html("td", {}, slotted ? `every ${duration(d.period_ns)}` : `alone every ${duration(alone(d))}`), html("td", {}, how(d)),
    html("td", {}, `sends ${duration(sends(d))}, up to ${rate(Math.max(0, ...d.phases.map((p) => p.rate_mbps)))}`));
  return [
    path(end(link.from_node, link.from_tier), " → ", end(link.to_node, link.to_tier)),
    facts([
      isShared && ["Score", link.by_turns ? "by turns" : coloured(link.score), "1: nobody waits; otherwise 1 less the mean demand over capacity, in capacities"],
      isShared && ["Unshifted", coloured(link.zero_shift_score ?? 1), "The score if nobody were shifted"],
      ["Capacity", rate(link.capacity_mbps)],
      ["Planned load", share(link.mean_demand_ratio), "What its jobs send on average as they are planned"],
      ["Measured load", share(link.measured_ratio), "What its host sent or received in the last ten seconds; only agents that count bytes tell it"],
      typeof link.observed_mbps === "number" && ["Observed load", [typeof link.observed_ratio === "number" ? `${share(link.observed_ratio)} (${more(link.observed_excess_ratio)})` : rate(link.observed_mbps), " ", html("small", {}, ago(link.observed_age_ms))], "What the switch at one of its ends counted last (sFlow), whoever sent it; in brackets the difference from the planned load"],
      ["Peak", share(link.peak_demand_ratio), "The jobs' highest demands together"],
      back && ["Other direction", linkTo(back.id, false)],
    ]),
    link.demands.length ? html("div", { class: "circles" }, html("figure", WIDE, drawing),
      html("div", {}, html("h3", {}, `${count(link.demands.length, "job")} on it`), html("table", { class: "demands" }, html("tbody", {}, link.demands.map(row))),
        html("p", { class: "hint" }, "What is ", html("b", { class: "bad" }, "over the capacity"), " waits."), slotted ? null : html("p", { class: "hint" }, "Drawn in the periods of slots."))) : none("No job is planned on it: what it carries is somebody else's."),
    html("h3", {}, "Events"), happened(events),
  ];
}

// What the job waits for, in its last starts.
function waits(job, group) {
  const turn = group.jobs.find((one) => one.job === job.id);
  const { looked, waited, among } = waitedFor(job.id, group);
  if (!turn || !looked) return none("None of its starts was seen yet.");
  const part = waiting(turn.held);
  const row = (one) => {
    const links = seen.links.filter((link) => link.jobs.includes(job.id) && link.jobs.includes(one.job) && typeof link.score === "number");
    return html("tr", {}, html("td", {}, chip(one.job)), html("td", { class: "number" }, duration(one.ns / looked)), html("td", { class: "number" }, `${one.starts} of ${looked}`),
      html("td", { class: "cutable" }, links.length ? [linkTo(links[0].id), links.length > 1 ? ` and ${links.length - 1} more` : ""] : "–"));
  };
  return [
    html("p", {}, turn.held ? `By turns it waits ${duration(turn.held.mean_wait_ns)} of ${duration(turn.held.mean_ns)} in the mean: ${(100 * part).toFixed(1)} % of its time. ` : "", `${number(turn.waited)} of ${count(turn.starts, "start")} waited; ${number(turn.bound)} went at the bound.`),
    among.length
      ? html("div", { class: "scroll" }, html("table", {}, html("thead", {}, html("tr", {}, ["Waits for", ">Each start", ">Starts", "They meet on"].map((text) => html("th", { scope: "col", class: text.startsWith(">") ? "number" : undefined }, text.replace(">", ""))))), html("tbody", {}, among.map(row))))
      : none(waited ? "Those that it waited for have sent no more since." : `It waited for nobody in its last ${count(looked, "start")}.`),
  ];
}

// How it is known whose packets ports counted.
const KNOWN = { queue_pairs: "Its own, as queue pairs say.", alone: "Its own by placement: no other job that sends has ranks there.", shared: "Its share by what it sends as planned: several jobs use a port." };

function jobFacts(job, turn) {
  const part = slower(job), slot = job.slot ?? {};
  return facts([
    ["State", html("span", { class: `state-${job.state}` }, job.state)],
    ["Iteration now", [duration(measured(job)), job.iteration_ns ? figure(job) : ""], "As its gate sees it: the mean of its last ones, 64 at most, without pauses"],
    part !== undefined && ["Slower than alone", [percent(part), figure(job)]],
    ["Alone", duration(job.solo_period_ns), "An iteration alone, from the profile"],
    job.declared_period_ns && ["Declared", duration(job.declared_period_ns), "It is planned with another one, which was measured"],
    ["Contended", duration(job.predicted_contended_ns), "An iteration with nobody held, predicted"],
    ["Interleaved", duration(job.predicted_interleaved_ns), "An iteration as they are held, predicted"],
    turn?.held && ["By turns, mean", duration(turn.held.mean_ns), `Of its last ${turn.held.iterations} iterations by turns; 99 % took at most ${duration(turn.held.p99_ns)}`],
    turn?.free && ["Free, mean", duration(turn.free.mean_ns), `Of its last ${turn.free.iterations} iterations while its group ran free; 99 % took at most ${duration(turn.free.p99_ns)}`],
    turn && ["Change by turns", gain(turn), "How much longer (+) or shorter (−) an iteration is by turns than free, in the mean"],
    !slot.turns && slot.hold && ["Slot", `${duration(slot.offset_ns)} into each ${duration(slot.period_ns)}`],
    !slot.turns && slot.hold && ["Slack", duration(slot.slack_ns), "How far it may drift before a score falls"],
    !slot.turns && slot.hold && ["Late by", signed(job.phase_error_ns)],
    ["Hosts", `${number(job.hosts.length)}${job.gpus ? `, ${count(job.gpus, "GPU")}` : ""}`, job.hosts.slice(0, 64).join(" ")],
    job.congestion?.marked !== undefined && ["Marked", [number(job.congestion.marked), job.congestion.received ? ` of ${number(job.congestion.received)} packets` : ""], `Packets with an ECN mark that came in at its hosts${job.congestion.marked_host ? `, most at ${job.congestion.marked_host}` : ""}. ${KNOWN[job.congestion.attribution] ?? ""}`],
    job.congestion?.cnps_sent !== undefined && ["CNPs sent", number(job.congestion.cnps_sent), `By its hosts, as receivers of marked packets. ${KNOWN[job.congestion.attribution] ?? ""}`],
    job.congestion?.cnps_handled !== undefined && ["CNPs obeyed", number(job.congestion.cnps_handled), `By its hosts, as senders${job.congestion.slowed_host ? `, most at ${job.congestion.slowed_host}` : ""}. ${KNOWN[job.congestion.attribution] ?? ""}`],
    !slot.turns && job.slips && ["Slips", number(job.slips), "Starts so late that they waited for the next slot"],
    job.fail_opens && ["Failed open", html("span", { class: "state-open" }, `${job.fail_opens}`), "Starts let through because the plan could not be trusted"],
  ]);
}

let shownLinks, jobLinks, spread = { job: undefined, at: -Infinity, drawing: null };

export async function drawJob(name, still) {
  byId("job-title").replaceChildren("Job ", html("span", { class: "dot", style: `background: ${jobColour(name)}` }), name);
  const job = seen.jobs.find((one) => one.id === name);
  if (!job) {
    shownLinks = undefined;
    render(byId("job-detail"), `no ${name}`, () => none("No job of this name is committed now."));
    return;
  }
  const fresh = spread.job !== name || performance.now() - spread.at > SPREAD_MS;
  const [telemetry, drawing] = await Promise.all([get("telemetry", { jobs: name, seconds: SECONDS }), fresh ? iterations(name) : spread.drawing]);
  if (!still()) return;
  if (fresh) spread = { job: name, at: performance.now(), drawing };
  const group = groupOf(name), turn = group?.jobs.find((one) => one.job === name);
  const events = seen.events.filter(about(name));
  const series = telemetry.jobs[0];
  // The parts each by itself: a lane that moves steals no focus from the links.
  if (byId("job-detail").dataset.key !== name) {
    render(byId("job-detail"), name, () => ["job-facts", "job-waits", "job-iterations", "job-links", "job-events"].map((id) => html("div", { id })));
    shownLinks = undefined;
  }
  render(byId("job-facts"), JSON.stringify([job, turn?.held, turn?.free]), () => [job.hold_ended ? html("p", { class: "state-drifting" }, job.hold_ended) : null, jobFacts(job, turn)]);
  render(byId("job-waits"), JSON.stringify([group, seen.links_version]), () => (group ? turnsOf(job, group, turn) : [html("h3", {}, "Turns"), none(job.slot?.hold ? "It keeps to a slot, and takes no turns." : "It takes no turns: those that it meets cannot exceed a link together with it, or turns would bring nothing, or nobody is held.")]));
  render(byId("job-iterations"), JSON.stringify([series?.at_ms.at(-1), series?.at_ms.length, drawing?.outerHTML.length, turn?.held?.mean_ns]), () => [html("h3", {}, "Iterations"), html("div", { class: "circles" }, drawing ? html("figure", { class: "half" }, drawing, html("figcaption", {}, "Which share of its iterations took at most so long")) : none("Nothing was measured yet: no gate has reported an iteration."), series?.at_ms.length > 1 ? html("figure", { class: "half" }, chart([{ at: series.at_ms, value: series.iteration_ns, colour: jobColour(name), name: "iteration" }], [], (ns) => `at most ${duration(ns)}`), html("figcaption", {}, "Over time: the median of each report of its gate")) : null)]);
  linksOf(job);
  render(byId("job-events"), JSON.stringify(events.map((e) => e.sequence)), () => [html("h3", {}, "Events"), happened(events)]);
}

function turnsOf(job, group, turn) {
  const time = shown(group.jobs, seen.turns_at);
  const lanes = [...group.jobs].sort((a, b) => (b.job === job.id) - (a.job === job.id)).slice(0, 12);
  return [
    html("h3", {}, "Turns"),
    html("p", {}, html("b", { class: `group-${group.state}` }, `Group of ${group.jobs.length}`), ` ${reason(group)}. Now: `, now(turn)),
    time ? html("table", { class: "lanes" }, html("tbody", {}, lanes.map((one) => html("tr", {}, html("td", {}, chip(one.job)), html("td", {}, lane(one, time, jobColour(one.job))), html("td", {}, now(one)))))) : null,
    html("h3", {}, "Who it waits for, and what that costs"),
    waits(job, group),
  ];
}

// The links that it crosses, the worst first.
function linksOf(job) {
  const box = byId("job-links");
  if (shownLinks !== job.id) {
    const table = html("table", { "aria-label": `Links of ${job.id}` });
    box.replaceChildren(html("h3", {}, "Links"), html("div", { class: "scroll short" }, table));
    jobLinks = new Grid(table, LINKS, { id: (l) => l.id, text: linkText, nothing: () => "It crosses no link." });
    shownLinks = job.id;
  }
  jobLinks.show(seen.links.filter((link) => link.jobs.includes(job.id)));
}

let switchLinks, shownSwitch;

export async function drawSwitch(name, still) {
  byId("switch-title").textContent = `Switch ${name}`;
  const box = byId("switch-map");
  const key = JSON.stringify([name, pictured(box)]);
  if (box.dataset.asked !== key) {
    const drawing = await neighbours(name, widthOf(box));
    if (!still()) return;
    box.dataset.asked = key;
    render(box, drawing?.outerHTML ?? `no ${name}`, () => (drawing ? openable(drawing) : none("The fabric has no switch of this name.")));
  }
  switchLinks ??= new Grid(byId("switch-links"), LINKS, { id: (l) => l.id, text: linkText, nothing: (filtered) => (filtered ? "No link or job of this name." : "None of its links carries demand.") });
  if (shownSwitch !== name) byId("switch-filter").value = "";
  shownSwitch = name;
  switchLinks.show(seen.links.filter((link) => link.from_node === name || link.to_node === name), byId("switch-filter").value);
}
