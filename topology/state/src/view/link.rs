//! A link with demand: its scores, and what keeps its jobs apart, which nobody else decides.

use alloc::string::{String, ToString};

use circle::Phase;
use units::{LinkId, Nanos, Rate};

use super::View;
use crate::plan::Presence;

/// A link with demand.
#[derive(Clone, Copy, Debug)]
pub struct LinkView<'a> {
    view: &'a View,
    /// The link, of the present fabric.
    pub id: LinkId,
    /// Its capacity.
    pub capacity: Rate,
    /// As its jobs are kept apart now: under the committed slots, or unshifted where they were let go. `None` with fewer than two jobs; 1
    /// where the jobs can never exceed the link.
    pub score: Option<f64>,
    /// If nobody were shifted.
    pub zero_shift_score: Option<f64>,
    /// What keeps its jobs apart; `None`: nothing has to.
    pub apart: Option<Apart>,
    /// Sum of the jobs' highest demands.
    pub peak: Rate,
    here: &'a [Presence],
}

/// What keeps jobs apart that can exceed a link together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Their slots, as far as the score says.
    Shifts,
    /// They take turns.
    Turns,
    /// Nothing: their group was let go, so they run as they come, whatever the plan says of slots.
    Free,
}

/// What one job demands of one link.
#[derive(Clone, Copy, Debug)]
pub struct DemandView<'a> {
    /// The job.
    pub job: &'a str,
    /// Scheduled period.
    pub period: Nanos,
    /// Offset of its slot.
    pub shift: Nanos,
    /// Over one period from its own start; ticks are nanoseconds.
    pub phases: &'a [Phase],
}

impl View {
    /// The links with demand, by id.
    pub fn links(&self) -> impl ExactSizeIterator<Item = LinkView<'_>> {
        self.plan.links().map(|(id, here)| self.link_view(id, here))
    }

    /// One link; `None` where there is no demand.
    #[must_use]
    pub fn link(&self, id: LinkId) -> Option<LinkView<'_>> {
        Some(self.plan.on(id)).filter(|h| !h.is_empty()).map(|here| self.link_view(id, here))
    }

    fn link_view<'a>(&'a self, id: LinkId, here: &'a [Presence]) -> LinkView<'a> {
        // All jobs of a link that can be exceeded are in one component, so the first one speaks for all.
        let shared = here.first().filter(|_| here.len() > 1).and_then(|p| self.plan.job(&p.job));
        // A shared link outside every component can never be exceeded: it scores 1 whatever the shifts.
        let scores = shared.map(|j| j.component.as_ref().and_then(|c| c.scores(id)).unwrap_or((1.0, 1.0)));
        let apart = scores.filter(|(_, unshifted)| *unshifted < 1.0 - circle::PROOF_TOLERANCE).map(|_| self.apart(here));
        LinkView {
            view: self,
            id,
            capacity: Rate(self.plan.capacity(id)),
            score: scores.map(|(shifted, unshifted)| if apart == Some(Apart::Free) { unshifted } else { shifted }),
            zero_shift_score: scores.map(|s| s.1),
            apart,
            peak: Rate(here.iter().fold(0, |sum, p| sum.saturating_add(p.peak))),
            here,
        }
    }

    /// What keeps these jobs of a link apart. Two who were let go meet as they come, whoever else is there.
    fn apart(&self, here: &[Presence]) -> Apart {
        let jobs = || here.iter().filter_map(|presence| self.plan.job(&presence.job)).filter(|job| job.slot.turns);
        match (jobs().count(), jobs().filter(|job| self.let_go.contains(&job.name)).count()) {
            (_, 2..) => Apart::Free,
            (2.., _) => Apart::Turns,
            _ => Apart::Shifts,
        }
    }
}

impl<'a> LinkView<'a> {
    /// The jobs on it, by name.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        self.here.iter().map(|p| &*p.job)
    }

    /// What each of them demands.
    pub fn demands(&self) -> impl Iterator<Item = DemandView<'a>> + use<'a> {
        let plan = &self.view.plan;
        // Both look-ups succeed in a consistent plan; an index in error must not end the service, so such a job is left out.
        self.here.iter().filter_map(|p| {
            let job = plan.job(&p.job)?;
            let phases = job.load.demands.demands.get(p.demand as usize)?;
            Some(DemandView { job: &job.name, period: job.slot.times.period, shift: job.slot.times.offset, phases })
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.view.fabric().map_or_else(|| self.id.to_string(), |f| f.link_name(self.id))
    }
}
