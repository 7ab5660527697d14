//! Places for streams, which are open for as long as their clients like.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{tally::Tally, tls::Who};

/// One caller with a certificate may have one place in this many.
const CALLER_PART: u32 = 4;

/// The streams that are open (`limits.watchers`). Cloning it shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: u32,
    callers: Tally<Who>,
}

/// One of the streams that may be open at the same time, until dropped.
#[derive(Debug)]
pub struct Place {
    places: Places,
    who: Option<Who>,
}

impl Places {
    /// One more of `max`.
    ///
    /// # Errors
    /// How many there are: of all, or of this caller.
    pub(super) fn take(&self, who: Option<Who>, max: u32) -> Result<Place, u32> {
        let mut taken = self.lock();
        if taken.all >= max {
            return Err(taken.all);
        }
        if let Some(who) = who {
            let (own, share) = (taken.callers.of(&who), (max / CALLER_PART).max(1) as usize);
            if own >= share {
                return Err(u32::try_from(own).unwrap_or(u32::MAX));
            }
            taken.callers.add(who, 1);
        }
        taken.all += 1;
        Ok(Place { places: self.clone(), who })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        if let Some(who) = self.who {
            taken.callers.take(&who, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_places_for_others() {
        let places = Places::default();
        let of = |who: u8| places.take(Some(Who([who; 32])), 8);
        let greedy = [of(1).unwrap(), of(1).unwrap()];
        assert_eq!(of(1).unwrap_err(), 2);
        let others: Vec<Place> = (2..5).flat_map(|who| [of(who).unwrap(), of(who).unwrap()]).collect();
        assert_eq!(of(5).unwrap_err(), 8);
        drop(greedy);
        // Where callers cannot be told apart they share all of it.
        let strangers = [places.take(None, 8).unwrap(), places.take(None, 8).unwrap()];
        assert_eq!(places.take(None, 8).unwrap_err(), 8);
        drop((others, strangers));
        let taken = places.lock();
        assert_eq!((taken.all, taken.callers.len()), (0, 0));
    }
}
