//! What happened on the QUIC side since the start, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts since the start. Each is read on its own; together they are no snapshot.
        #[derive(Debug, Default)]
        pub struct Stats { $($(#[$doc])* pub $name: Count,)* }

        impl Stats {
            /// Names and values, in a fixed order.
            #[must_use]
            pub fn read(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get())),*]
            }
        }
    };
}

stats! {
    /// Connection attempts turned away without a handshake: too many at once.
    turned_away,
    /// Attempts that had to prove their address first.
    retried,
    /// Handshakes that failed: no certificate, a foreign one, no TLS at all.
    handshakes_failed,
    /// Agents that were refused after the handshake: role, host, protocol, no hello.
    refused,
    /// Sessions that were admitted.
    admitted,
    /// Sessions that ended, however.
    ended,
    /// Sessions that were cut for going past a limit or sending what nobody should.
    cut,
    /// Frames on control streams.
    frames,
    /// Frames of telemetry.
    telemetry_frames,
    /// Clock probes that were answered.
    probes,
    /// Datagrams that were no probe and had no turn notes.
    strange_datagrams,
    /// Datagrams with turn notes.
    turn_datagrams,
    /// Such datagrams that were past a limit, or that nobody takes.
    turn_datagrams_dropped,
    /// Plans that were written to an agent's stream.
    plans_sent,
}

/// One number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self) {
        // No other memory depends on a count, so no order with it is needed.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
