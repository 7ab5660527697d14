//! What `antiphase-verbs events` prints: the asynchronous events of devices, as they come.

use std::{
    io,
    time::{Duration, Instant, SystemTime},
};

use serde::Serialize;

use crate::{
    device::{Context, VerbsError},
    wait,
};

/// Names of `ibv_event_type`, by number.
const NAMES: [&str; 20] = [
    "cq-error",
    "qp-fatal",
    "qp-request-error",
    "qp-access-error",
    "connection-established",
    "send-queue-drained",
    "path-migrated",
    "path-migration-error",
    "device-fatal",
    "port-active",
    "port-error",
    "lid-change",
    "pkey-change",
    "sm-change",
    "srq-error",
    "srq-limit-reached",
    "last-receive-reached",
    "client-reregister",
    "gid-change",
    "wq-fatal",
];
/// `IBV_EVENT_DEVICE_FATAL`: nothing comes from the device after it.
const DEVICE_FATAL: u32 = 8;
/// The events whose element is a port: active and error, and changes of LID, keys, subnet manager, registration and GIDs.
const OF_PORT: [u32; 7] = [9, 10, 11, 12, 13, 17, 18];

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventRecord {
    /// When it was read, in ns since 1970.
    pub unix_ns: u64,
    /// The device.
    pub device: String,
    /// What happened.
    pub event: String,
    /// The port that it is about, for events of a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
}

/// Passes events on until `until`, or until no device is left; `tell` ends it by an error.
///
/// # Errors
/// A device that cannot be asked, and what `tell` returns.
pub fn follow<E>(mut devices: Vec<Context>, until: Option<Instant>, mut tell: impl FnMut(&EventRecord) -> Result<(), E>) -> Result<(), E>
where
    E: From<VerbsError> + From<io::Error>,
{
    // Each round waits; a device that ended is left out, and without a device there is no round.
    while !devices.is_empty() {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break;
        }
        let fds: Vec<_> = devices.iter().map(Context::async_fd).collect();
        for at in wait::readable(&fds, left)?.into_iter().rev() {
            let event = devices[at].async_event()?;
            tell(&record(devices[at].name(), event.kind, event.element))?;
            if event.kind == DEVICE_FATAL {
                devices.remove(at);
            }
        }
    }
    Ok(())
}

fn record(device: &str, kind: u32, element: u64) -> EventRecord {
    let name = usize::try_from(kind).ok().and_then(|kind| NAMES.get(kind));
    let unix_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    EventRecord {
        unix_ns: u64::try_from(unix_ns).unwrap_or(u64::MAX),
        device: device.to_owned(),
        event: name.map_or_else(|| format!("event-{kind}"), |name| (*name).to_owned()),
        // The number of a port is an `int` in a union with pointers: the lower half, on a little-endian host.
        port: OF_PORT.contains(&kind).then_some((element & u64::from(u32::MAX)) as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_ports_name_the_port() {
        // The upper half of the union is whatever was there before.
        let port = record("rxe0", 10, 0xdead_beef_0000_0001);
        assert_eq!((port.event.as_str(), port.port), ("port-error", Some(1)));
        let queue = record("rxe0", 1, 0x7f00_0000_1000);
        assert_eq!((queue.event.as_str(), queue.port), ("qp-fatal", None));
        assert_eq!(record("rxe0", 99, 0).event, "event-99");
    }
}
