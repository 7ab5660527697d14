// Series over time as small drawings with a scale of their own.

import { svg } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 64;

// `series`: [{ at: [ms], value: [number], colour, name }]; steps without a sample are gaps, never zeros. `events`: [{ at: ms, name }],
// drawn as upright lines, so that before and after are seen.
export function chart(series, events, format) {
  const times = series.flatMap((s) => s.at);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const top = Math.max(1, ...series.flatMap((s) => s.value));
  const x = (at) => (last === first ? WIDTH : ((at - first) / (last - first)) * WIDTH);
  const y = (value) => HEIGHT - 12 - (Math.max(0, value) / top) * (HEIGHT - 26);
  const lines = series.map((s) => {
    const step = median(s.at.slice(1).map((at, i) => at - s.at[i]));
    const d = s.at.map((at, i) => `${i > 0 && at - s.at[i - 1] <= 2.5 * step ? "L" : "M"} ${x(at).toFixed(1)} ${y(s.value[i]).toFixed(1)}`).join(" ");
    return svg("path", { d, fill: "none", stroke: s.colour, "stroke-width": 1.5 }, svg("title", {}, s.name));
  });
  const upright = events.filter((e) => e.at > first && e.at < last)
    .map((e) => svg("line", { x1: x(e.at), x2: x(e.at), y1: 0, y2: HEIGHT - 12, class: "event" }, svg("title", {}, e.name)));
  return svg("svg", { width: "100%", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": series.map((s) => s.name).join(", ") },
    svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 12, y2: HEIGHT - 12, class: "rule" }),
    upright,
    lines,
    svg("text", { x: 0, y: 10, class: "small" }, format(top)),
    svg("text", { x: WIDTH, y: HEIGHT - 1, "text-anchor": "end", class: "small" }, last === first ? "" : `last ${Math.round((last - first) / 1000)} s`));
}

// A line without words, for a table cell.
export function spark(values, colour) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const y = (v) => (high === low ? 8 : 14 - ((v - low) / (high - low)) * 12);
  const d = values.map((v, i) => `${i ? "L" : "M"} ${((i / Math.max(1, values.length - 1)) * 80).toFixed(1)} ${y(v).toFixed(1)}`).join(" ");
  return svg("svg", { width: 80, height: 16, viewBox: "0 0 80 16", role: "img", "aria-label": "iteration times" },
    svg("path", { d, fill: "none", stroke: colour, "stroke-width": 1.5 }));
}

function median(values) {
  if (!values.length) return Infinity;
  return [...values].sort((a, b) => a - b)[values.length >> 1];
}
