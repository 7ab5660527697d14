//! What the examples share that time commits.

use std::time::Duration;

use plan::Control;
use rustix::time::{ClockId, clock_gettime};

/// The control that an argument names.
///
/// # Errors
/// What was given instead.
pub(crate) fn control(given: Option<&str>, default: Control) -> Result<Control, String> {
    match given {
        None => Ok(default),
        Some("slots") => Ok(Control::Slots),
        Some("turns") => Ok(Control::Turns),
        Some("observe") => Ok(Control::Observe),
        Some(other) => Err(format!("{other}: slots, turns or observe")),
    }
}

/// Time that the threads of this process have run so far.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
