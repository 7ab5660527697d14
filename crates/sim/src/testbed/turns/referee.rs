//! Why opponents sent at once: every overlap of a run, and its reason.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use gate_core::Reason;
use state::turns::TurnGroup;
use turns::Member;
use units::Nanos;

use super::log::{Over, TurnStart, Went};

/// Why two opponents sent at once though their demands exceed a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// One of them went by itself, for this reason.
    Itself(Reason),
    /// The agent of one of them let it go, because there was no service.
    Alone,
    /// One of them had waited for as long as an iteration takes, or nobody tells its ends.
    LetGo,
    /// One of them sent for longer than its lease, or its end was never told.
    Lease,
    /// One of them told its end too early, or its agent found it too early.
    ToldEarly,
    /// The service died while one of them sent.
    Forgotten,
    /// The service heard of another start of one of them meanwhile: its process died, or a note was late.
    Superseded,
    /// One of them had the permission ahead and did not give it back in time.
    KeptPermission,
    /// None of these: a defect.
    Unexplained,
}

/// Opponents that sent at once though their demands exceed a link, and one that should not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// With which start it began, by its place in the log.
    pub began: usize,
    /// Which start should not have been there, or was not known.
    pub blamed: usize,
    /// Why.
    pub why: Why,
}

/// Every overlap of opponents whose demands together exceed a limit of their group, by the peaks of their demands. `jobs` are the names
/// of the case's jobs. Jobs with several Up phases should ask at each one, or gaps between them count as sending.
#[must_use]
pub fn overlaps(starts: &[TurnStart], groups: &[Arc<TurnGroup>], jobs: &[&str], end: Nanos) -> Vec<Overlap> {
    let number: BTreeMap<&str, u32> = jobs.iter().copied().zip(0..).collect();
    let mut members: BTreeMap<u32, (usize, &Member)> = BTreeMap::new();
    for (group, of) in groups.iter().enumerate() {
        for (job, member) in of.jobs.iter().zip(&of.group.members) {
            number.get(&*job.name).map(|job| members.insert(*job, (group, member)));
        }
    }
    let mut sending: Vec<usize> = Vec::new();
    let mut found = Vec::new();
    for (began, start) in starts.iter().enumerate() {
        sending.retain(|s| starts[*s].end.unwrap_or(end) > start.start);
        let Some((group, member)) = members.get(&start.job) else { continue };
        sending.push(began);
        for one in &member.uses {
            // All jobs on a contested link are opponents.
            let peak = |s: &usize| {
                let (_, other) = members.get(&starts[*s].job).filter(|(g, _)| g == group)?;
                let ups = &other.uses.iter().find(|u| u.link == one.link)?.ups;
                Some((*s, ups.iter().map(|up| up.rate.0).max()?))
            };
            let set: Vec<(usize, u64)> = sending.iter().filter_map(peak).collect();
            blame(starts, set, groups[*group].group.limits[one.link as usize].0, |blamed, why| found.push(Overlap { began, blamed, why }));
        }
    }
    found
}

/// Names those that exceed a limit together though they should not have been there, until the rest does not.
fn blame(starts: &[TurnStart], mut set: Vec<(usize, u64)>, limit: u64, mut found: impl FnMut(usize, Why)) {
    let exceeds = |set: &[(usize, u64)]| set.len() > 1 && set.iter().map(|(_, rate)| rate).sum::<u64>() > limit;
    if !exceeds(&set) {
        return;
    }
    set.retain(|(s, _)| {
        let why = own_reason(&starts[*s]);
        why.map(|why| found(*s, why)).is_none()
    });
    let from = |s: usize| starts[s].beliefs.first().map_or(Nanos(0), |belief| belief.from);
    // Each turn takes one off the set at least.
    while exceeds(&set) {
        let Some(last) = set.iter().map(|(s, _)| *s).max_by_key(|s| (from(*s), *s)) else { return };
        let before = set.len();
        set.retain(|(s, _)| {
            let why = if *s == last { None } else { forgotten(&starts[*s], from(last)) };
            // A permission ahead is given before the service hears of the start, and what it knew then is past by now.
            let is_ahead = [last, *s].iter().any(|s| starts[*s].went == Went::Ahead);
            let why = why.map(|why| if is_ahead && why == Why::Unexplained { Why::KeptPermission } else { why });
            why.map(|why| found(*s, why)).is_none()
        });
        if set.len() == before {
            // Everybody was known when the last one was let go. A permission ahead is given before the start is known.
            found(last, if starts[last].went == Went::Ahead { Why::KeptPermission } else { Why::Unexplained });
            set.retain(|(s, _)| *s != last);
        }
    }
}

/// Why a start was there that the service did not let go, or not because the way was free.
fn own_reason(start: &TurnStart) -> Option<Why> {
    match start.went {
        Went::Itself => Some(Why::Itself(start.because)),
        Went::Alone => Some(Why::Alone),
        Went::Granted | Went::Ahead if start.unfree.is_some() => Some(Why::LetGo),
        // The service never heard of it.
        Went::Granted | Went::Ahead => start.beliefs.is_empty().then_some(Why::KeptPermission),
    }
}

/// Why the service did not know at `at` that a start sends; `None` if it did.
fn forgotten(start: &TurnStart, at: Nanos) -> Option<Why> {
    if start.beliefs.iter().any(|b| b.from <= at && b.until.is_none_or(|(until, _)| until > at)) {
        return None;
    }
    let until = start.beliefs.iter().filter_map(|b| b.until).rfind(|(until, _)| *until <= at);
    Some(match until {
        _ if start.told_early => Why::ToldEarly,
        Some((_, Over::Lease)) => Why::Lease,
        Some((_, Over::Forgotten)) => Why::Forgotten,
        Some((_, Over::Superseded)) => Why::Superseded,
        Some((_, Over::Told)) | None => Why::Unexplained,
    })
}
