//! Why a link scores as it does, in words.

pub(crate) mod turns;

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use units::{Nanos, Rate};

use self::turns::TurnReason;
use crate::Overlap;

/// Most names or shifts listed in one sentence.
const LISTED_MAX: usize = 4;

/// What a person should know about one link, or about a candidate as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Name of the link; `None` for the candidate as a whole.
    pub link: Option<String>,
    /// How many more links are in exactly the same situation.
    pub more_links: usize,
    /// Names of the jobs it is about.
    pub jobs: Vec<String>,
    /// Score of the link, where there is one.
    pub score: Option<f64>,
    /// What happens there.
    pub reason: Reason,
}

/// What happens on a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The jobs could exceed the link together, but as they are they do not.
    Apart {
        /// Smallest slack of the jobs.
        slack: Nanos,
    },
    /// The jobs would exceed the link, and the shifts remove that.
    Separated {
        /// Over capacity when no job is shifted.
        before: Overlap,
        /// Jobs with a shift, and the shift.
        moved: Vec<(String, Nanos)>,
        /// Smallest slack of the jobs.
        slack: Nanos,
    },
    /// The jobs exceed the link even with the shifts.
    Remains {
        /// Over capacity when no job is shifted.
        before: Overlap,
        /// Over capacity with the shifts.
        after: Overlap,
        /// Jobs with a shift, and the shift.
        moved: Vec<(String, Nanos)>,
        /// Why.
        why: Remainder,
    },
    /// One job exceeds the link by itself; no shift of any job changes that.
    AloneExceeds {
        /// The job.
        job: String,
        /// Its highest demand.
        peak: Rate,
        /// Capacity of the link.
        capacity: Rate,
    },
    /// No two jobs of the candidate meet on a link that can be over capacity.
    NoSharedLink {
        /// Links that two or more jobs share without ever exceeding them.
        never_overloaded: usize,
    },
    /// Who takes turns with whom, and what that brings.
    Turns(TurnReason),
    /// CASSINI mode: discarded because of a loop.
    Loop,
    /// The solver refused the link.
    Unsolved {
        /// Its words.
        error: String,
    },
}

/// Why jobs exceed a link even with the shifts; the first that applies.
#[derive(Clone, Debug, PartialEq)]
pub enum Remainder {
    /// One of them exceeds the link by itself.
    AloneExceeds {
        /// The job.
        job: String,
        /// Its highest demand.
        peak: Rate,
        /// Capacity of the link.
        capacity: Rate,
    },
    /// One of them never pauses, so every other Up phase falls upon it.
    AlwaysOn {
        /// The job.
        job: String,
    },
    /// The jobs together send more than the link carries.
    Duty {
        /// Mean demand over capacity, in percent, rounded up.
        percent: u64,
    },
    /// The periods drift past one another whatever the shifts.
    Unlocked {
        /// The job whose shift matters least, relative to its period.
        job: String,
        /// The shift of that job matters only modulo this.
        lock: Nanos,
        /// Its period.
        period: Nanos,
    },
    /// The phases of the coupled group cannot all be kept apart on all its links. Those on one of its links perhaps could, at the price
    /// of the others.
    Crowded {
        /// Whether that is proven, or only the best found.
        proven: bool,
    },
}

/// A time as people write it: `38 ms`, `127.5 ms`, `1.2 us`.
struct Time(Nanos);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0.0 {
            0 => (1_000_000, "ms"),
            ns if ns < 1_000 => (1, "ns"),
            ns if ns < 1_000_000 => (1_000, "us"),
            _ => (1_000_000, "ms"),
        };
        // The product needs more than 64 bits, and the quotient fits: the unit is at least 1,000 where the time is large.
        let thousandths = (u128::from(self.0.0) * 1_000 / unit) as u64;
        // Zeros are cut before the point is, so whole numbers lose both.
        let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
        write!(f, "{} {name}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// `a`, `a and b`, `a, b and c`, `a, b, c, d and 3 more`.
fn list(names: &[String]) -> String {
    let (listed, rest) = names.split_at(names.len().min(LISTED_MAX));
    match (listed, rest.len()) {
        ([], _) => String::new(),
        // Lists are cut after more than one name, so a single listed name is the only one.
        ([only], _) => only.clone(),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
        (all, more) => format!("{} and {more} more", all.join(", ")),
    }
}

/// `vgg-7 by 141 ms and bert-2 by 3 ms`; empty when no job moves.
fn shifts(moved: &[(String, Nanos)]) -> String {
    list(&moved.iter().map(|(job, by)| format!("{job} by {}", Time(*by))).collect::<Vec<_>>())
}

/// `38 ms`, `about 38 ms` where it was sampled.
struct Over<'a>(&'a Overlap);

impl fmt::Display for Over<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.0.exact { "" } else { "about " }, Time(self.0.over))
    }
}

