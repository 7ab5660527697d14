//! Who takes turns with whom and what that brings, in words.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use units::Nanos;

use super::{LISTED_MAX, Time, list};
use crate::{
    ByControl,
    turns::{GAIN_MIN, Objective, PRICES_PERMILLE, SLOWER_MAX},
};

/// Times are shown to this many digits: predictions of a few runs are no better.
const DIGITS: u32 = 4;

/// What a person should know about the turns of some jobs, which the explanation names.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnReason {
    /// They take turns, directly or through others.
    Take {
        /// Those that do, each pair once; empty where each takes turns with all the others.
        pairs: Vec<(String, String)>,
        /// Whether nobody is held, so that this is what they would do.
        would: bool,
        /// What they were chosen for.
        objective: Objective,
        /// How much demands may be together on their links, in thousandths of the capacity; the largest of these.
        price_permille: u32,
        /// What that brings.
        brings: ByControl<Brought>,
    },
    /// Their periods are nearly equal, and by turns they all take the longest of them.
    Pace {
        /// The job whose iteration that is.
        job: String,
        /// How long it is.
        time: Nanos,
        /// The others that take longer by turns than alone.
        paying: Vec<Payment>,
    },
    /// All of them wait, the slowest one too.
    Round {
        /// How long they take then.
        time: Nanos,
        /// Whether what they send on some link, one after the other, is longer than any of their iterations alone.
        full: bool,
    },
    /// They go as they come, because turns bring no time.
    AsTheyCome {
        /// What they take so.
        free: Brought,
        /// What they would take if all who can exceed a link together took turns.
        everybody: Brought,
    },
    /// Other turns bring less time above capacity.
    Quieter {
        /// What they do now.
        now: Brought,
        /// What those turns bring.
        quiet: Brought,
    },
    /// One job's iterations.
    Times {
        /// Alone in its placement.
        alone: Nanos,
        /// With the others.
        times: ByControl<Nanos>,
    },
}

/// What some way to run jobs brings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Brought {
    /// Mean of iteration over iteration alone, weighted by GPUs.
    pub time: f64,
    /// The share of the time in use in which links are above capacity.
    pub overlap: f64,
}

/// What a job pays for the pace of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// The job.
    pub job: String,
    /// Its iteration alone.
    pub alone: Nanos,
    /// By turns.
    pub turns: Nanos,
    /// As the jobs come.
    pub free: Nanos,
}

/// A predicted time, without the digits that mean nothing.
struct About(Nanos);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10u64.pow(self.0.0.max(1).ilog10().saturating_sub(DIGITS - 1));
        // A time that ends at the end of 64 bits is shown as it is.
        let rounded = (self.0.0.saturating_add(unit / 2) / unit).saturating_mul(unit);
        Time(Nanos(rounded)).fmt(f)
    }
}

/// `0 %`, `0.4 %`, `21 %`.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        let decimals = usize::from((0.05..9.95).contains(&percent));
        write!(f, "{percent:.decimals$} %")
    }
}

impl fmt::Display for Payment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, alone, turns, free } = self;
        let more = 100.0 * (turns.0 as f64 / alone.0.max(1) as f64 - 1.0);
        write!(f, "{job} takes {} instead of {} ({more:+.1} %), {} as the jobs come", About(*turns), About(*alone), About(*free))
    }
}

/// `a with b, b with c`.
fn with(pairs: &[(String, String)]) -> String {
    list(&pairs.iter().map(|(a, b)| format!("{a} with {b}")).collect::<Vec<_>>())
}

