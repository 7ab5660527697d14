//! The input of all pictures: names, times and scores, free of any solver's types.
//!
//! Times are nanoseconds, rates Mbit/s. Jobs are named once, in a list; everything else refers
//! to them by position in it. A position outside the list is skipped, never a panic.

use alloc::{string::String, vec::Vec};

/// One job.
#[derive(Clone, Debug, Default)]
pub struct JobView {
    /// Name as the user gave it; any text.
    pub name: String,
    /// Scheduled length of an iteration.
    pub period_ns: u64,
    /// The delay this job applies; 0 when it is not shifted.
    pub shift_ns: u64,
    /// How far it may drift, either way, before a score falls.
    pub slack_ns: Option<u64>,
    /// Iteration time alone on the fabric.
    pub solo_ns: Option<u64>,
    /// Predicted iteration time when nobody is shifted.
    pub contended_ns: Option<u64>,
    /// Predicted iteration time where those take turns that gain by it.
    pub turns_ns: Option<u64>,
    /// The same where those are held to their slots that gain by it.
    pub slots_ns: Option<u64>,
    /// The same under the control that was chosen.
    pub interleaved_ns: Option<u64>,
    /// Whether it is held, and for what: `turns`, `slots`, `no`; empty when it meets nobody.
    pub held: String,
}

/// A span of an iteration with constant demand, counted from the iteration's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseView {
    /// First nanosecond.
    pub start_ns: u64,
    /// One past the last; at most the period.
    pub end_ns: u64,
    /// Demand.
    pub mbps: u64,
}

/// One job's presence on one link.
#[derive(Clone, Debug, Default)]
pub struct MemberView {
    /// Position in the list of jobs.
    pub job: usize,
    /// Its Up phases on this link: sorted, disjoint.
    pub phases: Vec<PhaseView>,
}

/// A link that two or more jobs cross.
#[derive(Clone, Debug, Default)]
pub struct LinkView {
    /// Name, e.g. `leaf3->spine1`.
    pub name: String,
    /// Capacity.
    pub capacity_mbps: u64,
    /// The jobs on it.
    pub members: Vec<MemberView>,
    /// Compatibility score when nobody is shifted.
    pub zero_shift_score: f64,
    /// Compatibility score under the shifts.
    pub score: f64,
    /// What keeps its jobs apart.
    pub apart: Apart,
    /// Why it scores as it does, in a sentence or two; may be empty.
    pub explanation: String,
    /// How many more links have the same jobs, demands and capacity.
    pub alike: usize,
}

/// What keeps the jobs of a link apart, as far as a picture says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apart {
    /// The shifts, or nothing that is known.
    #[default]
    Shifts,
    /// They take turns: the shifts only show how they follow each other.
    Turns,
    /// Nothing: they were let go, and run as they come.
    Free,
}

impl Apart {
    /// What stands above the second half of a picture.
    pub(crate) fn head(self) -> &'static str {
        match self {
            Self::Shifts => "after: shifted",
            Self::Turns => "by turns, drawn as slots",
            Self::Free => "now: let go, not shifted",
        }
    }
}

/// One placement that was evaluated.
#[derive(Clone, Debug, Default)]
pub struct CandidateView {
    /// Name.
    pub name: String,
    /// Whether this is the placement that was taken.
    pub chosen: bool,
    /// Mean score of its shared links under its shifts; none when it was refused.
    pub mean_score: Option<f64>,
    /// Its worst link's score.
    pub worst_score: Option<f64>,
    /// Links that two or more jobs cross.
    pub shared_links: usize,
    /// Predicted iteration time over the period, GPU-weighted mean, as the jobs come.
    pub free_time: Option<f64>,
    /// The same where those take turns that gain by it.
    pub turns_time: Option<f64>,
    /// The same where those are held to their slots that gain by it.
    pub slots_time: Option<f64>,
    /// The share of the time in use in which links are above capacity, as the jobs come.
    pub free_overlap: Option<f64>,
    /// The same under the control that was chosen.
    pub chosen_overlap: Option<f64>,
    /// Who is held, and for what: `3 by turns`, `nobody`; may be empty.
    pub held: String,
    /// What to know about it: `proven`, `loop, refused by cassini mode`, ...; may be empty.
    pub note: String,
}

/// A host or a switch.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// 0 host, 1 leaf, 2 spine, 3 core.
    pub tier: u8,
}

/// A directed link of the fabric, shared or not.
#[derive(Clone, Debug, Default)]
pub struct MapLinkView {
    /// Position of the sending node.
    pub from: usize,
    /// Position of the receiving node.
    pub to: usize,
    /// Score under the shifts; none when fewer than two jobs cross it.
    pub score: Option<f64>,
    /// Positions of the jobs on it.
    pub jobs: Vec<usize>,
    /// The name by which a page asks for it, where the map is part of a page; else empty.
    pub id: String,
    /// Capacity; 0 where nobody stated it.
    pub capacity_mbps: u64,
    /// What its jobs send on average as they are planned, over the capacity.
    pub planned: f64,
    /// What was measured at a host, over the capacity; none where nobody measures.
    pub measured: Option<f64>,
    /// What a switch at one of its ends counted, whoever sent it, over the capacity; none where no switch tells.
    pub observed: Option<f64>,
}

/// The fabric.
#[derive(Clone, Debug, Default)]
pub struct FabricView {
    /// Name or file.
    pub name: String,
    /// Hosts and switches.
    pub nodes: Vec<NodeView>,
    /// Directed links.
    pub links: Vec<MapLinkView>,
}

/// Everything a report tells.
#[derive(Clone, Debug, Default)]
pub struct ReportView {
    /// Heading.
    pub title: String,
    /// The fabric.
    pub fabric: FabricView,
    /// The jobs, in the order that colours them.
    pub jobs: Vec<JobView>,
    /// The candidates, best first.
    pub candidates: Vec<CandidateView>,
    /// The shared links of the chosen candidate on which shifts matter, in any order.
    pub links: Vec<LinkView>,
    /// Its other shared links: there the jobs fit together whatever their shifts.
    pub never_overloaded_links: usize,
    /// Mean link score when nobody is shifted.
    pub zero_shift_mean_score: f64,
    /// Mean link score under the shifts.
    pub mean_score: f64,
    /// Rules of the solver: `exact` or `cassini`.
    pub mode: String,
    /// Whether no assignment of shifts has a better mean score.
    pub proven: bool,
    /// The mean score can be at most this much better.
    pub bound_gap: f64,
    /// Assumptions that went in, one sentence each.
    pub notes: Vec<String>,
    /// Program, version and command line that made this, for the footer.
    pub made_by: String,
}
