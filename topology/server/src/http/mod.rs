//! HTTP/JSON: routes, and how requests and answers look.

mod answer;
mod connection;
pub(crate) mod load;
mod origin;
mod query;
mod routes;
mod stall;

pub use answer::{Document, Text};
pub use connection::{AcceptFn, Accepted, Acceptor, Connections, GRACE, HEAD_MAX, Stream, serve};
pub use query::Query;
pub use routes::router;
