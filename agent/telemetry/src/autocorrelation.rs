//! How much a signal is like itself some steps later, by FFT (Wiener-Khinchin).

use realfft::RealFftPlanner;

/// The autocorrelation of `signal` less its mean at lags 0..=`lag_max`, 1 at lag 0.
///
/// Each lag is divided by the number of pairs that it has, so that long lags are not damped. `None` for a constant
/// signal, which is like itself at any lag and has no period. The planner keeps what it computed of a length.
pub(crate) fn autocorrelation(planner: &mut RealFftPlanner<f64>, signal: &[f64], lag_max: usize) -> Option<Vec<f64>> {
    let n = signal.len();
    let mean = signal.iter().sum::<f64>() / n.max(1) as f64;
    // Rounding leaves a constant with a tiny variance, which must not pass for a signal.
    let power = signal.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n.max(1) as f64;
    if power.is_nan() || power <= mean * mean * 1e-9 {
        return None;
    }
    // Zeros behind the signal keep its end from meeting its beginning: a product of spectra is a circular correlation.
    let length = (2 * n).next_power_of_two();
    let (forward, inverse) = (planner.plan_fft_forward(length), planner.plan_fft_inverse(length));
    let mut time = forward.make_input_vec();
    let mut spectrum = forward.make_output_vec();
    for (to, from) in time.iter_mut().zip(signal) {
        *to = from - mean;
    }
    forward.process(&mut time, &mut spectrum).ok()?;
    for bin in &mut spectrum {
        // The squared spectrum is the transform of the autocorrelation (Wiener-Khinchin).
        *bin = (bin.norm_sqr()).into();
    }
    inverse.process(&mut spectrum, &mut time).ok()?;
    // Lag 0 carries the same scale as every other lag, so the factor of the unscaled transforms cancels out.
    let power = time[0] / n as f64;
    Some((0..=lag_max.min(n.saturating_sub(1))).map(|lag| time[lag] / (n - lag) as f64 / power).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_equals_the_definition() {
        let signal: Vec<f64> = (0..50_u64).map(|i| (i * i % 17) as f64).collect();
        let mean = signal.iter().sum::<f64>() / 50.0;
        let at = |lag: usize| (0..50 - lag).map(|i| (signal[i] - mean) * (signal[i + lag] - mean)).sum::<f64>() / (50 - lag) as f64;
        for (lag, value) in autocorrelation(&mut RealFftPlanner::new(), &signal, 40).unwrap().into_iter().enumerate() {
            assert!((value - at(lag) / at(0)).abs() < 1e-9, "lag {lag}");
        }
    }

    #[test]
    fn a_constant_has_none() {
        assert!(autocorrelation(&mut RealFftPlanner::new(), &[3.3; 100], 50).is_none());
        assert!(autocorrelation(&mut RealFftPlanner::new(), &[], 50).is_none());
    }
}
