//! Max-min fair shares of one link.

use alloc::vec::Vec;

/// What a job may get of a link: at most `rest / jobs` Mbit/s. `jobs` is 0 when everybody is satisfied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) rest: u64,
    pub(super) jobs: u64,
}

/// Water-filling: the smallest demands are satisfied first as long as they ask for no more than an equal share of what
/// is left; the others share the rest equally. `sorted` is working memory.
pub(super) fn level(capacity: u64, demands: impl Iterator<Item = u64> + Clone, sorted: &mut Vec<u64>) -> Level {
    if demands.clone().fold(0u64, u64::saturating_add) <= capacity {
        return Level::default();
    }
    sorted.clear();
    sorted.extend(demands);
    sorted.sort_unstable();
    let mut level = Level { rest: capacity, jobs: sorted.len() as u64 };
    for &demand in sorted.iter() {
        if demand.saturating_mul(level.jobs) > level.rest {
            break;
        }
        level.rest -= demand;
        level.jobs -= 1;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(capacity: u64, demands: &[u64]) -> Level {
        level(capacity, demands.iter().copied(), &mut Vec::new())
    }

    #[test]
    fn the_modest_are_satisfied_and_the_rest_share_equally() {
        assert_eq!(of(50, &[20, 30]), Level::default(), "50 of 50 fit");
        assert_eq!(of(50, &[30, 30]), Level { rest: 50, jobs: 2 });
        // 10 <= 60/3 is satisfied; 25 <= 50/2 too; 60 gets the remaining 25.
        assert_eq!(of(60, &[60, 10, 25]), Level { rest: 25, jobs: 1 });
        // Now 26 > 50/2: it shares with 60.
        assert_eq!(of(60, &[60, 10, 26]), Level { rest: 50, jobs: 2 });
        assert_eq!(of(5, &[10]), Level { rest: 5, jobs: 1 });
    }
}
