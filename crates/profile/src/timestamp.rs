//! RFC 3339 date-times, checked but not converted: a profile only carries them for people.

/// Whether `text` is an RFC 3339 `date-time` (section 5.6), for example
/// `2026-11-21T10:00:00.5+01:00`. A leap second (60) is taken at any minute.
pub(crate) fn is_rfc3339(text: &str) -> bool {
    let b = text.as_bytes();
    // Date and time have 19 bytes; the fraction and the zone follow. The check keeps the indices below in range.
    let Some((head, tail)) = b.split_at_checked(19) else { return false };
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    // RFC 3339, section 5.6, allows a lower-case `t`, and a space for readability.
    if separators.iter().any(|&(at, byte)| head[at] != byte) || !matches!(head[10], b'T' | b't' | b' ') {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (number(&head[..4]), number(&head[5..7]), number(&head[8..10])) else { return false };
    let (Some(hour), Some(minute), Some(second)) = (number(&head[11..13]), number(&head[14..16]), number(&head[17..])) else {
        return false;
    };
    let date = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    date && hour < 24 && minute < 60 && second <= 60 && is_zone(skip_fraction(tail))
}

fn number(digits: &[u8]) -> Option<u32> {
    // Callers pass at most four digits, so the number does not overflow.
    digits.iter().try_fold(0, |n, d| d.is_ascii_digit().then(|| n * 10 + u32::from(d - b'0')))
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The text behind an optional `.digits`. A dot without a digit stays, and no zone accepts it.
fn skip_fraction(tail: &[u8]) -> &[u8] {
    match tail.strip_prefix(b".") {
        Some(rest) if rest.first().is_some_and(u8::is_ascii_digit) => {
            let digits = rest.iter().take_while(|d| d.is_ascii_digit()).count();
            &rest[digits..]
        }
        _ => tail,
    }
}

fn is_zone(zone: &[u8]) -> bool {
    match zone {
        b"Z" | b"z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => number(&[*h1, *h2]).is_some_and(|h| h < 24) && number(&[*m1, *m2]).is_some_and(|m| m < 60),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3339_examples_pass_and_near_misses_do_not() {
        // Section 5.8 of the RFC.
        for good in [
            "1985-04-12T23:20:50.52Z",
            "1996-12-19T16:39:57-08:00",
            "1990-12-31T23:59:60Z",
            "1937-01-01T12:00:27.87+00:20",
            "2024-02-29T00:00:00z",
        ] {
            assert!(is_rfc3339(good), "{good}");
        }
        for bad in [
            "",
            "yesterday",
            "2026-11-21",
            "2026-11-21T10:00:00",
            "2023-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T10:00:00.Z",
            "2026-11-21T10:00:00+1:00",
            "2026-11-21T10:00:00Zx",
            "2026-11-2\u{e9}T10:00:00Z",
        ] {
            assert!(!is_rfc3339(bad), "{bad}");
        }
    }
}
