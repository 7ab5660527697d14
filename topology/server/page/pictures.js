// Pictures. The service draws them, as it does for the command line; the page only shows them.

import { Refused, text } from "./api.js";
import { jobSlot } from "./dom.js";

// Jobs beyond these have no ring, so their colours need not be said.
const RINGS_MAX = 16;

// A link's circles before and after the shifts, or what tells more of it, with the colours that the page gave the jobs; null when the link
// carries no job any more.
export function circles(link) {
  const colour = link.demands.slice(0, RINGS_MAX).map((d) => `${jobSlot(d.job)}:${d.job}`);
  return picture("links/circles.svg", { link: link.id, colour });
}

// The fabric with its links, or with a cell for each switch; null where none is set.
export const links = () => picture("fabric/map.svg", {});
export const pods = (width) => picture("fabric/map.svg", { pods: true, width });
// One switch with its neighbours; null where the fabric has none of this name.
export const neighbours = (name, width) => picture("fabric/map.svg", { switch: name, width });
// How long iterations of a job took; null where nothing was measured.
export const iterations = (job) => picture("jobs/iterations.svg", { job });

// The last seconds.
export const past = (seconds, width) => picture("history.svg", { seconds, width });

async function picture(path, query) {
  const drawing = await text(path, { ...query, fragment: true });
  return drawing ? element(path, drawing) : null;
}

// Read as XML: what is not well-formed is refused, and what such a parser makes runs no scripts. A fragment has no style of its own:
// the page has it as picture.css, and its policy allows none inside.
function element(path, drawing) {
  const root = new DOMParser().parseFromString(drawing, "image/svg+xml").documentElement;
  if (root.localName !== "svg" || root.querySelector("parsererror")) throw new Refused(path, 0, "no drawing came");
  // Patterns have fixed ids, so the page holds them once, where no part that is hidden takes them from the others.
  const patterns = root.querySelector("defs");
  if (patterns && !document.getElementById("hatch")) {
    const sheet = document.importNode(root, false);
    for (const [name, value] of [["class", "unseen"], ["width", 0], ["height", 0], ["aria-hidden", true]]) sheet.setAttribute(name, value);
    for (const name of ["role", "aria-label"]) sheet.removeAttribute(name);
    sheet.append(document.importNode(patterns, true));
    document.body.append(sheet);
  }
  patterns?.remove();
  return document.importNode(root, true);
}
