//! Adam (Kingma and Ba 2015), with gradients that are cut to a length.

use super::Parameters;

/// As published.
const FIRST: f32 = 0.9;
const SECOND: f32 = 0.999;
const SMALL: f32 = 1e-8;
/// The longest gradient: beyond, one odd batch would undo many.
const LONGEST: f32 = 1.0;

/// How far a step goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(pub(crate) f32);

/// What is left of a rate at the end.
const LEFT: f32 = 0.1;

impl Rate {
    /// The rate of one of some steps: as it is at first, and a tenth of it at the end.
    pub(crate) fn falling(first: f32, step: usize, steps: usize) -> Self {
        Self(first * (1.0 - (1.0 - LEFT) * step as f32 / steps.max(1) as f32))
    }
}

/// The memory of past gradients.
#[derive(Clone, Debug)]
pub(crate) struct Adam {
    mean: Parameters,
    square: Parameters,
    first_power: f32,
    second_power: f32,
}

impl Adam {
    /// For those parameters.
    #[must_use]
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self { mean: parameters.zeros(), square: parameters.zeros(), first_power: 1.0, second_power: 1.0 }
    }

    /// One step against `gradient`.
    pub(crate) fn step(&mut self, parameters: &mut Parameters, gradient: &Parameters, Rate(rate): Rate) {
        let length = libm::sqrtf(gradient.values().map(|g| g * g).sum());
        // What is not finite would spoil all that was learned.
        if !length.is_finite() {
            return;
        }
        let cut = if length > LONGEST { LONGEST / length } else { 1.0 };
        self.first_power *= FIRST;
        self.second_power *= SECOND;
        let (first, second) = (1.0 - self.first_power, 1.0 - self.second_power);
        for (at, gradient) in gradient.0.iter().enumerate() {
            let (Some(own), Some(mean), Some(square)) = (parameters.0.get_mut(at), self.mean.0.get_mut(at), self.square.0.get_mut(at))
            else {
                return;
            };
            for (((value, mean), square), gradient) in
                own.values.iter_mut().zip(&mut mean.values).zip(&mut square.values).zip(&gradient.values)
            {
                let gradient = gradient * cut;
                *mean = FIRST * *mean + (1.0 - FIRST) * gradient;
                *square = SECOND * *square + (1.0 - SECOND) * gradient * gradient;
                *value -= rate * (*mean / first) / (libm::sqrtf(*square / second) + SMALL);
            }
        }
    }
}
