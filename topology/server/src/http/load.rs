//! What requests may take of the memory: bytes of their bodies, and what the messages in them come to.
//!
//! A message of two bytes can become an object of hundreds, in JSON and in gRPC alike. So a body is weighed before it is decoded,
//! and all requests together have a budget, of which one certificate has half. A request that does not fit is refused at once, because
//! waiting bodies hold memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use futures_util::StreamExt as _;

use crate::{
    api::{ApiError, Kind},
    grpc::Shape,
    role::Who,
    tally::{CALLER_PART, Shares},
};

/// What an object or a message counts: the largest of the schema takes 250 bytes, and a map of JSON 600.
const OBJECT_BYTES: usize = 512;
/// What a value of JSON or a string of a message counts besides its own bytes: 24 to 64 bytes.
const VALUE_BYTES: usize = 64;
/// Most that the objects and values of one request may count: 100 candidates that each place 1,000 jobs on 10 hosts are 120 MB.
pub(crate) const WEIGHT_MAX: usize = 256 << 20;
/// What the requests of one kind may hold together. A body that is allowed alone always fits twice.
const BUDGET_MIN: usize = 512 << 20;

/// What requests hold now. Changes have a budget of their own, so that nobody who may only ask can keep them out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    changes: Budget,
    questions: Budget,
}

/// What is held of one kind. Cloning it shares it.
#[derive(Clone, Debug, Default)]
struct Budget(Arc<Mutex<Shares>>);

impl Budget {
    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one request holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Budget,
    who: Option<Who>,
    changes: bool,
    max: usize,
    bytes: usize,
}

impl Loads {
    /// Nothing yet, for a request of this caller with a body of at most `body_max` bytes.
    pub(crate) fn begin(&self, who: Option<Who>, changes: bool, body_max: usize) -> Held {
        let budget = if changes { &self.changes } else { &self.questions }.clone();
        Held { budget, who, changes, max: BUDGET_MIN.max(body_max.saturating_mul(CALLER_PART)), bytes: 0 }
    }
}

impl Held {
    /// What it counts as holding.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is of a request that changes something.
    pub(crate) const fn changes(&self) -> bool {
        self.changes
    }

    fn add(&mut self, bytes: usize) -> Result<(), ApiError> {
        let mut shares = self.budget.lock();
        if !shares.fits(self.who, bytes, self.max, self.max / CALLER_PART) {
            let all_fit = shares.fits(None, bytes, self.max, self.max);
            let (whose, max) = if all_fit { ("requests of this certificate", self.max / CALLER_PART) } else { ("requests", self.max) };
            let problem = format!("{whose} under way may hold {} MiB together, and this one does not fit", max >> 20);
            return Err(ApiError::new(Kind::Exhausted, &problem).hint("try again"));
        }
        shares.add(self.who, bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Adds what the objects in a body come to.
    ///
    /// # Errors
    /// Too much for one request, or for all together.
    pub(crate) fn weigh(&mut self, weight: usize) -> Result<(), ApiError> {
        // One request is judged alone first: what can never fit gets another answer than what may fit later.
        let max = WEIGHT_MAX.min((self.max / CALLER_PART).saturating_sub(self.bytes));
        if weight > max {
            let problem = format!("body: its objects and values count {} MiB; at most {}", weight >> 20, max >> 20);
            return Err(ApiError::new(Kind::TooLarge, &problem).hint("send less at a time"));
        }
        self.add(weight)
    }

    /// Reads a body.
    ///
    /// # Errors
    /// Larger than `max` bytes, too much for all requests together, or the client stopped sending.
    pub(crate) async fn read(&mut self, body: Body, max: usize) -> Result<Vec<u8>, ApiError> {
        let mut chunks = body.into_data_stream();
        // The buffer grows with what arrives: a length that a client only announces allocates nothing.
        let mut out = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| ApiError::invalid("body: the client stopped sending"))?;
            if out.len() + chunk.len() > max {
                return Err(
                    ApiError::new(Kind::TooLarge, &format!("body: more than {}", size(max))).hint("limits.body_mib in the configuration")
                );
            }
            // A chunk is paid for before it is kept, so all bodies together stay within the budget while they arrive.
            self.add(chunk.len())?;
            out.extend_from_slice(&chunk);
        }
        Ok(out)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.lock().take(self.who, self.bytes);
    }
}

fn size(bytes: usize) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

/// What the objects and values of a JSON text come to. Any text has a weight.
pub(crate) fn json(text: &[u8]) -> usize {
    let mut weight = 0_usize;
    // One pass without a stack: a text nested a million deep costs this no memory.
    let (mut in_string, mut escaped) = (false, false);
    for byte in text {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' => weight = weight.saturating_add(OBJECT_BYTES),
            // A comma stands before every value but the first of its list or object, so commas and brackets count the values.
            b'[' | b',' => weight = weight.saturating_add(VALUE_BYTES),
            _ => {}
        }
    }
    weight
}

