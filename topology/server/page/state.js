// What the page knows, and what follows from it.

// Scores closer than this are the same.
export const SAME = 1e-9;

// `fabric`: undefined until answered, null where none is set. `links` are those of `links_version`, the worst first.
export const seen = {
  links: [], total: 0, links_version: undefined, jobs: [], plan_version: 0, outlook: "", warnings: [], agents: [], series: new Map(), hosts: [], events: [],
  fabric: undefined, turns: [], turns_total: 0, turns_at: 0, measured: new Map(), observed: new Map(),
};

const meet = (link, jobs) => link.jobs.filter((job) => jobs.has(job)).length > 1;
// Jobs whose plan says that they take turns.
const planned = () => new Set(seen.jobs.filter((j) => j.slot?.turns).map((j) => j.id));
// Whether shifts are what keeps the jobs of a link apart.
export const shifted = (shared) => { const turns = planned(); return shared.filter((link) => !meet(link, turns)); };
export const shared = () => seen.links.filter((link) => typeof link.score === "number");

// Shifts are nothing to jobs that take turns, nor to those that were let go: those run free whatever their plan says. A trial is too
// short to be shown as anything else.
export function keptApart() {
  const [turns, free] = [planned(), new Set(seen.turns.filter((g) => g.state === "let_go").flatMap((g) => g.jobs.map((j) => j.job)))];
  for (const link of seen.links) {
    link.told ??= link.score;
    link.by_turns = link.zero_shift_score < 1 - SAME && meet(link, turns) && !meet(link, free);
    link.score = meet(link, free) ? link.zero_shift_score : link.told;
    link.measured = seen.measured.get(link.id);
    link.observed = seen.observed.get(link.id);
  }
  for (const job of seen.jobs) {
    if (job.state === "held" && free.has(job.id)) job.state = "free";
    job.past = seen.series.get(job.id)?.iteration_ns;
  }
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
