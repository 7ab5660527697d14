//! The model of speeds: from who stands where, how fast each job is.
//!
//! A row is a job on one server. Rows of a server attend to each other, and each has the sum of what the others there are to it; a job goes as
//! fast as its slowest row lets it, once for what it does on a server and once for what it sends.

use alloc::vec::Vec;
use core::ops::Range;

use harmony::{Draw, Job, KINDS, PPM, Part, Seat, Speeds, Stand};

use super::encoder::{Encoder, WIDTH};
use crate::grad::{Entry, Matrix, Node, Parameters, Shapes, Tape};

/// Numbers of a row beside its kind.
const FACTS: usize = 8;
const ROW: usize = KINDS + FACTS;
/// Layers of the encoder.
const LAYERS: usize = 1;
const INNER: usize = 64;
/// Reasons to be slow, of each of which the slowest row counts.
pub(super) const REASONS: usize = 2;
/// So that numbers are near 1.
const RANKS: f32 = 8.0;
const PARAMETER_SERVERS: f32 = 4.0;

/// Weights of a model of speeds.
#[derive(Clone, Debug)]
pub struct SpeedModel {
    layout: Layout,
    pub(crate) parameters: Parameters,
}

#[derive(Clone, Debug)]
struct Layout {
    encoder: Encoder,
    presses: usize,
    inner: usize,
    last: usize,
}

/// Jobs that stand on servers, as rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    rows: Vec<f32>,
    /// Rows of each server.
    servers: Vec<Range<usize>>,
    /// Rows of each job.
    jobs: Vec<Vec<usize>>,
}

impl Standing {
    pub(crate) fn new(servers: usize, jobs: &[(&Job, &Stand)]) -> Self {
        let mut standing = Self { jobs: alloc::vec![Vec::new(); jobs.len()], ..Self::default() };
        let mut by_server: Vec<Vec<(usize, &Seat)>> = alloc::vec![Vec::new(); servers];
        for (at, (_, stand)) in jobs.iter().enumerate() {
            for seat in stand.seats() {
                if let Some(server) = by_server.get_mut(seat.server) {
                    server.push((at, seat));
                }
            }
        }
        let mut row = 0;
        for seats in by_server {
            let from = row;
            for (at, seat) in seats {
                if let (Some((job, stand)), Some(own)) = (jobs.get(at), standing.jobs.get_mut(at)) {
                    own.push(row);
                    standing.rows.extend(facts(job, stand, seat));
                    row += 1;
                }
            }
            standing.servers.push(from..row);
        }
        standing
    }

    /// The rows of one server.
    pub(super) fn of_server(server: usize, jobs: &[(&Job, &Stand)]) -> Self {
        let mut standing = Self::default();
        for (job, stand) in jobs {
            for seat in stand.seats().iter().filter(|seat| seat.server == server) {
                standing.rows.extend(facts(job, stand, seat));
            }
        }
        standing.servers.push(0..standing.rows.len() / ROW);
        standing
    }

    /// Two after each other, as if all were one.
    pub(crate) fn append(&mut self, other: &Self) {
        let from = self.rows.len() / ROW;
        self.rows.extend_from_slice(&other.rows);
        self.servers.extend(other.servers.iter().map(|rows| from + rows.start..from + rows.end));
        self.jobs.extend(other.jobs.iter().map(|rows| rows.iter().map(|row| from + row).collect()));
    }
}

fn facts(job: &Job, stand: &Stand, seat: &Seat) -> impl Iterator<Item = f32> {
    let flag = |set: bool| f32::from(u8::from(set));
    let spans = stand.seats().len().max(1) as f32;
    let facts: [f32; FACTS] = [
        seat.ranks as f32 / PARAMETER_SERVERS,
        seat.parameter_servers as f32 / PARAMETER_SERVERS,
        job.ranks as f32 / RANKS,
        job.parameter_servers as f32 / PARAMETER_SERVERS,
        flag(spans > 1.0),
        1.0 / spans,
        seat.ranks as f32 / stand.placed(Part::Rank).max(1) as f32,
        seat.parameter_servers as f32 / stand.placed(Part::ParameterServer).max(1) as f32,
    ];
    let kind = job.kind;
    (0..KINDS).map(move |at| flag(at == kind)).chain(facts)
}

impl SpeedModel {
    /// One that knows nothing, from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut shapes = Shapes::default();
        let layout = Layout {
            encoder: Encoder::new(&mut shapes, ROW, LAYERS),
            presses: shapes.linear(ROW, WIDTH),
            inner: shapes.linear(ROW + 2 * WIDTH, INNER),
            last: shapes.last(INNER, REASONS),
        };
        Self { layout, parameters: shapes.begin(&mut Draw::new(seed, 1)) }
    }

    /// One with those weights; none where their count is another, or one is not finite.
    #[must_use]
    pub fn with_weights(values: &[f32]) -> Option<Self> {
        let new = Self::new(0);
        new.parameters.with_values(values).map(|parameters| Self { parameters, ..new })
    }

    /// Its weights.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// By row and reason, how many times longer than alone an iteration takes, less one.
    fn by_row<'a>(&'a self, standing: &Standing) -> (Tape<'a>, Node) {
        let mut tape = Tape::new(&self.parameters);
        let rows = tape.given(Matrix::of(ROW, standing.rows.clone()));
        let encoded = self.layout.encoder.encode(&mut tape, rows, &standing.servers);
        let presses = tape.linear(rows, self.layout.presses);
        let presses = tape.rectify(presses);
        let beside = standing.servers.iter().flat_map(|rows| {
            rows.clone().flat_map(move |to| rows.clone().filter(move |from| *from != to).map(move |from| Entry { to, from, weight: 1.0 }))
        });
        let pressed = tape.sum(presses, standing.rows.len() / ROW, beside.collect());
        let joined = tape.join(&[rows, encoded, pressed]);
        let inner = tape.linear(joined, self.layout.inner);
        let inner = tape.rectify(inner);
        let longer = tape.linear(inner, self.layout.last);
        (tape, longer)
    }

    /// The same by job: of its rows the slowest.
    pub(crate) fn longer<'a>(&'a self, standing: &Standing) -> (Tape<'a>, Node) {
        let (mut tape, longer) = self.by_row(standing);
        let slowest = tape.largest(longer, &standing.jobs);
        (tape, slowest)
    }

    /// By row and reason.
    pub(super) fn rows(&self, standing: &Standing) -> Vec<[f32; REASONS]> {
        let (tape, longer) = self.by_row(standing);
        tape.value(longer).each_row().map(|row| core::array::from_fn(|reason| row[reason])).collect()
    }
}

/// The speed of a job whose iterations take so much longer, reason by reason.
pub(super) fn speed(longer: &[f32]) -> u32 {
    let times = 1.0 + f64::from(longer.iter().sum::<f32>().max(0.0));
    ((PPM as f64 / times) as u64).clamp(1, PPM) as u32
}

impl Speeds for SpeedModel {
    fn speeds(&self, servers: usize, jobs: &[(&Job, &Stand)]) -> Vec<u32> {
        let (tape, longer) = self.longer(&Standing::new(servers, jobs));
        tape.value(longer).each_row().map(speed).collect()
    }
}
