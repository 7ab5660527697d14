//! Philly: `cluster_job_log` (msr-fiddle/philly-traces; Jeon et al., ATC 2019), a JSON array of jobs.
//!
//! Written from the keys that the data set documents; no log was at hand to try it on. Read are `jobid`, `submitted_time`, and of `attempts`
//! `start_time`, `end_time` and the `gpus` of each server in `detail`. A job wants the GPUs of its last attempt that had any, and ran
//! for the time of all attempts whose start and end were logged. Jobs without GPUs, without such an attempt, or without a time
//! of submission are left out.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use serde::{Deserialize, de::IgnoredAny};
use units::Lines;

use super::{
    super::{Trace, TraceError},
    clock,
    gather::Gathered,
    timed::Timed,
};

#[derive(Deserialize)]
struct Entry {
    jobid: String,
    submitted_time: Option<String>,
    #[serde(default)]
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    start_time: Option<String>,
    end_time: Option<String>,
    #[serde(default)]
    detail: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    #[serde(default)]
    gpus: Vec<IgnoredAny>,
}

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let mut gathered = Gathered::default();
    let mut entries = Entries { text, at: 0, lines: Lines::new(text), first: true };
    while let Some((line, entry)) = entries.next()? {
        match job(line, entry)? {
            Some(job) => job.into_trace(&mut gathered)?,
            None => gathered.leave_out(),
        }
    }
    gathered.done_from_first(text)
}

/// The job of an entry, `None` for one that cannot be played.
fn job(line: u64, entry: Entry) -> Result<Option<Timed>, TraceError> {
    let Some(submitted) = time(line, "submitted_time", entry.submitted_time.as_deref())? else { return Ok(None) };
    let (mut gpus, mut ran) = (0, 0);
    for attempt in &entry.attempts {
        let of_attempt: usize = attempt.detail.iter().map(|server| server.gpus.len()).sum();
        if of_attempt > 0 {
            gpus = u32::try_from(of_attempt).unwrap_or(u32::MAX);
        }
        let start = time(line, "start_time", attempt.start_time.as_deref())?;
        let end = time(line, "end_time", attempt.end_time.as_deref())?;
        // The clock of the log was put back once, in autumn.
        ran += start.zip(end).map_or(0, |(start, end)| (end - start).max(0));
    }
    let (submitted_s, ran_s) = (submitted as f64, ran as f64);
    let timed = Timed { id: entry.jobid, line, gpus, submitted_s, ran_s, opportunistic: false, model: None };
    Ok((gpus > 0 && ran > 0).then_some(timed))
}

/// A time of the log, which may be missing: null, empty, or `None`.
fn time(line: u64, column: &'static str, text: Option<&str>) -> Result<Option<i64>, TraceError> {
    let Some(text) = text.filter(|text| !text.is_empty() && *text != "None") else { return Ok(None) };
    let seconds = clock::seconds(text);
    seconds.map(Some).ok_or_else(|| TraceError::Value { line, column, value: text.to_string(), expected: clock::EXPECTED })
}

/// The elements of an array, one by one, with the lines on which they begin.
struct Entries<'a> {
    text: &'a str,
    at: usize,
    lines: Lines<'a>,
    first: bool,
}

impl Entries<'_> {
    fn next(&mut self) -> Result<Option<(u64, Entry)>, TraceError> {
        let opens = core::mem::take(&mut self.first);
        if opens && self.sign() != Some('[') {
            return Err(self.bad("not an array of jobs"));
        }
        self.at += usize::from(opens);
        let sign = self.sign();
        match sign {
            Some(']') => return self.end(),
            Some(',') if !opens => self.at += 1,
            // Behind the bracket the first element follows at once.
            _ if opens => {}
            _ => return Err(self.bad("no comma and no end of the array")),
        }
        if self.sign() == Some(']') {
            return Err(self.bad("nothing behind a comma"));
        }
        let line = self.lines.line_of(self.at);
        let mut values = serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<Entry>();
        match values.next() {
            Some(Ok(entry)) => {
                self.at += values.byte_offset();
                Ok(Some((line, entry)))
            }
            // The library counts from the element.
            Some(Err(e)) => Err(TraceError::Table { line: line + e.line().saturating_sub(1) as u64, problem: message(&e) }),
            None => Err(self.bad("the array has no end")),
        }
    }

    /// The next character that is no space.
    fn sign(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn end(&mut self) -> Result<Option<(u64, Entry)>, TraceError> {
        self.at += 1;
        match self.sign() {
            None => Ok(None),
            Some(_) => Err(self.bad("text behind the array")),
        }
    }

    fn bad(&mut self, problem: &str) -> TraceError {
        TraceError::Table { line: self.lines.line_of(self.at), problem: problem.to_string() }
    }
}

/// The library's message, without the place that it counts from the element.
fn message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or_else(|| message.clone(), |(message, _)| message.to_string())
}
