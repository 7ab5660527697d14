// Pictures. The service draws them, as it does for the command line; the page only shows them.

import { Refused, text } from "./api.js";
import { jobSlot } from "./dom.js";

// Jobs beyond these have no ring, so their colours need not be said.
const RINGS_MAX = 16;

// A link's circles before and after the shifts, with the colours that the page gave the jobs; null when the link carries no job any more.
export function circles(link) {
  const colour = link.demands.slice(0, RINGS_MAX).map((d) => `${jobSlot(d.job)}:${d.job}`);
  return picture("links/circles.svg", { link: link.id, colour });
}

// The fabric with its links; null where none is set.
export const map = () => picture("fabric/map.svg", {});

async function picture(path, query) {
  const drawing = await text(path, { ...query, fragment: true });
  return drawing ? element(path, drawing) : null;
}

// Read as XML: what is not well-formed is refused, and what such a parser makes runs no scripts. A fragment has no style of its own:
// the page has it as picture.css, and its policy allows none inside.
function element(path, drawing) {
  const root = new DOMParser().parseFromString(drawing, "image/svg+xml").documentElement;
  if (root.localName !== "svg" || root.querySelector("parsererror")) throw new Refused(path, 0, "no drawing came");
  return document.importNode(root, true);
}
