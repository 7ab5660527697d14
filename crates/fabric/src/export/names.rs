//! Names that a format can hold.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};

use units::NodeId;

use super::Tree;
use crate::{Fabric, FabricError, Finding};

/// Longest label value and longest part of a DNS name in Kubernetes.
pub(super) const LABEL_CHARS_MAX: usize = 63;

/// The characters that a format allows in a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Alphabet {
    /// Slurm: letters, digits, `.`, `_`, `-`.
    Slurm,
    /// Kubernetes object names (RFC 1123): lower case, digits, `.`, `-`; starts and ends with
    /// a letter or digit.
    Object,
    /// Kubernetes label values: letters, digits, `.`, `_`, `-`; at most 63 characters; starts
    /// and ends with a letter or digit.
    Label,
}

impl Alphabet {
    fn allows(self, c: char) -> bool {
        match self {
            Self::Slurm | Self::Label => c.is_ascii_alphanumeric() || ".-_".contains(c),
            Self::Object => c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c),
        }
    }

    fn fits(self, name: &str) -> bool {
        let edges = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.ends_with(|c: char| c.is_ascii_alphanumeric());
        // A DNS name, and with it a Kubernetes object name, has at most 253 characters (RFC 1123).
        let (edges, length) = match self {
            Self::Slurm => (!name.is_empty(), 253),
            Self::Object => (edges, 253),
            Self::Label => (edges, LABEL_CHARS_MAX),
        };
        edges && name.len() <= length && name.chars().all(|c| self.allows(c))
    }
}

/// Refuses hosts that the format cannot name.
pub(super) fn check_hosts(fabric: &Fabric, hosts: impl Iterator<Item = NodeId>, alphabet: Alphabet) -> Result<(), FabricError> {
    let mut names = hosts.map(|h| &fabric.node(h).name);
    match names.find(|name| !alphabet.fits(name)) {
        None => Ok(()),
        Some(name) => {
            let problem = format!("the format allows {}", describe(alphabet));
            Err(FabricError::NotExportable { what: "host", name: name.clone(), problem })
        }
    }
}

fn describe(alphabet: Alphabet) -> &'static str {
    match alphabet {
        Alphabet::Slurm => "letters, digits and . _ - in names",
        Alphabet::Object => "lower-case letters, digits and . - in names, with a letter or digit at both ends",
        Alphabet::Label => "letters, digits and . _ - in names of up to 63 characters",
    }
}

/// Renames groups that the format cannot name, and says so. Group names, unlike host names,
/// matter to nobody outside the document.
pub(super) fn rename_groups(tree: &mut Tree, alphabet: Alphabet) {
    let groups = || tree.levels.iter().flat_map(|l| &l.groups);
    // Names that fit are reserved first, so that a renamed group never takes one of them.
    let mut used: BTreeSet<String> = groups().map(|g| g.name.clone()).filter(|n| alphabet.fits(n)).collect();
    let mut renamed: Vec<Finding> = Vec::new();
    for group in tree.levels.iter_mut().flat_map(|l| &mut l.groups) {
        if alphabet.fits(&group.name) {
            continue;
        }
        let base = fit(&group.name, alphabet);
        // The numbers never end and the used names do, so the search always finds a name.
        let numbered = (2_u64..).map(|n| format!("{base}-{n}"));
        let name = core::iter::once(base.clone()).chain(numbered).find(|name| used.insert(name.clone())).unwrap_or(base);
        renamed.push(Finding { kind: "switch-renamed", message: format!("{:?} is {name} in this format", group.name) });
        group.name = name;
    }
    tree.findings.extend(renamed);
}

/// Other characters become `-`; short enough to take a number.
fn fit(name: &str, alphabet: Alphabet) -> String {
    let lower = name.to_ascii_lowercase();
    let source = if matches!(alphabet, Alphabet::Object) { lower.as_str() } else { name };
    // Kept characters are ASCII, so they count as bytes. 20 of them stay free for the number that `rename_groups` may append.
    let replaced: String = source.chars().map(|c| if alphabet.allows(c) { c } else { '-' }).take(LABEL_CHARS_MAX - 20).collect();
    // Kubernetes wants a letter or digit at both ends, so replacements there are cut off.
    let trimmed = replaced.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if trimmed.is_empty() { "switch".to_string() } else { trimmed.to_string() }
}
