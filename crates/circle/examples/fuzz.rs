//! The solver against exhaustive search, on random small documents.
//!
//! `cargo run --release -p antiphase-circle --example fuzz -- [--count N | --minutes M] [--seed S] [--kind KIND] [--jobs THREADS]`
//!
//! Every claim of every answer is held against oracles that share no code with the solver. The smallest document that breaks a
//! claim is shrunk and printed as a scenario, with what was claimed and what is true. The exit code is 1 if any claim is false
//! and 2 for bad usage. Without `--kind` the kinds take turns, those of long LCMs and of loose jobs more seldom; the same seed and number give
//! the same document.

#[path = "../tests/fuzzing/mod.rs"]
mod fuzzing;
#[path = "../tests/oracle/mod.rs"]
mod oracle;

use std::{
    collections::BTreeMap,
    fmt,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use fuzzing::{
    Case, Claim, check,
    kinds::{Kind, draw},
    shrink::shrink,
};

/// Documents where neither a number nor a time is asked for.
const COUNT: u64 = 2_000;
/// Most threads: more than a machine has make nothing faster.
const THREADS_MAX: usize = 1_024;
const USAGE: &str =
    "usage: fuzz [--count N | --minutes M] [--seed S] [--kind plain|gcd1|equal|measured|levels|long-lcm|loose] [--jobs THREADS]";

/// What was asked for on the command line.
#[derive(Debug)]
struct Asked {
    count: Option<u64>,
    minutes: Option<f64>,
    seed: u64,
    kind: Option<Kind>,
    threads: usize,
}

impl Asked {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self { count: None, minutes: None, seed: 1, kind: None, threads: 1 };
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            let wrong = || format!("{word} cannot be {value:?}");
            match word.as_str() {
                "--count" => asked.count = Some(value.parse().map_err(|_| wrong())?),
                "--minutes" => {
                    let minutes = value.parse().ok().filter(|m: &f64| Duration::try_from_secs_f64(60.0 * m).is_ok());
                    asked.minutes = Some(minutes.ok_or_else(wrong)?);
                }
                "--seed" => asked.seed = value.parse().map_err(|_| wrong())?,
                "--kind" => asked.kind = Some(Kind::ALL.into_iter().find(|k| k.name() == value).ok_or_else(wrong)?),
                "--jobs" => {
                    let threads = value.parse().ok().filter(|t| (1..=THREADS_MAX).contains(t));
                    asked.threads = threads.ok_or_else(wrong)?;
                }
                _ => return Err(format!("unknown option {word:?}")),
            }
        }
        if asked.count.is_some() && asked.minutes.is_some() {
            return Err("--count and --minutes exclude each other".to_owned());
        }
        Ok(asked)
    }
}

/// Answers of one sort, and how many of them are said to be optimal.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    all: u64,
    proven: u64,
}

impl Part {
    fn add(&mut self, all: u64, proven: u64) {
        self.all += all;
        self.proven += proven;
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} of {}", self.proven, self.all))
    }
}

/// What was seen of one kind.
#[derive(Debug, Default)]
struct Tally {
    documents: u64,
    exhaustive: u64,
    /// Plain solutions, robust ones and adjusted ones: how many there are, and how many are proven.
    plain: Part,
    robust: Part,
    adjusted: Part,
    missed: u64,
    approximate: u64,
    time: Duration,
    /// The longest check, and of which document.
    longest: (Duration, u64),
    /// By claim, how many documents break it.
    broken: BTreeMap<Claim, u64>,
}

/// The smallest document that breaks a claim: its size, kind and number, and the document.
type Smallest = BTreeMap<Claim, (u64, Kind, u64, Case)>;

/// What one thread, or all of them, saw.
#[derive(Debug, Default)]
struct Seen {
    kinds: BTreeMap<Kind, Tally>,
    smallest: Smallest,
}

