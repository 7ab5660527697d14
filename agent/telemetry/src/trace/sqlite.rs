//! Reads tables of an SQLite file, row by row (<https://www.sqlite.org/fileformat2.html>). No more than that: no index, no query, no
//! write, and nothing of a log beside the file.
//!
//! A reader of our own, because a program that asks for two tables should not bring a database with it, and a user should not have to
//! install one. The file is not trusted: every number in it is checked, and no walk is longer than the file.

use std::{fs::File, io, os::unix::fs::FileExt};

/// How every such file begins.
pub const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
/// SQLite's own limits: pages, and levels of a tree of 2^31 pages with two on each at least.
const PAGE_BYTES: std::ops::RangeInclusive<usize> = 512..=65_536;
const LEVELS_MAX: usize = 32;
/// Columns of a table that are looked at: SQLite's own limit is 2,000 unless it was built otherwise.
const COLUMNS_MAX: usize = 2_000;
/// Longest row that is read; one that is longer, such as a text of megabytes, is left out.
const ROW_BYTES_MAX: usize = 1 << 20;

/// Bytes that can be read anywhere.
pub trait Bytes {
    /// Fills all of `into` from `at` on.
    ///
    /// # Errors
    /// Where that many are not there, or cannot be read.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// How many there are.
    ///
    /// # Errors
    /// Where that cannot be asked.
    fn length(&self) -> io::Result<u64>;
}

impl Bytes for File {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, at)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Bytes for [u8] {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// What is wrong with a file, and on which page; the first is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) page: u32,
    pub(super) problem: String,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Text(String),
    /// A number with a point, or bytes: nothing that is asked for here.
    Other,
}

/// A table: its first page, and the names of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    root: u32,
    columns: Vec<String>,
}

impl Table {
    /// The place of a column in a row. Names have no case in SQL.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))
    }
}

/// An open file.
pub(super) struct Database<'a, B: Bytes + ?Sized> {
    bytes: &'a B,
    page_bytes: usize,
    /// Of each page without what extensions keep for themselves.
    usable: usize,
    /// In the file, whatever it says itself: old programs leave another number there.
    pages: u64,
}

