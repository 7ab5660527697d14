//! Dates with times, as logs have them.

/// What a time must look like.
pub(super) const EXPECTED: &str = "a time like 2017-10-07 01:11:39, from 1970 on";

/// Days before each month of a year that is no leap year.
const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Seconds from the beginning of 1970 to a time, all days being equally long.
///
/// Year, month and day are joined by `-` or `/`, hours, minutes and seconds by `:`; the seconds may be missing, and digits of a fraction are
/// left out. The zone is not asked for: a log is in one zone, and only differences count.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let separator = if date.contains('/') { '/' } else { '-' };
    let [year, month, day] = parts(date, separator)?;
    let time = time.split_once('.').map_or(time, |(time, _)| time);
    let [hour, minute, second] = parts(time, ':').or_else(|| parts(time, ':').map(|[hour, minute]| [hour, minute, 0]))?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_before = DAYS_BEFORE.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    let next = DAYS_BEFORE.get(usize::try_from(month).ok()?).copied().unwrap_or(365);
    let days_in = next - days_before + i64::from(leap && month == 2);
    if !(1970..=9999).contains(&year) || !(1..=days_in).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Each fourth year is a leap year but for those of full centuries, of which each fourth is.
    let before = |year: i64| year * 365 + year / 4 - year / 100 + year / 400;
    let days = before(year - 1) - before(1969) + days_before + i64::from(leap && month > 2) + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Exactly so many whole numbers of at most four digits.
fn parts<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(separator);
    for place in &mut found {
        let digits = parts.next().filter(|part| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))?;
        *place = digits.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_a_calendar() {
        assert_eq!(seconds("1970-01-01 00:00:00"), Some(0));
        // `date -u -d '2017-10-07 01:11:39' +%s`, and of the others.
        assert_eq!(seconds("2017-10-07 01:11:39"), Some(1_507_338_699));
        assert_eq!(seconds("2020-02-29T23:59:59.5"), Some(1_583_020_799));
        assert_eq!(seconds("2000-03-01 00:00:00"), Some(951_868_800));
        assert_eq!(seconds("2023/8/7 9:05"), Some(1_691_399_100));
        assert_eq!(seconds("2100-12-31 00:00:00"), Some(4_133_894_400));
    }

    #[test]
    fn what_is_no_time_is_none() {
        let bad = ["", "2017-10-07", "2017-13-07 01:11:39", "2017-00-07 01:11:39", "2017-02-29 01:11:39", "1969-12-31 00:00:00"];
        let worse =
            ["2017-10-07 24:00:00", "2017-10-07 01", "2017-10 01:11:39", "2017-10-07 01:11:39:00", "2017-10-+7 01:11:39", "99999-1-1 0:0"];
        for text in bad.into_iter().chain(worse) {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }
}
