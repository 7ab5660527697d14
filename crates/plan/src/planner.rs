//! Evaluating and ranking candidates: route, find contention, solve each distinct component once, sort.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use circle::{Affinity, Cancel, Mode, Optimality, PROOF_TOLERANCE, Problem, ProblemBuilder, Ticks};
use rayon::prelude::*;
use units::{JobId, LinkId, Nanos};

use crate::{
    ByControl, Cluster, ControlMean, Evaluation, MeanScores, MeanTimes, Objective, Options, Outcome, PlanError, Predictions, QUIET_STEP,
    classes::{self, Classes},
    component::{Component, Content, components},
    contention::{Contention, Loop, Move, Overlay},
    demand::{Demands, Routed, route_all},
    evaluation::Part,
    groups::{CoupledGroup, coupled_groups},
    solved::{Answer, RobustLoss, Solved, assemble, solve_group, solve_whole},
    table::{State, Table},
};
use job::{Candidate, Hold, Job, JobError, Placement};

/// Evaluates one candidate.
///
/// # Errors
/// [`PlanError`]: the cluster or the candidate is malformed, or a link that carries demand has no capacity.
pub fn evaluate(cluster: &Cluster<'_>, candidate: &Candidate, options: &Options) -> Result<Evaluation, PlanError> {
    let mut all = Planner::new(*cluster, *options)?.evaluate_all(core::slice::from_ref(candidate))?;
    // One candidate has one evaluation, so the list is not empty.
    Ok(all.swap_remove(0))
}

/// Evaluates candidates and sorts them, best first by the objective of `options`. Among equally good ones the other
/// objective decides where it is known, then fewer shared links, then the order given; those that were not solved come
/// last.
///
/// # Errors
/// As [`evaluate`], for the first candidate that is refused.
pub fn rank(cluster: &Cluster<'_>, candidates: &[Candidate], options: &Options) -> Result<Vec<Evaluation>, PlanError> {
    rank_until(cluster, candidates, options, &Cancel::default())
}

/// [`rank`], which ends soon after `cancel` says so: within the work of one component.
///
/// # Errors
/// As [`rank`], and [`PlanError::Cancelled`].
pub fn rank_until(
    cluster: &Cluster<'_>,
    candidates: &[Candidate],
    options: &Options,
    cancel: &Cancel,
) -> Result<Vec<Evaluation>, PlanError> {
    let planner = Planner { cancel: cancel.clone(), ..Planner::new(*cluster, *options)? };
    let mut all = planner.evaluate_all(candidates)?;
    sort(&mut all, options.objective);
    Ok(all)
}

/// Sorts evaluations as [`rank`] does.
pub fn sort(evaluations: &mut [Evaluation], objective: Objective) {
    let rounded = |cost: f64| in_steps(cost, PROOF_TOLERANCE);
    evaluations.sort_by_key(|e| {
        let (loss, time) = (e.scores.map(|s| rounded(-s.score)), e.times.map(|t| rounded(t.interleaved)));
        let (cost, tie) = match objective {
            Objective::Score => (loss, time),
            Objective::Time => (time, loss),
            Objective::Quiet => (e.overlap().map(|overlap| in_steps(overlap, QUIET_STEP)), time),
        };
        // `None` sorts before all costs, so the first key puts candidates without a cost last; the index makes the order total.
        (cost.is_none(), cost, tie, e.shared_links, e.index)
    });
}

/// A cost in whole steps: costs closer than the rounding of their sums are equal. A comparison with a tolerance would not be transitive. What is
/// cut off in place of rounded tells costs apart that end just below a step, as half of all scores of two decimals do.
fn in_steps(cost: f64, step: f64) -> i64 {
    (cost / step).round() as i64
}

