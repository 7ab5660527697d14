//! What the gates of running jobs say: slips that ask for more headroom, drifts that ask for another slot.

use units::FabricTime;

use crate::{
    GateReport, GateTotals, Slot,
    config::{DRIFT_REPORTS, RAISES_MAX, SLIP_ITERATIONS_MIN, SLIPS_ONE_IN},
    learned::PeriodWatch,
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
    /// Beyond the slack long enough; until the job is back.
    pub(crate) drifting: bool,
    /// What change for this job waits.
    asked: Option<Wanted>,
    /// What the job's period is, whatever its slot.
    pub(crate) period: PeriodWatch,
}

/// What a report asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// More headroom.
    Headroom,
    /// Another slot, this far from the present one.
    Slot(i64),
}

impl Watch {
    /// Takes in a report of the gate that follows `slot`; what it says of older slots, or of jobs that are not `held`, is only
    /// kept.
    pub(crate) fn report(&mut self, now: FabricTime, slot: &Slot, held: bool, report: &GateReport) -> Option<Wanted> {
        // A wish that is not decided yet stands alone: one job never has two changes in the queue.
        let wanted = if held && report.plan_version == slot.plan_version && self.asked.is_none() { self.judge(slot, report) } else { None };
        self.asked = self.asked.or(wanted);
        self.totals.add(report);
        self.last = Some((now, report.clone()));
        wanted
    }

    fn judge(&mut self, slot: &Slot, report: &GateReport) -> Option<Wanted> {
        self.iterations = self.iterations.saturating_add(report.iterations);
        self.slips = self.slips.saturating_add(report.slips);
        if self.iterations >= SLIP_ITERATIONS_MIN {
            let often = self.slips.saturating_mul(SLIPS_ONE_IN) > self.iterations;
            // The window ends here whatever was found, so that no slip is judged twice.
            (self.iterations, self.slips) = (0, 0);
            if often && self.raises < RAISES_MAX {
                // A report is the job's own word: `RAISES_MAX` bounds what it can cost those that the job meets (P122).
                self.raises += 1;
                return Some(Wanted::Headroom);
            }
        }
        let error = report.phase_error.filter(|_| report.iterations > 0)?;
        // `unsigned_abs` has a value for every error, the least one too, which an agent may send.
        if error.unsigned_abs() <= slot.slack.0 {
            (self.far, self.drifting) = (0, false);
            return None;
        }
        self.far = self.far.saturating_add(1);
        // A drift asks once: the next wish comes only after a report within the slack ended this one.
        if self.far < DRIFT_REPORTS || self.drifting {
            return None;
        }
        self.drifting = true;
        Some(Wanted::Slot(error))
    }

    /// The slot changed: what was counted belongs to the old one.
    pub(crate) fn restart(&mut self) {
        // What outlives a slot is the job's own. The raises do, because each raise brings a new slot and would pay for the next.
        let period = core::mem::take(&mut self.period);
        *self = Self { last: self.last.take(), totals: self.totals, raises: self.raises, period, ..Self::default() };
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
    use alloc::string::String;

    use super::*;
    use units::Nanos;

    fn slot() -> Slot {
        Slot {
            job: "j".into(),
            plan_version: 7,
            period: Nanos(1_000),
            offset: Nanos(0),
            tolerance: Nanos(150),
            slack: Nanos(50),
            hold_max: Nanos(1_000),
            hold: true,
            turns: false,
            expires: FabricTime(0),
            leader_host: String::new(),
        }
    }

    fn gate(plan_version: u64, iterations: u64, slips: u64, error: i64) -> GateReport {
        GateReport { job: "j".into(), plan_version, iterations, slips, phase_error: Some(error), ..GateReport::default() }
    }

    #[test]
    fn the_third_report_beyond_the_slack_asks_once_per_episode() {
        let (mut watch, slot, now) = (Watch::default(), slot(), FabricTime(1));
        let mut say = |error| watch.report(now, &slot, true, &gate(7, 1, 0, error));
        assert_eq!([say(51), say(-51)], [None, None]);
        assert_eq!(say(60), Some(Wanted::Slot(60)));
        assert_eq!([say(60), say(60)], [None, None]);
        watch.decided(true);
        assert_eq!(watch.report(now, &slot, true, &gate(7, 1, 0, 60)), None, "the episode goes on");
        assert!(watch.drifting);
        watch.report(now, &slot, true, &gate(7, 1, 0, 50));
        assert!(!watch.drifting, "back within the slack");
    }

    #[test]
    fn more_than_one_slip_in_twenty_asks_for_headroom() {
        let (mut watch, slot, now) = (Watch::default(), slot(), FabricTime(1));
        assert_eq!(watch.report(now, &slot, true, &gate(7, 19, 2, 0)), None, "too few to judge");
        assert_eq!(watch.report(now, &slot, true, &gate(7, 21, 0, 0)), None, "2 of 40 are exactly one in 20");
        assert_eq!(watch.report(now, &slot, true, &gate(6, 100, 90, 0)), None, "of an older slot");
        assert_eq!(watch.report(now, &slot, true, &gate(7, 20, 2, 0)), Some(Wanted::Headroom));
        assert_eq!(watch.report(now, &slot, true, &gate(7, 20, 20, 0)), None, "already asked");
        watch.decided(false);
        assert_eq!(watch.report(now, &slot, true, &gate(7, 20, 20, 0)), Some(Wanted::Headroom));
        assert_eq!(watch.totals, GateTotals { iterations: 200, slips: 134, fail_opens: 0 }, "of all slots");
    }

    #[test]
    fn one_job_raises_the_headroom_of_others_a_few_times_only() {
        let (mut watch, slot, now) = (Watch::default(), slot(), FabricTime(1));
        let mut given = 0;
        for kept in [false, true, false, true, true, true, true, true] {
            if watch.report(now, &slot, true, &gate(7, 20, 20, 0)) == Some(Wanted::Headroom) {
                given += u32::from(kept);
                watch.decided(kept);
                watch.restart();
            }
        }
        assert_eq!(given, RAISES_MAX);
    }
}