impl<'a, B: Bytes + ?Sized> Database<'a, B> {
    pub(super) fn open(bytes: &'a B) -> Result<Self, Damage> {
        let first = |problem: &str| Damage { page: 1, problem: problem.to_owned() };
        let mut header = [0; HEADER_BYTES];
        bytes.read_at(0, &mut header).map_err(|_| first("shorter than the head of an SQLite file"))?;
        let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if &header[..16] != MAGIC {
            return Err(first("no SQLite file"));
        }
        // 1 stands for 65,536, which two bytes do not hold.
        let page_bytes = match usize::from(u16::from_be_bytes([header[16], header[17]])) {
            1 => 65_536,
            bytes => bytes,
        };
        if !PAGE_BYTES.contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return Err(first(&format!("pages of {page_bytes} bytes")));
        }
        let usable = page_bytes - usize::from(header[20]);
        if usable < 480 {
            return Err(first(&format!("{} bytes of each page are reserved", header[20])));
        }
        // 0 is that of a file without a table.
        if !matches!(number(56), 0 | 1) {
            return Err(first("texts are in UTF-16"));
        }
        let length = bytes.length().map_err(|error| first(&format!("cannot be read: {error}")))?;
        Ok(Self { bytes, page_bytes, usable, pages: length.div_ceil(page_bytes as u64) })
    }

    /// A table of that name, if there is one.
    pub(super) fn table(&self, name: &str) -> Result<Option<Table>, Damage> {
        let mut found = None;
        // The first page is the root of the table of tables: type, name, table, root, statement.
        self.rows(&Table { root: 1, columns: Vec::new() }, |_, row| {
            let [Value::Text(kind), Value::Text(known), _, Value::Integer(root), Value::Text(statement)] = row else { return true };
            if kind == "table" && known.eq_ignore_ascii_case(name) {
                found = u32::try_from(*root).ok().map(|root| Table { root, columns: columns(statement) });
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// Gives each row with its number to `take`, until that says `false`. Rows that are too long are left out.
    pub(super) fn rows(&self, table: &Table, mut take: impl FnMut(i64, &[Value]) -> bool) -> Result<(), Damage> {
        // Pages that are still to be read, with their level. No page leads to itself within the levels, and no walk is longer than the file.
        let mut open = vec![(table.root, 0)];
        let mut left = Left { pages: self.pages, cells: 0 };
        while let Some((number, level)) = open.pop() {
            let damage = |problem: &str| Damage { page: number, problem: problem.to_owned() };
            if level >= LEVELS_MAX {
                return Err(damage("pages lead in a circle"));
            }
            let page = self.page(number, &mut left)?;
            left.cells = page.len();
            let node = Node::of(&page, number).ok_or_else(|| damage("no page of a table"))?;
            let Some(right) = node.right else {
                for at in node.cells() {
                    let cut = || damage("a row that is cut");
                    let Some((row_number, payload)) = self.payload(&page, at.ok_or_else(cut)?, number, &mut left)? else { continue };
                    let row = record(&payload).ok_or_else(cut)?;
                    if !take(row_number, &row) {
                        return Ok(());
                    }
                }
                continue;
            };
            // From the right, so that the leftmost is read next.
            open.push((right, level + 1));
            let mut children = Vec::new();
            for at in node.cells() {
                let child = at.and_then(|at| Some(u32::from_be_bytes(*page.get(at..)?.first_chunk()?)));
                children.push((child.ok_or_else(|| damage("a reference that is cut"))?, level + 1));
            }
            open.extend(children.into_iter().rev());
        }
        Ok(())
    }

    fn page(&self, number: u32, left: &mut Left) -> Result<Vec<u8>, Damage> {
        let circle = || Damage { page: number, problem: "pages lead in a circle".to_owned() };
        left.pages = left.pages.checked_sub(1).ok_or_else(circle)?;
        let mut page = vec![0; self.page_bytes];
        let at = u64::from(number).checked_sub(1).map(|before| before * self.page_bytes as u64);
        let read = at.map(|at| self.bytes.read_at(at, &mut page));
        match read {
            Some(Ok(())) => {
                page.truncate(self.usable);
                Ok(page)
            }
            Some(Err(error)) => Err(Damage { page: number, problem: format!("cannot be read: {error}") }),
            None => Err(Damage { page: number, problem: "there is none of that number".to_owned() }),
        }
    }

    /// Number and bytes of the row in a cell; `None` for one that is too long.
    fn payload(&self, page: &[u8], at: usize, number: u32, left: &mut Left) -> Result<Option<(i64, Vec<u8>)>, Damage> {
        let cut = || Damage { page: number, problem: "a row that is cut".to_owned() };
        let cell = page.get(at..).ok_or_else(cut)?;
        let (length, cell) = varint(cell).ok_or_else(cut)?;
        let (row, cell) = varint(cell).ok_or_else(cut)?;
        let Ok(length) = usize::try_from(length) else { return Ok(None) };
        if length > ROW_BYTES_MAX {
            return Ok(None);
        }
        let here = self.here(length);
        let over = || Damage { page: number, problem: "rows that lie over each other".to_owned() };
        left.cells = left.cells.checked_sub(here).ok_or_else(over)?;
        let mut payload = cell.get(..here).ok_or_else(cut)?.to_vec();
        let mut next = cell.get(here..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_be_bytes(*bytes));
        // Ends: each page brings some bytes.
        while payload.len() < length {
            let more = self.page(next.ok_or_else(cut)?, left)?;
            let (head, bytes) = more.split_at(4);
            payload.extend(&bytes[..bytes.len().min(length - payload.len())]);
            next = head.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        }
        Ok(Some((row, payload)))
    }

    /// How many bytes of a row are on its own page; the others are on pages that follow each other.
    const fn here(&self, length: usize) -> usize {
        let (most, least) = (self.usable - 35, (self.usable - 12) * 32 / 255 - 23);
        if length <= most {
            return length;
        }
        let wanted = least + (length - least) % (self.usable - 4);
        if wanted <= most { wanted } else { least }
    }
}

/// What a walk may still read. In a file that SQLite wrote, a walk comes to each page once, and the rows on a page lie beside each other.
struct Left {
    /// Pages of the file.
    pages: u64,
    /// Bytes of the rows on the page under way.
    cells: usize,
}

/// A page of a table's tree.
struct Node<'a> {
    page: &'a [u8],
    cells: &'a [u8],
    /// The last page below; `None` for a page with rows.
    right: Option<u32>,
}

impl<'a> Node<'a> {
    fn of(page: &'a [u8], number: u32) -> Option<Self> {
        let head = page.get(if number == 1 { HEADER_BYTES } else { 0 }..)?;
        let count = usize::from(u16::from_be_bytes(*head.get(3..)?.first_chunk()?));
        let (right, after) = match head.first()? {
            13 => (None, 8),
            5 => (Some(u32::from_be_bytes(*head.get(8..)?.first_chunk()?)), 12),
            _ => return None,
        };
        Some(Self { page, cells: head.get(after..)?.get(..count * 2)?, right })
    }

    /// Where the cells begin; `None` for one that is outside.
    fn cells(&self) -> impl Iterator<Item = Option<usize>> {
        let length = self.page.len();
        self.cells.chunks_exact(2).map(move |at| Some(usize::from(u16::from_be_bytes(*at.first_chunk()?))).filter(|at| *at < length))
    }
}

/// A number of one to nine bytes, and what follows.
fn varint(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        if at == 8 {
            // The ninth byte counts whole.
            return Some(((number << 8 | u64::from(*byte)).cast_signed(), bytes.get(9..)?));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number.cast_signed(), bytes.get(at + 1..)?));
        }
    }
    None
}