impl TurnReason {
    /// The sentence about these jobs.
    pub(super) fn say(&self, jobs: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = list(jobs);
        match self {
            Self::Take { pairs, would, objective, price_permille, brings } => {
                let would = if *would { "would " } else { "" };
                write!(f, "{jobs} {would}take turns{}", if *objective == Objective::Quiet { " for quiet" } else { "" })?;
                if !pairs.is_empty() {
                    write!(f, ", {}", with(pairs))?;
                }
                let ByControl { free, turns, slots } = brings;
                write!(f, ": {:.3} times alone on average, as they come {:.3}, by slots {:.3}", turns.time, free.time, slots.time)?;
                write!(
                    f,
                    "; links above capacity for {} of the time in use, as they come {}",
                    Percent(turns.overlap),
                    Percent(free.overlap)
                )?;
                if *price_permille > PRICES_PERMILLE[0] {
                    let times = f64::from(*price_permille) / f64::from(PRICES_PERMILLE[0]);
                    write!(f, "; demands of up to {times} times a link's capacity go together")?;
                }
                Ok(())
            }
            Self::Pace { job, time, paying } => {
                write!(f, "{job} at {} sets the pace of {jobs}: ", About(*time))?;
                let (listed, rest) = paying.split_at(paying.len().min(LISTED_MAX));
                for (i, payment) in listed.iter().enumerate() {
                    write!(f, "{}{payment}", if i > 0 { "; " } else { "" })?;
                }
                if rest.is_empty() { Ok(()) } else { write!(f, "; and {} more", rest.len()) }
            }
            Self::Round { time, full } => {
                write!(f, "{jobs} take {} by turns: ", About(*time))?;
                f.write_str(if *full {
                    "what they send one after the other is longer than any of their iterations alone"
                } else {
                    "their demands fit badly, so each of them waits for others"
                })
            }
            Self::AsTheyCome { free, everybody } => {
                write!(f, "{jobs} go as they come, {:.3} times alone on average: ", free.time)?;
                if everybody.time <= free.time - GAIN_MIN {
                    write!(f, "no turns were found that gain without making a job more than {:.0} % slower", SLOWER_MAX * 100.0)?;
                } else {
                    f.write_str("turns bring no time")?;
                }
                write!(
                    f,
                    " (for everybody {:.3}, links above capacity for {} of the time in use",
                    everybody.time,
                    Percent(everybody.overlap)
                )?;
                write!(f, " instead of {})", Percent(free.overlap))
            }
            Self::Quieter { now, quiet } => {
                let not_time = if quiet.time > now.time - GAIN_MIN { ", not time" } else { "" };
                write!(f, "turns of {jobs} bring quiet{not_time}: links above capacity for {} of the time in use", Percent(quiet.overlap))?;
                write!(f, " instead of {}, at {:.3} times alone on average instead of {:.3}", Percent(now.overlap), quiet.time, now.time)?;
                f.write_str("; the objective quiet chooses them")
            }
            Self::Times { alone, times: ByControl { free, turns, slots } } => {
                write!(f, "{jobs}: {} alone, {} as the jobs come, ", About(*alone), About(*free))?;
                write!(f, "{} by turns, {} by slots", About(*turns), About(*slots))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec};

    use super::*;
    use crate::{Explanation, Reason};

    const MS: u64 = 1_000_000;

    fn say(jobs: &[&str], reason: TurnReason) -> String {
        let jobs = jobs.iter().map(ToString::to_string).collect();
        Explanation { link: None, more_links: 0, jobs, score: None, reason: Reason::Turns(reason) }.to_string()
    }

    fn brought(time: f64, overlap: f64) -> Brought {
        Brought { time, overlap }
    }

    #[test]
    fn who_takes_turns_at_which_price() {
        let brings = ByControl { free: brought(1.19, 0.21), turns: brought(1.0016, 0.0004), slots: brought(1.05, 0.0) };
        let take = |pairs: &[(&str, &str)], would, price_permille| TurnReason::Take {
            pairs: pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect(),
            would,
            objective: if would { Objective::Quiet } else { Objective::Time },
            price_permille,
            brings,
        };
        let figures = "1.002 times alone on average, as they come 1.190, by slots 1.050; links above capacity for 0 % of the time in use, as they come 21 %";
        assert_eq!(say(&["a", "b"], take(&[], false, 1_000)), format!("a and b take turns: {figures}"));
        let priced = "demands of up to 1.25 times a link's capacity go together";
        assert_eq!(
            say(&["a", "b", "c"], take(&[("a", "b"), ("b", "c")], true, 1_250)),
            format!("a, b and c would take turns for quiet, a with b and b with c: {figures}; {priced}")
        );
    }

    #[test]
    fn who_sets_the_pace_and_who_pays() {
        let pay = |job: &str, alone| Payment { job: job.into(), alone: Nanos(alone), turns: Nanos(369_004_999), free: Nanos(411_040_000) };
        let pace = |paying| TurnReason::Pace { job: "b".into(), time: Nanos(369 * MS), paying };
        assert_eq!(
            say(&["a", "b"], pace(vec![pay("a", 354 * MS)])),
            "b at 369 ms sets the pace of a and b: a takes 369 ms instead of 354 ms (+4.2 %), 411 ms as the jobs come"
        );
        let many = say(&["a", "b"], pace(vec![pay("a", 354 * MS); 6]));
        assert!(many.matches("; a takes").count() == 3 && many.ends_with("; and 2 more"), "{many}");
        assert_eq!(
            say(&["a", "b"], TurnReason::Round { time: Nanos(280_049_000), full: true }),
            "a and b take 280 ms by turns: what they send one after the other is longer than any of their iterations alone"
        );
        assert_eq!(
            say(&["a", "b"], TurnReason::Round { time: Nanos(280_049_000), full: false }),
            "a and b take 280 ms by turns: their demands fit badly, so each of them waits for others"
        );
    }

    #[test]
    fn what_turns_do_not_bring() {
        let (free, everybody) = (brought(1.14, 0.32), brought(1.4, 0.0));
        assert_eq!(
            say(&["a", "b"], TurnReason::AsTheyCome { free, everybody }),
            "a and b go as they come, 1.140 times alone on average: turns bring no time (for everybody 1.400, links above capacity for 0 % of the time in use instead of 32 %)"
        );
        let said = say(&["a"], TurnReason::AsTheyCome { free, everybody: brought(1.1, 0.0) });
        assert!(said.contains(
            "1.140 times alone on average: no turns were found that gain without making a job more than 1 % slower (for everybody 1.100"
        ));
        assert_eq!(
            say(&["a"], TurnReason::Quieter { now: free, quiet: brought(1.15, 0.012) }),
            "turns of a bring quiet, not time: links above capacity for 1.2 % of the time in use instead of 32 %, at 1.150 times alone on average instead of 1.140; the objective quiet chooses them"
        );
        let times = ByControl { free: Nanos(1_234_567), turns: Nanos(999_960), slots: Nanos(u64::MAX) };
        let each = say(&["a"], TurnReason::Times { alone: Nanos(0), times });
        assert!(each.starts_with("a: 0 ms alone, 1.235 ms as the jobs come, 1 ms by turns, 18"), "{each}");
    }
}