/// The whole circle problem of a candidate, nothing pruned: every link with two or more jobs, in order of id, beside the
/// fabric's links that they are. Jobs keep their ids; ticks are nanoseconds.
///
/// # Errors
/// As [`evaluate`]; [`PlanError::Problem`] names a link beyond the circle's limits.
pub fn problem(cluster: &Cluster<'_>, candidate: &Candidate) -> Result<(Problem, Vec<LinkId>), PlanError> {
    let planner = Planner::new(*cluster, Options::default())?;
    let (items, moves) = planner.distinct_placements(core::slice::from_ref(candidate))?;
    let (routed, demands) = route_all(cluster, &items)?;
    let mut placed: Vec<&Routed> = routed.iter().take(planner.jobs.len()).collect();
    // Base routes stand first and by number (`distinct_placements`); a move replaces those of its job.
    for &(number, item) in moves.iter().flatten() {
        placed[number as usize] = &routed[item];
    }
    let table = Table::build(cluster.fabric, &placed, &demands)?;
    table.refuse_unknown(cluster.fabric, |_| true)?;
    let refuse = |link: LinkId| move |source| PlanError::Problem { link: cluster.fabric.link_name(link), source };
    let mut builder = ProblemBuilder::new();
    for job in cluster.jobs {
        let refuse =
            |_| JobError { job: job.name.clone(), problem: "one job too many, or a period out of range (ns)", value: job.period.0 };
        builder.job(Ticks(job.period.0)).map_err(refuse)?;
    }
    let mut links = Vec::new();
    for link in (0..table.states.len()).filter_map(LinkId::from_index) {
        // These are the states of links with two or more jobs; other links have no score that shifts could change.
        if !matches!(table.states[link.index()], State::NeverOverloaded | State::Contended) {
            continue;
        }
        let members = table.members(link).iter().map(|m| builder.demand(planner.jobs[m.job as usize], &demands.phases[m.demand as usize]));
        let members = members.collect::<Result<Vec<_>, _>>().map_err(refuse(link))?;
        builder.link(cluster.fabric.capacity(link)?, members).map_err(refuse(link))?;
        links.push(link);
    }
    Ok((builder.build(), links))
}

/// The links of unknown capacity that the base placements load. Where every candidate takes the jobs off them, they decide
/// nothing, and [`rank`] does not refuse them.
///
/// # Errors
/// As [`evaluate`].
pub fn unknown_base_links(cluster: &Cluster<'_>) -> Result<Vec<LinkId>, PlanError> {
    // Where every capacity is known, the answer needs no routes.
    if cluster.fabric.links().iter().all(|l| l.capacity.is_some()) {
        return Ok(Vec::new());
    }
    let planner = Planner::new(*cluster, Options::default())?;
    let (items, _) = planner.distinct_placements(&[])?;
    let (routed, demands) = route_all(cluster, &items)?;
    let base: Vec<&Routed> = routed.iter().collect();
    Ok(Table::build(cluster.fabric, &base, &demands)?.unknown().to_vec())
}

/// A validated cluster. Jobs are numbered in order of name, so that the order in which they are listed
/// changes nothing.
#[derive(Debug)]
pub(crate) struct Planner<'a> {
    cluster: Cluster<'a>,
    options: Options,
    cancel: Cancel,
    /// The job of each number.
    jobs: Vec<JobId>,
    /// The number of each job.
    numbers: Vec<u32>,
    /// How long each job's iteration takes alone, by number, in ns.
    iterations: Vec<u64>,
    /// By number; a job that declares none counts as one.
    gpus: Vec<u32>,
    /// By number: whether and where gates may delay the job.
    hold: Vec<Hold>,
}

/// What distinguishes a candidate from the base: (number of the job, index of its routes).
type Moves = Vec<(u32, usize)>;

/// A candidate before its components are solved.
enum Prepared {
    Loop(Loop),
    Contended(Contention, Vec<Component>),
}

impl<'a> Planner<'a> {
    pub(crate) fn new(cluster: Cluster<'a>, options: Options) -> Result<Self, PlanError> {
        let count = cluster.jobs.len();
        if cluster.placements.len() != count {
            return Err(PlanError::PlacementCount { placements: cluster.placements.len(), jobs: count });
        }
        cluster.jobs.iter().try_for_each(Job::validate)?;
        let mut jobs: Vec<JobId> = (0..count).filter_map(JobId::from_index).collect();
        jobs.sort_by_key(|j| &cluster.jobs[j.index()].name);
        // Jobs are in order of name, so equal names are neighbours.
        if let Some(pair) = jobs.windows(2).find(|p| cluster.jobs[p[0].index()].name == cluster.jobs[p[1].index()].name) {
            return Err(PlanError::DuplicateJob { name: cluster.jobs[pair[0].index()].name.clone() });
        }
        let mut numbers = alloc::vec![0; count];
        for (number, job) in jobs.iter().enumerate() {
            numbers[job.index()] = number as u32;
        }
        let iterations = jobs.iter().map(|j| cluster.jobs[j.index()].period.0).collect();
        let gpus = jobs.iter().map(|j| cluster.jobs[j.index()].gpus.max(1)).collect();
        let hold = jobs.iter().map(|j| cluster.jobs[j.index()].hold).collect();
        Ok(Self { cluster, options, cancel: Cancel::default(), jobs, numbers, iterations, gpus, hold })
    }

