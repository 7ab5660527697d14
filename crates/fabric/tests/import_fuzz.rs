//! Mutated documents: whatever the bytes, an importer answers with a fabric or with one line.
//!
//! The mutations are seeded, so a failure is repeated by its printed seed; the texts they start
//! from are the fixtures, so most mutants get past the parser and into the importer.
#![allow(clippy::unwrap_used, reason = "a test stops where its input is wrong")]

use antiphase_fabric::{
    FabricError,
    import::{self, BuildOptions, Imported},
};

/// Mutants per importer.
const MUTANTS: u64 = 20_000;

/// Mutants longer than this are cut: repeated doubling would only make the test slow.
const MUTANT_CHARS_MAX: usize = 1_500;

/// What hostile documents are made of; the long ranges are refused before they are expanded.
const TOKENS: [&str; 44] = [
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    ":",
    ",",
    "-",
    "#",
    "\\",
    "\n",
    "\t",
    " ",
    "=",
    "*a",
    "&a ",
    "<<: *a",
    "null",
    "true",
    "~",
    "-1",
    "0",
    "18446744073709551616",
    "1e999",
    "[0-999999999]",
    "[1-3]",
    "[03-01]",
    "s[1-2]",
    "\u{0}",
    "\u{feff}",
    "\u{1F600}",
    "\u{301}",
    "\"name\"",
    "\"id\":",
    "\"port\":{}",
    "leaf1",
    "gpu-01",
    "Ethernet0",
    "Nodes=",
    "Switches=",
    "- ",
    "  ",
    "!!binary ",
];

/// A seed, a stream, no state to share.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        units::splitmix64(&mut self.0)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn mutate(random: &mut Random, chars: &mut Vec<char>, donor: &[char]) {
    for _ in 0..=random.below(4) {
        let at = random.below(chars.len() + 1);
        let end = (at + random.below(24)).min(chars.len());
        match random.below(6) {
            0 => drop(chars.drain(at..end)),
            1 => {
                let again: Vec<char> = chars[at..end].to_vec();
                chars.splice(at..at, again);
            }
            2 => {
                let from = random.below(donor.len());
                let to = (from + random.below(60)).min(donor.len());
                chars.splice(at..end, donor[from..to].iter().copied());
            }
            3 => {
                // Another digit or letter in place of one: names that meet, ranges that turn round.
                if let Some(char) = chars.get_mut(at).filter(|c| c.is_ascii_alphanumeric()) {
                    *char = b"0123456789ahls"[random.below(14)] as char;
                }
            }
            _ => drop(chars.splice(at..at, TOKENS[random.below(TOKENS.len())].chars())),
        }
    }
    chars.truncate(MUTANT_CHARS_MAX);
}

fn fuzz(seed: u64, fixtures: &[&str], importer: impl Fn(&str) -> Result<Imported, FabricError> + std::panic::RefUnwindSafe) {
    let options = BuildOptions {
        name: "fuzz".into(),
        hosts: vec!["h*".into()],
        assumptions: import::assumptions(["host-leaf=50G*2", "leaf-spine=400G*4"]).unwrap(),
    };
    let originals: Vec<Vec<char>> = fixtures.iter().map(|text| text.chars().collect()).collect();
    let (mut built, mut refused) = (0, 0);
    for i in 0..MUTANTS {
        let mut random = Random(seed ^ (i << 20));
        let mut chars = originals[random.below(originals.len())].clone();
        let donor = &originals[random.below(originals.len())];
        mutate(&mut random, &mut chars, donor);
        let text: String = chars.into_iter().collect();
        let outcome = std::panic::catch_unwind(|| importer(&text).and_then(|imported| imported.into_fabric(&options)));
        match outcome.unwrap_or_else(|_| panic!("seed {seed}, mutant {i}:\n{text}")) {
            Ok((fabric, findings)) => {
                built += 1;
                // Every cable has both directions, and no finding breaks its line.
                let cables = fabric.links().len();
                assert!((0..cables).all(|l| fabric.reverse(units::LinkId(l as u32)).is_some()), "seed {seed}, mutant {i}:\n{text}");
                assert!(findings.iter().all(|f| !f.message.contains('\n')), "seed {seed}, mutant {i}:\n{text}\n{findings:#?}");
            }
            Err(error) => {
                refused += 1;
                // Ports, names and kinds are settled before the fabric is built.
                let settled = matches!(error, FabricError::Document { .. } | FabricError::TooLarge { .. });
                assert!(settled, "seed {seed}, mutant {i}: {error:?}\n{text}");
                let line = error.to_string();
                assert!(!line.contains('\n') && line.len() < 1_000, "seed {seed}, mutant {i}: {line}\n{text}");
            }
        }
    }
    println!("{built} built, {refused} refused");
    // A mutation engine that only ever breaks syntax tests the parser and not the importer.
    assert!(built > MUTANTS / 50 && refused > MUTANTS / 50, "{built} built, {refused} refused");
}

#[test]
fn slurm_yaml() {
    fuzz(1, &[include_str!("fixtures/slurm/topology.yaml")], |text| import::slurm::topology_yaml(text, None));
}

#[test]
fn slurm_conf() {
    let blocks = "BlockName=b1 Nodes=n[01-04]\nBlockName=b2 Nodes=n[05-08]\nBlockSizes=4,8\n";
    fuzz(2, &[include_str!("fixtures/slurm/topology.conf"), blocks], import::slurm::topology_conf);
}

#[test]
fn lldp() {
    let fixtures = [
        include_str!("fixtures/lldp/gpu-01.json"),
        include_str!("fixtures/lldp/gpu-02.json"),
        include_str!("fixtures/lldp/leaf1.json"),
        include_str!("fixtures/lldp/leaf2.json"),
    ];
    let leaf = import::lldp::report("leaf1", fixtures[2]).unwrap();
    fuzz(3, &fixtures, |text| import::lldp::join([import::lldp::report("gpu-01", text)?, leaf.clone()]));
}

#[test]
fn sonic() {
    let fixtures = [include_str!("fixtures/sonic/leaf1.json"), include_str!("fixtures/sonic/spine1.json")];
    let spine = import::sonic::config_db("spine1", fixtures[1]).unwrap();
    fuzz(4, &fixtures, |text| Imported::merge([import::sonic::config_db("leaf1", text)?, spine.clone()]));
}

#[test]
fn topograph() {
    fuzz(5, &[include_str!("fixtures/topograph/graph.json")], import::topograph::graph);
}

#[test]
fn lingjun() {
    fuzz(6, &[include_str!("fixtures/lingjun/topo.csv")], import::lingjun::topo_csv);
}

#[test]
fn containerlab() {
    fuzz(7, &[include_str!("fixtures/containerlab/lab.clab.yml")], import::containerlab::topology);
}
