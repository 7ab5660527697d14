//! ECN marks of one link: a virtual queue with a ramp.
//!
//! While a link is full and its jobs demand more, the queue grows by the difference, up to its peak: that far it gets before
//! the senders' control answers. Then the control holds it at a shorter length, for as long as the link stays full; while it
//! is not full, the queue drains with what is left. Packets that leave at queue length q are marked with a probability that
//! rises linearly from 0 at Kmin to Pmax at Kmax (RED's ramp, as DCQCN uses it). A lone job whose NICs cannot exceed the
//! link never makes a queue, hence no mark.
//!
//! The model counts marks and slows no job down, because the shares are already those of a control that converged. How a
//! control gets there (DCQCN's timers, TCP's windows) is not modelled but by those two lengths, nor are drops.

use units::{Bytes, Nanos, Rate};

/// A length of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// In bytes, as switches are configured.
    Bytes(Bytes),
    /// As the link's traffic of that time, so that links of different rates mark alike.
    Time(Nanos),
}

impl Depth {
    /// In thousandths of a bit. 1 Mbit/s sends one of them in 1 ns, so this is exact.
    fn millibits(self, capacity: Rate) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.0.saturating_mul(MILLIBITS_PER_BYTE),
            Self::Time(time) => time.0.saturating_mul(capacity.0),
        }
    }
}

/// The marking ramp. Where the defaults come from: docs/calibration.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnModel {
    /// Below this queue nothing is marked.
    pub kmin: Depth,
    /// At this queue packets are marked with [`EcnModel::pmax_permille`]. Above `kmin`.
    pub kmax: Depth,
    /// Probability at `kmax`, in thousandths.
    pub pmax_permille: u32,
    /// How long the queue gets each time that a link begins to be full, before the senders' control answers; at most `kmax`.
    pub peaks: Depth,
    /// Where the control then holds it; at most `peaks`.
    pub settles: Depth,
    /// Size of a packet; not zero.
    pub packet: Bytes,
}

impl EcnModel {
    /// The testbed of DCQCN: Kmin 5 kB, Kmax 200 kB, Pmax 1 %, on links of 40 Gbit/s (Zhu and others, "Congestion Control for
    /// Large-Scale RDMA Deployments", SIGCOMM 2015, section 5.3). Others take these numbers for the defaults of DCQCN. The queue is
    /// taken to settle at Kmax, so marks are an upper bound. Packets carry 1 KiB.
    ///
    /// Faster links have other thresholds: simulators that descend from that of HPCC (SIGCOMM 2019) take 100 and 400 kB at
    /// 25 Gbit/s, 400 and 1,600 kB at 100 Gbit/s, and a Pmax of 20 %.
    pub const DCQCN: Self = Self {
        kmin: Depth::Bytes(Bytes(5_000)),
        kmax: Depth::Bytes(Bytes(200_000)),
        pmax_permille: 10,
        peaks: Depth::Bytes(Bytes(200_000)),
        settles: Depth::Bytes(Bytes(200_000)),
        packet: Bytes(1_090),
    };
    /// The lab: TCP with ECN on slow links, marked from 5 ms of backlog on and always from 20 ms on. The two lengths are fitted to
    /// what its kernel marks in the five cases of `examples/lab` (docs/calibration.md): about 8 marks each time that two jobs
    /// begin to contend, and then 0.42 % of the packets.
    pub const LAB: Self = Self {
        kmin: Depth::Time(Nanos(5_000_000)),
        kmax: Depth::Time(Nanos(20_000_000)),
        pmax_permille: 1_000,
        peaks: Depth::Time(Nanos(9_800_000)),
        settles: Depth::Time(Nanos(5_063_000)),
        packet: Bytes(1_500),
    };
}

/// 1 Mbit/s for 1 ns is a thousandth of a bit: queues are counted in that, so that everything stays whole.
const MILLIBITS_PER_BYTE: u64 = 8_000;

/// Queue of one link, in its present state since `since`.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    capacity: u64,
    kmin: u64,
    kmax: u64,
    peaks: u64,
    settles: u64,
    /// The senders' control has answered since the link became full.
    answered: bool,
    length: u64,
    since: u64,
    /// Growth in millibits per ns; negative drains.
    slope: i128,
    /// Integral over time of the queue above Kmin, in millibits x ns.
    area: u128,
}

