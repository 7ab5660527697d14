//! Times, rates, scores and shares as people read them.

use alloc::{
    borrow::ToOwned as _,
    format,
    string::{String, ToString as _},
};

/// A score this close to 1 is 1: sums of a few thousand floats.
const SCORE_EPSILON: f64 = 1e-9;

/// A number with at most `decimals` decimals and no trailing zeros; a true minus sign.
pub(crate) fn trimmed(value: f64, decimals: usize) -> String {
    let mut out = format!("{:.decimals$}", value.abs());
    if out.contains('.') {
        out.truncate(out.trim_end_matches('0').trim_end_matches('.').len());
    }
    // A negative number that rounds to nothing has no sign.
    if value < 0.0 && out != "0" { format!("−{out}") } else { out }
}

/// A number of no unit, with as many decimals as its size needs.
pub(crate) fn plain(value: f64) -> String {
    let decimals = match value {
        v if v >= 40.0 => 0,
        v if v >= 4.0 => 1,
        v if v >= 0.4 => 2,
        _ => 3,
    };
    trimmed(value, decimals)
}

/// The unit in which times of this size are told: its name and its length in ns.
pub(crate) fn time_unit(ns: u64) -> (&'static str, f64) {
    match ns {
        0 => ("ms", 1e6),
        1..1_000 => ("ns", 1.0),
        1_000..1_000_000 => ("µs", 1e3),
        1_000_000..10_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

/// A time in units of `unit_ns`, without the unit.
pub(crate) fn time_in(ns: u64, unit_ns: f64) -> String {
    let value = ns as f64 / unit_ns;
    trimmed(value, if value >= 100.0 { 1 } else { 3 })
}

/// A time: `255 ms`, `40 µs`, `12.5 s`.
pub(crate) fn time(ns: u64) -> String {
    let (unit, unit_ns) = time_unit(ns);
    format!("{} {unit}", time_in(ns, unit_ns))
}

/// A slack: `±9 ms`; `any` where it is half a turn either way, which is the whole circle.
pub(crate) fn slack(ns: u64, period_ns: u64) -> String {
    if period_ns > 0 && ns >= period_ns / 2 { "any".to_owned() } else { format!("±{}", time(ns)) }
}

/// A rate: `50 Gb/s`, `800 Mb/s`.
pub(crate) fn rate(mbps: f64) -> String {
    match mbps {
        m if m >= 1e6 => format!("{} Tb/s", trimmed(m / 1e6, 2)),
        m if m >= 1e3 => format!("{} Gb/s", trimmed(m / 1e3, 2)),
        m => format!("{} Mb/s", trimmed(m, 1)),
    }
}

/// A score with three decimals. Rounded down, so that `1.000` means never over capacity.
pub(crate) fn score(score: f64) -> String {
    if !score.is_finite() {
        return "n/a".to_owned();
    }
    // The epsilon undoes the rounding error of a sum that should be 1, and is far below what three decimals show.
    let thousandths = libm::floor((score + SCORE_EPSILON) * 1_000.0);
    let sign = if thousandths < 0.0 { "−" } else { "" };
    format!("{sign}{:.3}", thousandths.abs() / 1_000.0)
}

/// How far from the best something can be at most: four decimals, rounded up, so that it is never nearer than it says.
#[must_use]
pub fn at_most(gap: f64) -> String {
    let gap = gap.max(0.0);
    if gap < 0.000_1 { "less than 0.0001".to_owned() } else { format!("at most {:.4}", libm::ceil(gap * 1e4 - 1e-9) / 1e4) }
}

/// Whether a score says "never over capacity".
pub(crate) fn is_compatible(score: f64) -> bool {
    score >= 1.0 - SCORE_EPSILON
}

/// A share as a percentage. What is small but not nothing never reads as `0 %`.
pub(crate) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.001 {
        return "< 0.1 %".to_owned();
    }
    let percent = share * 100.0;
    format!("{} %", trimmed(percent, if percent.abs() >= 10.0 { 0 } else { 1 }))
}

/// A change from `before` to `after` as a signed percentage; `±0 %` when equal.
pub(crate) fn change(before: u64, after: u64) -> String {
    if before == 0 {
        return "n/a".to_owned();
    }
    let share = (after as f64 - before as f64) / before as f64;
    match share {
        s if s.abs() < 0.000_5 => "±0 %".to_owned(),
        // The floor keeps a small rise from reading `+< 0.1 %`.
        s if s > 0.0 => format!("+{}", percent(s.max(0.001))),
        s => percent(s),
    }
}

/// A time as a multiple of another, for example `1.088×`; nothing when there is none.
pub(crate) fn times(ratio: Option<f64>) -> String {
    ratio.filter(|r| r.is_finite()).map(|r| format!("{r:.3}×")).unwrap_or_default()
}

/// A count with thin spaces between thousands, as in the SI brochure.
pub(crate) fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        // The separator does not break at the end of a line.
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// `1 job`, `2 jobs`.
pub(crate) fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_people_write_them() {
        assert_eq!([plain(720.3), plain(7.04), plain(0.5), plain(0.0404)], ["720", "7", "0.5", "0.04"]);
        assert_eq!(time(255_000_000), "255 ms");
        assert_eq!(time(1_250_000), "1.25 ms");
        assert_eq!(time(40_000), "40 µs");
        assert_eq!(time(12_500_000_000), "12.5 s");
        assert_eq!(time(0), "0 ms");
        assert_eq!(rate(50_000.0), "50 Gb/s");
        assert_eq!(rate(800.0), "800 Mb/s");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(counted(1, "job", "jobs"), "1 job");
    }

    #[test]
    fn a_score_is_never_rounded_up_to_one() {
        assert_eq!(score(0.999_96), "0.999");
        assert_eq!(score(1.0 - 1e-12), "1.000");
        assert_eq!(score(-0.25), "−0.250");
        assert_eq!(score(f64::NAN), "n/a");
    }

    #[test]
    fn a_gap_is_never_rounded_down() {
        assert_eq!([at_most(0.012_31), at_most(0.012_3), at_most(0.000_11)], ["at most 0.0124", "at most 0.0123", "at most 0.0002"]);
        assert_eq!([at_most(0.000_04), at_most(0.0), at_most(-1.0)], ["less than 0.0001"; 3]);
    }

    #[test]
    fn a_change_carries_its_sign() {
        assert_eq!(change(200, 150), "−25 %");
        assert_eq!(change(200, 205), "+2.5 %");
        assert_eq!(change(200, 200), "±0 %");
        assert_eq!(change(0, 5), "n/a");
        assert_eq!(change(100_000, 100_060), "+0.1 %");
        assert_eq!((times(Some(1.0884)).as_str(), times(None).as_str()), ("1.088×", ""));
        assert_eq!((percent(0.000_1).as_str(), percent(0.0).as_str()), ("< 0.1 %", "0 %"));
    }
}
