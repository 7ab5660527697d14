// Small helpers. Text from the service only ever becomes text nodes and attributes, never markup; drawings are the one exception
// (pictures.js), and the service escapes the names in them.

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export const html = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) => build(document.createElementNS(SVG, name), attributes, children);
export const byId = (id) => document.getElementById(id);

// Names with numbers in them in the order of the numbers. One collator for all: to make one takes longer than to compare.
export const byName = new Intl.Collator(undefined, { numeric: true }).compare;

// Score classes of the reports, best first.
export const SCORES = [[1 - 1e-9, "1"], [0.95, "0.95 to 1"], [0.8, "0.8 to 0.95"], [0.6, "0.6 to 0.8"], [-Infinity, "below 0.6"]];
export const scoreClass = (score) => 1 + Math.max(0, SCORES.findIndex(([low]) => score >= low));
export const scoreColour = (score) => `var(--s${scoreClass(score)})`;
// A score in the colour of its class; rounded down, as in every picture, so that 1.000 is never over capacity.
export const coloured = (score) => html("b", { class: `s${scoreClass(score)}` }, (Math.floor(score * 1e3 + 1e-6) / 1e3).toFixed(3));

// A job keeps its colour on the whole page: at first sight the one that is on the fewest of its links, then on the fewest jobs.
const HUES = 8;
const seen = new Map(), have = Array(HUES).fill(0);
let onLinks = new Map();
// Tells, before jobs are drawn, whose the links are: `[[job, ...], ...]`.
export function meetings(links) {
  onLinks = new Map();
  for (const jobs of links) {
    const has = Array(HUES).fill(0);
    for (const job of jobs) {
      if (seen.has(job)) has[seen.get(job) - 1] = 1;
      if (!onLinks.get(job)?.push(has)) onLinks.set(job, [has]);
    }
  }
}
export const jobSlot = (job) => {
  if (!seen.has(job)) {
    const mine = onLinks.get(job) ?? [];
    const near = have.map((_, at) => mine.reduce((sum, has) => sum + has[at], 0));
    const at = have.reduce((best, _, at) => (near[at] - near[best] || have[at] - have[best]) < 0 ? at : best, 0);
    seen.set(job, 1 + at);
    have[at] += 1;
    for (const has of mine) has[at] = 1;
  }
  return seen.get(job);
};
export const jobColour = (job) => `var(--j${jobSlot(job)})`;

// A name that is too long for its place loses letters before its end: names of many jobs differ there. It stays whole as text, also
// where it is copied.
const END = 11;
export function ends(name) {
  // What follows a host's name is the domain, which all hosts have.
  const [, host, domain] = /^([^.]+)((?:\.[a-z0-9-]+)*\.[a-z]{2,})$/i.exec(name) ?? [name, name, ""];
  if (name.length <= 1.5 * END) return name;
  return [html("span", { class: "start" }, host.slice(0, -END)), html("span", { class: "end" }, html("bdi", {}, host.slice(-END))), domain ? html("span", { class: "domain" }, domain) : null];
}
// Both ends of a link give way alike.
const bothEnds = (id) => { const [from, to] = id.split("->"); return to && id.length > 1.5 * END ? [html("span", { class: "cut" }, ends(from)), "->", html("span", { class: "cut" }, ends(to))] : ends(id); };
addEventListener("copy", (event) => {
  const chosen = getSelection();
  const cut = [...document.querySelectorAll(":is(.cut, .chip):has(.start)")].filter((name) => chosen.containsNode(name, true));
  if (!cut.length) return;
  // The parts of a cut name stand on lines of their own.
  const lines = (node) => (node.nodeType === Node.TEXT_NODE ? [node.data] : [...node.childNodes].flatMap(lines));
  event.clipboardData.setData("text/plain", cut.reduce((said, name) => said.replace(lines(name).join("\n"), name.textContent), chosen.toString()));
  event.preventDefault();
});

// Addresses within the page: what is open is in them, so that one can be sent to somebody.
export const address = (kind, id) => `#${new URLSearchParams({ [kind]: id })}`;
export const linkTo = (id, cut = true) => html("a", { class: cut ? "link cut" : "link", href: address("link", id), title: cut ? id : undefined, "data-link": id }, cut ? bothEnds(id) : id);
export const switchTo = (id) => html("a", { class: "link", href: address("switch", id), "data-switch": id }, id);

// A job, which opens by its name.
export const chip = (job) => html("a", { class: "chip", href: address("job", job), "data-job": job, title: job, style: `border-left-color: ${jobColour(job)}` }, ends(job));
// Whose a link is, on one line; on a backbone that can be very many.
export const chips = (jobs, most = 3) => (jobs.length > most + 1 ? [...jobs.slice(0, most).map(chip), html("span", { class: "more" }, `and ${jobs.length - most} more`)] : jobs.map(chip));

export function rate(mbps) {
  return mbps >= 1000 ? `${+(mbps / 1000).toFixed(1)} Gb/s` : `${+mbps.toFixed(mbps < 10 ? 1 : 0)} Mb/s`;
}

export function duration(ns) {
  if (ns === undefined || ns === null) return "–";
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  if (size < 1e9) return `${(ns / 1e6).toFixed(size < 1e8 ? 2 : 1)} ms`;
  return `${(ns / 1e9).toFixed(2)} s`;
}

export const signed = (ns) => (ns === undefined || ns === null ? "–" : (ns > 0 ? "+" : "") + duration(ns));
export const count = (n, one, many = one + "s") => `${number(n)} ${n === 1 ? one : many}`;
// Thousands as in the pictures (crates/render): a narrow space that does not break.
export const number = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");
// A share of something, in percent.
export const share = (part) => (part === undefined || part === null ? "–" : `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`);

// What a part of the page stands for, by which the focus finds it again.
const NAMES = ["link", "job", "switch"];
const named = (element) => NAMES.map((name) => element.dataset?.[name]).find((value) => value !== undefined);

// Replaces the children only where something changed, so that a refresh does not steal scroll; the focus stays on what stands
// for the same thing.
export function render(parent, key, make) {
  if (parent.dataset.key === key) return;
  const focused = parent.contains(document.activeElement) ? named(document.activeElement) : undefined;
  parent.replaceChildren(...[make()].flat(Infinity).filter((child) => child !== null && child !== undefined));
  parent.dataset.key = key;
  if (focused !== undefined) [...parent.querySelectorAll(NAMES.map((name) => `[data-${name}]`).join())].find((e) => named(e) === focused)?.focus({ preventScroll: true });
}