impl Queue {
    pub(crate) fn new(model: &EcnModel, capacity: Rate) -> Self {
        let kmin = model.kmin.millibits(capacity);
        // The clamps keep settles <= peaks <= Kmax, on which `marks` relies: a queue never leaves the linear part of the ramp.
        let kmax = model.kmax.millibits(capacity).max(kmin);
        let peaks = model.peaks.millibits(capacity).min(kmax);
        let settles = model.settles.millibits(capacity).min(peaks);
        Self { capacity: capacity.0, kmin, kmax, peaks, settles, answered: false, length: 0, since: 0, slope: 0, area: 0 }
    }

    /// Brings the queue to `now`, and says how it goes on: what is offered to the link in Mbit/s, and whether the link is
    /// full with it.
    pub(crate) fn update(&mut self, now: u64, offered: u64, full: bool) {
        self.advance(now);
        // A full link never drains and a link with room never grows, whatever the rounding of speeds makes of the difference.
        let difference = i128::from(offered) - i128::from(self.capacity);
        self.slope = if full { difference.max(0) } else { difference.min(0) };
        // The queue peaks again only after the link had room: a job that joins a full link meets a control that has converged.
        self.answered &= full;
    }

    pub(crate) fn advance(&mut self, now: u64) {
        let time = u128::from(now.saturating_sub(self.since));
        self.since = now;
        let (before, speed) = (self.length, self.slope.unsigned_abs());
        if speed == 0 || (self.slope > 0 && self.answered) {
            // A queue stands still when nothing changes it, or once the senders' control holds it at `settles`.
            self.area += self.above(before) * time;
            return;
        }
        // Saturation is safe, because the length is clamped to the peak or to 0 in the next line.
        let change = u64::try_from(speed.saturating_mul(time)).unwrap_or(u64::MAX);
        self.length = if self.slope > 0 { before.saturating_add(change).min(self.peaks) } else { before.saturating_sub(change) };
        // The triangle between the two lengths, above Kmin.
        self.area += self.above(before).pow(2).abs_diff(self.above(self.length).pow(2)) / (2 * speed);
        if self.slope > 0 && self.length == self.peaks {
            // From the peak to where it is held is within a round trip: no time in this model.
            (self.length, self.answered) = (self.settles, true);
            // The rest of the span, after the peak was reached, is spent at the settled length.
            self.area += self.above(self.settles) * time.saturating_sub(u128::from(self.peaks.saturating_sub(before)) / speed);
        }
    }

    /// How far a length is above Kmin.
    fn above(&self, length: u64) -> u128 {
        u128::from(length.saturating_sub(self.kmin))
    }

    /// All that decides how the queue goes on, relative to `now`.
    pub(crate) fn state(&self, now: u64) -> [u64; 5] {
        let slope = self.slope as u128;
        [self.length, now - self.since, slope as u64, (slope >> 64) as u64, u64::from(self.answered)]
    }

    pub(crate) fn area(&self) -> u128 {
        self.area
    }

    /// Time goes on by `cycles` times `length`, each of which adds what was added since the area was `before`.
    pub(crate) fn skip(&mut self, cycles: u64, length: u64, before: u128) {
        self.since += cycles * length;
        self.area += u128::from(cycles) * (self.area - before);
    }

