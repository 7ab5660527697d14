//! HTTP/JSON: routes, and how requests and answers look.

mod answer;
mod connection;
mod frames;
pub(crate) mod load;
mod local;
mod origin;
mod proxied;
mod query;
mod room;
mod routes;
mod stall;
mod starting;

pub use answer::{Document, Text};
pub use connection::{AcceptFn, Accepted, Acceptor, GRACE, HEAD_MAX, OnHello, Stream, serve};
pub use query::Query;
pub use room::Connections;
pub use routes::router;
pub use starting::while_starting;