/// `bert-2 and vgg-7 overlap 38 ms of 255 ms`.
struct Met<'a>(&'a [String], &'a Overlap);

impl fmt::Display for Met<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.0.len() == 2 { "overlap" } else { "together exceed it for" };
        write!(f, "{} {verb} {} of {}", list(self.0), Over(self.1), Time(self.1.of))
    }
}

impl fmt::Display for Remainder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AloneExceeds { job, peak, capacity } => write!(f, "{job} alone demands {peak} of {capacity}"),
            Self::AlwaysOn { job } => write!(f, "{job} never stops sending"),
            Self::Duty { percent } => write!(f, "their mean demand is {percent} % of the link"),
            Self::Unlocked { job, lock, period } => {
                write!(f, "{job} does not lock with the others: its shift matters only modulo {} of its {}", Time(*lock), Time(*period))
            }
            Self::Crowded { proven: true } => f.write_str("no shifts keep all phases of the coupled group apart"),
            Self::Crowded { proven: false } => f.write_str("no better shifts were found"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(link) = &self.link {
            write!(f, "link {link}")?;
            match self.more_links {
                0 => {}
                1 => f.write_str(" and 1 more like it")?,
                n => write!(f, " and {n} more like it")?,
            }
            f.write_str(": ")?;
        }
        let jobs = &self.jobs;
        match &self.reason {
            Reason::Apart { slack } => write!(f, "{} do not meet as they are; slack {}", list(jobs), Time(*slack)),
            Reason::Separated { before, moved, slack } => {
                write!(f, "{}; shifting {} removes it; slack {}", Met(jobs, before), shifts(moved), Time(*slack))
            }
            // Shifts serve all links together, and lower what is sent beyond the capacity rather than the time of it: on a single link the
            // overlap may even grow, though other shifts would shorten it.
            // Too seldom for the sample, and not never.
            Reason::Remains { before, after, moved, why } if after.over.0 == 0 && (before.over.0 == 0 || moved.is_empty()) => {
                write!(f, "{} meet for a small part of the time: {why}", list(jobs))
            }
            Reason::Remains { before, after, moved, why } if after.over.0 == 0 => {
                write!(f, "{}; shifting {} leaves a small part of it: {why}", Met(jobs, before), shifts(moved))
            }
            Reason::Remains { before, after, moved, why } if moved.is_empty() || after.over == before.over => {
                write!(f, "{}, and the best shifts found do not shorten it: {why}", Met(jobs, before))
            }
            Reason::Remains { before, after, moved, why } if after.over > before.over => {
                write!(f, "{}, and {} with the best shifts found: {why}", Met(jobs, before), Over(after))
            }
            Reason::Remains { before, after, moved, why } => {
                write!(f, "{}; shifting {} leaves {}: {why}", Met(jobs, before), shifts(moved), Over(after))
            }
            Reason::AloneExceeds { job, peak, capacity } => {
                write!(f, "{job} alone demands {peak} of {capacity}; no shift can help")
            }
            Reason::NoSharedLink { never_overloaded: 0 } => f.write_str("no two jobs share a link; no shifts needed"),
            Reason::NoSharedLink { never_overloaded } => {
                write!(f, "the jobs that share a link fit on it together ({never_overloaded} links); no shifts needed")
            }
            Reason::Turns(reason) => reason.say(jobs, f),
            Reason::Loop => write!(
                f,
                "discarded: the affinity graph has a loop here ({} meet elsewhere too); CASSINI takes only loop-free placements",
                list(jobs)
            ),
            Reason::Unsolved { error } => write!(f, "not solved: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec};

    const MS: u64 = 1_000_000;

    fn ms(over: u64, of: u64) -> Overlap {
        Overlap { over: Nanos(over * MS), of: Nanos(of * MS), exact: true }
    }

    fn say(jobs: &[&str], more_links: usize, reason: Reason) -> String {
        let jobs = jobs.iter().map(ToString::to_string).collect();
        Explanation { link: Some("leaf3->spine1".into()), more_links, jobs, score: None, reason }.to_string()
    }

    fn remains(after: u64, moved: Vec<(String, Nanos)>, why: Remainder) -> Reason {
        Reason::Remains { before: ms(38, 255), after: ms(after, 255), moved, why }
    }

    #[test]
    fn separated_and_apart() {
        let moved = vec![("vgg-7".into(), Nanos(141 * MS))];
        let reason = Reason::Separated { before: ms(38, 255), moved, slack: Nanos(9 * MS) };
        assert_eq!(
            say(&["bert-2", "vgg-7"], 0, reason.clone()),
            "link leaf3->spine1: bert-2 and vgg-7 overlap 38 ms of 255 ms; shifting vgg-7 by 141 ms removes it; slack 9 ms"
        );
        assert_eq!(
            say(&["a", "b", "vgg-7"], 2, reason),
            "link leaf3->spine1 and 2 more like it: a, b and vgg-7 together exceed it for 38 ms of 255 ms; shifting vgg-7 by 141 ms removes it; slack 9 ms"
        );
        assert_eq!(
            say(&["a", "b"], 1, Reason::Apart { slack: Nanos(1_500_000) }),
            "link leaf3->spine1 and 1 more like it: a and b do not meet as they are; slack 1.5 ms"
        );
    }

    #[test]
    fn what_remains_says_why() {
        let moved = vec![("a".into(), Nanos(3 * MS)), ("b".into(), Nanos(1_250))];
        assert_eq!(
            say(&["a", "b"], 0, remains(12, moved, Remainder::Duty { percent: 130 })),
            "link leaf3->spine1: a and b overlap 38 ms of 255 ms; shifting a by 3 ms and b by 1.25 us leaves 12 ms: their mean demand is 130 % of the link"
        );
        let why = Remainder::Unlocked { job: "b".into(), lock: Nanos(17), period: Nanos(254_931_117) };
        assert_eq!(
            say(&["a", "b"], 0, remains(38, vec![], why)),
            "link leaf3->spine1: a and b overlap 38 ms of 255 ms, and the best shifts found do not shorten it: b does not lock with the others: its shift matters only modulo 17 ns of its 254.931 ms"
        );
        let ends = |why| say(&["a", "b"], 0, remains(38, vec![], why)).split_once("do not shorten it: ").map(|s| s.1.to_string()).unwrap();
        assert_eq!(ends(Remainder::AlwaysOn { job: "b".into() }), "b never stops sending");
        assert_eq!(
            ends(Remainder::AloneExceeds { job: "b".into(), peak: Rate(80_000), capacity: Rate(50_000) }),
            "b alone demands 80 Gb/s of 50 Gb/s"
        );
        assert_eq!(ends(Remainder::Crowded { proven: true }), "no shifts keep all phases of the coupled group apart");
        assert_eq!(ends(Remainder::Crowded { proven: false }), "no better shifts were found");
    }

    #[test]
    fn one_job_no_link_loops_and_refusals() {
        let alone = Reason::AloneExceeds { job: "moe-1".into(), peak: Rate(400_000), capacity: Rate(200_000) };
        assert_eq!(say(&["moe-1"], 0, alone), "link leaf3->spine1: moe-1 alone demands 400 Gb/s of 200 Gb/s; no shift can help");
        let whole = |never_overloaded| {
            Explanation { link: None, more_links: 0, jobs: vec![], score: None, reason: Reason::NoSharedLink { never_overloaded } }
                .to_string()
        };
        assert_eq!(whole(0), "no two jobs share a link; no shifts needed");
        assert_eq!(whole(12), "the jobs that share a link fit on it together (12 links); no shifts needed");
        assert_eq!(
            say(&["a", "b"], 0, Reason::Loop),
            "link leaf3->spine1: discarded: the affinity graph has a loop here (a and b meet elsewhere too); CASSINI takes only loop-free placements"
        );
        assert_eq!(say(&[], 0, Reason::Unsolved { error: "too big".into() }), "link leaf3->spine1: not solved: too big");
    }

    #[test]
    fn long_lists_are_cut_and_estimates_say_so() {
        let before = Overlap { exact: false, ..ms(5, 100) };
        let reason = Reason::Separated { before, moved: vec![("f".into(), Nanos(MS))], slack: Nanos(0) };
        assert_eq!(
            say(&["a", "b", "c", "d", "e", "f"], 0, reason),
            "link leaf3->spine1: a, b, c, d and 2 more together exceed it for about 5 ms of 100 ms; shifting f by 1 ms removes it; slack 0 ms"
        );
        let remains =
            |before, after, moved| say(&["a", "b"], 0, Reason::Remains { before, after, moved, why: Remainder::Crowded { proven: false } });
        let by = || vec![("b".into(), Nanos(MS))];
        let sampled = |over| Overlap { exact: false, ..ms(over, 100) };
        assert!(remains(sampled(0), sampled(0), by()).contains("a and b meet for a small part of the time: no better"));
        assert!(remains(sampled(5), sampled(0), by()).contains("about 5 ms of 100 ms; shifting b by 1 ms leaves a small part of it: "));
        assert!(remains(ms(5, 100), sampled(2), by()).contains("overlap 5 ms of 100 ms; shifting b by 1 ms leaves about 2 ms: "));
        assert!(remains(ms(5, 100), ms(7, 100), by()).contains("overlap 5 ms of 100 ms, and 7 ms with the best shifts found: "));
        assert!(remains(ms(5, 100), ms(5, 100), by()).contains("the best shifts found do not shorten it: "));
    }
}