    pub(crate) fn evaluate_all(&self, candidates: &[Candidate]) -> Result<Vec<Evaluation>, PlanError> {
        let (items, moves) = self.distinct_placements(candidates)?;
        self.go_on()?;
        let (routed, demands) = route_all(&self.cluster, &items)?;
        self.go_on()?;
        let base: Vec<&Routed> = routed.iter().take(self.jobs.len()).collect();
        let table = Table::build(self.cluster.fabric, &base, &demands)?;
        let prepared = self.prepared(&table, &demands, &routed, candidates, &moves)?;
        // The map leaves each component once and in order of content, so `find` can search by halves.
        let contents: Vec<&Content> = {
            let mut distinct: BTreeMap<&Content, ()> = BTreeMap::new();
            distinct.extend(prepared.iter().flat_map(Prepared::components).map(|c| (&c.content, ())));
            distinct.into_keys().collect()
        };
        let solved = self.solve(&contents, &demands);
        self.go_on()?;
        let find = |content: &Content| contents.binary_search(&content).map(|i| &solved[i]);
        let placed = |c: usize| self.placed(&items, &moves[c]);
        let evaluate = |(index, prepared): (usize, &Prepared)| {
            let parts = prepared.parts(|c| find(c).ok().cloned(), &self.jobs);
            self.assemble(index, &candidates[index], prepared, parts, &placed(index))
        };
        Ok(prepared.par_iter().enumerate().map(evaluate).collect())
    }

    /// # Errors
    /// [`PlanError::Cancelled`].
    fn go_on(&self) -> Result<(), PlanError> {
        if self.cancel.is_cancelled() { Err(PlanError::Cancelled) } else { Ok(()) }
    }

