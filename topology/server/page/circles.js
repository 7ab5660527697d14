// A link's circles, before and after the shifts. The service draws them, as it does for the command line; the page only shows them.

import { Refused, text } from "./api.js";
import { jobSlot } from "./dom.js";

const PATH = "links/circles.svg";
// Jobs beyond these have no ring, so their colours need not be said.
const RINGS_MAX = 16;

// The drawing, with the colours that the page gave the jobs; null when the link carries no job any more.
export async function circles(link) {
  const colour = link.demands.slice(0, RINGS_MAX).map((d) => `${jobSlot(d.job)}:${d.job}`);
  const drawing = await text(PATH, { link: link.id, colour, fragment: true });
  return drawing ? element(drawing) : null;
}

// Read as XML: what is not well-formed is refused, and what such a parser makes runs no scripts. A fragment has no style of its own:
// the page has it as picture.css, and its policy allows none inside.
function element(drawing) {
  const root = new DOMParser().parseFromString(drawing, "image/svg+xml").documentElement;
  if (root.localName !== "svg" || root.querySelector("parsererror")) throw new Refused(PATH, 0, "no drawing came");
  return document.importNode(root, true);
}
