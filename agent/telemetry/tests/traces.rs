//! Traces that are longer than anybody wants in memory.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, io::Read};

use antiphase_telemetry::trace::{TEXT_BYTES_MAX, learn_spans, read_json};

/// Iterations of 100 ms with two collectives, each among so many kernels that compute.
struct Recording {
    /// What is still to be read of the event under way, and the number of the next one.
    event: Vec<u8>,
    next: u64,
    last: u64,
}

const KERNELS: u64 = 2_000;

impl Recording {
    fn event(number: u64) -> Vec<u8> {
        let (iteration, kernel) = (number / KERNELS, number % KERNELS);
        let at = iteration * 100_000 + kernel * 40;
        let (name, args) = match kernel {
            500 | 1_500 => (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
                format!(r#""device": 0, "Collective name": "allreduce", "In msg nelems": {kernel}, "Group size": 4, "dtype": "Float""#),
            ),
            _ => (
                "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)",
                format!(r#""grid": [{number}, 1, 1]"#),
            ),
        };
        let text = format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {at}.25, "dur": 35.5, "args": {{{args}}}}}, "#
        );
        text.into_bytes()
    }
}

impl Read for Recording {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.event.is_empty() && self.next <= self.last {
            self.event = match self.next {
                0 => br#"{"schemaVersion": 1, "traceEvents": ["#.to_vec(),
                next if next == self.last => br#"{}], "traceName": "x"}"#.to_vec(),
                next => Self::event(next),
            };
            self.next += 1;
        }
        let count = self.event.as_slice().read(into)?;
        self.event.drain(..count);
        Ok(count)
    }
}

/// The most memory that this process had, in KiB.
fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[test]
fn a_long_trace_is_read_in_little_memory() {
    let before = peak();
    // More than 100 MB, of which two kernels in each iteration are kept.
    let trace = read_json(Recording { event: Vec::new(), next: 0, last: 300 * KERNELS }).unwrap();
    assert_eq!(trace.spans.len(), 600);
    let learned = learn_spans(&trace.spans).unwrap();
    assert_eq!((learned.period.0, learned.iterations, learned.phases.len()), (100_000_000, 300, 2));
    let (Some(before), Some(after)) = (before, peak()) else {
        println!("skipped: this system has no /proc/self/status, so memory was not looked at");
        return;
    };
    assert!(after - before < 8 << 10, "{} KiB", after - before);
}

#[test]
fn a_text_that_does_not_end_is_refused_before_it_fills_memory() {
    let endless = b"[{\"name\": \"".chain(std::io::repeat(b'x'));
    let said = read_json(endless).unwrap_err().to_string();
    assert!(said.contains(&format!("a text in it is longer than {} MiB", TEXT_BYTES_MAX >> 20)), "{said}");
    // Quotes and backslashes within a text do not end it.
    let escaped = br#"[{"name": "\\", "cat": "\"x\"", "args": {"a\"b": "}"}}]"#;
    assert!(read_json(&escaped[..]).unwrap_err().to_string().starts_with("no kernels of NCCL"));
}
