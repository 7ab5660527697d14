// The fabric from the worst link down: the links in question, the switches at their ends, and hosts folded into their leaf.
// Never the whole fabric: a map of thousands of nodes says nothing.

import { svg, scoreColour } from "./dom.js";

// What a screen can hold and a person can follow.
const LINKS_MAX = 40;
const WIDTH_MIN = 560;
const SPACING = 92;
const TIER_HEIGHT = 110;
const BOX = [76, 26];
const SHRINK_MIN = 0.7;

const tierOf = (link, end) => link[`${end}_tier`] ?? 0;

// Nodes by tier and the wires between them, from links sorted worst first.
function layout(links) {
  const nodes = new Map();
  const wires = [];
  const add = (name, tier) => {
    if (!nodes.has(name)) nodes.set(name, { name, tier });
    return nodes.get(name);
  };
  for (const link of links.slice(0, LINKS_MAX)) {
    wires.push({ link, from: add(link.from_node, tierOf(link, "from")), to: add(link.to_node, tierOf(link, "to")) });
  }
  const tiers = [...new Set([...nodes.values()].map((n) => n.tier))].sort((a, b) => b - a);
  const rows = tiers.map((tier) => [...nodes.values()].filter((n) => n.tier === tier));
  rows[0]?.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
  const width = Math.max(WIDTH_MIN, ...rows.map((row) => row.length * SPACING));
  // Every row below the first stands under the mean of what it is wired to, so that wires cross little.
  rows.forEach((row, depth) => {
    if (depth > 0) {
      const mean = (node) => {
        const above = wires.flatMap(({ from, to }) => (from === node ? [to] : to === node ? [from] : [])).filter((n) => n.x !== undefined);
        return above.length ? above.reduce((sum, n) => sum + n.x, 0) / above.length : width / 2;
      };
      const means = new Map(row.map((node) => [node, mean(node)]));
      row.sort((a, b) => means.get(a) - means.get(b) || a.name.localeCompare(b.name, undefined, { numeric: true }));
    }
    const pitch = width / row.length;
    row.forEach((node, i) => { node.x = pitch * (i + 0.5); node.y = 30 + depth * TIER_HEIGHT; });
  });
  return { rows, wires, width, height: 60 + Math.max(0, rows.length - 1) * TIER_HEIGHT };
}

function wire({ link, from, to }, open, pick, among) {
  // The two directions of a cable, and parallel cables, lie beside each other.
  const bend = (among - 1) * 14 + (from.y > to.y ? 7 : -7);
  const [x, y] = [(from.x + to.x) / 2 + bend, (from.y + to.y) / 2];
  // Shifts are nothing to jobs that take turns, and so is the score under shifts.
  const score = link.by_turns ? 1 : link.score ?? 1;
  const width = 2 + 4 * Math.min(1, Math.max(0, 1 - score));
  const says = `${link.id}: ${link.by_turns ? "by turns" : `score ${score.toFixed(3)}`}, unshifted ${(link.zero_shift_score ?? 1).toFixed(3)}; ${link.jobs.join(", ")}`;
  return svg("path", {
    d: `M ${from.x} ${from.y} Q ${x} ${y} ${to.x} ${to.y}`, class: `wire${link.by_turns ? " by-turns" : ""}${link.id === open ? " open" : ""}`, stroke: scoreColour(score), "stroke-width": width,
    "stroke-opacity": 0.85, tabindex: 0, role: "button", "aria-label": says, "aria-current": link.id === open ? "true" : undefined, "data-link": link.id,
    onclick: () => pick(link.id), onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); pick(link.id); } },
  }, svg("title", {}, says));
}

// `open`: the link whose detail is shown.
export function map(links, open, pick) {
  const { rows, wires, width, height } = layout(links);
  const pairs = new Map();
  const drawn = wires.map((w) => {
    const key = `${w.from.name}\n${w.to.name}`;
    pairs.set(key, (pairs.get(key) ?? 0) + 1);
    return wire(w, open, pick, pairs.get(key));
  }).reverse();
  const boxes = rows.flat().map((node) => svg("g", {},
    svg("rect", { x: node.x - BOX[0] / 2, y: node.y - BOX[1] / 2, width: BOX[0], height: BOX[1], rx: 5, class: "node" }),
    svg("text", { x: node.x, y: node.y + 4, "text-anchor": "middle" }, node.name.length > 12 ? `${node.name.slice(0, 11)}…` : node.name, svg("title", {}, node.name))));
  // In a small window it is scrolled rather than shrunk until nobody can read it.
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, style: `min-width: ${Math.round(width * SHRINK_MIN)}px`, role: "group", "aria-label": "Links by score" }, drawn, boxes);
  return { drawing, shown: wires.length, wide: width > WIDTH_MIN };
}
