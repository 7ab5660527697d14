//! Fractions of time with which the largest rho is least.
//!
//! With a fraction x, rho of a job is `waited + left / x`. So for a given largest rho each job needs at least `left / (rho - waited)`, and all
//! of them fit or do not. Either the GPUs are the limit: then rho is where they just fit, and each job gets what it needs. Or one job
//! stays at the largest rho even with all of the time: then it gets that, and what the others get beyond their need changes nothing.
//! They get the centre of what is possible, which is where an interior-point solver ends, so that who is first does not depend on chance.

use alloc::vec::Vec;

/// What a job claims, over its time alone on a fair share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) gpus: f64,
    /// Time since its submission.
    pub(super) waited: f64,
    /// Time that it would still take with all of the time.
    pub(super) left: f64,
}

/// Steps of a search whose every step at least doubles what is known of its digits near the end.
const NEWTON_STEPS: u32 = 64;

/// Halvings of a range of exponents, until floats do not tell its ends apart.
const HALVINGS: u32 = 100;

/// Share by which the GPUs may be missed.
const CLOSE: f64 = 1e-12;

/// A fraction for each claim, from 0 to 1.
pub(super) fn fractions(claims: &[Claim], gpus: f64) -> Vec<f64> {
    let least = claims.iter().map(|claim| claim.waited + claim.left).fold(0.0, f64::max);
    let needs = |rho: f64| claims.iter().map(|claim| claim.gpus * need(claim, rho)).sum::<f64>();
    if needs(least) <= gpus {
        return centre(claims, least, gpus);
    }
    // What is needed falls with rho and is convex, so Newton's method from the left never passes the solution.
    let mut rho = least;
    for _ in 0..NEWTON_STEPS {
        let slope: f64 = claims.iter().map(|claim| claim.gpus * need(claim, rho) / (rho - claim.waited)).sum();
        let over = needs(rho) - gpus;
        if over <= gpus * CLOSE || slope <= 0.0 {
            break;
        }
        rho += over / slope;
    }
    claims.iter().map(|claim| need(claim, rho)).collect()
}

/// The least fraction with which a claim stays at or below this rho.
fn need(claim: &Claim, rho: f64) -> f64 {
    // A job that has nothing left needs nothing.
    if claim.left <= 0.0 { 0.0 } else { (claim.left / (rho - claim.waited)).min(1.0) }
}

/// The analytic centre of the fractions that keep every rho at or below this one.
fn centre(claims: &[Claim], rho: f64, gpus: f64) -> Vec<f64> {
    let at = |price: f64| claims.iter().map(move |claim| central(claim, rho, price));
    let spare = |price: f64| gpus - at(price).zip(claims).map(|(x, claim)| x * claim.gpus).sum::<f64>();
    // The price of a GPU is one over the GPUs that are spare; the higher the price, the more are spare.
    let (mut low, mut high) = (1.0 / gpus, 1.0 / gpus);
    for _ in 0..HALVINGS {
        if spare(high) * high >= 1.0 {
            break;
        }
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if spare(middle) * middle >= 1.0 { high = middle } else { low = middle }
    }
    at(high).collect()
}

/// Where log(1 - x) + 3/2 log(k x - 1) - price gpus x is largest, k being one over the need.
///
/// The terms are the barriers of the constraints, those of rho and 1/x (a cone of half the weight) joined.
fn central(claim: &Claim, rho: f64, price: f64) -> f64 {
    let k = 1.0 / need(claim, rho);
    if k <= 1.0 {
        return 1.0;
    }
    if k.is_infinite() {
        return 0.0;
    }
    // 3/2 k (1 - x) - (k x - 1) = p (1 - x) (k x - 1), a parabola in x; its smaller root lies between the need and 1.
    let p = price * claim.gpus;
    let (a, b, c) = (p * k, -(2.5 * k + p * (k + 1.0)), 1.5 * k + 1.0 + p);
    // Rounding must not lead out of that range.
    (2.0 * c / (-b + libm::sqrt((b * b - 4.0 * a * c).max(0.0)))).clamp(1.0 / k, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(gpus: f64, waited: f64, left: f64) -> Claim {
        Claim { gpus, waited, left }
    }

    #[test]
    fn equal_claims_share_the_gpus_alike() {
        // Two jobs that want 8 GPUs each of 8: half of the time each.
        let found = fractions(&[claim(8.0, 0.0, 1.0), claim(8.0, 0.0, 1.0)], 8.0);
        assert!(found.iter().all(|x| (x - 0.5).abs() < 1e-9), "{found:?}");
    }

    #[test]
    fn who_is_latest_whatever_it_gets_has_all_of_the_time() {
        // The first stays at 10 with all of the time; the second needs a ninth at most, and takes some of what is spare.
        let found = fractions(&[claim(4.0, 9.0, 1.0), claim(4.0, 1.0, 1.0)], 8.0);
        assert!(found[0] == 1.0 && found[1] > 1.0 / 9.0 && found[1] < 1.0, "{found:?}");
    }

    proptest! {
        #[test]
        fn no_fractions_have_a_smaller_largest_rho(parts in prop::collection::vec((0_u8..4, 0.0_f64..20.0, 0.01_f64..5.0), 1..12)) {
            let claims: Vec<Claim> = parts.iter().map(|(g, waited, left)| claim(f64::from(1_u8 << g), *waited, *left)).collect();
            let found = fractions(&claims, 8.0);
            let rho = |x: &[f64]| claims.iter().zip(x).map(|(c, x)| c.waited + c.left / x).fold(0.0, f64::max);
            let used: f64 = claims.iter().zip(&found).map(|(c, x)| c.gpus * x).sum();
            prop_assert!(used <= 8.0 * (1.0 + 1e-9) && found.iter().all(|x| (0.0..=1.0).contains(x)));
            // A rho below by a thousandth needs more GPUs than there are, or more than all of the time.
            let below = rho(&found) * 0.999;
            let possible = claims.iter().all(|c| c.waited + c.left <= below);
            let needs: f64 = claims.iter().map(|c| c.gpus * c.left / (below - c.waited)).sum();
            prop_assert!(!possible || needs > 8.0);
        }
    }
}
