//! Capacities that a person asserts, per pair of tiers: `host-leaf=50G`, `leaf-spine=400G*4`.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use units::Rate;

use super::place::quoted;
use crate::{NodeKind, capacity};

/// Highest capacity of one cable taken, in Mbit/s: 100 Tb/s, sixty times the fastest Ethernet port
/// on sale. Above it a number is a mistake of unit (Kb/s or bytes).
pub const CAPACITY_MBPS_MAX: u64 = 100_000_000;

/// Most parallel cables between two nodes that an assumption may state: the ports of the largest
/// switch chip sold so far (512).
pub const PARALLEL_MAX: u32 = 512;

/// The layer of a node: hosts, or switches of one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Hosts; written `host`.
    Host,
    /// Switches of a tier from 1; written `leaf` (1), `spine` (2), `core` (3) or `tierN`.
    Tier(u8),
}

impl Layer {
    /// The layer of a node of that kind; `None` for a switch of unknown tier.
    #[must_use]
    pub fn of(kind: NodeKind) -> Option<Self> {
        match kind {
            NodeKind::Host => Some(Self::Host),
            NodeKind::Switch { tier: 0 } => None,
            NodeKind::Switch { tier } => Some(Self::Tier(tier)),
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Tier(1) => f.write_str("leaf"),
            Self::Tier(2) => f.write_str("spine"),
            Self::Tier(3) => f.write_str("core"),
            Self::Tier(n) => write!(f, "tier{n}"),
        }
    }
}

impl FromStr for Layer {
    type Err = AssumptionError;

    fn from_str(text: &str) -> Result<Self, AssumptionError> {
        // Tier 0 marks a tier that is not known, so nobody may state it.
        let numbered = || text.strip_prefix("tier").and_then(|n| n.parse::<u8>().ok()).filter(|&n| n > 0);
        match text {
            "host" => Ok(Self::Host),
            "leaf" => Ok(Self::Tier(1)),
            "spine" => Ok(Self::Tier(2)),
            "core" => Ok(Self::Tier(3)),
            _ => numbered()
                .map(Self::Tier)
                .ok_or_else(|| AssumptionError(format!("{} is not host, leaf, spine, core or tierN", quoted(text)))),
        }
    }
}

/// Why an assumption could not be read; one line with the offending value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AssumptionError(String);

/// The capacity of every cable between two layers, where no document states one, and how many
/// cables run in parallel where no document names ports.
///
/// ```
/// use antiphase_fabric::import::Assumption;
/// let assumption: Assumption = "leaf-spine=400G*4".parse().unwrap();
/// assert_eq!((assumption.capacity.mbps(), assumption.parallel), (400_000, 4));
/// assert!("leaf-spine=400GB".parse::<Assumption>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// The two layers, the lower first.
    pub layers: [Layer; 2],
    /// Capacity of one cable in each direction.
    pub capacity: Rate,
    /// Cables in parallel.
    pub parallel: u32,
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}={}", self.layers[0], self.layers[1], self.capacity)?;
        if self.parallel > 1 { write!(f, " * {}", self.parallel) } else { Ok(()) }
    }
}

impl FromStr for Assumption {
    type Err = AssumptionError;

    fn from_str(text: &str) -> Result<Self, AssumptionError> {
        let shape = || AssumptionError(format!("{} is not TIER-TIER=RATE or TIER-TIER=RATE*CABLES", quoted(text)));
        let (pair, value) = text.split_once('=').ok_or_else(shape)?;
        let (a, b) = pair.split_once('-').ok_or_else(shape)?;
        // `spine-leaf` means the same as `leaf-spine`: the lower layer comes first, hosts below all tiers.
        let mut layers: [Layer; 2] = [a.trim().parse()?, b.trim().parse()?];
        layers.sort();
        if layers == [Layer::Host; 2] {
            return Err(AssumptionError(format!("{}: no link joins two hosts", quoted(text))));
        }
        let (rate, cables) = value.split_once('*').map_or((value, None), |(rate, cables)| (rate, Some(cables)));
        // A missing number means one cable; 0 or a number above PARALLEL_MAX is a mistake.
        let parallel = match cables {
            None => 1,
            Some(cables) => cables
                .trim()
                .parse::<u32>()
                .ok()
                .filter(|n| (1..=PARALLEL_MAX).contains(n))
                .ok_or_else(|| AssumptionError(format!("{} is not a number of cables from 1 to {PARALLEL_MAX}", quoted(cables))))?,
        };
        Ok(Self { layers, capacity: capacity(rate.trim())?, parallel })
    }
}

