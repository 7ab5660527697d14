//! The topology service: QUIC, gRPC, HTTP, store and web page around the state machine.
#![forbid(unsafe_code)]

pub mod pki;
pub mod quic;
pub mod tls;
