//! Colours: eight for jobs, one for warning, five for scores, in a light and a dark theme.
//!
//! The eight began as Okabe and Ito's and were moved until every pair, the warning included,
//! stays apart under simulated protanopia, deuteranopia and tritanopia, and every colour has a
//! contrast of 3:1 against the page (WCAG 2.1, 1.4.11); the tests below hold both. After eight
//! the colours return with stripes, then with dots. Colour never carries meaning alone: jobs
//! have letters, over-capacity is hatched, worse links are thicker.

use alloc::{
    format,
    string::{String, ToString as _},
    vec,
    vec::Vec,
};

use super::view::LinkView;

/// Plain job colours.
pub const HUES: usize = 8;
/// Plain, striped, dotted.
pub const SLOTS: usize = 3 * HUES;

/// The colours of one theme, as `#rrggbb`.
#[derive(Debug)]
pub struct Theme {
    /// Page.
    pub paper: &'static str,
    /// Raised surface: table heads, cards.
    pub card: &'static str,
    /// Text.
    pub ink: &'static str,
    /// Secondary text; still 4.5:1.
    pub muted: &'static str,
    /// Empty track of a ring or a row.
    pub track: &'static str,
    /// Hairlines.
    pub rule: &'static str,
    /// Total demand within capacity.
    pub total: &'static str,
    /// Over capacity. Nothing else has it.
    pub warning: &'static str,
    /// Links and focus.
    pub accent: &'static str,
    /// Jobs.
    pub jobs: [&'static str; HUES],
    /// Scores by [`score_class`], best first.
    pub scores: [&'static str; 5],
}

/// Dark on white.
pub const LIGHT: Theme = Theme {
    paper: "#ffffff",
    card: "#f4f6f9",
    ink: "#16202c",
    muted: "#566273",
    track: "#edf0f4",
    rule: "#d5dbe3",
    total: "#7d8896",
    warning: "#9e001d",
    accent: "#1450b8",
    jobs: ["#3d4af0", "#a06333", "#35928c", "#8154a9", "#1698ff", "#5a00a5", "#929c15", "#20555a"],
    scores: ["#0b8fe8", "#008386", "#ca8006", "#cc2408", "#7e0326"],
};

/// Light on near black.
pub const DARK: Theme = Theme {
    paper: "#12161d",
    card: "#1a2029",
    ink: "#e8edf3",
    muted: "#9eabba",
    track: "#222a35",
    rule: "#333d4a",
    total: "#8592a3",
    warning: "#ff3b2b",
    accent: "#7db4ff",
    jobs: ["#2f76cc", "#fb971d", "#47c0a3", "#ffa7ff", "#abfee0", "#9b89ff", "#ffef11", "#a66e79"],
    scores: ["#5fa8dc", "#47c0a3", "#f2b632", "#ff7a3d", "#ff3b2b"],
};

/// Lower ends of the score classes. 0.6 is where CASSINI's gain vanished (its table 2).
pub const SCORE_CLASSES: [(f64, &str); 5] =
    [(1.0 - 1e-9, "1"), (0.95, "0.95 to 1"), (0.8, "0.8 to 0.95"), (0.6, "0.6 to 0.8"), (f64::NEG_INFINITY, "below 0.6")];

/// Position in [`SCORE_CLASSES`]; what is not a number counts as worst.
pub fn score_class(score: f64) -> usize {
    // NaN fails every comparison and falls through to the worst class.
    SCORE_CLASSES.iter().position(|&(low, _)| score >= low).unwrap_or(SCORE_CLASSES.len() - 1)
}

/// Which slot each job has, the same in every picture of a report.
#[derive(Clone, Debug, Default)]
pub struct Colours(Vec<usize>);

impl Colours {
    /// Gives each job, in order, the first slot that no earlier job on one of its links has;
    /// where all are taken, its position modulo [`SLOTS`].
    pub fn assign<'a>(jobs: usize, links: impl IntoIterator<Item = &'a LinkView>) -> Self {
        let links: Vec<&LinkView> = links.into_iter().collect();
        let mut links_of = vec![Vec::new(); jobs];
        for (at, link) in links.iter().enumerate() {
            for member in &link.members {
                if let Some(list) = links_of.get_mut(member.job) {
                    list.push(at);
                }
            }
        }
        // One bit per slot: `SLOTS` is 24 and fits 32 bits.
        let mut taken = vec![0_u32; links.len()];
        let slots = links_of.iter().enumerate().map(|(job, mine)| {
            // Greedy and in order, so the first jobs of a report keep their colours when others are added behind them.
            let used = mine.iter().fold(0, |mask, &link| mask | taken[link]);
            let slot = if links.is_empty() { job % SLOTS } else { (0..SLOTS).find(|slot| used & (1 << slot) == 0).unwrap_or(job % SLOTS) };
            for &link in mine {
                taken[link] |= 1 << slot;
            }
            slot
        });
        Self(slots.collect())
    }

    /// Keeps the slots given, counted from 0, for a reader who has coloured some jobs already; each other job gets the first slot
    /// that no job has, or its position modulo [`SLOTS`] where all are taken.
    #[must_use]
    pub fn given(slots: &[Option<usize>]) -> Self {
        // All given slots are taken before the first is chosen, so a new job gets the colour of no coloured one.
        let mut taken = slots.iter().flatten().fold(0_u32, |mask, slot| mask | 1 << (slot % SLOTS));
        let choose = |(job, slot): (usize, &Option<usize>)| {
            let slot = slot.map(|slot| slot % SLOTS).or_else(|| (0..SLOTS).find(|slot| taken & (1 << slot) == 0)).unwrap_or(job % SLOTS);
            taken |= 1 << slot;
            slot
        };
        Self(slots.iter().enumerate().map(choose).collect())
    }

    /// The class that fills with the job's colour.
    pub fn class(&self, job: usize) -> String {
        format!("j{}", self.0.get(job).copied().unwrap_or(job % SLOTS) + 1)
    }
}

/// The letter of the `n`th job of a picture: A to Z, then nothing.
pub fn letter(n: usize) -> String {
    u8::try_from(n).ok().filter(|n| *n < 26).map(|n| char::from(b'A' + n).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{super::view::MemberView, *};

    /// sRGB to linear light.
    fn linear(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let c = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// WCAG 2.1 contrast ratio.
    fn contrast(a: &str, b: &str) -> f64 {
        let [a, b] = [a, b].map(|c| linear(c).iter().zip([0.2126, 0.7152, 0.0722]).map(|(x, w)| x * w).sum::<f64>());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Oklab (Ottosson 2020).
    fn oklab(c: [f64; 3]) -> [f64; 3] {
        let dot = |w: [f64; 3]| c.iter().zip(w).map(|(x, w)| x.clamp(0.0, 1.0) * w).sum::<f64>().cbrt();
        let (l, m, s) = (
            dot([0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9]),
            dot([0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6]),
            dot([0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5]),
        );
        [
            0.210_454_255_3 * l + 0.793_617_785 * m - 0.004_072_046_8 * s,
            1.977_998_495_1 * l - 2.428_592_205 * m + 0.450_593_709_9 * s,
            0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766 * s,
        ]
    }

    /// Machado, Oliveira and Fernandes 2009, severity 1, after normal sight.
    const SIGHTS: [(&str, [[f64; 3]; 3]); 4] = [
        ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ("protanopia", [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]]),
        ("deuteranopia", [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]]),
        ("tritanopia", [[1.255_528, -0.076_749, -0.178_779], [-0.078_411, 0.930_809, 0.147_602], [0.004_733, 0.691_367, 0.303_900]]),
    ];

    fn distance(a: &str, b: &str, sight: &[[f64; 3]; 3]) -> f64 {
        let see = |c: &str| {
            let c = linear(c);
            oklab(sight.map(|row| row.iter().zip(c).map(|(m, x)| m * x).sum()))
        };
        see(a).iter().zip(see(b)).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn every_pair_of_job_colours_and_the_warning_stays_apart_for_every_sight() {
        for theme in [&LIGHT, &DARK] {
            let mut all = theme.jobs.to_vec();
            all.push(theme.warning);
            for (sight, matrix) in &SIGHTS {
                for (i, a) in all.iter().enumerate() {
                    for b in &all[i + 1..] {
                        // 0.02 is about the smallest difference seen side by side; ask for four times that.
                        let d = distance(a, b, matrix);
                        assert!(d >= 0.08, "{a} and {b} are {d:.3} apart under {sight}");
                    }
                }
            }
        }
    }

    #[test]
    fn contrast_is_enough_in_both_themes() {
        for theme in [&LIGHT, &DARK] {
            for colour in theme.jobs.iter().chain(&theme.scores).chain([&theme.warning, &theme.total]) {
                let ratio = contrast(colour, theme.paper);
                assert!(ratio >= 3.0, "{colour} on {}: {ratio:.2}", theme.paper);
            }
            for (text, back) in [
                (theme.ink, theme.card),
                (theme.muted, theme.paper),
                (theme.muted, theme.card),
                (theme.accent, theme.paper),
                (theme.accent, theme.card),
            ] {
                let ratio = contrast(text, back);
                assert!(ratio >= 4.5, "{text} on {back}: {ratio:.2}");
            }
        }
    }

    #[test]
    fn jobs_that_share_a_link_have_different_slots() {
        let link = |jobs: &[usize]| LinkView {
            members: jobs.iter().map(|&job| MemberView { job, phases: Vec::new() }).collect(),
            ..LinkView::default()
        };
        // A path 0-1-2: 0 and 2 never meet, so two colours are enough. Job 9 does not exist.
        let colours = Colours::assign(3, &[link(&[0, 1]), link(&[1, 2, 9])]);
        assert_eq!([0, 1, 2].map(|j| colours.class(j)), ["j1", "j2", "j1"]);
        // Twelve on one link: all differ.
        let twelve: Vec<usize> = (0..12).collect();
        let colours = Colours::assign(12, &[link(&twelve)]);
        let mut classes: Vec<String> = twelve.iter().map(|&j| colours.class(j)).collect();
        classes.sort();
        classes.dedup();
        assert_eq!(classes.len(), 12);
    }

    #[test]
    fn slots_that_are_given_stay_and_the_others_are_free_ones() {
        let colours = Colours::given(&[None, Some(0), Some(SLOTS + 2), None]);
        assert_eq!([0, 1, 2, 3].map(|j| colours.class(j)), ["j2", "j1", "j3", "j4"]);
        assert_eq!(Colours::given(&[None; SLOTS + 1]).class(SLOTS), "j1");
    }

    #[test]
    fn score_classes_have_their_lower_ends() {
        assert_eq!([1.0, 0.9999, 0.95, 0.8, 0.6, 0.599, -3.0, f64::NAN].map(score_class), [0, 1, 1, 2, 3, 4, 4, 4]);
    }
}
