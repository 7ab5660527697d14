//! What `antiphase-verbs serve` does: gives each caller a buffer to write to, for as long as the caller stays.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde::Serialize;

use crate::{
    device::VerbsError,
    exchange,
    queue::{Address, Endpoint},
};

/// Most callers at once: each has a thread and up to 16 MiB.
const CALLERS_MAX: usize = 64;

/// What happens to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerRecord {
    /// It takes callers at this address.
    Listening(SocketAddr),
    /// A caller had an end and has gone.
    Served(SocketAddr),
    /// A caller got none.
    Failed {
        /// Who called.
        caller: SocketAddr,
        /// Why not.
        because: String,
    },
}

/// Serves until the process ends. `make` makes a connected end for a caller's address, in a thread of its own.
///
/// # Errors
/// The address cannot be listened at.
pub fn run(
    listen: SocketAddr,
    make: impl Fn(&Address) -> Result<Endpoint, VerbsError> + Send + Sync + 'static,
    tell: impl Fn(&ServerRecord) + Send + Sync + 'static,
) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    let (make, tell, callers) = (Arc::new(make), Arc::new(tell), Arc::new(AtomicUsize::new(0)));
    tell(&ServerRecord::Listening(listener.local_addr()?));
    // A server has no end but that of its process; each round waits for a caller.
    loop {
        let (stream, caller) = listener.accept()?;
        if callers.load(Ordering::Relaxed) >= CALLERS_MAX {
            // Closing the connection says it; the caller's next attempt may find a place.
            tell(&ServerRecord::Failed { caller, because: format!("{CALLERS_MAX} callers are here already") });
            continue;
        }
        callers.fetch_add(1, Ordering::Relaxed);
        let (make, tell, callers) = (Arc::clone(&make), Arc::clone(&tell), Arc::clone(&callers));
        thread::spawn(move || {
            let made = exchange::answer(stream, |theirs| {
                make(theirs).map(|end| {
                    let address = end.address();
                    (end, address)
                })
            });
            callers.fetch_sub(1, Ordering::Relaxed);
            tell(&made.map_or_else(|error| ServerRecord::Failed { caller, because: error.to_string() }, |()| ServerRecord::Served(caller)));
        });
    }
}