    /// Every distinct (job, placement), base placements first and by number, and the moves of each candidate.
    #[allow(clippy::type_complexity, reason = "two lists that belong together")]
    fn distinct_placements<'c>(&'c self, candidates: &'c [Candidate]) -> Result<(Vec<(&'c Job, &'c Placement)>, Vec<Moves>), PlanError> {
        let base = |j: &JobId| (&self.cluster.jobs[j.index()], &self.cluster.placements[j.index()]);
        let mut items: Vec<(&Job, &Placement)> = self.jobs.iter().map(base).collect();
        let mut known: BTreeMap<(u32, &Placement), usize> = BTreeMap::new();
        let mut all = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let mut moves: Moves = Vec::with_capacity(candidate.placements.len());
            for (job, placement) in &candidate.placements {
                let jobs = self.jobs.len();
                let unknown = || PlanError::UnknownJob { candidate: candidate.id.clone(), job: job.0, jobs };
                let number = *self.numbers.get(job.index()).ok_or_else(unknown)?;
                let spec = &self.cluster.jobs[job.index()];
                let item = if self.cluster.placements[job.index()] == *placement {
                    number as usize
                } else {
                    *known.entry((number, placement)).or_insert_with(|| {
                        items.push((spec, placement));
                        items.len() - 1
                    })
                };
                moves.push((number, item));
            }
            moves.sort_unstable();
            if let Some(pair) = moves.windows(2).find(|p| p[0].0 == p[1].0) {
                let job = self.jobs[pair[0].0 as usize].index();
                return Err(PlanError::PlacedTwice { candidate: candidate.id.clone(), job: self.cluster.jobs[job].name.clone() });
            }
            // An item at the number of its job is the base placement, so that job does not move.
            moves.retain(|(number, item)| *number as usize != *item);
            all.push(moves);
        }
        Ok((items, all))
    }

    /// Solves every distinct coupled group of the components once, and then puts the components together.
    fn solve(&self, contents: &[&Content], demands: &Demands) -> Vec<Arc<Solved>> {
        // Candidates share most coupled groups, so groups are made distinct before they are solved, and not components only.
        let whole = solve_whole(&self.options);
        let sets: Vec<Vec<CoupledGroup>> = contents.par_iter().map(|c| coupled_groups(c, whole)).collect();
        let mut distinct: BTreeMap<&Content, usize> = sets.iter().flatten().map(|s| (&s.content, 0)).collect();
        distinct.values_mut().enumerate().for_each(|(i, index)| *index = i);
        let order: Vec<&Content> = distinct.keys().copied().collect();
        let solved: Vec<_> = order.par_iter().map(|c| solve_group(c, demands, &self.options, &self.cancel)).collect();
        let find = |content: &Content| distinct.get(content).map(|i| &solved[*i]);
        contents.par_iter().zip(&sets).map(|(c, sets)| Arc::new(assemble(c, sets, find, demands, &self.options, &self.cancel))).collect()
    }

    fn prepared(
        &self,
        table: &Table,
        demands: &Demands,
        routed: &[Routed],
        candidates: &[Candidate],
        moves: &[Moves],
    ) -> Result<Vec<Prepared>, PlanError> {
        // An overlay is as large as the fabric, so many candidates share one, one after the other.
        let start = || Overlay::new(self.cluster.fabric, table, demands, self.jobs.len());
        let prepared = |overlay: &mut Overlay<'_>, moves: &Moves| {
            let moves: Vec<Move<'_>> =
                moves.iter().map(|&(job, item)| Move { job, old: &routed[job as usize], new: &routed[item] }).collect();
            overlay.lay(&moves);
            // Moves are in order of job, so a search by halves finds out whether a job moves.
            table.refuse_unknown(self.cluster.fabric, |job| moves.binary_search_by_key(&job, |m| m.job).is_err())?;
            // The paper discards a placement with a loop before it scores any link (Algorithm 2).
            if self.options.mode == Mode::Cassini
                && let Some(found) = overlay.first_loop()
            {
                return Ok(Prepared::Loop(found));
            }
            let contention = overlay.contention()?;
            let components = components(&contention.classes, &self.iterations, &self.gpus, &self.hold, self.options.headroom_permille);
            Ok(Prepared::Contended(contention, components))
        };
        let named = |overlay: &mut Overlay<'_>, (moves, candidate): (&Moves, &Candidate)| {
            prepared(overlay, moves).map_err(|e| match e {
                // A candidate without moves is the base, and the name of the link says enough.
                PlanError::Fabric(source) if !moves.is_empty() => PlanError::InCandidate { candidate: candidate.id.clone(), source },
                other => other,
            })
        };
        // Results are in the order of the candidates, so the first that is refused is named, whichever thread met one first.
        let prepared: Vec<Result<Prepared, PlanError>> = moves.par_iter().zip(candidates).map_init(start, named).collect();
        prepared.into_iter().collect()
    }

    /// Whether each job, by number, stands anywhere.
    fn placed(&self, items: &[(&Job, &Placement)], moves: &Moves) -> Vec<bool> {
        let mut placed: Vec<bool> = items.iter().take(self.jobs.len()).map(|(_, p)| !p.ranks.is_empty()).collect();
        for &(number, item) in moves {
            placed[number as usize] = !items[item].1.ranks.is_empty();
        }
        placed
    }

    fn assemble(&self, index: usize, candidate: &Candidate, prepared: &Prepared, parts: Vec<Part>, placed: &[bool]) -> Evaluation {
        let mut out = Evaluation {
            id: candidate.id.clone(),
            index,
            outcome: Outcome::Solved,
            scores: None,
            times: None,
            shared_links: 0,
            never_overloaded_links: 0,
            affinity: Affinity::default(),
            compared: None,
            headroom_permille: self.options.headroom_permille,
            control: self.options.control,
            turns_objective: self.options.turns_objective,
            searches_all: self.options.mode != Mode::Cassini,
            parts: Vec::new(),
        };
        let contention = match prepared {
            Prepared::Loop(found) => {
                out.outcome = Outcome::Loop { link: found.link, jobs: found.jobs.map(|j| self.jobs[j as usize]) };
                (out.shared_links, out.affinity) = (found.shared, found.affinity);
                return out;
            }
            Prepared::Contended(contention, _) => contention,
        };
        (out.shared_links, out.never_overloaded_links) = (contention.shared, contention.never_overloaded);
        // A mean over the other links would rank the candidate as if the refused link were none.
        let failed = parts.iter().find_map(|p| p.solved.answer.as_ref().err().map(|e| (p, e)));
        if let Some((part, unsolved)) = failed {
            let link = unsolved.link.and_then(|l| part.links_of(l).first().copied());
            out.outcome = Outcome::Unsolved { link, error: unsolved.error.clone().into() };
            return out;
        }
        out.scores = Some(mean_scores(contention, &parts));
        let predictions = self.options.predictions();
        out.times = (predictions != Predictions::Needed).then(|| self.mean_times(&parts, placed));
        out.compared = (predictions == Predictions::Compared).then(|| self.control_means(&parts, placed, contention.shared));
        for answer in parts.iter().filter_map(|p| p.solved.answer.as_ref().ok()) {
            out.affinity.components += answer.affinity.components;
            out.affinity.loops += answer.affinity.loops;
        }
        // Classes fold equal links before the solver sees them.
        let folded = |c: &classes::Class| if c.members.len() > 1 { c.links.len() - 1 } else { 0 };
        out.affinity.merged_links = contention.classes.classes.iter().map(folded).sum();
        out.parts = parts;
        out
    }

    fn mean_times(&self, parts: &[Part], placed: &[bool]) -> MeanTimes {
        let [solo, contended, all_held, interleaved] = self.means(parts, placed, |answer, i| {
            let (times, advised) = (answer.times.get(i)?, answer.advice.times.get(i)?);
            // Either every job has this time or none has.
            Some([times.solo, times.contended, times.all_held.map_or(Nanos(0), |held| held.time), *advised])
        });
        let all_held = self.options.predicts_all_held().then_some(all_held);
        MeanTimes { solo, contended, all_held, interleaved }
    }

    fn control_means(&self, parts: &[Part], placed: &[bool], shared_links: usize) -> ByControl<ControlMean> {
        let objective = self.options.turns_objective;
        let [free, turns, slots] = self.means(parts, placed, |answer, i| {
            let times = answer.comparison.as_ref()?.times(i, objective)?;
            Some([times.free, times.turns, times.slots])
        });
        let mut overlaps = ByControl::<f64>::default();
        for part in parts {
            let Ok(answer) = &part.solved.answer else { continue };
            let Some(comparison) = &answer.comparison else { continue };
            let links = part.shared_links() as f64 / shared_links.max(1) as f64;
            let seen = comparison.predicted(objective).map(|p| p.overlap * links);
            overlaps.free += seen.free;
            overlaps.turns += seen.turns;
            overlaps.slots += seen.slots;
        }
        let mean = |time, overlap| ControlMean { time, overlap };
        ByControl { free: mean(free, overlaps.free), turns: mean(turns, overlaps.turns), slots: mean(slots, overlaps.slots) }
    }

    /// Means over the placed jobs of iteration over period, weighted by GPUs; `times` are those of a job of a component.
    fn means<const N: usize>(&self, parts: &[Part], placed: &[bool], times: impl Fn(&Answer, usize) -> Option<[Nanos; N]>) -> [f64; N] {
        let weight = |job: JobId| f64::from(self.cluster.jobs[job.index()].gpus.max(1));
        // A placed job outside of all components takes its period, so the mean is 1 and what components take beyond that.
        let total: f64 = self.jobs.iter().zip(placed).filter(|(_, placed)| **placed).map(|(job, _)| weight(*job)).sum();
        let mut excess = [0.0; N];
        for part in parts {
            let Ok(answer) = &part.solved.answer else { continue };
            for (i, job) in part.jobs.iter().enumerate() {
                let Some(times) = times(answer, i) else { continue };
                let period = self.cluster.jobs[job.index()].period.0 as f64;
                for (sum, time) in excess.iter_mut().zip(times) {
                    *sum += weight(*job) * (time.0 as f64 / period - 1.0);
                }
            }
        }
        excess.map(|e| if total > 0.0 { 1.0 + e / total } else { 1.0 })
    }
}

