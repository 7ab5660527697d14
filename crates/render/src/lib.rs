//! Pictures and pages: circles, timelines, lines, bars and fabric maps as SVG, and the HTML report that holds them.
//!
//! Every picture of Antiphase is drawn here: for the command line, for the lab's pages and for the service's page.
//! Everything is a pure function from the plain structs of [`view`] to a string; the same input gives the same bytes,
//! on every machine, because sines and cosines come from `libm` and not from the system's library.
//!
//! A picture is an [`svg::Svg`]: [`svg::Svg::document`] is a file that stands alone, [`svg::Svg::fragment`] goes into an
//! HTML page that carries [`style::stylesheet`] and [`style::patterns`] once. No text from outside reaches the output
//! unescaped: every writer escapes, and names are cleaned and cut first.
//!
//! ```
//! use antiphase_render::{circles, palette::Colours, view::{JobView, LinkView, MemberView, PhaseView}};
//!
//! // Two jobs of 100 ms that send for 40 ms each; the second is shifted by 50 ms.
//! let job = |name: &str, shift_ns| JobView { name: name.into(), period_ns: 100_000_000, shift_ns, ..JobView::default() };
//! let jobs = [job("left", 0), job("right", 50_000_000)];
//! let up = vec![PhaseView { start_ns: 0, end_ns: 40_000_000, mbps: 50_000 }];
//! let members = (0..2).map(|job| MemberView { job, phases: up.clone() }).collect();
//! let link = LinkView { name: "uplink".into(), capacity_mbps: 50_000, members, zero_shift_score: 0.6, score: 1.0, ..LinkView::default() };
//! let picture = circles::draw(&link, &jobs, &Colours::assign(jobs.len(), [&link])).document();
//! assert!(picture.contains("over capacity 40 % of the time") && picture.contains("never over capacity"));
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod axis;
pub mod bars;
pub mod circles;
pub mod curves;
mod demand;
pub mod experiment;
pub mod fabric_map;
pub mod gantt;
pub mod history;
pub mod html;
pub mod line;
pub mod link;
pub mod palette;
pub mod phases;
mod polar;
mod quantity;
pub mod report;
pub mod series;
pub mod style;
pub mod svg;
mod text;
pub mod timeline;
pub mod view;

pub use quantity::at_most;

#[cfg(test)]
mod samples;
