// A link's circle: one ring per job on a common perimeter, the total within, what is over capacity in the warning colour.

import { svg, jobColour, duration } from "./dom.js";

const SIZE = 240;
const CENTRE = SIZE / 2;
const OUTER = 104;
const RING = 11;
const GAP = 3;
// A perimeter longer than this many of its longest period is drawn only so far: more turns are not readable.
const TURNS_MAX = 24;
// Steps of the total around the circle: one per degree.
const STEPS = 360;

const gcd = (a, b) => { while (b > 0) [a, b] = [b, a % b]; return a; };

// { length, exact }: the LCM of the periods in ns, or the longest period where the LCM is too long to draw.
export function perimeter(demands) {
  const longest = Math.max(...demands.map((d) => d.period_ns));
  let length = 1;
  for (const { period_ns } of demands) {
    length = (length / gcd(length, period_ns)) * period_ns;
    if (!(length <= longest * TURNS_MAX)) return { length: longest, exact: false };
  }
  return { length, exact: true };
}

const point = (turn, radius) => {
  const angle = turn * 2 * Math.PI;
  return `${(CENTRE + radius * Math.sin(angle)).toFixed(2)} ${(CENTRE - radius * Math.cos(angle)).toFixed(2)}`;
};

function arc(from, to, radius) {
  const turn = Math.min(to - from, 0.99999);
  return `M ${point(from, radius)} A ${radius} ${radius} 0 ${turn > 0.5 ? 1 : 0} 1 ${point(from + turn, radius)}`;
}

const isUp = (demand, at) => {
  const local = ((at % demand.period_ns) + demand.period_ns) % demand.period_ns;
  return demand.phases.reduce((sum, p) => sum + (local >= p.start_ns && local < p.end_ns ? p.rate_mbps : 0), 0);
};

// The total demand as petals between the centre and the rings.
function total(demands, shiftOf, length, capacity, inner) {
  // The most that could meet: the same before and after the shift, so that the two discs can be compared.
  const peak = Math.max(capacity, demands.reduce((sum, d) => sum + Math.max(0, ...d.phases.map((p) => p.rate_mbps)), 0));
  const scale = (inner - 6) / peak;
  let within = "", over = "";
  for (let i = 0; i < STEPS; i++) {
    const at = ((i + 0.5) / STEPS) * length;
    const sum = demands.reduce((s, d) => s + isUp(d, at - shiftOf(d)), 0);
    if (sum === 0) continue;
    const [a, b] = [i / STEPS, (i + 1) / STEPS];
    const wedge = (from, to) => `M ${point(a, from)} L ${point(a, to)} L ${point(b, to)} L ${point(b, from)} Z `;
    within += wedge(0, Math.min(sum, capacity) * scale);
    if (sum > capacity) over += wedge(capacity * scale, sum * scale);
  }
  return [
    svg("path", { d: within, class: "total" }),
    svg("path", { d: over, class: "over" }),
    svg("circle", { cx: CENTRE, cy: CENTRE, r: capacity * scale, class: "rule", "stroke-dasharray": "3 3" }),
  ];
}

// `shifted`: with the committed shifts; otherwise everybody starts at the top.
export function circle(link, shifted) {
  const demands = link.demands;
  const { length, exact } = perimeter(demands);
  const shiftOf = (d) => (shifted ? d.shift_ns : 0);
  const rings = demands.flatMap((demand, i) => {
    const radius = OUTER - i * (RING + GAP);
    const turns = Math.max(1, Math.round(length / demand.period_ns));
    const arcs = [];
    for (let k = 0; k < turns; k++) {
      for (const p of demand.phases) {
        const from = (shiftOf(demand) + p.start_ns + k * demand.period_ns) / length;
        arcs.push(arc(from, from + (p.end_ns - p.start_ns) / length, radius));
      }
    }
    return [
      svg("circle", { cx: CENTRE, cy: CENTRE, r: radius, class: "track", "stroke-width": RING }),
      svg("path", { d: arcs.join(" "), fill: "none", stroke: jobColour(demand.job), "stroke-width": RING },
        svg("title", {}, `${demand.job}: period ${duration(demand.period_ns)}, shift ${duration(shiftOf(demand))}`)),
    ];
  });
  const inner = OUTER - demands.length * (RING + GAP);
  const label = `${shifted ? "shifted" : "unshifted"}: ${demands.map((d) => d.job).join(", ")} on ${link.id}`;
  return svg("svg", { width: SIZE, height: SIZE, viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": label, "data-exact": exact },
    rings, inner > 24 ? total(demands, shiftOf, length, link.capacity_mbps, inner) : [],
    svg("line", { x1: CENTRE, y1: CENTRE - OUTER - RING / 2 - 4, x2: CENTRE, y2: CENTRE - OUTER - RING / 2, stroke: "var(--muted)" }));
}
