//! LLDP frames captured on the host's ports.
//!
//! One socket per port, bound to the EtherType, so that the kernel hands over LLDP and nothing else; frames wait in the
//! sockets until they are asked for. Needs `CAP_NET_RAW`. An NIC passes the multicast address of LLDP only when somebody
//! asked for it: lldpd does, and so does a promiscuous port.

use std::{collections::BTreeMap, io, time::Duration};

use pnet::datalink::{self, Channel, ChannelType, DataLinkReceiver};
use units::NodeTime;

use super::{Advert, ETHERTYPE, Neighbour, parse};

/// Most neighbours held: a cable has one system at its end, and a hub a few.
pub const HELD_MAX: usize = 1_024;
/// Most frames taken from one port at a time. Systems send one in 30 seconds; a flood must not keep us.
const FRAMES_MAX: usize = 64;
/// Room for a frame: an LLDP frame is no longer than the MTU, and what is longer is not read.
const FRAME_BYTES_MAX: usize = 9_216;

/// Why a port cannot be listened to.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// No such interface in this network namespace.
    NoInterface {
        /// The interface's name.
        name: String,
    },
    /// The kernel refused: usually `CAP_NET_RAW` is missing.
    Socket {
        /// The interface.
        name: String,
        /// Why.
        source: io::Error,
    },
}

impl core::fmt::Display for CaptureError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoInterface { name } => write!(f, "no interface {name:?}"),
            Self::Socket { name, source } => write!(f, "cannot listen to LLDP on {name:?} (needs CAP_NET_RAW): {source}"),
        }
    }
}

impl std::error::Error for CaptureError {}

/// Listens on a set of ports.
pub struct Capture {
    sockets: Vec<(String, Box<dyn DataLinkReceiver>)>,
    /// By port, system and the system's port: what else it says may change.
    held: BTreeMap<[String; 3], (Neighbour, NodeTime)>,
}

impl core::fmt::Debug for Capture {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Capture").field("ports", &self.sockets.len()).field("held", &self.held).finish()
    }
}

impl Capture {
    /// Opens a socket per port. `promiscuous` asks the NICs for every frame, which is needed where nothing else joined the
    /// multicast address; the kernel still hands over only LLDP.
    ///
    /// # Errors
    /// [`CaptureError`] for the first port that cannot be opened.
    pub fn open(ports: &[String], promiscuous: bool) -> Result<Self, CaptureError> {
        let interfaces = datalink::interfaces();
        let mut sockets = Vec::with_capacity(ports.len());
        for name in ports {
            let interface = interfaces.iter().find(|interface| interface.name == *name);
            let interface = interface.ok_or_else(|| CaptureError::NoInterface { name: name.clone() })?;
            let config = datalink::Config {
                read_buffer_size: FRAME_BYTES_MAX,
                // Never wait: the frames are there or they are not.
                read_timeout: Some(Duration::ZERO),
                channel_type: ChannelType::Layer3(ETHERTYPE),
                promiscuous,
                ..datalink::Config::default()
            };
            let socket = |source| CaptureError::Socket { name: name.clone(), source };
            let Channel::Ethernet(_, receiver) = datalink::channel(interface, config).map_err(socket)? else {
                return Err(socket(io::Error::other("not an Ethernet channel")));
            };
            sockets.push((name.clone(), receiver));
        }
        Ok(Self { sockets, held: BTreeMap::new() })
    }

    /// Takes what arrived since the last call, without waiting, and forgets neighbours whose time is over.
    pub fn poll(&mut self, now: NodeTime) {
        for (port, socket) in &mut self.sockets {
            for _ in 0..FRAMES_MAX {
                // An error is a socket without a frame, as the timeout is zero, or a port that is gone: the other ports come next.
                let Ok(payload) = socket.next() else { break };
                // Anybody on the cable can send anything, so a frame that is no LLDP is passed over.
                let Ok(advert) = parse(payload) else { continue };
                let until = now.saturating_add(advert.ttl);
                let neighbour = neighbour(port, advert);
                let key = [&neighbour.port, &neighbour.chassis, &neighbour.remote_port].map(Clone::clone);
                // A TTL of 0 is a goodbye: `retain` below drops the neighbour at once. HELD_MAX bounds what a sender of ever new
                // names can fill.
                if self.held.len() < HELD_MAX || self.held.contains_key(&key) {
                    self.held.insert(key, (neighbour, until));
                }
            }
        }
        self.held.retain(|_, (_, until)| *until > now);
    }

    /// The neighbours of now, sorted.
    #[must_use]
    pub fn neighbours(&self) -> Vec<Neighbour> {
        self.held.values().map(|(neighbour, _)| neighbour.clone()).collect()
    }
}

fn neighbour(port: &str, advert: Advert) -> Neighbour {
    let Advert { chassis, port: remote_port, system, description, forwards, rate, .. } = advert;
    let (chassis, chassis_id) = match system {
        Some(system) => (system, Some(chassis)),
        None => (chassis, None),
    };
    Neighbour { port: port.into(), chassis, remote_port, chassis_id, description, forwards, rate }
}
