//! HTTP/JSON: routes, and how requests and answers look.

mod answer;
mod connection;
mod query;
mod routes;
mod stall;
mod stream;

pub use answer::{Document, Text};
pub use connection::{AcceptFn, Acceptor, Connections, GRACE, HEAD_MAX, Stream, serve};
pub use query::Query;
pub use routes::router;
