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

const LANE = [220, 16];

// The time that the lanes of a group show: as long as the last starts of all its jobs reach back. Null where nobody has started twice.
export function shown(jobs, now) {
  const from = Math.max(...jobs.filter((j) => j.last_starts.length > 1).map((j) => j.last_starts[0].ready_ns));
  return from > 0 && from < now ? [from, now] : null;
}

// The last starts of a job of a group that takes turns: pale while it waited, full while it sent. Lanes below each other show the same
// time, so that one's end is seen above another's begin.
export function lane(job, [from, to], colour) {
  const x = (at) => Math.max(0, Math.min(1, (at - from) / (to - from))) * LANE[0];
  const rect = (begin, end, height, part) => svg("rect", { x: x(begin).toFixed(1), width: Math.max(0, x(end) - x(begin)).toFixed(1), y: (LANE[1] - height) / 2, height, ...part });
  // A start whose end nobody told ends where the next begins.
  const ends = (s, i) => s.ended_ns ?? job.last_starts[i + 1]?.ready_ns ?? to;
  const parts = job.last_starts.flatMap((s, i) => [
    rect(s.ready_ns, s.began_ns ?? ends(s, i), 5, { class: "lane-waits", stroke: colour }),
    s.began_ns ? rect(s.began_ns, ends(s, i), 13, { fill: colour }) : null,
  ]);
  return svg("svg", { width: LANE[0], height: LANE[1], viewBox: `0 0 ${LANE[0]} ${LANE[1]}`, role: "img", "aria-label": "when it waited and sent" },
    svg("line", { x1: 0, x2: LANE[0], y1: LANE[1] / 2, y2: LANE[1] / 2, class: "lane-rule" }), parts);
}

function median(values) {
  if (!values.length) return Infinity;
  return [...values].sort((a, b) => a - b)[values.length >> 1];
}