impl Prepared {
    fn components(&self) -> &[Component] {
        match self {
            Self::Loop(_) => &[],
            Self::Contended(_, components) => components,
        }
    }

    fn parts(&self, find: impl Fn(&Content) -> Option<Arc<Solved>>, jobs: &[JobId]) -> Vec<Part> {
        let Self::Contended(contention, components) = self else { return Vec::new() };
        components.iter().filter_map(|c| Some(part(find(&c.content)?, c, &contention.classes, jobs))).collect()
    }
}

fn part(solved: Arc<Solved>, component: &Component, classes: &Classes, jobs: &[JobId]) -> Part {
    let mut part = Part { solved, jobs: component.jobs.iter().map(|j| jobs[*j as usize]).collect(), links: Vec::new(), ends: Vec::new() };
    for class in &component.classes {
        part.links.extend_from_slice(classes.links_of(&classes.classes[*class as usize]));
        part.ends.push(part.links.len() as u32);
    }
    part
}

fn mean_scores(contention: &Contention, parts: &[Part]) -> MeanScores {
    let mut means = MeanScores {
        score: 1.0,
        true_score: 1.0,
        zero_shift_score: 1.0,
        robust_score: None,
        robust_is_bound: false,
        proven: true,
        bound_gap: 0.0,
    };
    if contention.shared == 0 {
        return means;
    }
    let all = contention.shared as f64;
    // Sums of 1 - score, so that links of score 1 add nothing and round nothing.
    let (mut loss, mut true_loss, mut zero_loss) = (0.0, 0.0, 0.0);
    let mut robust: Option<Drifts> = None;
    for part in parts {
        let Ok(answer) = &part.solved.answer else { continue };
        let mut shared = 0.0;
        let weighted = part.solved.content.links.iter().zip(&answer.scores).enumerate();
        for (i, (_, scores)) in weighted.filter(|(_, (link, _))| link.weight > 0) {
            // The weights of the content are reduced, so the links themselves are counted.
            let count = part.links_of(i).len() as f64;
            shared += count;
            loss += count * (1.0 - scores.score);
            true_loss += count * (1.0 - scores.true_score);
            zero_loss += count * (1.0 - scores.zero_shift_score);
        }
        means.proven &= answer.optimality.proven;
        // The gap of a component is one of its own mean, so it counts by the part of the shared links.
        means.bound_gap += answer.optimality.bound_gap * shared / all;
        if let Some(loss) = answer.robust_loss {
            robust.get_or_insert_default().add(&loss, &answer.optimality, shared / all);
        }
    }
    means.score = 1.0 - loss / all;
    means.true_score = 1.0 - true_loss / all;
    means.zero_shift_score = 1.0 - zero_loss / all;
    if let Some(drifts) = robust {
        means.robust_score = Some(means.score - drifts.loss);
        means.robust_is_bound = drifts.loss > drifts.known_loss;
        means.bound_gap = drifts.gap();
        // A score that may be off proves nothing, however small the gap is.
        let exact = |p: &Part| p.solved.answer.as_ref().is_ok_and(|a| a.scores.iter().all(|s| s.uncertainty == 0.0));
        means.proven = means.bound_gap <= PROOF_TOLERANCE && parts.iter().all(exact);
    }
    means
}

