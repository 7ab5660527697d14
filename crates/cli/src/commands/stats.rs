//! Means over seeds, and how sure they are.

use serde::Serialize;

/// A mean over seeds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Interval {
    pub(crate) mean: f64,
    /// Half of the 95 % confidence interval (Student); `None` of one seed.
    pub(crate) half: Option<f64>,
}

/// Student's t for a two-sided 95 % and 1 to 30 degrees of freedom (any table of it); above, the normal distribution's 1.96 is 2 % off.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
    2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const NORMAL: f64 = 1.96;

pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

pub(crate) fn interval(values: impl Iterator<Item = f64>) -> Interval {
    let values: Vec<f64> = values.collect();
    let mean = mean(values.iter().copied());
    let Some(freedom) = values.len().checked_sub(1).filter(|freedom| *freedom > 0) else { return Interval { mean, half: None } };
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom as f64;
    let t = T.get(freedom - 1).copied().unwrap_or(NORMAL);
    Interval { mean, half: Some(t * (variance / values.len() as f64).sqrt()) }
}

impl Interval {
    /// As people read it.
    pub(crate) fn said(&self, digits: usize) -> String {
        let Self { mean, half } = self;
        half.map_or_else(|| format!("{mean:.digits$}"), |half| format!("{mean:.digits$} ±{half:.digits$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_student() {
        // Mean 3, standard deviation sqrt(2.5), five values: 2.776 * sqrt(2.5 / 5).
        let found = interval([1.0, 2.0, 3.0, 4.0, 5.0].into_iter());
        assert!((found.mean - 3.0).abs() < 1e-12);
        assert!(found.half.is_some_and(|half| (half - 2.776 * 0.5_f64.sqrt()).abs() < 1e-9));
        assert_eq!((found.said(2), interval([2.5].into_iter()).said(1)), ("3.00 ±1.96".to_owned(), "2.5".to_owned()));
    }
}
