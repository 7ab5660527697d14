// What the page knows, and what follows from it.

// Scores closer than this are the same.
export const SAME = 1e-9;
// Scores are shown with three decimals: less is no difference that is told.
export const TOLD = 0.001 - SAME;

// `fabric`: undefined until answered, null where none is set. `links` are those of `links_version`, the worst first. `audit`: the newest
// first, null until answered and where the reader may not read it. `cabling`: what agents see of the cables, null until answered.
export const seen = {
  links: [], total: 0, links_version: undefined, jobs: [], plan_version: 0, outlook: "", warnings: [], agents: [], series: new Map(), hosts: [], ports_total: 0, events: [],
  fabric: undefined, turns: [], turns_total: 0, turns_at: 0, measured: new Map(), observed: new Map(), audit: null, cabling: null,
};

export const shared = () => seen.links.filter((link) => typeof link.score === "number");
// Links whose jobs are kept apart by shifts. Where nobody takes turns, that are all.
export function shifted(shared) {
  const others = shared.some((link) => link.by_turns || link.apart === "free");
  return others ? shared.filter((link) => link.apart === "shifts") : shared;
}

// What keeps the jobs of a link apart is the service's to say; what was asked for apart from the links is put beside them.
export function keptApart() {
  for (const link of seen.links) {
    link.by_turns = link.apart === "turns";
    link.measured = seen.measured.get(link.id);
    link.observed = seen.observed.get(link.id);
  }
  for (const job of seen.jobs) job.past = seen.series.get(job.id)?.iteration_ns;
}

export const groupOf = (job) => seen.turns.find((group) => group.jobs.some((one) => one.job === job));

// Whose gates a plan is carried out by: agents that are connected, and jobs that those hold.
export function force() {
  const connected = seen.agents.filter((agent) => agent.state === "connected").length;
  const held = seen.jobs.filter((job) => job.state === "held").length;
  // Turns are given to whoever asks; a job that never started has no agent that asks.
  const turning = seen.turns.filter((group) => group.state === "held" || group.state === "tried_held").flatMap((group) => group.jobs).filter((job) => job.starts > 0).length;
  return { connected, held, turning };
}

// Events that are about a job: those that name it, and those whose words do.
export const about = (job) => (event) => event.job === job || event.message.split(/[^\p{L}\p{N}_.@/-]+/u).includes(job);
