// The fabric, worst links on top. The service draws it; the page opens its lines, and colours them by what their jobs do now: a job that
// takes turns, or was let go, does not keep to the shifts that the drawing is about.

import { scoreColour } from "./dom.js";

// Lines that open a link, by pointer and by keyboard.
export function openable(drawing, open) {
  drawing.setAttribute("role", "group");
  for (const line of drawing.querySelectorAll("[data-link]")) {
    const pick = () => open(line.dataset.link);
    line.setAttribute("tabindex", 0);
    line.setAttribute("role", "button");
    line.setAttribute("aria-label", line.querySelector("title")?.textContent ?? line.dataset.link);
    line.addEventListener("click", pick);
    line.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); pick(); } });
  }
  return drawing;
}

// The two ends of a cable, whichever way.
const cable = (link) => [link.from_node, link.to_node].sort().join("\n");

// `links` as the page knows them; `opened`: the link whose detail is shown. A line stands for both directions and for parallel cables.
export function mark(drawing, links, opened) {
  const known = new Map(links.map((link) => [link.id, link]));
  const shared = new Map();
  for (const link of links.filter((link) => typeof link.score === "number")) shared.set(cable(link), [...shared.get(cable(link)) ?? [], link]);
  for (const line of drawing.querySelectorAll("[data-link]")) {
    const worst = known.get(line.dataset.link);
    const here = worst ? shared.get(cable(worst)) ?? [] : [];
    const kept = here.filter((link) => !link.by_turns);
    // What the page was not told keeps the colour of the drawing.
    if (here.length) line.style.setProperty("--line", scoreColour(Math.min(1, ...kept.map((link) => link.score))));
    line.classList.toggle("marked", here.length > 0);
    line.classList.toggle("by-turns", here.length > 0 && !kept.length);
    const open = here.some((link) => link.id === opened);
    line.classList.toggle("open", open);
    if (open) line.setAttribute("aria-current", "true");
    else line.removeAttribute("aria-current");
  }
}
