//! What the gates of running jobs say: slips that ask for more headroom, drifts that ask for another slot, and what ends a hold.
//!
//! A hold that does not fit its job costs time for ever, so it ends when one of three limits is passed ([`HoldEnd`]).

use alloc::{format, string::String};

use units::{FabricTime, Nanos};

use crate::{
    GateReport, GateTotals, Slot,
    config::{
        DRIFT_END_REPORTS, DRIFT_REPORTS, EXCUSED_APART, EXCUSED_MAX, MISMATCH_PERMILLE, RAISES_MAX, SLIP_ITERATIONS_MIN, SLIPS_END_ONE_IN,
        SLIPS_HOPELESS_ONE_IN, SLIPS_ONE_IN,
    },
    learned::{Expected, Learned, PeriodWatch},
};

/// What was seen of one job under its present slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// The last report, and when it came.
    pub(crate) last: Option<(FabricTime, GateReport)>,
    /// Over all reports, whatever the slot.
    pub(crate) totals: GateTotals,
    /// How often headroom was given for it.
    raises: u32,
    iterations: u64,
    slips: u64,
    /// Reports in a row beyond the slack.
    far: u32,
    /// The same, whatever the slot.
    off: u32,
    /// Beyond the slack long enough; until the job is back.
    pub(crate) drifting: bool,
    /// What change for this job waits.
    asked: Option<Wanted>,
    /// When the end of its hold was first and last put off because of others, whatever the slot.
    excused: Option<(FabricTime, FabricTime)>,
    /// What the job's period is, whatever its slot.
    pub(crate) period: PeriodWatch,
    /// No measurement plans it anew before then, and how long that was.
    pub(crate) measured: Option<(FabricTime, Nanos)>,
}

/// What a report came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// What has to change.
    pub(crate) wanted: Option<Wanted>,
    /// What is to be said of the period.
    pub(crate) learned: Option<Learned>,
}

/// What a report asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// More headroom.
    Headroom,
    /// Another slot, this far from the present one.
    Slot(i64),
    /// No hold any more.
    Free(HoldEnd),
}

/// Why a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldEnd {
    /// The job repeats otherwise than declared.
    Period { learned: Nanos, declared: Nanos },
    /// It slips too often, with all the headroom that one job is given, or so often that headroom is of no use.
    Slips { slips: u64, iterations: u64 },
    /// It is not in its slot, wherever that is.
    Drift { error: i64, slack: Nanos },
}

impl HoldEnd {
    /// With the figures, for people.
    pub(crate) fn why(self) -> String {
        match self {
            Self::Period { learned, declared } => {
                format!("it repeats every {learned}, and {declared} was declared, of which {MISMATCH_PERMILLE} permille may be missed")
            }
            Self::Slips { slips, iterations } => {
                format!("it missed its slot in {slips} of {iterations} starts, which is more than one in {SLIPS_END_ONE_IN}")
            }
            Self::Drift { error, slack } => {
                format!("it is {error} ns from its slot, more than its slack of {slack} in {DRIFT_END_REPORTS} reports in a row")
            }
        }
    }
}

impl Watch {
    /// Takes in a report of the gate that follows `slot`, of a job that is expected to take so long; what it says of older slots, or of
    /// jobs that are not `held`, is only kept.
    pub(crate) fn report(&mut self, now: FabricTime, slot: &Slot, held: bool, expected: Expected, report: &GateReport) -> Heard {
        // The iterations of a job that takes turns are measured by the turns themselves, which know of the stretches that run free.
        let learned = if slot.turns { None } else { self.period.report(expected, slot, held, report) };
        if !held {
            self.off = 0;
        }
        // A wish that is not decided yet stands alone: one job never has two changes in the queue.
        let judged = held && report.plan_version == slot.plan_version && self.asked.is_none();
        let ends = |learned| Wanted::Free(HoldEnd::Period { learned, declared: expected.declared });
        // A period that is another explains slips and drifts, so it comes first.
        let wanted = if judged { self.period.ends_hold().map(ends).or_else(|| self.judge(slot, report)) } else { None };
        self.asked = self.asked.or(wanted);
        self.totals.add(report);
        self.last = Some((now, report.clone()));
        Heard { wanted, learned }
    }

