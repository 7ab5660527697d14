//! The cases that come with the program, so that `antiphase lab run two-equal` needs no file.

/// Name and text of each, as in `examples/lab`.
pub const BUILTIN: [(&str, &str); 12] = [
    ("two-equal", include_str!("../../../../examples/lab/two-equal.yaml")),
    ("one-to-two", include_str!("../../../../examples/lab/one-to-two.yaml")),
    ("three-on-two-links", include_str!("../../../../examples/lab/three-on-two-links.yaml")),
    ("three-in-a-loop", include_str!("../../../../examples/lab/three-in-a-loop.yaml")),
    ("low-score", include_str!("../../../../examples/lab/low-score.yaml")),
    ("near-equal", include_str!("../../../../examples/lab/near-equal.yaml")),
    ("more-jitter", include_str!("../../../../examples/lab/more-jitter.yaml")),
    ("five-on-a-link", include_str!("../../../../examples/lab/five-on-a-link.yaml")),
    ("chain-of-four", include_str!("../../../../examples/lab/chain-of-four.yaml")),
    ("two-phases", include_str!("../../../../examples/lab/two-phases.yaml")),
    ("three-phases", include_str!("../../../../examples/lab/three-phases.yaml")),
    ("slow-nics", include_str!("../../../../examples/lab/slow-nics.yaml")),
];

/// The text of the case of that name.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
