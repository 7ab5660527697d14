//! What turns would bring to jobs that nobody holds, for the operator who has to decide.

use core::fmt;

use units::Nanos;

/// Iterations that are shorter by less than this, in thousandths, are as long: predictions are no better than that.
const FASTER_PERMILLE: u64 = 5;

/// What a job's iterations take, predicted by the same runs of jobs that start anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// As the jobs come.
    pub free: Nanos,
    /// By turns, where those are predicted to help.
    pub by_turns: Nanos,
}

/// What turns would bring to all jobs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Committed jobs.
    pub jobs: usize,
    /// Those whose iterations would be shorter.
    pub faster: usize,
    /// By how much, in thousandths, in the mean over these.
    pub shorter_permille: u64,
}

impl Forecast {
    /// By how much turns would shorten the iteration, in thousandths; 0 where that is less than predictions can tell.
    fn shorter_permille(&self) -> u64 {
        let less = u128::from(self.free.0.saturating_sub(self.by_turns.0)) * 1_000 / u128::from(self.free.0.max(1));
        u64::try_from(less).ok().filter(|less| *less >= FASTER_PERMILLE).unwrap_or(0)
    }
}

impl Outlook {
    /// Over all jobs; a job that meets nobody has no forecast.
    pub(crate) fn of(forecasts: impl Iterator<Item = Option<Forecast>>) -> Self {
        let (mut jobs, mut faster, mut sum) = (0, 0, 0u64);
        for forecast in forecasts {
            let shorter = forecast.map_or(0, |f| f.shorter_permille());
            jobs += 1;
            faster += usize::from(shorter > 0);
            // At most 1,000 of each of at most `config::JOBS_MAX` jobs.
            sum += shorter;
        }
        Self { jobs, faster, shorter_permille: sum.checked_div(faster as u64).unwrap_or(0) }
    }
}

/// One line, with what to do next.
impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jobs, faster, shorter_permille } = *self;
        if faster == 0 {
            return write!(f, "control = observe: turns would make none of {jobs} jobs faster");
        }
        let (percent, tenth) = (shorter_permille / 10, shorter_permille % 10);
        write!(
            f,
            "control = observe: turns would make {faster} of {jobs} jobs faster, by {percent}.{tenth} % in the mean; set control = \"turns\""
        )
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn the_mean_is_over_those_that_gain() {
        let forecast = |free, by_turns| Some(Forecast { free: Nanos(free), by_turns: Nanos(by_turns) });
        // 20 % and 5 %; 4 of 1,000 and longer are none.
        let some = [forecast(1_000, 800), forecast(1_000, 950), forecast(1_000, 996), forecast(1_000, 1_009), None];
        let outlook = Outlook::of(some.into_iter());
        assert_eq!(outlook, Outlook { jobs: 5, faster: 2, shorter_permille: 125 });
        let said = "control = observe: turns would make 2 of 5 jobs faster, by 12.5 % in the mean; set control = \"turns\"";
        assert_eq!(outlook.to_string(), said);
        let none = Outlook::of([None, forecast(0, 0)].into_iter());
        assert_eq!(none.to_string(), "control = observe: turns would make none of 2 jobs faster");
    }
}