    fn judge(&mut self, slot: &Slot, report: &GateReport) -> Option<Wanted> {
        self.iterations = self.iterations.saturating_add(report.iterations);
        self.slips = self.slips.saturating_add(report.slips);
        let (slips, iterations) = (self.slips, self.iterations);
        let more_than = |one_in: u64| slips.saturating_mul(one_in) > iterations.max(SLIP_ITERATIONS_MIN);
        // Slips of half a window are enough for this verdict, whatever the other half will show.
        let hopeless = more_than(SLIPS_HOPELESS_ONE_IN);
        if hopeless || iterations >= SLIP_ITERATIONS_MIN {
            // The window ends here whatever was found, so that no slip is judged twice.
            (self.iterations, self.slips) = (0, 0);
            if hopeless {
                return Some(Wanted::Free(HoldEnd::Slips { slips, iterations }));
            }
            if more_than(SLIPS_ONE_IN) && self.raises < RAISES_MAX {
                // A report is the job's own word: `RAISES_MAX` bounds what it can cost those that the job meets (P122).
                self.raises += 1;
                return Some(Wanted::Headroom);
            }
            if more_than(SLIPS_END_ONE_IN) {
                return Some(Wanted::Free(HoldEnd::Slips { slips, iterations }));
            }
        }
        let error = report.phase_error.filter(|_| report.iterations > 0)?;
        // `unsigned_abs` has a value for every error, the least one too, which an agent may send.
        if error.unsigned_abs() <= slot.times.slack.0 {
            (self.far, self.off, self.drifting) = (0, 0, false);
            return None;
        }
        (self.far, self.off) = (self.far.saturating_add(1), self.off.saturating_add(1));
        if self.off >= DRIFT_END_REPORTS {
            return Some(Wanted::Free(HoldEnd::Drift { error, slack: slot.times.slack }));
        }
        // A drift asks once: the next wish comes only after a report within the slack ended this one.
        if self.far < DRIFT_REPORTS || self.drifting {
            return None;
        }
        self.drifting = true;
        Some(Wanted::Slot(error))
    }

    /// The hold does not fit for a reason that lies with others: nothing that was seen counts towards its end. False once that has gone on
    /// for [`EXCUSED_MAX`]: then it is no passing trouble.
    pub(crate) fn excuse(&mut self, now: FabricTime) -> bool {
        let (first, _) = self.excused.filter(|(_, last)| now.since(*last) <= EXCUSED_APART).unwrap_or((now, now));
        self.excused = Some((first, now));
        if now.since(first) > EXCUSED_MAX {
            return false;
        }
        (self.asked, self.off, self.iterations, self.slips) = (None, 0, 0, 0);
        self.period.excuse();
        true
    }

    /// The slot changed: what was counted belongs to the old one.
    pub(crate) fn restart(&mut self) {
        // What outlives a slot is the job's own. The raises do, because each raise brings a new slot and would pay for the next.
        let period = core::mem::take(&mut self.period);
        *self = Self {
            last: self.last.take(),
            totals: self.totals,
            raises: self.raises,
            off: self.off,
            excused: self.excused,
            measured: self.measured,
            period,
            ..Self::default()
        };
    }

