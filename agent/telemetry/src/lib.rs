//! What a node can see of its network: counters of its ports, the period of what they carry, and LLDP neighbours.
//!
//! Counters come from files of the kernel under canonical names ([`Counter`]), whatever the driver calls them. A counter
//! that a host lacks is absent, which is not 0. Files stay open, so that a sample costs one `pread` each.
//!
//! A [`Learner`] finds the period of a byte counter and when in it the port was busy, or says that there is none; [`learn_jobs`] finds
//! the iterations of jobs that keep no beat.
//!
//! Where the files are is an argument ([`Root`]), so that a test, a container or a recorded tree can stand in for the host.
#![forbid(unsafe_code)]

mod alias;
mod autocorrelation;
mod counter;
mod file;
mod interface;
mod ip;
mod iterations;
mod levels;
pub mod lldp;
mod multiple;
pub mod nldev;
mod period;
pub mod pfc;
mod phases;
mod port;
mod rdma;
pub mod roce;
mod series;
pub mod trace;
mod warp;

pub use alias::{Alias, Driver, aliases};
pub use counter::{Counter, EVENTS_PER_SECOND_MAX, Increment, Width, increments};
pub use file::Root;
pub use interface::{Interface, InterfaceTable, bridge_of, interface_names, link_rate};
pub use ip::{IP_PORT, IpCounters};
pub use iterations::{Learned, learn_jobs};
pub use period::{Aperiodic, CONFIDENCE_MIN, Learner, Observation, PERIODS_MIN, learn};
pub use phases::{BusyPhase, fold, phase_error};
pub use port::{Port, PortDelta, PortSource};
pub use rdma::{PORTS_MAX, RdmaLink, RdmaPort, rdma_ports};
pub use series::{GAP_STEPS, SAMPLES_MAX, Series, Stretch, longest_stretch};
