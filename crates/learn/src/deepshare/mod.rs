//! The same policy in the world of DeepShare ([`harmony::deepshare`]): it sees who stands where and who could be placed, and nothing of the table.
//!
//! Its choices stand in the place of servers: one of the candidates in one place, or nobody. Each sums the jobs that it would meet, and has its own.

mod course;
mod scene;

pub use course::{Course, Setup, train};
pub use scene::Scheduler;
