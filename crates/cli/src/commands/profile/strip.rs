//! One iteration as a strip of characters: time to the right, rate upwards.

use circle::Phase as Level;
use units::{Nanos, Rate};

/// Columns of the strip, so that it fits a terminal of 80 with its axis.
const COLUMNS: u64 = 64;
/// Rows of the strip.
const ROWS: u64 = 6;

/// Draws levels over one period. A column shows the mean rate of its span; a span that is Up
/// for a moment only shows a dot on the lowest row rather than nothing.
pub(super) fn draw(levels: &[Level], period: Nanos) -> String {
    let means: Vec<f64> = (0..COLUMNS).map(|c| mean(levels, edge(period, c), edge(period, c + 1))).collect();
    let top = levels.iter().map(|l| l.rate).max().unwrap_or(Rate::ZERO);
    let label = top.to_string();
    let width = label.len().max(3);
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let mark = if row + 1 == ROWS { label.as_str() } else { "" };
        let line: String = means.iter().map(|&m| ink(m, top, row)).collect();
        text.push_str(format!("{mark:>width$} |{line}").trim_end());
        text.push('\n');
    }
    let (left, right) = ("0", period.to_string());
    text.push_str(&format!("{:>width$} +{}\n", "0", "-".repeat(COLUMNS as usize)));
    text.push_str(&format!("{:>width$}  {left}{right:>rest$}\n", "", rest = COLUMNS as usize - left.len()));
    text
}

fn edge(period: Nanos, column: u64) -> u64 {
    // The product of period and column may pass 64 bits; the quotient is at most the period.
    u64::try_from(u128::from(period.0) * u128::from(column) / u128::from(COLUMNS)).unwrap_or(u64::MAX)
}

fn mean(levels: &[Level], from: u64, to: u64) -> f64 {
    // The saturating difference is 0 for a level that lies outside the column.
    let overlap = |l: &Level| l.end.0.min(to).saturating_sub(l.start.0.max(from)) as f64 * l.rate.0 as f64;
    levels.iter().map(overlap).sum::<f64>() / to.saturating_sub(from).max(1) as f64
}

fn ink(mean: f64, top: Rate, row: u64) -> char {
    // A row is inked from its middle up.
    let full = top.0 as f64 * (row as f64 + 0.5) / ROWS as f64;
    match mean {
        m if m > 0.0 && m >= full => '#',
        m if m > 0.0 && row == 0 => '.',
        _ => ' ',
    }
}

#[cfg(test)]
mod tests {
    use units::Ticks;

    use super::*;

    #[test]
    fn a_half_period_at_two_heights() {
        let level = |start, end, rate| Level { start: Ticks(start), end: Ticks(end), rate: Rate(rate) };
        let text = draw(&[level(320, 480, 6_000), level(480, 640, 2_000)], Nanos(640));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 8);
        // Columns 32-47 reach the top, 48-63 a third: rows 0 and 1 of 6.
        assert_eq!(lines[0], format!("6 Gb/s |{}{}", " ".repeat(32), "#".repeat(16)));
        assert_eq!(lines[4], format!("       |{}{}", " ".repeat(32), "#".repeat(32)));
        assert_eq!(lines[3], format!("       |{}{}", " ".repeat(32), "#".repeat(16)));
        assert!(lines[7].ends_with("640 ns"));
    }

    #[test]
    fn a_short_burst_leaves_a_dot_and_silence_leaves_nothing() {
        let burst = Level { start: Ticks(0), end: Ticks(1), rate: Rate(1_000) };
        let text = draw(&[burst], Nanos(64_000));
        let lowest = |text: &str| text.lines().nth(5).map(str::to_owned).unwrap();
        assert_eq!(lowest(&text), "       |.");
        assert_eq!(lowest(&draw(&[], Nanos(64))), "       |");
    }
}
