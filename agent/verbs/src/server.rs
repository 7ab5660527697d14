//! What `antiphase-verbs serve` does: gives each caller a buffer to write to, for as long as the caller stays.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde::Serialize;

use crate::{
    device::VerbsError,
    exchange,
    queue::{Address, Endpoint},
};

/// Most callers at once: each has a thread and up to 16 MiB.
const CALLERS_MAX: usize = 64;

/// Pause where no caller can be taken, for want of descriptors or threads: those of callers who leave come free meanwhile.
const REST: Duration = Duration::from_millis(100);

/// A caller's place, which is free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// `None` if all are taken. Places are taken by one thread only.
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        if taken.load(Ordering::Relaxed) >= CALLERS_MAX {
            return None;
        }
        taken.fetch_add(1, Ordering::Relaxed);
        Some(Self(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

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
    /// No caller can be taken for now.
    Waiting {
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
    let listener = TcpListener::bind(listen).map_err(|error| io::Error::new(error.kind(), format!("{listen}: {error}")))?;
    let (make, tell, taken) = (Arc::new(make), Arc::new(tell), Arc::new(AtomicUsize::new(0)));
    tell(&ServerRecord::Listening(listener.local_addr()?));
    // A server has no end but that of its process; each round waits for a caller.
    loop {
        let (stream, caller) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                tell(&ServerRecord::Waiting { because: error.to_string() });
                thread::sleep(REST);
                continue;
            }
        };
        let failed = move |because: String| ServerRecord::Failed { caller, because };
        let Some(place) = Place::take(&taken) else {
            // Closing the connection says it; the caller's next attempt may find a place.
            tell(&failed(format!("{CALLERS_MAX} callers are here already")));
            continue;
        };
        let (make, tell_in_thread) = (Arc::clone(&make), Arc::clone(&tell));
        let serve = move || {
            let made = exchange::answer(stream, |theirs| {
                make(theirs).map(|end| {
                    let address = end.address();
                    (end, address)
                })
            });
            drop(place);
            tell_in_thread(&made.map_or_else(|error| failed(error.to_string()), |()| ServerRecord::Served(caller)));
        };
        // The place and the connection go with what could not be run.
        if let Err(error) = thread::Builder::new().name("verbs-caller".to_owned()).spawn(serve) {
            tell(&failed(format!("no thread: {error}")));
        }
    }
}
