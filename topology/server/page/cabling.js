// What agents see of the cabling by LLDP, beside the fabric. The service compares; the page shows what it says.

import { byId, count, html, number, render } from "./dom.js";
import { Grid } from "./grid.js";
import { seen } from "./state.js";

// What each kind means, in the words of somebody at the rack.
const MEANS = {
  "moved cable": "one of its ends is in another place than intended",
  "missing cable": "intended, and not there, though an agent looked",
  "extra cable": "there, and nobody intended it",
  "missing node": "intended, and no agent and no neighbour of one has its name",
  "extra node": "there, and nobody intended it",
  "other kind": "a host where a switch was intended, or the other way round",
  "capacity": "it negotiated another rate than intended",
  "one way": "known in one direction only",
};
const CABLES = [
  { title: "What", width: 9, narrow: 8, hint: "moved: miswired; missing: not there; extra: unknown to the fabric", value: (d) => d.kind, cell: (d) => html("span", { class: d.kind === "capacity" ? "state-drifting" : "state-lost", title: MEANS[d.kind] }, d.kind) },
  { title: "Where", hint: "Node and port of each end", value: (d) => d.place, cell: (d) => html("span", { title: d.place }, d.place) },
];
const text = (d) => `${d.kind} ${d.place}`;
const grid = new Grid(byId("cabling"), CABLES, {
  id: text, text,
  nothing: (filtered) => (filtered ? "No difference of this kind or place." : seen.cabling?.fabric_version ? "What agents see is what the fabric says." : "No fabric is set, so nothing differs from it."),
});

export function drawCabling() {
  const told = seen.cabling;
  byId("cabling-section").hidden = !told?.systems;
  if (!told?.systems) return;
  const differences = told.differences ?? [], findings = told.findings ?? [];
  grid.show(differences, byId("cabling-filter").value);
  const against = told.fabric_version ? `${number(told.confirmed)} of them in the fabric, of whose cables ${number(told.unseen)} ${told.unseen === 1 ? "is" : "are"} out of sight` : "no fabric is set";
  byId("cabling-note").textContent = [
    told.total ? count(told.total, "difference") + (told.total > differences.length ? `, the first ${number(differences.length)} are listed` : "") : "no differences",
    `${count(told.seen, "cable")} seen from ${count(told.systems, "system")}, ${against}`,
  ].join("; ");
  render(byId("cabling-findings"), JSON.stringify(findings), () => findings.map((finding) => html("li", {}, finding)));
}
