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

/// Totals since the agent started. What the driver does not show is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// By what is counted and priority.
    pub by_priority: BTreeMap<(Pause, u8), u64>,
    /// By the driver's names.
    pub by_name: BTreeMap<String, u64>,
}

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
                let pauses = readers.iter().filter(|(_, reader)| !reader.totals.by_name.is_empty());
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
    /// Which of the statistics they are, and their names.
    wanted: Vec<(usize, String, (Pause, u8))>,
    last: Vec<u64>,
    totals: Totals,
}

impl Reader {
    /// One that reads nothing where the driver shows no pauses.
    fn open(name: &str) -> Self {
        let statistics = Statistics::open(name).inspect_err(|error| tracing::debug!(name, %error, "no ethtool statistics")).ok();
        let names = statistics.as_ref().map_or(&[][..], Statistics::names);
        let wanted: Vec<_> = names.iter().enumerate().filter_map(|(index, name)| Some((index, name.clone(), pause(name)?))).collect();
        let statistics = statistics.filter(|_| !wanted.is_empty());
        Self { statistics, wanted, last: Vec::new(), totals: Totals::default() }
    }

    fn read(&mut self, name: &str) {
        let Some(statistics) = &mut self.statistics else { return };
        match statistics.read() {
            Ok(values) => {
                let now = self.wanted.iter().map(|(index, ..)| values.get(*index).copied().unwrap_or(0)).collect();
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
        for (index, (_, name, key)) in self.wanted.iter().enumerate() {
            let passed = self.last.get(index).and_then(|last| now.get(index)?.checked_sub(*last)).unwrap_or(0);
            *self.totals.by_priority.entry(*key).or_default() += passed;
            match self.totals.by_name.get_mut(name) {
                Some(total) => *total += passed,
                None => drop(self.totals.by_name.insert(name.clone(), passed)),
            }
        }
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_count_on_over_a_reset_and_begin_at_nothing() {
        let names = ["rx_prio3_pause", "rx_prio3_pause_duration"].map(str::to_owned);
        let wanted = names.iter().enumerate().map(|(index, name)| (index, name.clone(), pause(name).unwrap())).collect();
        let mut reader = Reader { statistics: None, wanted, last: Vec::new(), totals: Totals::default() };
        let mut after = |received, micros| {
            reader.add(vec![received, micros]);
            let totals = [reader.totals.by_priority[&(Pause::Received, 3)], reader.totals.by_priority[&(Pause::ReceivedMicros, 3)]];
            assert_eq!(totals, names.each_ref().map(|name| reader.totals.by_name[name]));
            totals
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
        assert!(reader.statistics.is_none() && reader.totals == Totals::default());
    }
}
