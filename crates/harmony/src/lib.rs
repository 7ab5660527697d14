//! Servers whose jobs disturb each other, after Harmony (Bao, Peng, Wu: INFOCOM 2019 and ToN 2022).
//!
//! A [`Job`] has ranks and perhaps parameter servers; a [`Placer`] says on which servers they stand, once and for all. How fast jobs are beside each
//! other says a [`Speeds`]: [`Interference`] is the truth of this world, and a model that was learned can stand in its place. [`run`] plays a
//! [`mix`] of jobs that come, wait, run and leave, and its times include waiting.
//!
//! Pure: the same jobs, placer and seed give the same bytes.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod deepshare;
mod draw;
mod interference;
mod job;
mod mix;
mod place;
mod server;
mod world;

pub use draw::Draw;
pub use interference::{Interference, PPM, Speeds};
pub use job::{Demand, Job, KINDS, Part, RESOURCES, Stages, kind_name};
pub use mix::{Mix, mix};
pub use place::{Anywhere, Balance, Greedy, LeastInterference, Lookahead, Pack, Reach, Rollout, ways};
pub use server::{SERVER, Seat, Stand, free, takes};
pub use world::{Ended, Outcome, Placer, Running, Span, Stuck, View, run};
