//! The messages of `antiphase/v1alpha1`: one schema for gRPC, HTTP/JSON and the frames on QUIC.
//!
//! The `.proto` files beside this crate are the contract and their comments its reference. The Rust code in
//! `generated/` is committed, so that a build needs neither `protoc` nor its Rust counterpart; the test
//! `regenerate` fails when it is stale and rewrites it when `UPDATE_EXPECT=1`. Beside it stand the schema as data ([`schema`]) and as
//! OpenAPI.
#![forbid(unsafe_code)]

pub mod datagram;
pub mod frame;
mod json;
pub mod mask;
pub mod schema;

/// Package `antiphase.v1alpha1`.
#[allow(missing_docs, clippy::all, clippy::too_many_lines, unused_qualifications, unreachable_pub, clippy::allow_attributes_without_reason, reason = "generated")]
#[path = "generated/antiphase.v1alpha1.rs"]
#[rustfmt::skip]
pub mod v1alpha1;

/// ALPN of the QUIC protocol in agent.proto.
pub const ALPN: &[u8] = b"antiphase/1";
/// Highest version of the QUIC protocol that this build speaks.
pub const PROTOCOL: u32 = 1;
