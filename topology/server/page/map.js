// The fabric. The service draws it; the page opens its parts, and colours lines by what their jobs do now: a job that takes turns, or was
// let go, does not keep to the shifts that the drawing is about.

import { address, byId, html, render, scoreColour } from "./dom.js";
import { links, pods } from "./pictures.js";
import { seen } from "./state.js";

// Up to so many switches lines can be told apart; above, a cell stands for each switch.
const LINES_MAX = 40;
// Pictures are drawn for widths in these steps, so that a window that changes a little asks for no other one.
const STEP = 20;
// How often a picture is asked for again only because loads change.
const LOADS_MS = 5_000;

// Parts that open, by pointer and by keyboard. The tabulator comes to the first, and arrows go from one to the next: hundreds of stops
// would keep everybody from what is below.
export function openable(drawing) {
  drawing.setAttribute("role", "group");
  const parts = [...drawing.querySelectorAll("[data-link], [data-switch]")];
  const go = (at) => {
    for (const part of parts) part.setAttribute("tabindex", part === parts[at] ? 0 : -1);
    parts[at].focus();
  };
  for (const [at, part] of parts.entries()) {
    const [kind, id] = part.dataset.link === undefined ? ["switch", part.dataset.switch] : ["link", part.dataset.link];
    const pick = () => { location.hash = address(kind, id); };
    part.setAttribute("tabindex", at ? -1 : 0);
    part.setAttribute("role", "link");
    part.setAttribute("aria-label", part.querySelector("title")?.textContent ?? id);
    part.addEventListener("click", pick);
    part.addEventListener("keydown", (event) => {
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: below(parts, at, 1), ArrowUp: below(parts, at, -1), Home: 0, End: parts.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") pick();
      else if (to !== undefined && parts[to]) go(to);
      else return;
      event.preventDefault();
    });
  }
  return drawing;
}

// The part nearest below, or above, the middle of one.
function below(parts, at, way) {
  const middle = (part) => { const box = part.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; };
  const [x, y] = middle(parts[at]);
  const far = parts.map((part) => middle(part)).map(([px, py]) => ((py - y) * way > 4 ? (py - y) * way * 4 + Math.abs(px - x) : Infinity));
  const least = Math.min(...far);
  return least === Infinity ? undefined : far.indexOf(least);
}

// The two ends of a cable, whichever way.
const cable = (link) => [link.from_node, link.to_node].sort().join("\n");

// Colours lines. A line stands for both directions and for parallel cables.
function mark(drawing) {
  const lines = drawing.querySelectorAll(".link[data-link] .edge");
  if (!lines.length) return;
  const known = new Map(seen.links.map((link) => [link.id, link]));
  const shared = new Map();
  for (const link of seen.links.filter((link) => typeof link.score === "number")) shared.set(cable(link), [...shared.get(cable(link)) ?? [], link]);
  for (const line of drawing.querySelectorAll("[data-link]")) {
    const worst = known.get(line.dataset.link);
    const here = worst ? shared.get(cable(worst)) ?? [] : [];
    const kept = here.filter((link) => !link.by_turns);
    // What the page was not told keeps the colour of the drawing.
    if (here.length) line.style.setProperty("--line", scoreColour(Math.min(1, ...kept.map((link) => link.score))));
    line.classList.toggle("marked", here.length > 0);
    line.classList.toggle("by-turns", here.length > 0 && !kept.length);
  }
}

export const widthOf = (box) => Math.max(300, Math.floor((box.clientWidth || innerWidth - 40) / STEP) * STEP);
// What makes a picture with loads old: the plan, the fabric, the window, and time where something is measured or observed.
export const pictured = (box) => [seen.plan_version, seen.fabric?.fabric_version, widthOf(box), seen.measured.size || seen.observed.size ? Math.floor(performance.now() / LOADS_MS) : 0];

let asked = null;
// Asked for where something changed; the rest is marked on it.
export async function drawMap() {
  const box = byId("map");
  const cells = (seen.fabric?.switches ?? 0) > LINES_MAX;
  byId("map-key").hidden = !cells;
  const key = JSON.stringify([pictured(box), cells]);
  if (asked !== key) {
    const drawing = seen.fabric ? await (cells ? pods(widthOf(box)) : links()) : null;
    asked = key;
    // The same drawing again keeps what the pointer and the focus are on.
    render(box, drawing?.outerHTML ?? "", () => (drawing ? openable(drawing) : html("p", { class: "empty" }, "The fabric is drawn here.")));
  }
  mark(box);
}
