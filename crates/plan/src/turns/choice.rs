//! Choices under way. Most choices of dense mixes are much worse than nobody kept apart, and whole runs of them would be nearly all of
//! the work: so a choice is looked at for longer and longer, beside nobody kept apart in the same runs, and given up once it is too far
//! behind.

use core::cell::{Cell, OnceCell, RefCell};

use fluid::{ByTurns, Component, Span, turn_group};

use super::{Predicted, QUIET_MEAN_MAX, QUIET_SLOWER_MAX, Question, Runs, SEARCH, Taking, means, slowest};

/// How much longer iterations have to look at a glance than with nobody kept apart, in the mean and of one job, for a choice to be given
/// up: by more than what turns may cost for the sake of quiet ([`QUIET_MEAN_MAX`], [`QUIET_SLOWER_MAX`]), and than what a glance is off.
const HOPELESS: Behind = Behind { mean: QUIET_MEAN_MAX + 0.03, slower: QUIET_SLOWER_MAX + 0.1 };
/// The same in a blink, which is half of a glance and so is off by more.
const HOPELESS_IN_A_BLINK: Behind = Behind { mean: 2.0 * HOPELESS.mean, slower: 2.0 * HOPELESS.slower };
/// How much longer iterations may be in one look, in the mean and of one job, for a choice to be run whole: by no more than runs differ.
const WORSE: Behind = Behind { mean: 0.005, slower: 0.05 };
/// Runs of a blink and of a glance: two of few jobs.
const GLANCE: Runs = Runs { trial: fluid::Trial { runs: 2, ..SEARCH.trial }, of_jobs_max: 3 };
/// Runs of a look.
const LOOK: Runs = Runs { trial: fluid::Trial { runs: 1, ..SEARCH.trial }, of_jobs_max: 1 };

/// One run may look at an eighth of the demands that the runs of all choices may look at together.
const RUN_SHARE: u64 = 8;

/// How much longer than with nobody kept apart, as a share.
#[derive(Clone, Copy, Debug)]
struct Behind {
    /// In the mean.
    mean: f64,
    /// Of one job.
    slower: f64,
}

/// A question, laid out once for all that is predicted for it.
#[derive(Debug)]
pub(super) struct Asked<'q> {
    pub(super) question: &'q Question<'q>,
    component: Component<'q>,
    /// What the runs of choices have cost, or more than they may.
    work: Cell<u64>,
}

impl<'q> Asked<'q> {
    pub(super) fn new(question: &'q Question<'q>) -> Self {
        Self {
            question,
            component: Component::new(question.jobs, question.links).within(question.limits.work_max / RUN_SHARE),
            work: Cell::new(0),
        }
    }

    /// What whole runs of a choice say.
    pub(super) fn predict(&self, runs: Runs, taking: Taking) -> Predicted {
        self.choice(runs, taking).see(Span::Whole, runs)
    }

    /// Whether choices cost too much for more of them to be looked at.
    pub(super) fn is_costly(&self) -> bool {
        self.work.get() >= self.question.limits.work_max
    }

    /// A choice of which nothing has been seen yet.
    fn choice(&self, runs: Runs, taking: Taking) -> Choice<'_> {
        let question = self.question;
        let group = turn_group(question.jobs, question.links, &taking.opponents, |l| taking.price_of(l));
        Choice { asked: self, runs: self.component.by_turns(group, question.asks, runs.of(question)), taking }
    }
}

/// A choice under way: its runs go on where they were looked at last.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    asked: &'a Asked<'a>,
    taking: Taking,
    runs: ByTurns<'a>,
}

impl Choice<'_> {
    /// `runs` are of the seeds of those with which the choice began.
    fn see(&mut self, span: Span, runs: Runs) -> Predicted {
        let (question, before) = (self.asked.question, self.runs.work());
        let seen = self.runs.see(span, runs.of(question).runs);
        // If one run was cut short, other runs would be too, so all work counts as spent.
        let cost = if seen.cut_short { question.limits.work_max } else { self.runs.work() - before };
        self.asked.work.set(self.asked.work.get().saturating_add(cost));
        means(question, self.taking.clone(), seen)
    }

    /// So much of it, by the runs that are made for that.
    fn seen(&mut self, span: Span) -> Predicted {
        let runs = match span {
            Span::Blink | Span::Glance => GLANCE,
            Span::Look => LOOK,
            Span::Whole => SEARCH,
        };
        self.see(span, runs)
    }
}