/// What the messages and strings of a protobuf message come to. Any bytes have a weight, which is at least that of what a decoder reads.
pub(crate) fn wire(mut bytes: &[u8], shape: &Shape) -> usize {
    let mut weight = 0_usize;
    while let Some((key, rest)) = varint(bytes) {
        let skipped = match key & 7 {
            0 => varint(rest).map(|(_, rest)| rest),
            1 => rest.get(8..),
            5 => rest.get(4..),
            2 => varint(rest).and_then(|(length, rest)| {
                let (field, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                // Only fields that the schema knows as messages are looked into; the shapes end, and with them the recursion.
                let inside = shape.0.iter().find(|(number, _)| *number == key >> 3);
                let counts = inside.map_or(VALUE_BYTES, |(_, shape)| OBJECT_BYTES.saturating_add(wire(field, shape)));
                weight = weight.saturating_add(counts);
                Some(rest)
            }),
            // Groups: what stands in one is weighed as if it stood here.
            _ => Some(rest),
        };
        // A decoder refuses the message at such bytes, so the rest of them becomes nothing in memory.
        let Some(rest) = skipped else { break };
        bytes = rest;
    }
    weight
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    // Ten bytes of seven bits hold any 64-bit number (protobuf's encoding); a longer one is no number.
    const BYTES_MAX: usize = 10;
    let length = 1 + bytes.iter().take(BYTES_MAX).position(|b| b & 0x80 == 0)?;
    let value = bytes[..length].iter().rev().fold(0_u64, |value, b| (value << 7) | u64::from(b & 0x7f));
    Some((value, &bytes[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;
    use proto::v1alpha1 as pb;

    #[test]
    fn json_is_weighed_by_what_it_holds() {
        assert_eq!(json(br#"{"a": "[[[{{{,,,\"{", "b": [1, {}]}"#), 2 * OBJECT_BYTES + 3 * VALUE_BYTES);
        assert_eq!(json(b"\"never ends {{{{"), 0);
    }

    #[test]
    fn messages_are_weighed_by_what_they_hold() {
        const MODEL: Shape = Shape(&[]);
        const JOB: Shape = Shape(&[(2, &MODEL)]);
        const COMMIT: Shape = Shape(&[(1, &JOB)]);
        let job = pb::JobSpec { id: "a".into(), model: Some(pb::Model::default()), hosts: vec![String::new(); 10], ..Default::default() };
        let commit = pb::CommitRequest {
            jobs: vec![job; 3],
            lease_ms: 7,
            idempotency_key: "k".into(),
            if_plan_version: Some(1),
            fields: Vec::new(),
            explain: false,
        };
        // Each job: itself, its model, its name and ten hosts; and the key.
        assert_eq!(wire(&commit.encode_to_vec(), &COMMIT), 3 * (2 * OBJECT_BYTES + 11 * VALUE_BYTES) + VALUE_BYTES);
        assert_eq!(wire(&[0x0a, 0x00].repeat(1_000), &COMMIT), 1_000 * OBJECT_BYTES);
        // A group in front hides nothing; noise and cut bytes end it.
        assert_eq!(wire(&[0x0b, 0x0a, 0x00, 0x0c, 0x0a, 0x00], &COMMIT), 2 * OBJECT_BYTES);
        assert_eq!(wire(&[0x0a, 0x7f, 0x0a, 0x00], &COMMIT), 0);
        assert_eq!(wire(&[0xff; 64], &COMMIT), 0);
    }

    #[tokio::test]
    async fn all_bodies_together_have_a_budget() {
        let loads = Loads::default();
        let begin = |changes| loads.begin(None, changes, 0);
        let (mut first, mut second) = (begin(false), begin(false));
        first.add(BUDGET_MIN - 10).unwrap();
        assert_eq!(second.read(Body::from(vec![0; 11]), 100).await.unwrap_err().kind, Kind::Exhausted);
        drop(second);
        begin(true).read(Body::from(vec![0; 11]), 100).await.expect("changes have their own");
        begin(false).read(Body::from(vec![0; 10]), 100).await.expect("what is given up is given back");
        drop(first);
        assert_eq!(begin(false).read(Body::from(vec![0; 101]), 100).await.unwrap_err().kind, Kind::TooLarge);
        assert_eq!(begin(false).weigh(WEIGHT_MAX + 1).unwrap_err().kind, Kind::TooLarge);
        assert!(loads.questions.lock().is_empty() && loads.changes.lock().is_empty());
    }

    /// One that may send anything keeps nobody else from sending what is allowed at all.
    #[test]
    fn one_certificate_has_half_of_what_requests_may_hold() {
        let loads = Loads::default();
        let (greedy, other) = (Some(Who([1; 32])), Some(Who([2; 32])));
        for changes in [false, true] {
            let mut held = Vec::new();
            while held.len() < 1_000 {
                let mut request = loads.begin(greedy, changes, 64 << 20);
                let Ok(()) = request.weigh(10 << 20) else { break };
                held.push(request);
            }
            assert_eq!(held.len(), (BUDGET_MIN / CALLER_PART) / (10 << 20));
            let refused = loads.begin(greedy, changes, 0).weigh(10 << 20).unwrap_err();
            assert!(refused.kind == Kind::Exhausted && refused.message.contains("of this certificate"), "{refused}");
            let mut largest = loads.begin(other, changes, 64 << 20);
            largest.add(64 << 20).unwrap();
            assert_eq!(largest.weigh(WEIGHT_MAX).unwrap_err().kind, Kind::TooLarge, "with its bytes it is more than one may hold");
            largest.weigh(WEIGHT_MAX - (64 << 20)).unwrap();
            assert_eq!(loads.begin(None, changes, 0).weigh(10 << 20).unwrap_err().kind, Kind::Exhausted);
        }
        assert!(loads.questions.lock().is_empty() && loads.changes.lock().is_empty());
    }
}