impl Seen {
    fn add(&mut self, kind: Kind, number: u64, case: &Case) {
        let start = Instant::now();
        let findings = check(case);
        let time = start.elapsed();
        let tally = self.kinds.entry(kind).or_default();
        tally.documents += 1;
        tally.exhaustive += u64::from(findings.exhaustive);
        let solved = if case.robust.is_some() { &mut tally.robust } else { &mut tally.plain };
        solved.add(1, u64::from(findings.proven));
        tally.adjusted.add(u64::from(case.current.is_some()), u64::from(findings.adjusted_proven));
        tally.missed += u64::from(findings.missed);
        tally.approximate += u64::from(findings.approximate > 0);
        tally.time += time;
        tally.longest = tally.longest.max((time, number));
        let mut claims: Vec<Claim> = findings.failures.iter().map(|f| f.claim).collect();
        claims.sort_unstable();
        claims.dedup();
        for claim in claims {
            *self.kinds.entry(kind).or_default().broken.entry(claim).or_default() += 1;
            self.keep(claim, (case.size(), kind, number, case.clone()));
        }
    }

    fn keep(&mut self, claim: Claim, found: (u64, Kind, u64, Case)) {
        let known = self.smallest.get(&claim).map_or(u64::MAX, |k| k.0);
        if found.0 < known {
            self.smallest.insert(claim, found);
        }
    }

    fn merge(&mut self, other: Self) {
        for (kind, from) in other.kinds {
            let tally = self.kinds.entry(kind).or_default();
            tally.documents += from.documents;
            tally.exhaustive += from.exhaustive;
            tally.plain.add(from.plain.all, from.plain.proven);
            tally.robust.add(from.robust.all, from.robust.proven);
            tally.adjusted.add(from.adjusted.all, from.adjusted.proven);
            tally.missed += from.missed;
            tally.approximate += from.approximate;
            tally.time += from.time;
            tally.longest = tally.longest.max(from.longest);
            for (claim, count) in from.broken {
                *tally.broken.entry(claim).or_default() += count;
            }
        }
        for (claim, found) in other.smallest {
            self.keep(claim, found);
        }
    }
}

/// Draws and checks documents until there are enough or the time is over.
fn watch(asked: &Asked, next: &AtomicU64, end: Option<Instant>) -> Seen {
    let mut seen = Seen::default();
    let count = if end.is_some() { u64::MAX } else { asked.count.unwrap_or(COUNT) };
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count || end.is_some_and(|end| Instant::now() >= end) {
            return seen;
        }
        let kind = asked.kind.unwrap_or(Kind::of(number));
        seen.add(kind, number, &draw(kind, asked.seed, number));
    }
}

fn print_counts(seen: &Seen) {
    println!(
        "{:<9} {:>9} {:>10} {:>16} {:>16} {:>16} {:>10} {:>11} {:>10}  longest",
        "kind", "documents", "exhaustive", "proven", "proven, robust", "proven, adjusted", "below best", "approximate", "per second"
    );
    for (kind, t) in &seen.kinds {
        let rate = t.documents as f64 / t.time.as_secs_f64().max(1e-9);
        println!(
            "{:<9} {:>9} {:>10} {:>16} {:>16} {:>16} {:>10} {:>11} {rate:>10.0}  {:.2} s (document {})",
            kind.name(),
            t.documents,
            t.exhaustive,
            t.plain,
            t.robust,
            t.adjusted,
            t.missed,
            t.approximate,
            t.longest.0.as_secs_f64(),
            t.longest.1
        );
    }
    for (kind, t) in &seen.kinds {
        for (claim, count) in &t.broken {
            println!("{:<9} {count:>10} with {}", kind.name(), claim.name());
        }
    }
}

fn print_smallest(seed: u64, smallest: Smallest) {
    for (claim, (_, kind, number, case)) in smallest {
        let small = shrink(&case, claim);
        println!("\n{}: {} document {number} of seed {seed}, shrunk:\n{small}", claim.name(), kind.name());
        for failure in check(&small).failures.iter().filter(|f| f.claim == claim) {
            println!("  {}", failure.text);
        }
    }
}

fn main() -> ExitCode {
    let asked = match Asked::parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let end = asked.minutes.map(|m| start + Duration::from_secs_f64(60.0 * m));
    let next = AtomicU64::new(0);
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..asked.threads).map(|_| scope.spawn(|| watch(&asked, &next, end))).collect();
        for thread in threads {
            seen.merge(thread.join().expect("invariant: a panic of the solver is caught"));
        }
    });
    let documents: u64 = seen.kinds.values().map(|t| t.documents).sum();
    print_counts(&seen);
    println!("{documents} documents in {:.1} s, seed {}", start.elapsed().as_secs_f64(), asked.seed);
    let fine = seen.smallest.is_empty();
    print_smallest(asked.seed, seen.smallest);
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
