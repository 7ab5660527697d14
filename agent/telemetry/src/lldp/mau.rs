//! Rates of media by their number, `dot3MauType` (IANA-MAU-MIB), as LLDP names what was negotiated.

use units::Rate;

/// Numbers from, to, and the rate in Mbit/s. Half-duplex kinds are none of a fabric's, nor are those of passive optical
/// networks and cars. 800 Gb/s has no number there.
const RATES: [(u16, u16, u64); 22] = [
    (16, 16, 100),
    (18, 18, 100),
    (20, 20, 100),
    (22, 22, 1_000),
    (24, 24, 1_000),
    (26, 26, 1_000),
    (28, 28, 1_000),
    (30, 30, 1_000),
    (31, 36, 10_000),
    (54, 55, 10_000),
    (56, 56, 1_000),
    (57, 58, 10_000),
    (70, 74, 40_000),
    (75, 78, 100_000),
    (88, 94, 25_000),
    (95, 97, 40_000),
    (98, 102, 100_000),
    (114, 115, 25_000),
    (116, 122, 50_000),
    (123, 126, 100_000),
    (127, 134, 200_000),
    (135, 140, 400_000),
];

/// The kinds that say no more than a rate: full duplex, whatever the medium.
const KINDS: [(u64, u16); 8] =
    [(1_000, 22), (10_000, 33), (25_000, 92), (40_000, 96), (50_000, 116), (100_000, 101), (200_000, 127), (400_000, 135)];

/// The rate of a kind; `None` for a number that is not in the table.
pub(super) fn rate(kind: u16) -> Option<Rate> {
    let found = RATES.iter().find(|(from, to, _)| (*from..=*to).contains(&kind));
    found.map(|(_, _, mbps)| Rate(*mbps))
}

/// A kind of that rate.
pub(super) fn kind(rate: Rate) -> Option<u16> {
    KINDS.iter().find(|(mbps, _)| *mbps == rate.mbps()).map(|(_, kind)| *kind)
}

/// The rate in the name of a kind as lldpd writes it: `1000BaseTFD - ...`, `10GigBaseSR - ...`, `100GbaseCR4 - ...`.
pub(super) fn named(text: &str) -> Option<Rate> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text.get(..digits)?.parse().ok()?;
    let unit = text.get(digits..)?.to_ascii_lowercase();
    let factor = match () {
        () if unit.starts_with("base") => 1,
        () if unit.starts_with("gbase") || unit.starts_with("gigbase") => 1_000,
        () => return None,
    };
    // A half-duplex cable carries no RDMA, and its name ends in HD.
    let half = unit.split(' ').next().is_some_and(|name| name.ends_with("hd"));
    number.checked_mul(factor).filter(|mbps| *mbps > 0 && !half).map(Rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_rates_of_the_registry() {
        let of = |kind| rate(kind).map(Rate::mbps);
        // 10BaseT, 100BaseTXFD, 1000BaseTHD, 1000BaseTFD, 10GigBaseSR, 10GBaseT, 40GbaseCR4, 100GbaseCR10, 25GbaseCR, 40GbaseR, 100GbaseCR4.
        let kinds = [5, 16, 29, 30, 36, 54, 71, 75, 88, 96, 98];
        let expected = [None, Some(100), None, Some(1_000), Some(10_000), Some(10_000), Some(40_000), Some(100_000)];
        assert_eq!(kinds.map(of), [&expected[..], &[Some(25_000), Some(40_000), Some(100_000)]].concat()[..]);
        // 2.5GBASE-T and 25GBASE-LR, 50GBASE-R and 50GBASE-ER, 100GBASE-CR2 and 100GBASE-DR, 200GBASE-R and -ER4, 400GBASE-R and -ER8, 10BASE-T1L.
        let newer = [103, 114, 116, 122, 123, 126, 127, 134, 135, 140, 141].map(|kind| of(kind).unwrap_or(0) / 1_000);
        assert_eq!(newer, [0, 25, 50, 50, 100, 100, 200, 200, 400, 400, 0]);
        assert_eq!((of(0), of(u16::MAX)), (None, None));
        for (mbps, number) in KINDS {
            assert_eq!((kind(Rate(mbps)), of(number)), (Some(number), Some(mbps)));
        }
    }

    #[test]
    fn names_have_rates_too() {
        let of = |text| named(text).map(Rate::mbps);
        assert_eq!(of("1000BaseTFD - Four-pair Category 5 UTP, full duplex mode"), Some(1_000));
        assert_eq!(of("10GigBaseSR - X fiber over 850 nm optics"), Some(10_000));
        assert_eq!(of("100GbaseCR4 - 100GBASE-R PCS/PMA over 4 lane"), Some(100_000));
        assert_eq!(of("1000BaseTHD - four-pair Category 5 UTP, half duplex mode"), None);
        assert_eq!([of(""), of("unknown"), of("10Broad36"), of("0Base"), of("99999999999999999999Gbase"), of("40\u{e9}")], [None; 6]);
    }
}
