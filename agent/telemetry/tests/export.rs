//! SQLite files that SQLite itself made, by Python's module, read by our own reader. Tables and columns are those of the documented schema
//! of Nsight Systems; no export of a real run was at hand.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path, process::Command};

use antiphase_telemetry::trace::{Taken, Trace, TraceError, TraceFormat, read_database};

/// Runs a program of Python with `c`, a connection to a new file; its bytes. `None` after a line that says what is missing.
fn database(folder: &Path, program: &str) -> Option<Vec<u8>> {
    let path = folder.join("report.sqlite");
    let _ = fs::remove_file(&path);
    let script = format!("import random, sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n{program}\nc.commit()\nc.close()\n");
    let Ok(output) = Command::new("python3").arg("-c").arg(script).arg(&path).output() else {
        println!("skipped: python3 is not installed, so no SQLite file was made");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named") {
        println!("skipped: this python3 has no sqlite3: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(fs::read(&path).unwrap())
}

/// Strings and kernels, with columns and comments as exports have them: two processes on two GPUs, iterations of 100 ms, and others' kernels.
/// `page` is the size of pages; `long` the length of a name that takes pages of its own.
fn export(page: u32, long: usize) -> String {
    format!(
        r#"
c.execute("pragma page_size={page}")
c.execute("CREATE TABLE ENUM_OPENGL_DEBUG_SOURCE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)")
c.execute("CREATE TABLE StringIds (\n    -- Consolidation of repetitive string values.\n\n    id   INTEGER   NOT NULL   PRIMARY KEY,   -- ID reference value.\n    value   TEXT   NOT NULL   -- String value.\n)")
c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (\n    -- CUDA kernels.\n    start   INTEGER   NOT NULL,   -- Event start timestamp (ns).\n    end   INTEGER   NOT NULL,\n    deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, globalPid INTEGER, demangledName INTEGER NOT NULL, -- REFERENCES StringIds(id)\n    shortName INTEGER NOT NULL)")
names = {{7: "gemm<float, (int)4>", 300: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(" + "x" * {long} + ")", 70000: "ncclDevKernel_ReduceScatter(é)"}}
for n in range(2000):
    c.execute("INSERT INTO StringIds VALUES (?, ?)", (100000 + n, "SELECT " + "y" * (n % 700)))
for n, name in names.items():
    c.execute("INSERT INTO StringIds VALUES (?, ?)", (n, name))
def kernel(start, length, device, pid, name):
    c.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, 20, ?, ?, ?)", (start, start + length, device, pid, name, name))
for n in range(40):
    at = 10**15 + n * 100_000_000
    for of in range(50):
        kernel(at + of * 1000, 900, 0, 1 << 40, 7)
    kernel(at + 60_000_000, 8_000_000, 0, 1 << 40, 300)
    kernel(at + 68_000_000, 5_000_000, 0, 1 << 40, 70000)
    if n < 30:
        kernel(at + 3_000_000 * n, 5_000_000, 1, 2 << 40, 300)
c.execute("DELETE FROM StringIds WHERE id >= 100500")
"#
    )
}

#[test]
fn kernels_of_one_gpu_are_read_whatever_the_pages() {
    let folder = tempfile::tempdir().unwrap();
    for (page, long) in [(512, 10), (512, 9_000), (1_024, 3_000), (4_096, 3_000), (65_536, 200_000)] {
        let Some(bytes) = database(folder.path(), &export(page, long)) else { return };
        let Trace { format, spans, taken } = read_database(&bytes[..]).unwrap();
        assert_eq!((format, spans.len()), (TraceFormat::NsightSqlite, 80), "{page}");
        let found: Vec<(u64, u64)> = spans.iter().map(|span| (span.start.0, span.duration.0)).collect();
        let expected = |n: u64| [(n * 100_000_000, 8_000_000), (n * 100_000_000 + 8_000_000, 5_000_000)];
        assert_eq!(found, (0..40).flat_map(expected).collect::<Vec<_>>(), "{page}");
        assert!(spans[0].what.starts_with("ncclDevKernel_AllReduce_Sum_f32_RING_LL(xxx") && spans[0].what.len() == 41 + long, "{page}");
        assert_eq!(&*spans[1].what, "ncclDevKernel_ReduceScatter(é)");
        assert_eq!(taken, Some(Taken { name: "GPU 0 of process 65536".into(), left_out: 30 }));
        // The same from a file, which is not read whole.
        let file = fs::File::open(folder.path().join("report.sqlite")).unwrap();
        assert_eq!(read_database(&file).unwrap().spans, spans);
    }
}

#[test]
fn what_an_export_lacks_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let kernels = r#"c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, shortName INTEGER)")"#;
    let row = |values: &str| format!("{kernels}\nc.execute('INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({values})')");
    let strings = r#"c.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)"); c.execute("INSERT INTO StringIds VALUES (5, 'ncclX')")"#;
    let cases = [
        (String::new(), "shorter than the head"),
        (r#"c.execute("CREATE TABLE x (y)")"#.into(), "no table CUPTI_ACTIVITY_KIND_KERNEL: record with --trace=cuda"),
        (r#"c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (begin, end, shortName)")"#.into(), "has no column start"),
        (r#"c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, stop, shortName)")"#.into(), "has no column end"),
        (
            r#"c.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, name)")"#.into(),
            "neither demangledName, shortName nor mangledName",
        ),
        (row("1, 2, 5"), "no table StringIds"),
        (format!("{strings}\n{}", row("1, 2, 6")), "no kernels of NCCL"),
        (format!("{strings}\n{}", row("NULL, 2, 5")), "no start or no end"),
        (format!("{strings}\n{}", row("3, 2, 5")), "kernel \"ncclX\" ends at 2, before it begins at 3"),
        (r#"c.execute("pragma encoding='UTF-16'"); c.execute("CREATE TABLE x (y)")"#.into(), "texts are in UTF-16"),
    ];
    for (program, expected) in cases {
        let Some(bytes) = database(folder.path(), &program) else { return };
        let said = read_database(&bytes[..]).unwrap_err().to_string();
        assert!(said.contains(expected), "{said:?} for {program}");
    }
    // Names that are texts, as an earlier version had them.
    let text =
        format!("{kernels}\nfor n in range(4): c.execute('INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?)', (n, n + 1, 'ncclY'))");
    let Some(bytes) = database(folder.path(), &text) else { return };
    assert_eq!(read_database(&bytes[..]).unwrap().spans.len(), 4);
}

/// Every byte of a file of two pages and every way to cut it: an answer or an error, and no end that does not come.
#[test]
fn a_spoilt_export_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let Some(bytes) = database(folder.path(), &export(512, 2_000)) else { return };
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize
    };
    let mut damaged = 0;
    for _ in 0..3_000 {
        let mut spoilt = bytes.clone();
        for _ in 0..1 + next() % 3 {
            // Half of them in the pages on which everything depends.
            let at = if next() % 2 == 0 { next() % 4_096 } else { next() % spoilt.len() };
            spoilt[at] = [0, 1, 0xff, next() as u8][next() % 4];
        }
        if next() % 4 == 0 {
            spoilt.truncate(next() % bytes.len());
        }
        damaged += usize::from(matches!(read_database(&spoilt[..]), Err(TraceError::Damaged { .. })));
    }
    assert!(damaged > 100, "{damaged}");
}