    /// The change that was asked for is decided. A change that could not be kept is asked for again.
    pub(crate) fn decided(&mut self, kept: bool) {
        let asked = self.asked.take();
        if !kept {
            // `asked` is `Headroom` only after `raises` grew, and `restart` keeps `raises`: the difference is never below 0.
            self.raises -= u32::from(asked == Some(Wanted::Headroom));
            self.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use plan::slot::SlotTimes;

    use super::*;

    fn slot() -> Slot {
        Slot {
            job: "j".into(),
            plan_version: 7,
            times: SlotTimes { period: Nanos(1_000), offset: Nanos(0), tolerance: Nanos(150), slack: Nanos(50), hold_max: Nanos(1_000) },
            hold: true,
            turns: false,
            expires: FabricTime(0),
            leader_host: String::new(),
        }
    }

    const EXPECTED: Expected = Expected { declared: Nanos(1_000), predicted: Nanos(1_000) };

    fn say(watch: &mut Watch, slot: &Slot, report: &GateReport) -> Option<Wanted> {
        watch.report(FabricTime(1), slot, true, EXPECTED, report).wanted
    }

    fn gate(plan_version: u64, iterations: u64, slips: u64, error: i64) -> GateReport {
        GateReport { job: "j".into(), plan_version, iterations, slips, phase_error: Some(error), ..GateReport::default() }
    }

    #[test]
    fn the_third_report_beyond_the_slack_asks_once_per_episode() {
        let (mut watch, slot) = (Watch::default(), slot());
        let mut at = |error| say(&mut watch, &slot, &gate(7, 1, 0, error));
        assert_eq!([at(51), at(-51)], [None, None]);
        assert_eq!(at(60), Some(Wanted::Slot(60)));
        assert_eq!([at(60), at(60)], [None, None]);
        watch.decided(true);
        assert_eq!(say(&mut watch, &slot, &gate(7, 1, 0, 60)), None, "the episode goes on");
        assert!(watch.drifting);
        say(&mut watch, &slot, &gate(7, 1, 0, 50));
        assert!(!watch.drifting, "back within the slack");
    }

    /// Other slots do not help: the twelfth report in a row ends the hold, whether the slot could follow or not.
    #[test]
    fn a_drift_that_does_not_end_ends_the_hold() {
        let end = Some(Wanted::Free(HoldEnd::Drift { error: 60, slack: Nanos(50) }));
        for follows in [true, false] {
            let (mut watch, slot) = (Watch::default(), slot());
            let mut reports = 0;
            let found = loop {
                reports += 1;
                match say(&mut watch, &slot, &gate(7, 1, 0, 60)) {
                    Some(Wanted::Slot(_)) => {
                        watch.decided(true);
                        if follows {
                            watch.restart();
                        }
                    }
                    Some(found) => break Some(found),
                    None => {}
                }
                assert!(reports < 100);
            };
            assert_eq!((found, reports), (end, DRIFT_END_REPORTS));
        }
    }

    #[test]
    fn slips_that_headroom_does_not_end_end_the_hold() {
        let (mut watch, slot) = (Watch::default(), slot());
        let mut at = |slips| {
            let wanted = say(&mut watch, &slot, &gate(7, 20, slips, 0));
            watch.decided(true);
            watch.restart();
            wanted
        };
        assert_eq!([at(3), at(3), at(3)], [Some(Wanted::Headroom); RAISES_MAX as usize]);
        assert_eq!(at(2), None, "2 of 20 are exactly one in ten");
        assert_eq!(at(3), Some(Wanted::Free(HoldEnd::Slips { slips: 3, iterations: 20 })));
    }

    /// Two jobs declared 30 % short slip at every start: headroom would have kept them in their slots for 60 starts more.
    #[test]
    fn slips_at_every_second_start_end_the_hold_without_more_headroom() {
        let (mut watch, slot) = (Watch::default(), slot());
        let said: Vec<_> = (0..11).map(|_| say(&mut watch, &slot, &gate(7, 1, 1, 0))).collect();
        assert_eq!(said[..10], [None; 10]);
        assert_eq!(said[10], Some(Wanted::Free(HoldEnd::Slips { slips: 11, iterations: 11 })));
    }

    #[test]
    fn another_period_ends_the_hold_before_it_asks_for_headroom() {
        let (mut watch, slot) = (Watch::default(), slot());
        let slow = GateReport { solo: Some(Nanos(1_300)), ..gate(7, 7, 5, 200) };
        let said: Vec<_> = (0..3).map(|_| watch.report(FabricTime(1), &slot, true, EXPECTED, &slow)).collect();
        let end = Wanted::Free(HoldEnd::Period { learned: Nanos(1_300), declared: Nanos(1_000) });
        assert_eq!(said[..2].iter().map(|h| h.wanted).collect::<Vec<_>>(), [None; 2]);
        assert_eq!(said[2], Heard { wanted: Some(end), learned: Some(Learned::Differs(Nanos(1_300))) });
    }

    #[test]
    fn more_than_one_slip_in_twenty_asks_for_headroom() {
        let (mut watch, slot) = (Watch::default(), slot());
        assert_eq!(say(&mut watch, &slot, &gate(7, 19, 2, 0)), None, "too few to judge");
        assert_eq!(say(&mut watch, &slot, &gate(7, 21, 0, 0)), None, "2 of 40 are exactly one in 20");
        assert_eq!(say(&mut watch, &slot, &gate(6, 100, 90, 0)), None, "of an older slot");
        assert_eq!(say(&mut watch, &slot, &gate(7, 20, 2, 0)), Some(Wanted::Headroom));
        assert_eq!(say(&mut watch, &slot, &gate(7, 20, 10, 0)), None, "already asked");
        watch.decided(false);
        assert_eq!(say(&mut watch, &slot, &gate(7, 20, 10, 0)), Some(Wanted::Headroom), "10 of 20 are exactly every second one");
        assert_eq!(watch.totals, GateTotals { iterations: 200, slips: 114, fail_opens: 0 }, "of all slots");
    }

    #[test]
    fn one_job_raises_the_headroom_of_others_a_few_times_only() {
        let (mut watch, slot) = (Watch::default(), slot());
        let mut given = 0;
        for kept in [false, true, false, true, true, true, true, true] {
            if say(&mut watch, &slot, &gate(7, 20, 10, 0)) == Some(Wanted::Headroom) {
                given += u32::from(kept);
                watch.decided(kept);
                watch.restart();
            }
        }
        assert_eq!(given, RAISES_MAX);
    }

    #[test]
    fn trouble_of_others_puts_the_end_of_a_hold_off_for_a_while_only() {
        let mut watch = Watch::default();
        let at = |seconds: u64| FabricTime(seconds * 1_000_000_000);
        assert!((0..=200).all(|n| watch.excuse(at(3 * n))), "ten minutes");
        watch.restart();
        assert!(!watch.excuse(at(603)), "another slot changes nothing");
        assert!(watch.excuse(at(603 + 61)), "new trouble after a minute without");
    }
}
