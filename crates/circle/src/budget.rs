//! How much a solve may do: counted in units of work, never timed, so that equal inputs get equal answers on any machine.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

/// How much work a solver may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Prove the optimum of a group where that takes one to two seconds, and of all groups where it takes about three:
    /// `antiphase solve`.
    #[default]
    Thorough,
    /// Prove the optimum where that takes up to about three minutes: `antiphase solve --prove`.
    Proof,
    /// Bound the work per set of links to about a millisecond: ranking many placements.
    Fast,
}

impl Effort {
    /// Most pieces on one reduced circle before weak couplings are dropped.
    pub(crate) const fn pieces_max(self) -> u64 {
        match self {
            Self::Thorough | Self::Proof => crate::CIRCLE_PIECES_MAX,
            Self::Fast => 4_096,
        }
    }

    /// Most work on all groups of one problem together, in units of about 10 ns: a document is answered in seconds, whatever is
    /// in it.
    pub(crate) const fn problem_work_max(self) -> u64 {
        match self {
            Self::Thorough | Self::Fast => 300_000_000,
            Self::Proof => 24_000_000_000,
        }
    }

    /// Most work in one search for proof, in units of about 10 ns.
    pub(crate) const fn work_max(self) -> u64 {
        match self {
            Self::Thorough => 150_000_000,
            Self::Proof => 24_000_000_000,
            Self::Fast => 50_000,
        }
    }

    /// Most lookups spent on the alignments of one pair of jobs. A lookup takes about 10 ns.
    pub(crate) const fn lookups_max(self) -> u64 {
        match self {
            Self::Thorough | Self::Proof => 1 << 19,
            Self::Fast => 1 << 14,
        }
    }
}

/// Ends a solve from outside: a client that has left, a deadline that has passed. Clones share one flag.
///
/// ```
/// use antiphase_circle::{Cancel, Options, ProblemBuilder, SolveError, solve_until};
/// let cancel = Cancel::default();
/// cancel.cancel();
/// let answer = solve_until(&ProblemBuilder::new().build(), &Options::default(), &cancel);
/// assert_eq!(answer, Err(SolveError::Cancelled));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Every solve that was given this flag ends within about a millisecond, or, before its search begins, with the link that it looks at.
    pub fn cancel(&self) {
        // The flag guards no other data, so relaxed order is enough; a late read costs only some more work.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::cancel`] was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Work that was done and work that may be done, in units of about 10 ns of one core.
///
/// Everything whose duration depends on the input charges what it did, and every loop that searches asks
/// [`is_spent`](Self::is_spent) before its next round.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    spent: u64,
    end: u64,
    cancel: Option<Cancel>,
}

/// A tenth of a second ([`Budget::is_far_over`]).
const FAR_OVER: u64 = 10_000_000;

impl Default for Budget {
    /// Without a limit: for single evaluations, whose length the limits of a problem bound.
    fn default() -> Self {
        Self { spent: 0, end: u64::MAX, cancel: None }
    }
}

impl Budget {
    pub(crate) fn new(work: u64, cancel: Option<&Cancel>) -> Self {
        Self { spent: 0, end: work, cancel: cancel.cloned() }
    }

    pub(crate) fn charge(&mut self, work: u64) {
        // A saturated sum is at least every limit, so the budget then counts as spent.
        self.spent = self.spent.saturating_add(work);
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    pub(crate) fn left(&self) -> u64 {
        // A cancelled budget has nothing left, so loops that ask for what is left need no check of their own.
        if self.is_cancelled() { 0 } else { self.end.saturating_sub(self.spent) }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left() == 0
    }

    /// Whether more than [`FAR_OVER`] was spent beyond the limit. Some steps are finished although the limit is reached, because they are
    /// mostly short; beyond this they end too.
    pub(crate) fn is_far_over(&self) -> bool {
        self.spent.saturating_sub(self.end) > FAR_OVER || self.is_cancelled()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }

    /// Lowers the limit to `work` from now on; returns the limit that was there, for [`Self::restore`].
    pub(crate) fn narrow(&mut self, work: u64) -> u64 {
        let outer = self.end;
        // The outer limit stays in force: a part of a search never gets more than the whole has left.
        self.end = outer.min(self.spent.saturating_add(work));
        outer
    }

    pub(crate) fn restore(&mut self, outer: u64) {
        self.end = outer;
    }
}