/// What was seen of a choice, and how much of it was.
pub(super) type Seen = (Predicted, Span);

/// The free run: the baseline of each choice, over the same span.
#[derive(Debug)]
pub(super) struct Free<'a> {
    asked: &'a Asked<'a>,
    told: &'a Predicted,
    gives_up: bool,
    runs: RefCell<Choice<'a>>,
    blink: OnceCell<Predicted>,
    glance: OnceCell<Predicted>,
    look: OnceCell<Predicted>,
    whole: OnceCell<Predicted>,
    /// Everybody's turns, if those were given up: they are asked for twice.
    pub(super) given_up: Option<Seen>,
}

impl<'a> Free<'a> {
    /// `told` is what is predicted by runs that choose nothing. Unless it `gives_up`, every choice is run whole.
    pub(super) fn new(asked: &'a Asked<'a>, told: &'a Predicted, gives_up: bool) -> Self {
        Self {
            asked,
            told,
            gives_up,
            runs: RefCell::new(asked.choice(SEARCH, told.taking.clone())),
            blink: OnceCell::new(),
            glance: OnceCell::new(),
            look: OnceCell::new(),
            whole: OnceCell::new(),
            given_up: None,
        }
    }

    /// As [`Asked::is_costly`].
    pub(super) fn is_costly(&self) -> bool {
        self.asked.is_costly()
    }

    /// With nobody kept apart, by as much as was seen of a choice. Where every choice is given up early, nobody asks for more.
    pub(super) fn beside(&self, span: Span) -> &Predicted {
        let cell = match span {
            Span::Blink => &self.blink,
            Span::Glance => &self.glance,
            Span::Look => &self.look,
            Span::Whole => &self.whole,
        };
        cell.get_or_init(|| {
            let mut seen = self.runs.borrow_mut().seen(span);
            if matches!(span, Span::Blink | Span::Glance) {
                // Few iterations may have met by luck, so the longer of both counts.
                seen.mean = seen.mean.max(self.told.mean);
                seen.times.iter_mut().zip(&self.told.times).for_each(|(seen, told)| *seen = (*seen).max(*told));
            }
            seen
        })
    }

    /// The choice, if it is not hopeless; and else what shows that it is.
    pub(super) fn gives_up(&self, taking: Taking) -> Result<Choice<'a>, Seen> {
        if let Some(known) = self.given_up.as_ref().filter(|known| known.0.taking == taking) {
            return Err(known.clone());
        }
        let mut choice = self.asked.choice(SEARCH, taking);
        for (span, behind) in [(Span::Blink, HOPELESS_IN_A_BLINK), (Span::Glance, HOPELESS)] {
            if let Some(seen) = self.is_behind(&mut choice, span, behind) {
                return Err((seen, span));
            }
        }
        Ok(choice)
    }

    /// What a choice brings, and how much of it was seen to know that.
    pub(super) fn try_out(&self, taking: Taking) -> Seen {
        let mut choice = match self.gives_up(taking) {
            Ok(choice) => choice,
            Err(seen) => return seen,
        };
        match self.is_behind(&mut choice, Span::Look, WORSE) {
            Some(seen) => (seen, Span::Look),
            None => (choice.seen(Span::Whole), Span::Whole),
        }
    }

    /// What so much of a choice shows, if that is too far behind nobody kept apart.
    fn is_behind(&self, choice: &mut Choice<'_>, span: Span, by: Behind) -> Option<Predicted> {
        if !self.gives_up && span != Span::Look {
            return None;
        }
        let (seen, free) = (choice.seen(span), self.beside(span));
        (seen.cut_short || seen.mean > free.mean * (1.0 + by.mean) || slowest(&seen, free) > 1.0 + by.slower).then_some(seen)
    }
}
