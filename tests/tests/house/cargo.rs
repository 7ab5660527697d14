//! What cargo knows about the workspace: `cargo metadata`, the part that the rules ask about.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use antiphase_tests::checkout;
use serde::Deserialize;

use crate::tree::relative;

/// The workspace, its packages and the resolved graph for this machine.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

/// A package of ours or of the registry.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    id: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

/// A library, program, test, bench, example or build script.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Arrow>,
}

#[derive(Debug, Deserialize)]
struct Arrow {
    pkg: String,
    dep_kinds: Vec<ArrowKind>,
}

#[derive(Debug, Deserialize)]
struct ArrowKind {
    kind: Option<String>,
}

/// When a dependency is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum When {
    /// In the crate itself.
    Normal,
    /// By its build script.
    Build,
    /// By its tests, benches and examples.
    Dev,
}

/// A crate of the workspace and what its manifest asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    /// Its folder from the root of the checkout.
    pub(crate) folder: String,
    /// Folders of our crates that it depends on.
    pub(crate) own: Vec<(String, When)>,
    /// Names of registry crates that it depends on.
    pub(crate) external: Vec<(String, When)>,
    /// Whether it runs a program of its own when it is built.
    pub(crate) build_script: bool,
}

impl Metadata {
    /// Asks cargo, without the network.
    pub(crate) fn read() -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let answer = Command::new(cargo)
            .args(["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform=host-tuple"])
            .current_dir(checkout())
            .output()
            .expect("cargo runs");
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.success(), "cargo metadata failed; build the workspace once and commit Cargo.lock: {said}");
        serde_json::from_slice(&answer.stdout).expect("cargo metadata prints its documented JSON")
    }

    fn package(&self, id: &str) -> &Package {
        self.packages.iter().find(|package| package.id == id).expect("cargo describes every package that it resolved")
    }

    /// Our packages with their folders.
    pub(crate) fn own_packages(&self) -> impl Iterator<Item = (String, &Package)> {
        self.workspace_members.iter().map(|id| {
            let package = self.package(id);
            (folder_of(&package.manifest_path), package)
        })
    }

    /// Our crates with their dependencies, sorted by folder.
    pub(crate) fn members(&self) -> Vec<Member> {
        let mut members: Vec<Member> = self.own_packages().map(|(folder, package)| package.member(folder)).collect();
        members.sort_by(|a, b| a.folder.cmp(&b.folder));
        members
    }

    /// Every registry crate that `folder` reaches when it runs, with the chain that leads there.
    pub(crate) fn reached_by(&self, folder: &str) -> BTreeMap<String, String> {
        let Some((_, start)) = self.own_packages().find(|(own, _)| own == folder) else { return BTreeMap::new() };
        let mut reached = BTreeMap::new();
        let mut visited = vec![start.id.as_str()];
        let mut queue = vec![(start.id.as_str(), folder.to_owned())];
        while let Some((id, chain)) = queue.pop() {
            let node = self.resolve.nodes.iter().find(|node| node.id == id).expect("cargo resolved every dependency");
            for arrow in node.deps.iter().filter(|arrow| arrow.dep_kinds.iter().any(|k| k.kind.is_none())) {
                let package = self.package(&arrow.pkg);
                if visited.contains(&package.id.as_str()) || package.has_target("proc-macro") {
                    continue;
                }
                visited.push(&package.id);
                let chain = format!("{chain} > {}", package.name);
                if !self.workspace_members.contains(&package.id) {
                    reached.insert(package.name.clone(), chain.clone());
                }
                queue.push((&package.id, chain));
            }
        }
        reached
    }
}

impl Package {
    /// Sorts this package's dependencies into ours and others.
    fn member(&self, folder: String) -> Member {
        let mut member = Member { folder, build_script: self.has_target("custom-build"), ..Member::default() };
        for dependency in &self.dependencies {
            let when = match dependency.kind.as_deref() {
                None => When::Normal,
                Some("build") => When::Build,
                Some(_) => When::Dev,
            };
            match &dependency.path {
                Some(path) => member.own.push((relative(path), when)),
                None => member.external.push((dependency.name.clone(), when)),
            }
        }
        member
    }

    fn has_target(&self, kind: &str) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|have| have == kind))
    }
}

/// The folder of a manifest, from the root of the checkout.
fn folder_of(manifest: &Path) -> String {
    relative(manifest.parent().expect("invariant: a manifest lies in a folder"))
}