/// The values of a row.
fn record(payload: &[u8]) -> Option<Vec<Value>> {
    let (length, _) = varint(payload)?;
    let (head, mut body) = payload.split_at_checked(usize::try_from(length).ok()?)?;
    let (_, mut kinds) = varint(head)?;
    let mut values = Vec::new();
    while !kinds.is_empty() && values.len() < COLUMNS_MAX {
        let (kind, rest) = varint(kinds)?;
        kinds = rest;
        let bytes = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((kind - 12) / 2).ok()?,
            _ => return None,
        };
        let (value, rest) = body.split_at_checked(bytes)?;
        body = rest;
        values.push(match kind {
            0 => Value::Null,
            1..=6 => Value::Integer(integer(value)),
            8 | 9 => Value::Integer(kind - 8),
            13.. if kind % 2 == 1 => String::from_utf8(value.to_vec()).map_or(Value::Other, Value::Text),
            _ => Value::Other,
        });
    }
    Some(values)
}

/// A signed number of up to eight bytes, the highest first.
fn integer(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

/// The names of the columns in the statement that made a table: the first word of each part between its parentheses.
fn columns(statement: &str) -> Vec<String> {
    let mut columns = Vec::new();
    let (mut depth, mut rest, mut is_first) = (0_usize, statement, false);
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        let skip_to = |end: &str| after.split_once(end).map_or("", |(_, after)| after);
        let (word, next) = match letter {
            '-' if after.starts_with('-') => (None, skip_to("\n")),
            '/' if after.starts_with('*') => (None, skip_to("*/")),
            '(' => {
                depth += 1;
                is_first |= depth == 1;
                (None, after)
            }
            ')' => {
                depth = depth.saturating_sub(1);
                (None, after)
            }
            ',' => {
                is_first |= depth == 1;
                (None, after)
            }
            '"' | '`' | '\'' | '[' => {
                let end = if letter == '[' { ']' } else { letter };
                after.split_once(end).map_or((None, ""), |(word, after)| (Some(word), after))
            }
            _ if letter.is_whitespace() => (None, after),
            _ => {
                let end = rest.find(|letter: char| letter.is_whitespace() || "(),\"`'[-/".contains(letter)).filter(|end| *end > 0);
                let (word, after) = rest.split_at(end.unwrap_or(letter.len_utf8()));
                (Some(word), after)
            }
        };
        if let Some(word) = word.filter(|_| is_first && depth == 1) {
            is_first = false;
            // What follows the columns is about all of them.
            let is_column = !["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"].iter().any(|of| word.eq_ignore_ascii_case(of));
            if !is_column || columns.len() == COLUMNS_MAX {
                return columns;
            }
            columns.push(word.to_owned());
        }
        rest = next;
    }
    columns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_are_read_from_statements_as_programs_write_them() {
        let of = |statement: &str| columns(statement).join(" ");
        let nsys = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (\n    start INTEGER NOT NULL,   -- Event start (ns), first.\n    end  INTEGER,\n \
            /* a, b (c */ \"deviceId\" INTEGER DEFAULT (1, 2), [odd name] TEXT, `x`DECIMAL(10,5),\n  PRIMARY KEY (start, end)\n)";
        assert_eq!(of(nsys), "start end deviceId odd name x");
        assert_eq!(of("CREATE TABLE StringIds(id INTEGER NOT NULL PRIMARY KEY,value TEXT NOT NULL)"), "id value");
        assert_eq!(of("CREATE TABLE \"a(b\" (c)"), "c");
        for odd in ["", "CREATE TABLE x", "(", "((((", "CREATE TABLE x (a, -- no end", "CREATE TABLE x (\"a"] {
            let _ = columns(odd);
        }
    }

    #[test]
    fn numbers_are_those_of_the_format() {
        assert_eq!(varint(&[0x7f, 1]), Some((127, &[1][..])));
        assert_eq!(varint(&[0x81, 0x00]), Some((128, &[][..])));
        assert_eq!(varint(&[0xff; 9]), Some((-1, &[][..])));
        assert_eq!((varint(&[]), varint(&[0x80]), varint(&[0xff; 8])), (None, None, None));
        assert_eq!((integer(&[0xff]), integer(&[0x80, 0]), integer(&[0x7f, 0xff, 0xff]), integer(&[])), (-1, -32_768, 8_388_607, 0));
    }

    /// A table of one page whose cells are all the same one: what is read would be many times the file.
    #[test]
    fn rows_that_lie_over_each_other_are_refused() {
        const PAGE: usize = 4_096;
        // A leaf of so many cells, all of them at 64: the length of the row, its number, and what it holds.
        let file = |cells: u16, length: [u8; 2], overflow: u32| {
            let mut file = MAGIC.to_vec();
            file.extend([(PAGE >> 8) as u8, 0, 1, 1, 0]);
            file.resize(3 * PAGE, 0);
            file[PAGE] = 13;
            file[PAGE + 3..PAGE + 5].copy_from_slice(&cells.to_be_bytes());
            for cell in 0..usize::from(cells) {
                file[PAGE + 8 + 2 * cell..][..2].copy_from_slice(&64_u16.to_be_bytes());
            }
            file[PAGE + 64..][..2].copy_from_slice(&length);
            file[PAGE + 66] = 1;
            // A record of no columns; where the row is longer than a page, the page of the rest stands behind what is here.
            file[PAGE + 67] = 1;
            let here = Database::open(&file[..]).unwrap().here(varint(&length).unwrap().0 as usize);
            file[PAGE + 67 + here..][..4].copy_from_slice(&overflow.to_be_bytes());
            // The page of the rest leads to itself.
            file[2 * PAGE..][..4].copy_from_slice(&3_u32.to_be_bytes());
            file
        };
        let read = |file: &[u8]| {
            let mut rows = 0_u32;
            let all = Database::open(file).unwrap().rows(&Table { root: 2, columns: Vec::new() }, |_, _| {
                rows += 1;
                true
            });
            (rows, all.err().map(|damage| damage.problem))
        };
        // 1,000 bytes: four of them fit on a page, and a fifth would lie over them.
        assert_eq!(read(&file(4, [0x87, 0x68], 0)), (4, None));
        assert_eq!(read(&file(5, [0x87, 0x68], 0)), (4, Some("rows that lie over each other".to_owned())));
        // 4,089 bytes, of which 489 are here and the rest is on one page: a third row on that page is one page more than the file has.
        assert_eq!(read(&file(1, [0x9f, 0x79], 3)), (1, None));
        assert_eq!(read(&file(3, [0x9f, 0x79], 3)), (2, Some("pages lead in a circle".to_owned())));
        // 16,000 bytes on a page that leads to itself.
        assert_eq!(read(&file(1, [0xfd, 0x00], 3)), (0, Some("pages lead in a circle".to_owned())));
    }

    proptest! {
        /// Any bytes behind the head: no panic, and no walk without end.
        #[test]
        fn any_file_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..4_000)) {
            let mut file = MAGIC.to_vec();
            file.extend([2, 0, 1, 1, 0]);
            file.resize(HEADER_BYTES, 0);
            file.extend(bytes);
            if let Ok(database) = Database::open(&file[..]) {
                let _ = database.table("x");
                let _ = database.rows(&Table { root: 2, columns: Vec::new() }, |_, _| true);
            }
        }
    }
}
