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

// Score classes of the reports, best first.
export const SCORES = [[1 - 1e-9, "1"], [0.95, "0.95 to 1"], [0.8, "0.8 to 0.95"], [0.6, "0.6 to 0.8"], [-Infinity, "below 0.6"]];
export const scoreClass = (score) => 1 + Math.max(0, SCORES.findIndex(([low]) => score >= low));
export const scoreColour = (score) => `var(--s${scoreClass(score)})`;

// A job keeps its colour on the whole page.
const HUES = 8;
const seen = new Map();
export const jobSlot = (job) => {
  if (!seen.has(job)) seen.set(job, 1 + (seen.size % HUES));
  return seen.get(job);
};
export const jobColour = (job) => `var(--j${jobSlot(job)})`;

export const chip = (job) => html("span", { class: "chip", style: `border-left-color: ${jobColour(job)}` }, job);

export function rate(mbps) {
  return mbps >= 1000 ? `${+(mbps / 1000).toFixed(1)} Gb/s` : `${mbps} Mb/s`;
}

export function duration(ns) {
  if (ns === undefined || ns === null) return "–";
  const size = Math.abs(ns);
  if (size < 1e3) return `${ns} ns`;
  if (size < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  if (size < 1e9) return `${(ns / 1e6).toFixed(size < 1e8 ? 2 : 1)} ms`;
  return `${(ns / 1e9).toFixed(2)} s`;
}

export const signed = (ns) => (ns === undefined || ns === null ? "–" : (ns > 0 ? "+" : "") + duration(ns));
export const count = (n, one, many = one + "s") => `${n.toLocaleString()} ${n === 1 ? one : many}`;

// Replaces the children only where something changed, so that a refresh does not steal scroll; the focus stays on what stands
// for the same link.
export function render(parent, key, make) {
  if (parent.dataset.key === key) return;
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.link : undefined;
  parent.replaceChildren(...[make()].flat(Infinity));
  parent.dataset.key = key;
  if (focused !== undefined) [...parent.querySelectorAll("[data-link]")].find((e) => e.dataset.link === focused)?.focus({ preventScroll: true });
}