/// A capacity that a cable can have.
fn capacity(text: &str) -> Result<Rate, AssumptionError> {
    let rate = capacity::parse(text).map_err(|e| AssumptionError(e.to_string()))?;
    // `capacity::parse` takes any u64; a cable has a narrower limit.
    if rate.mbps() > CAPACITY_MBPS_MAX {
        return Err(AssumptionError(format!("capacity {}: over the limit of {}T", quoted(text), CAPACITY_MBPS_MAX / 1_000_000)));
    }
    Ok(rate)
}

/// The assumption about two layers, if there is one; the last of several holds.
pub(crate) fn about(assumptions: &[Assumption], a: NodeKind, b: NodeKind) -> Option<usize> {
    // A switch of unknown tier is in no layer, so no assumption holds for its cables.
    let mut layers = [Layer::of(a)?, Layer::of(b)?];
    layers.sort();
    assumptions.iter().rposition(|assumption| assumption.layers == layers)
}

/// Reads several assumptions.
///
/// # Errors
/// [`AssumptionError`] of the first that cannot be read.
pub fn assumptions<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Assumption>, AssumptionError> {
    texts.into_iter().map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tiers_rates_and_cables() {
        let read = |text: &str| text.parse::<Assumption>().unwrap();
        assert_eq!(read("host-leaf=50G"), Assumption { layers: [Layer::Host, Layer::Tier(1)], capacity: Rate(50_000), parallel: 1 });
        assert_eq!(
            read("spine-leaf=400G * 4"),
            Assumption { layers: [Layer::Tier(1), Layer::Tier(2)], capacity: Rate(400_000), parallel: 4 }
        );
        assert_eq!(read("tier4-core=1T").layers, [Layer::Tier(3), Layer::Tier(4)]);
        assert_eq!(read("leaf-spine=400G*4").to_string(), "leaf-spine=400 Gb/s * 4");
    }

    #[test]
    fn refuses_in_one_line() {
        for (text, problem) in [
            ("50G", r#""50G" is not TIER-TIER=RATE or TIER-TIER=RATE*CABLES"#),
            ("host-top=50G", r#""top" is not host, leaf, spine, core or tierN"#),
            ("host-tier0=50G", r#""tier0" is not host, leaf, spine, core or tierN"#),
            ("host-host=50G", r#""host-host=50G": no link joins two hosts"#),
            ("host-leaf=50", r#"capacity "50": expected a number with the unit M, G or T, for example 400G"#),
            ("host-leaf=-5G", r#"capacity "-5G": expected a number with the unit M, G or T, for example 400G"#),
            ("host-leaf=\u{e9}", "capacity \"\u{e9}\": expected a number with the unit M, G or T, for example 400G"),
            ("host-leaf=0G", r#"capacity "0G": a link that carries nothing; leave it out"#),
            ("host-leaf=99999999999999999999G", r#"capacity "99999999999999999999G": too large"#),
            ("host-leaf=101T", r#"capacity "101T": over the limit of 100T"#),
            ("host-leaf=1G*0", r#""0" is not a number of cables from 1 to 512"#),
        ] {
            assert_eq!(text.parse::<Assumption>().unwrap_err().to_string(), problem);
        }
    }
}