    /// Marks so far, on average: packets that left, each with its probability.
    pub(crate) fn marks(&self, model: &EcnModel) -> f64 {
        // A link with a queue sends at its capacity, and the area is only above 0 while there is a queue.
        let packets_per_ns = self.capacity as f64 / (model.packet.0.max(1) as f64 * MILLIBITS_PER_BYTE as f64);
        // The ramp is linear, so the mean probability is the area above Kmin divided by the ramp's width, times Pmax.
        let range = (self.kmax - self.kmin).max(1) as f64;
        self.area as f64 / range * packets_per_ns * f64::from(model.pmax_permille) / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settles at Kmax, where 10 % are marked.
    const RAMP: EcnModel = EcnModel {
        kmin: Depth::Bytes(Bytes(30_000)),
        kmax: Depth::Bytes(Bytes(90_000)),
        peaks: Depth::Bytes(Bytes(90_000)),
        settles: Depth::Bytes(Bytes(90_000)),
        pmax_permille: 100,
        packet: Bytes(1_500),
    };

    #[test]
    fn a_full_queue_marks_pmax_of_the_packets() {
        // 200 Mbit/s offered to 100: 60 kB from Kmin to Kmax take 4.8 ms, after 2.4 ms to Kmin.
        let mut queue = Queue::new(&RAMP, Rate(100));
        queue.update(0, 200, true);
        queue.advance(2_400_000);
        assert_eq!(queue.marks(&RAMP), 0.0, "below Kmin");
        queue.advance(7_200_000);
        // The ramp's mean is 5 % of 100 Mbit/s * 4.8 ms / 12,000 bits = 40 packets.
        assert!((queue.marks(&RAMP) - 2.0).abs() < 1e-9, "{}", queue.marks(&RAMP));
        queue.advance(127_200_000);
        // Then 120 ms at Kmax: 10 % of 1,000 packets.
        assert!((queue.marks(&RAMP) - 102.0).abs() < 1e-9, "{}", queue.marks(&RAMP));
        // Nobody offers anything: the queue drains at 100 Mbit/s through the ramp, another 2 packets, then nothing.
        queue.update(127_200_000, 0, false);
        queue.advance(10_000_000_000);
        assert!((queue.marks(&RAMP) - 104.0).abs() < 1e-9, "{}", queue.marks(&RAMP));
    }

    /// 200 Mbit/s offered to 100: a queue of 60 kB after 4.8 ms, of which 2.4 ms were above Kmin and marked 2.5 % of 20 packets
    /// on the mean. Then it is held at 36 kB, where 1 % are marked.
    #[test]
    fn a_queue_peaks_once_and_is_held_while_the_link_is_full() {
        let model = EcnModel { peaks: Depth::Bytes(Bytes(60_000)), settles: Depth::Bytes(Bytes(36_000)), ..RAMP };
        let mut queue = Queue::new(&model, Rate(100));
        queue.update(0, 200, true);
        queue.advance(4_800_000);
        assert!((queue.marks(&model) - 0.5).abs() < 1e-9, "{}", queue.marks(&model));
        // 120 ms are 1,000 packets.
        queue.advance(124_800_000);
        assert!((queue.marks(&model) - 10.5).abs() < 1e-9, "{}", queue.marks(&model));
        // Another job joins while the link is full: no new peak.
        queue.update(124_800_000, 300, true);
        queue.advance(244_800_000);
        assert!((queue.marks(&model) - 20.5).abs() < 1e-9, "{}", queue.marks(&model));
        // It drains in no time, through 0.5 % of 4 packets; when the link fills up again there is another peak.
        queue.update(244_800_000, 0, false);
        queue.update(1_000_000_000, 200, true);
        queue.advance(1_004_800_000);
        assert!((queue.marks(&model) - 21.02).abs() < 1e-9, "{}", queue.marks(&model));
    }

    #[test]
    fn a_queue_that_settles_on_the_ramp_marks_that_part() {
        let mut queue = Queue::new(&EcnModel::LAB, Rate(200));
        queue.update(0, 400, true);
        queue.advance(60_000_000_000);
        // 60 s of 200 Mbit/s are a million packets; 0.063 of the 15 ms between Kmin and Kmax are 0.42 %.
        assert!((queue.marks(&EcnModel::LAB) / 4_200.0 - 1.0).abs() < 1e-2, "{}", queue.marks(&EcnModel::LAB));
    }

    #[test]
    fn splitting_time_changes_nothing() {
        let model = EcnModel { peaks: Depth::Bytes(Bytes(70_000)), settles: Depth::Bytes(Bytes(50_000)), ..RAMP };
        let run = |cuts: &[u64]| {
            let mut queue = Queue::new(&model, Rate(100));
            queue.update(0, 130, true);
            cuts.iter().for_each(|&c| queue.advance(c));
            queue.update(30_000_000, 40, false);
            cuts.iter().for_each(|&c| queue.advance(30_000_000 + c));
            queue.advance(100_000_000);
            queue.marks(&model)
        };
        let whole = run(&[]);
        assert!(whole > 1.0 && (run(&[1_000, 9_999_999, 10_000_000, 29_999_999]) - whole).abs() < 1e-6 * whole);
    }

    #[test]
    fn what_the_link_carries_makes_no_queue() {
        let mut queue = Queue::new(&EcnModel::DCQCN, Rate(50_000));
        // A lone NIC at the link's rate: full, but nothing is left over.
        queue.update(0, 50_000, true);
        queue.advance(1_000_000_000);
        assert_eq!(queue.marks(&EcnModel::DCQCN), 0.0);
    }
}
