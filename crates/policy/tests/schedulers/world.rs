//! A small world: jobs arrive, run as was decided, and end; nothing else costs time.

use antiphase_policy::schedule::{Decision, Job, JobIndex, Scheduler};

/// What a world plays.
pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) jobs: Vec<Job>,
    /// When each ended.
    pub(crate) ended_s: Vec<Option<f64>>,
}

/// A decision with its time.
pub(crate) struct Decided {
    pub(crate) at_s: f64,
    pub(crate) decision: Decision,
    /// The jobs as they were when it was taken.
    pub(crate) jobs: Vec<Job>,
}

impl World {
    pub(crate) fn new(scheduler: Scheduler, jobs: Vec<Job>) -> Self {
        let ended_s = vec![None; jobs.len()];
        Self { scheduler, jobs, ended_s }
    }

    /// Plays until nothing happens any more, or for so many decisions; each is shown to `look`, and must fit the cluster.
    pub(crate) fn play(&mut self, decisions: usize, mut look: impl FnMut(&Decided)) {
        let mut arrivals: Vec<JobIndex> = (0..self.jobs.len() as JobIndex).collect();
        arrivals.sort_by(|a, b| self.jobs[*b as usize].submitted_s.total_cmp(&self.jobs[*a as usize].submitted_s).then(b.cmp(a)));
        let (mut now_s, mut decision) = (0.0, Decision::default());
        for _ in 0..decisions {
            let arrival_s = arrivals.last().map_or(f64::INFINITY, |job| self.jobs[*job as usize].submitted_s);
            let end_of = |run: &antiphase_policy::schedule::Run| now_s + self.jobs[run.job as usize].left * run.iteration_s;
            let end_s = decision.runs.iter().map(end_of).fold(f64::INFINITY, f64::min);
            let change_s = self.scheduler.next_change_s(now_s, &self.jobs);
            let at_s = if decision.runs.is_empty() { arrival_s } else { arrival_s.min(end_s).min(change_s) };
            if at_s.is_infinite() {
                return;
            }
            let ends: Vec<JobIndex> = decision.runs.iter().filter(|run| end_of(run) <= at_s).map(|run| run.job).collect();
            for run in &decision.runs {
                let job = &mut self.jobs[run.job as usize];
                job.left = (job.left - (at_s - now_s) / run.iteration_s).max(0.0);
                job.ran_s += at_s - now_s;
                job.running = false;
            }
            for job in ends {
                self.ended_s[job as usize] = Some(at_s);
                self.scheduler.leave(job, &self.jobs);
            }
            while let Some(job) = arrivals.pop_if(|job| self.jobs[*job as usize].submitted_s <= at_s) {
                self.scheduler.arrive(job);
            }
            now_s = at_s;
            self.scheduler.decide(now_s, &self.jobs, &mut decision);
            decision.check(self.scheduler.capacity(), &self.jobs).expect("a decision that can be carried out");
            let decided = Decided { at_s, decision, jobs: self.jobs.clone() };
            look(&decided);
            decision = decided.decision;
            for run in &decision.runs {
                let job = &mut self.jobs[run.job as usize];
                (job.running, job.started) = (true, true);
            }
        }
    }
}
