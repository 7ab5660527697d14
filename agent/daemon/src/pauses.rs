//! PFC pauses of the host's interfaces, from their drivers' statistics.
//!
//! A driver may ask its firmware for hundreds of statistics at once, so they are read seldom and on a thread of their own.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use telemetry::pfc::{Pause, pause};
use verbs::ethtool::Statistics;

use crate::{config::PORTS_MAX, nap};

/// How often they are read.
const READ_EVERY: Duration = Duration::from_secs(10);

/// Totals since the agent started, by what is counted and priority. What the driver does not show is absent.
pub type Totals = BTreeMap<(Pause, u8), u64>;

/// Pauses by interface, of those whose driver shows any.
pub type PausesView = BTreeMap<String, Totals>;

/// A running thread. It ends soon after this value is dropped, and nobody waits for the end: a driver may hang.
#[derive(Debug)]
pub struct Pauses {
    view: Arc<Mutex<PausesView>>,
    stop: Arc<AtomicBool>,
}

impl Pauses {
    /// Starts to read; `interfaces` says of which.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start(interfaces: impl Fn() -> Vec<String> + Send + 'static) -> io::Result<Self> {
        let (view, stop) = (Arc::<Mutex<PausesView>>::default(), Arc::new(AtomicBool::new(false)));
        let (shown, stopped) = (Arc::clone(&view), Arc::clone(&stop));
        let work = move || {
            let mut readers: BTreeMap<String, Reader> = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                let names = interfaces();
                readers.retain(|name, _| names.contains(name));
                for name in names.into_iter().take(PORTS_MAX) {
                    readers.entry(name.clone()).or_insert_with(|| Reader::open(&name)).read(&name);
                }
                let pauses = readers.iter().filter(|(_, reader)| !reader.totals.is_empty());
                *shown.lock().unwrap_or_else(PoisonError::into_inner) =
                    pauses.map(|(name, reader)| (name.clone(), reader.totals.clone())).collect();
                nap::until(READ_EVERY, &stopped);
            }
        };
        thread::Builder::new().name("pauses".into()).spawn(work)?;
        Ok(Self { view, stop })
    }

    /// What is known now.
    #[must_use]
    pub fn view(&self) -> PausesView {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Pauses {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The pauses of one interface.
struct Reader {
    statistics: Option<Statistics>,
    /// Which of the statistics they are.
    wanted: Vec<(usize, (Pause, u8))>,
    last: Vec<u64>,
    totals: Totals,
}

impl Reader {
    /// One that reads nothing where the driver shows no pauses.
    fn open(name: &str) -> Self {
        let statistics = Statistics::open(name).inspect_err(|error| tracing::debug!(name, %error, "no ethtool statistics")).ok();
        let names = statistics.as_ref().map_or(&[][..], Statistics::names);
        let wanted: Vec<_> = names.iter().enumerate().filter_map(|(index, name)| Some((index, pause(name)?))).collect();
        let statistics = statistics.filter(|_| !wanted.is_empty());
        Self { statistics, wanted, last: Vec::new(), totals: Totals::new() }
    }

    fn read(&mut self, name: &str) {
        let Some(statistics) = &mut self.statistics else { return };
        match statistics.read() {
            Ok(values) => {
                let now = self.wanted.iter().map(|(index, _)| values.get(*index).copied().unwrap_or(0)).collect();
                self.add(now);
            }
            // Another number of queues, say: the names have to be asked for again, and what passed meanwhile is not known.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let totals = std::mem::take(&mut self.totals);
                *self = Self { totals, ..Self::open(name) };
            }
            Err(error) => tracing::debug!(name, %error, "ethtool statistics cannot be read"),
        }
    }

    /// Adds what passed since the reading before. A number that went back began anew, and says nothing.
    fn add(&mut self, now: Vec<u64>) {
        for (index, (_, key)) in self.wanted.iter().enumerate() {
            let passed = self.last.get(index).and_then(|last| now.get(index)?.checked_sub(*last)).unwrap_or(0);
            *self.totals.entry(*key).or_default() += passed;
        }
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_count_on_over_a_reset_and_begin_at_nothing() {
        let wanted = vec![(0, (Pause::Received, 3)), (1, (Pause::ReceivedMicros, 3))];
        let mut reader = Reader { statistics: None, wanted, last: Vec::new(), totals: Totals::new() };
        let mut after = |received, micros| {
            reader.add(vec![received, micros]);
            [reader.totals[&(Pause::Received, 3)], reader.totals[&(Pause::ReceivedMicros, 3)]]
        };
        assert_eq!(after(100, 9_000), [0, 0], "what was before the agent is not the agent's");
        assert_eq!(after(104, 9_500), [4, 500]);
        assert_eq!(after(1, 9_700), [4, 700], "one began anew");
        assert_eq!(after(3, 9_700), [6, 700]);
    }

    #[test]
    fn an_interface_whose_driver_shows_no_pauses_is_absent() {
        let mut reader = Reader::open("lo");
        reader.read("lo");
        assert!(reader.statistics.is_none() && reader.totals.is_empty());
    }
}
