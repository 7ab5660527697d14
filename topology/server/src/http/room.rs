//! Room for connections: who has a place, and who gives one up when somebody comes.
//!
//! A connection is fresh until it asks for something, and connections that only ask for health stay so. Everybody who comes gets a
//! fresh place; where there is none left, the oldest fresh connection of whoever has most of them is cut: of an address, of those at an
//! address who have sent their hello and wait for ours, or of a caller whose handshake is over. So strangers who open sockets and say
//! nothing cut off each other, and nobody whose hello has come; after the handshake strangers cut nobody.
//!
//! Connections that have asked have places of their own. Where none is left, one that waits for nothing is cut, of the caller who has most
//! of these: a client that comes back to a connection which was cut while it was idle opens another one. A connection whose client has
//! not sent all of its requests yet waits for nothing either: promised bodies would else hold all places.
//!
//! Requests have places too, because each holds its head, and over HTTP/2 a connection has many; and heads have bytes. The last places
//! are for requests that change something: readers who wait for their turn or do not take their answers keep no change out.

mod table;

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{oneshot, watch};

use self::table::Table;
pub(super) use self::table::{Cut, Head};
use crate::{peer::network, role::Who};

/// Largest head of a request for health, which needs no place. Of each connection 16 KiB: 48 MiB at the default of `limits.connections`, 1.6 GiB at
/// its highest.
const HEALTH_HEAD_MAX: usize = 4 << 10;
/// Most requests for health that a connection has under way: who asks for it waits for the answer.
const HEALTH_MAX: u32 = 4;

/// Open connections.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// Connections whose task has not ended.
    open: AtomicU32,
    changed: watch::Sender<()>,
}

/// A place, until dropped or cut.
#[derive(Clone, Debug)]
pub(super) struct Seat(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    connections: Connections,
    number: u64,
    /// Requests for health under way.
    health: AtomicU32,
}

/// A request that is under way, until dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    seat: Seat,
    who: Option<Who>,
    /// What its head holds.
    head: usize,
    /// Whether it has come whole.
    whole: AtomicBool,
}

/// A request for health that is under way, until dropped.
#[derive(Debug)]
pub(super) struct Health(Seat);

impl Connections {
    /// Takes one more. What comes out of the receiver is why this connection is to end.
    pub(super) fn enter(&self, address: IpAddr) -> (Seat, oneshot::Receiver<Cut>) {
        let (cut, told) = oneshot::channel();
        let number = self.table().enter(network(address), cut);
        self.0.open.fetch_add(1, Ordering::AcqRel);
        (Seat(Arc::new(Taken { connections: self.clone(), number, health: AtomicU32::new(0) })), told)
    }

    /// Cuts the fresh connection that is to go first: there are no file descriptors for others.
    pub(super) fn cut_fresh(&self) {
        self.table().cut_fresh();
    }

    /// Returns when none is open, or after `limit`: whether none is.
    pub async fn closed(&self, limit: Duration) -> bool {
        // The subscription comes before the look at the count: a connection that closes in between wakes the wait.
        let mut changed = self.0.changed.subscribe();
        let none = async {
            while self.0.open.load(Ordering::Acquire) > 0 {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(limit, none).await.is_ok()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The peer has done its part of the begin of a handshake.
    pub(super) fn greeted(&self) {
        self.0.connections.table().greeted(self.0.number);
    }

    /// The peer has proved who it is.
    pub(super) fn known(&self, who: Option<Who>) {
        self.0.connections.table().known(self.0.number, who);
    }

    /// The head of a request came, which holds so many bytes. `None`: `max` connections have asked, or the share of this caller, and all
    /// of them are busy; or too many requests are under way, or too much of them.
    pub(super) fn asks(&self, max: u32, head: Head) -> Option<UnderWay> {
        let who = self.0.connections.table().asks(max as usize, self.0.number, head, Instant::now())?;
        let head = head.bytes;
        Some(UnderWay { seat: self.clone(), who, head, whole: AtomicBool::new(false) })
    }

    /// A request for health came, which needs no place. `None`: too many of this connection are under way, or its head is no such
    /// request's.
    pub(super) fn asks_for_health(&self, head: usize) -> Option<Health> {
        if head > HEALTH_HEAD_MAX {
            return None;
        }
        // Counted before it is judged; dropping gives it back.
        let health = Health(self.clone());
        (self.0.health.fetch_add(1, Ordering::AcqRel) < HEALTH_MAX).then_some(health)
    }
}

impl UnderWay {
    /// The request has come whole: from now on its connection waits for us.
    pub(super) fn is_whole(&self) {
        if !self.whole.swap(true, Ordering::AcqRel) {
            self.seat.0.connections.table().is_whole(self.seat.0.number);
        }
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.0.0.health.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.connections.table().leaves(self.number);
        self.connections.0.open.fetch_sub(1, Ordering::AcqRel);
        // The count falls before the waiters wake, or the last one would wake to an old number and sleep for ever.
        self.connections.0.changed.send_replace(());
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut table = self.seat.0.connections.table();
        table.request_ends(self.who, self.head);
        if self.whole.load(Ordering::Acquire) {
            table.answered(self.seat.0.number, Instant::now());
        }
    }
}
