//! Documents of JSON as they come: one object or list of PyTorch's profiler, or one object after the other of NCCL's Inspector.

use std::io::{BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{
    Trace, TraceError, TraceFormat,
    inspector::{Log, Record},
    kineto::{Event, Kept},
    source::{Bounded, Lenient},
};

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 16;

/// What was kept of the first document.
#[derive(Default)]
struct First {
    events: Kept,
    /// It has a list of events, or is one.
    has_events: bool,
    record: Record,
    /// It has what a record of the Inspector has.
    is_record: bool,
    /// Why reading stopped, where the document is not to blame.
    problem: Option<TraceError>,
}

pub(super) fn read(reader: impl Read) -> Result<Trace, TraceError> {
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(READ_BYTES, Bounded::new(reader)));
    let mut first = First::default();
    let read = Document(&mut first).deserialize(&mut json);
    if let Some(problem) = first.problem {
        return Err(problem);
    }
    read?;
    if first.has_events {
        json.end()?;
        return Ok(Trace::new(TraceFormat::Kineto, first.events.spans()?));
    }
    if !first.is_record {
        return Err(TraceError::Missing { what: "the document has no traceEvents" });
    }
    let mut log = Log::default();
    log.add(first.record)?;
    for record in json.into_iter::<Record>() {
        match record {
            Ok(record) => log.add(record)?,
            // A process that was ended in the middle of a line, or one that goes on writing.
            Err(error) if error.is_eof() => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Trace::new(TraceFormat::Inspector, log.spans()?))
}

struct Document<'a>(&'a mut First);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a trace, or a list of trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        Events(self.0).visit_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(key) = object.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => object.next_value_seed(Events(&mut *self.0))?,
                "header" => self.0.record.header = object.next_value()?,
                "metadata" => self.0.record.metadata = object.next_value()?,
                "coll_perf" => self.0.record.coll_perf = object.next_value()?,
                _ => _ = object.next_value::<IgnoredAny>()?,
            }
            self.0.is_record |= matches!(key.as_str(), "header" | "coll_perf");
        }
        Ok(())
    }
}

/// The events that are kept of some millions.
struct Events<'a>(&'a mut First);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a list of trace events")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.has_events = true;
        while let Some(Lenient(event)) = list.next_element::<Lenient<Event>>()? {
            if let Some(Err(problem)) = event.map(|event| self.0.events.add(event)) {
                let stopped = A::Error::custom(&problem);
                self.0.problem = Some(problem);
                return Err(stopped);
            }
        }
        Ok(())
    }
}
