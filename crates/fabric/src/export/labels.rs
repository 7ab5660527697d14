//! Kubernetes node labels: which leaf, spine and so on a node hangs under.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use serde::Serialize;

use super::{
    Export, Tree,
    names::{Alphabet, LABEL_CHARS_MAX, check_hosts, rename_groups},
};
use crate::{Fabric, FabricError, Finding};

/// Which label keys to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelKeys {
    /// `network.topology.nvidia.com/{block,spine,datacenter}`, closest first: what Topograph
    /// wrote before 1.0, and what many schedulers still read. `accelerator` is the NVLink domain,
    /// which a fabric does not know.
    Nvidia,
    /// `fabric.topograph.run/tier-N`, 0 closest: Topograph 1.0.
    Topograph,
    /// A key with `{tier}` in it, 0 closest.
    Pattern(String),
}

/// Label keys that Kubernetes would not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label keys {0:?}: expected nvidia, topograph or a key with {{tier}} in it, for example example.com/tier-{{tier}}")]
pub struct UnknownLabelKeys(pub String);

impl FromStr for LabelKeys {
    type Err = UnknownLabelKeys;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "nvidia" => Ok(Self::Nvidia),
            "topograph" => Ok(Self::Topograph),
            // The trial number has three digits, the most that a tier (u8) can have.
            pattern if pattern.contains("{tier}") && is_label_key(&pattern.replace("{tier}", "255")) => Ok(Self::Pattern(s.into())),
            _ => Err(UnknownLabelKeys(s.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for LabelKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nvidia => "nvidia",
            Self::Topograph => "topograph",
            Self::Pattern(pattern) => pattern,
        })
    }
}

impl LabelKeys {
    /// The key of a level, 0 closest; `None` where the family has no name for it.
    fn key(&self, level: usize) -> Option<String> {
        match self {
            Self::Nvidia => ["block", "spine", "datacenter"].get(level).map(|name| format!("network.topology.nvidia.com/{name}")),
            Self::Topograph => Some(format!("fabric.topograph.run/tier-{level}")),
            Self::Pattern(pattern) => Some(pattern.replace("{tier}", &level.to_string())),
        }
    }
}

/// An optional DNS prefix and a name, as Kubernetes wants them.
fn is_label_key(key: &str) -> bool {
    // The prefix is optional in Kubernetes; a valid one stands in where it is missing.
    let (prefix, name) = key.split_once('/').unwrap_or(("prefix.example", key));
    let inner = |c: char, more: &str| c.is_ascii_alphanumeric() || more.contains(c);
    let edges = |s: &str| s.starts_with(|c| inner(c, "")) && s.ends_with(|c| inner(c, ""));
    let name_fits = edges(name) && name.len() <= LABEL_CHARS_MAX && name.chars().all(|c| inner(c, "._-"));
    // Parts of the prefix are DNS labels (RFC 1123), without upper case; the whole prefix has at most 253 characters.
    let part_fits = |p: &str| edges(p) && p.len() <= LABEL_CHARS_MAX && p.chars().all(|c| inner(c, "-") && !c.is_ascii_uppercase());
    name_fits && prefix.len() <= 253 && prefix.split('.').all(part_fits)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Node<'n> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'n>,
}

#[derive(Serialize)]
struct Metadata<'n> {
    name: &'n str,
    labels: &'n BTreeMap<String, String>,
}

pub(super) fn manifests(fabric: &Fabric, mut tree: Tree, keys: &LabelKeys) -> Result<Export, FabricError> {
    let hosts = || tree.levels.iter().take(1).flat_map(|l| l.groups.iter().flat_map(|g| g.hosts.iter().copied()));
    // A renamed host would put labels on a node that does not exist, so an unfit name is an error.
    check_hosts(fabric, hosts(), Alphabet::Object)?;
    // A group's name becomes a label value, which may hold more than an object name.
    rename_groups(&mut tree, Alphabet::Label);
    let mut labels: BTreeMap<units::NodeId, BTreeMap<String, String>> = BTreeMap::new();
    // Renaming adds findings, so they are taken after it.
    let mut findings = core::mem::take(&mut tree.findings);
    for (i, level) in tree.levels.iter().enumerate() {
        let Some(key) = keys.key(i) else {
            findings.push(Finding { kind: "level-left-out", message: format!("the {keys} keys have no name for tier {}", level.tier) });
            continue;
        };
        for group in &level.groups {
            for &host in &group.hosts {
                labels.entry(host).or_default().insert(key.clone(), group.name.clone());
            }
        }
    }
    let node = |(&host, labels)| {
        let metadata = Metadata { name: fabric.node(host).name.as_str(), labels };
        Node { api_version: "v1", kind: "Node", metadata }
    };
    let nodes: Vec<Node<'_>> = labels.iter().map(node).collect();
    Ok(Export { text: super::hypernode::stream(&nodes), findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_checked_as_kubernetes_does() {
        for good in ["nvidia", "topograph", "example.com/tier-{tier}", "t{tier}", "a-b.c/x_{tier}.y"] {
            assert_eq!(good.parse::<LabelKeys>().unwrap().to_string(), good);
        }
        for bad in ["", "tier", "Example.com/t{tier}", "a/b/{tier}", "a b/{tier}", "a/-{tier}", "/{tier}", "x./{tier}", "a/{tier}\nb: c"] {
            assert!(bad.parse::<LabelKeys>().is_err(), "{bad}");
        }
    }
}