/// The components' answers to a drift put together: whichever job drifts, only one component loses by it, and all others still
/// cost at least what they cost at best.
#[derive(Clone, Copy, Debug, Default)]
struct Drifts {
    /// The largest loss of a component, and the largest that is exact.
    loss: f64,
    known_loss: f64,
    /// How much better the mean could be while no job drifts.
    plain_gap: f64,
    /// How much less that is at least, in robust mode: the most that one component makes certain.
    certain_loss: f64,
}

impl Drifts {
    /// Adds a component that is `share` of the shared links.
    fn add(&mut self, drift: &RobustLoss, optimality: &Optimality, share: f64) {
        // A loss is one of the mean of the component; its share makes it one of the mean over all shared links.
        let loss = drift.loss * share;
        self.loss = self.loss.max(loss);
        self.known_loss = self.known_loss.max(if drift.exact { loss } else { 0.0 });
        self.plain_gap += drift.plain_gap * share;
        self.certain_loss = self.certain_loss.max((drift.plain_gap + drift.loss - optimality.bound_gap) * share);
    }

    /// How much better the worst mean could be.
    fn gap(&self) -> f64 {
        (self.plain_gap - self.certain_loss + self.loss).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_digit_tells_no_costs_apart() {
        for hundredths in 0..=100 {
            let score = f64::from(hundredths) / 100.0;
            for near in [score.next_down(), score.next_up()] {
                assert_eq!(in_steps(near, PROOF_TOLERANCE), in_steps(score, PROOF_TOLERANCE), "{score}");
            }
            assert!(in_steps(score + 2.0 * PROOF_TOLERANCE, PROOF_TOLERANCE) > in_steps(score, PROOF_TOLERANCE));
        }
    }
}
