//! The smallest case that still breaks the same claim.

use super::{Case, Claim, check, oracle::Instance, truth::Truth};

/// Most cases that are tried while one is shrunk.
const TRIES_MAX: usize = 3_000;

/// Makes the case smaller as long as the claim is still false of it.
pub fn shrink(case: &Case, claim: Claim) -> Case {
    let mut small = case.clone();
    let mut tries = 0;
    // From the coarse to the fine, and again from the coarse after each success.
    'again: loop {
        for next in smaller(&small) {
            tries += 1;
            if tries > TRIES_MAX {
                return small;
            }
            // Of a smaller document with another common multiple nothing may be known.
            if Truth::try_of(&next.instance).is_some() && check(&next).failures.iter().any(|f| f.claim == claim) {
                small = next;
                continue 'again;
            }
        }
        return small;
    }
}

/// All cases that are a little smaller, the much smaller ones first. Each has less of something, so shrinking ends.
fn smaller(case: &Case) -> Vec<Case> {
    let mut out = Vec::new();
    let with = |instance: Instance| Case { instance, ..case.clone() };
    out.extend((0..case.instance.periods.len()).filter(|_| case.instance.periods.len() > 1).map(|job| without_job(case, job)));
    for l in 0..case.instance.links.len() {
        let mut instance = case.instance.clone();
        instance.links.remove(l);
        out.push(with(instance));
    }
    out.extend(simpler_questions(case));
    for l in 0..case.instance.links.len() {
        for m in 0..case.instance.links[l].1.len() {
            let mut instance = case.instance.clone();
            instance.links[l].1.remove(m);
            out.push(with(instance));
            for p in 0..case.instance.links[l].1[m].1.len() {
                let mut instance = case.instance.clone();
                instance.links[l].1[m].1.remove(p);
                out.push(with(instance));
                out.extend(smaller_phases(&case.instance, (l, m, p)).into_iter().map(with));
            }
        }
    }
    out.extend((0..case.instance.periods.len()).flat_map(|job| shorter_periods(case, job)));
    out
}

fn without_job(case: &Case, job: usize) -> Case {
    let mut next = case.clone();
    next.instance.periods.remove(job);
    for (_, members) in &mut next.instance.links {
        members.retain(|m| m.0 != job);
        for member in members.iter_mut().filter(|m| m.0 > job) {
            member.0 -= 1;
        }
    }
    next.evaluated.remove(job);
    if let Some(current) = &mut next.current {
        current.remove(job);
    }
    next
}

/// The same document, but less is asked of it.
fn simpler_questions(case: &Case) -> Vec<Case> {
    let mut out = Vec::new();
    if case.current.is_some() {
        out.push(Case { current: None, ..case.clone() });
    }
    if let Some(drift) = case.robust {
        out.push(Case { robust: None, ..case.clone() });
        let less = [1, drift / 2, drift - 1].into_iter().filter(|d| *d > 0 && *d < drift);
        out.extend(less.map(|d| Case { robust: Some(d), ..case.clone() }));
    }
    if case.effort != antiphase_circle::Effort::Thorough {
        out.push(Case { effort: antiphase_circle::Effort::Thorough, ..case.clone() });
    }
    for job in (0..case.evaluated.len()).filter(|&j| case.evaluated[j] > 0) {
        let mut next = case.clone();
        next.evaluated[job] = 0;
        out.push(next);
    }
    for job in 0..case.evaluated.len() {
        let at = case.current.as_ref().and_then(|c| c[job]);
        for less in [None, Some(0)] {
            let mut next = case.clone();
            if let Some(current) = next.current.as_mut().filter(|_| at.is_some() && at != less) {
                current[job] = less;
                out.push(next);
            }
        }
    }
    out
}

/// One phase shorter, or of a lower rate.
fn smaller_phases(instance: &Instance, (l, m, p): (usize, usize, usize)) -> Vec<Instance> {
    let (start, end, rate) = instance.links[l].1[m].1[p];
    let middle = start + (end - start) / 2;
    let shorter = [(start, middle, rate), (middle, end, rate), (start, end - 1, rate), (start + 1, end, rate)];
    let lower = [1, instance.links[l].0, rate / 2, rate - rate.min(1)].map(|less| (start, end, less));
    let valid = |p: &(u64, u64, u64)| p.0 < p.1 && p.1 - p.0 + p.2 < end - start + rate && p.2 > 0;
    let with = |phase| {
        let mut next = instance.clone();
        next.links[l].1[m].1[p] = phase;
        next
    };
    shorter.into_iter().chain(lower).filter(valid).map(with).collect()
}

/// One job with a shorter period, its phases cut where they no longer fit.
fn shorter_periods(case: &Case, job: usize) -> Vec<Case> {
    let period = case.instance.periods[job];
    let mut lengths: Vec<u64> = case.instance.periods.iter().copied().chain([2, period / 2, period / 3, period - 1]).collect();
    lengths.retain(|t| *t > 0 && *t < period);
    lengths.sort_unstable();
    lengths.dedup();
    let with = |length: u64| {
        let mut next = case.clone();
        next.instance.periods[job] = length;
        for member in next.instance.links.iter_mut().flat_map(|l| &mut l.1).filter(|m| m.0 == job) {
            member.1.retain(|p| p.0 < length);
            member.1.iter_mut().for_each(|p| p.1 = p.1.min(length));
        }
        next.evaluated[job] %= length;
        if let Some(own) = next.current.as_mut().and_then(|c| c[job].as_mut()) {
            *own %= length;
        }
        next
    };
    lengths.into_iter().map(with).collect()
}
