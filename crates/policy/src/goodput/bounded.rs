//! The least value of a smooth function of few variables between bounds: a quasi-Newton method (BFGS) on the variables that are not held at a
//! bound, with steps cut off at the bounds (Bertsekas, "Projected Newton methods", SIAM J. Control 20, 1982).

/// Most iterations; fits of seven parameters take 20 to 60.
const ITERATIONS_MAX: u32 = 300;
/// How often a step is halved before the direction is given up.
const HALVINGS_MAX: u32 = 40;
/// What a step has to bring of what the slope promises (Armijo).
const SUFFICIENT: f64 = 1e-4;
/// Gain of an iteration, beside the value, below which nothing more is to be had.
const GAIN_LEAST: f64 = 1e-10;

type Matrix<const N: usize> = [[f64; N]; N];

fn identity<const N: usize>() -> Matrix<N> {
    core::array::from_fn(|row| core::array::from_fn(|column| if row == column { 1.0 } else { 0.0 }))
}

fn dot<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Variables with a lower and an upper bound each.
pub(super) struct Bounds<const N: usize> {
    pub(super) lower: [f64; N],
    pub(super) upper: [f64; N],
}

impl<const N: usize> Bounds<N> {
    fn clamp(&self, x: &[f64; N]) -> [f64; N] {
        core::array::from_fn(|at| x[at].max(self.lower[at]).min(self.upper[at]))
    }

    /// Whether a variable can move against its slope.
    fn is_free(&self, at: usize, x: &[f64; N], slope: &[f64; N]) -> bool {
        !(x[at] <= self.lower[at] && slope[at] >= 0.0 || x[at] >= self.upper[at] && slope[at] <= 0.0)
    }
}

/// Where a search stands.
struct State<const N: usize> {
    x: [f64; N],
    value: f64,
    slope: [f64; N],
    /// What is believed of the inverse of the second derivatives.
    inverse: Matrix<N>,
    /// Whether that is only the identity.
    fresh: bool,
}

/// The variables at which `value` (with its slopes) is least, from a start; a local minimum.
pub(super) fn minimise<const N: usize>(value: impl Fn(&[f64; N]) -> (f64, [f64; N]), start: &[f64; N], bounds: &Bounds<N>) -> [f64; N] {
    let x = bounds.clamp(start);
    let (first, slope) = value(&x);
    let mut state = State { x, value: first, slope, inverse: identity(), fresh: true };
    for _ in 0..ITERATIONS_MAX {
        let before = state.value;
        let moved = step(&value, &mut state, bounds);
        let done = !moved || before - state.value <= GAIN_LEAST * state.value.abs().max(1.0);
        if done && state.fresh {
            break;
        }
        if done {
            // What was learnt of the curvature may be what is in the way.
            state.inverse = identity();
            state.fresh = true;
        }
    }
    state.x
}

/// One step; `false` where no step brings anything.
fn step<const N: usize>(value: &impl Fn(&[f64; N]) -> (f64, [f64; N]), state: &mut State<N>, bounds: &Bounds<N>) -> bool {
    let free: [bool; N] = core::array::from_fn(|at| bounds.is_free(at, &state.x, &state.slope));
    let slope: [f64; N] = core::array::from_fn(|at| if free[at] { state.slope[at] } else { 0.0 });
    let mut direction: [f64; N] = core::array::from_fn(|at| if free[at] { -dot(&state.inverse[at], &slope) } else { 0.0 });
    if dot(&direction, &slope) >= 0.0 {
        direction = slope.map(|slope| -slope);
        state.inverse = identity();
        state.fresh = true;
    }
    // The first step knows nothing of lengths, so it is one of length 1 at most.
    let mut length = if state.fresh { 1.0 / libm::sqrt(dot(&slope, &slope)).max(1.0) } else { 1.0 };
    for _ in 0..HALVINGS_MAX {
        let x = bounds.clamp(&core::array::from_fn(|at| state.x[at] + length * direction[at]));
        let moved: [f64; N] = core::array::from_fn(|at| x[at] - state.x[at]);
        let (found, slope) = value(&x);
        if found.is_finite() && found < state.value && found <= state.value + SUFFICIENT * dot(&state.slope, &moved) {
            let turned: [f64; N] = core::array::from_fn(|at| slope[at] - state.slope[at]);
            learn(state, &moved, &turned);
            (state.x, state.value, state.slope) = (x, found, slope);
            return true;
        }
        length /= 2.0;
    }
    false
}

/// Takes in how the slope changed over a step (the BFGS formula).
fn learn<const N: usize>(state: &mut State<N>, moved: &[f64; N], turned: &[f64; N]) {
    let along = dot(moved, turned);
    // Without curvature along the step the formula would not stay positive.
    if along <= 1e-12 * libm::sqrt(dot(moved, moved) * dot(turned, turned)) {
        return;
    }
    if state.fresh {
        let scale = along / dot(turned, turned);
        state.inverse.iter_mut().flatten().for_each(|entry| *entry *= scale);
        state.fresh = false;
    }
    let through: [f64; N] = core::array::from_fn(|at| dot(&state.inverse[at], turned));
    let factor = (1.0 + dot(turned, &through) / along) / along;
    for (row, entries) in state.inverse.iter_mut().enumerate() {
        for (column, entry) in entries.iter_mut().enumerate() {
            *entry += factor * moved[row] * moved[column] - (through[row] * moved[column] + moved[row] * through[column]) / along;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's valley, whose minimum is at (1, 1).
    fn valley(x: &[f64; 2]) -> (f64, [f64; 2]) {
        let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
        (a * a + 100.0 * b * b, [-2.0 * a - 400.0 * x[0] * b, 200.0 * b])
    }

    #[test]
    fn it_follows_a_valley() {
        let wide = Bounds { lower: [-5.0; 2], upper: [5.0; 2] };
        let found = minimise(valley, &[-1.2, 1.0], &wide);
        assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn it_stops_at_a_bound_and_goes_along_it() {
        // With x at most 0.5 the best y is 0.25.
        let bounds = Bounds { lower: [-5.0; 2], upper: [0.5, 5.0] };
        let found = minimise(valley, &[-1.2, 1.0], &bounds);
        assert!((found[0] - 0.5).abs() < 1e-9 && (found[1] - 0.25).abs() < 1e-4, "{found:?}");
        // A variable that is fixed stays.
        let fixed = Bounds { lower: [-5.0, 4.0], upper: [5.0, 4.0] };
        let found = minimise(valley, &[1.0, 4.0], &fixed);
        assert_eq!(found[1].to_bits(), 4.0_f64.to_bits());
        assert!((found[0] - 2.0).abs() < 0.01, "x squared is nearly 4: {found:?}");
    }
}
