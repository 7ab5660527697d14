//! Rows of a table with a header, as every format that is CSV has them.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use units::Lines;

use super::super::TraceError;

/// A table whose columns stand in any order.
pub(super) struct Table<'a> {
    reader: csv::Reader<&'a [u8]>,
    lines: Lines<'a>,
    names: &'static [&'static str],
    /// Where each of the names stands, `None` where the table has no such column.
    places: Vec<Option<usize>>,
    record: csv::StringRecord,
}

impl<'a> Table<'a> {
    /// Reads the header. The first `required` names must be there; of the others, and of columns with other names, there may be any.
    pub(super) fn open(text: &'a str, names: &'static [&'static str], required: usize) -> Result<Self, TraceError> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
        let mut lines = Lines::new(text);
        let header = reader.headers().map_err(|e| table(&e, &mut lines))?;
        let line = lines.line_of(0);
        let mut places = Vec::with_capacity(names.len());
        for (at, &name) in names.iter().enumerate() {
            let mut found = header.iter().enumerate().filter(|(_, column)| *column == name).map(|(place, _)| place);
            let place = found.next();
            if found.next().is_some() {
                return Err(TraceError::ColumnTwice { line, name });
            }
            if place.is_none() && at < required {
                return Err(TraceError::Column { line, name });
            }
            places.push(place);
        }
        Ok(Self { reader, lines, names, places, record: csv::StringRecord::new() })
    }

    /// The next row, `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>, TraceError> {
        let read = self.reader.read_record(&mut self.record);
        if !read.map_err(|e| table(&e, &mut self.lines))? {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, |at| line(at, &mut self.lines));
        Ok(Some(Row { line, names: self.names, places: &self.places, record: &self.record }))
    }
}

fn line(position: &csv::Position, lines: &mut Lines<'_>) -> u64 {
    // The text is in memory, so its offsets fit.
    lines.line_of(usize::try_from(position.byte()).unwrap_or(usize::MAX))
}

fn table(error: &csv::Error, lines: &mut Lines<'_>) -> TraceError {
    let problem = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => alloc::format!("{len} fields, expected {expected_len}"),
        _ => error.to_string(),
    };
    TraceError::Table { line: error.position().map_or(1, |at| line(at, lines)), problem }
}

/// A row; columns are asked for by their place in the list of names.
pub(super) struct Row<'r> {
    /// Its line in the file.
    pub(super) line: u64,
    names: &'static [&'static str],
    places: &'r [Option<usize>],
    record: &'r csv::StringRecord,
}

impl<'r> Row<'r> {
    /// What stands in a column; `None` where the table has no such column, or nothing stands there.
    pub(super) fn given(&self, at: usize) -> Option<&'r str> {
        self.record.get(self.places[at]?).filter(|field| !field.is_empty())
    }

    /// A name that must be there.
    pub(super) fn name(&self, at: usize) -> Result<&'r str, TraceError> {
        self.given(at).ok_or_else(|| self.bad(at, "a name"))
    }

    /// A whole number above 0.
    pub(super) fn whole(&self, at: usize) -> Result<u32, TraceError> {
        let value = self.given(at).and_then(|field| field.parse().ok());
        value.filter(|value| *value > 0).ok_or_else(|| self.bad(at, "a whole number above 0"))
    }

    /// A whole number, which may be 0 and may be written as 4.0.
    pub(super) fn count(&self, at: usize) -> Result<u32, TraceError> {
        let value = self.given(at).and_then(|field| field.strip_suffix(".0").unwrap_or(field).parse().ok());
        value.ok_or_else(|| self.bad(at, "a whole number"))
    }

    /// A number in a range.
    pub(super) fn number(&self, at: usize, least: f64, most: f64, expected: &'static str) -> Result<f64, TraceError> {
        // The range also refuses what is not a number.
        let value = self.given(at).and_then(|field| field.parse().ok());
        value.filter(|value| (least..=most).contains(value)).ok_or_else(|| self.bad(at, expected))
    }

    /// The error for what stands in a column.
    pub(super) fn bad(&self, at: usize, expected: &'static str) -> TraceError {
        let value: String = self.given(at).unwrap_or_default().to_string();
        TraceError::Value { line: self.line, column: self.names[at], value, expected }
    }
}
