//! The topology service: QUIC, gRPC, HTTP, store and web page around the state machine.
#![forbid(unsafe_code)]

pub mod clock;
pub mod config;
pub mod logs;
pub mod pki;
pub mod quic;
pub mod store;
pub mod tls;
