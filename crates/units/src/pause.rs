//! Which iterations are pauses: the agent leaves these out of means, and the service out of what it compares.

/// An iteration that takes, without what it waited, more than so many times what is usual is a pause, as for a checkpoint.
const PAUSE_TIMES: u64 = 2;
/// What is rarer than one in so many iterations is not usual.
const RARE_ONE_IN: usize = 8;

/// The longest of these iterations that is usual, in the unit of the numbers; `None` of none. Changes their order.
///
/// ```
/// use antiphase_units::longest_usual;
/// assert_eq!(longest_usual(&mut [100, 900, 101, 99, 100, 102, 98, 100]), Some(102));
/// assert_eq!(longest_usual(&mut []), None);
/// ```
#[must_use]
pub fn longest_usual(iterations: &mut [u64]) -> Option<u64> {
    let rank = iterations.len().checked_sub(1 + iterations.len() / RARE_ONE_IN)?;
    Some(*iterations.select_nth_unstable(rank).1)
}

/// Whether an iteration that took so long is a pause, where that is the longest usual one.
///
/// ```
/// use antiphase_units::is_pause;
/// assert_eq!([203, 204, 206].map(|took| is_pause(took, 102)), [false, false, true]);
/// ```
#[must_use]
pub const fn is_pause(took: u64, longest_usual: u64) -> bool {
    // Divided, as a product could overflow.
    took / PAUSE_TIMES > longest_usual
}
