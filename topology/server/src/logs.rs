//! Logs: lines of text or JSON on standard error.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer as _, Registry, filter::Targets, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _};
use units::OneLine;

use crate::{config::LogConfig, traces};

/// Changes the level while the service runs.
#[derive(Clone, Debug)]
pub struct LevelHandle(reload::Handle<Targets, Registry>);

impl LevelHandle {
    /// From the next line on.
    pub fn set(&self, level: LevelFilter) {
        // Fails only when the subscriber is gone, and then nobody reads the lines.
        let _ = self.0.reload(filter(level));
    }
}

/// What libraries say below a warning is for their authors: one line per HTTP/2 frame.
fn filter(level: LevelFilter) -> Targets {
    // `trace` is the one level at which somebody asks for everything.
    let of_libraries = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
    Targets::new().with_default(of_libraries).with_target("antiphase_topology", level).with_target(traces::TARGET, LevelFilter::OFF)
}

/// Writes each line so that it stays one, whatever peers put into it: a version or a name must forge no second line, and move no
/// cursor of the terminal on which somebody reads the log.
struct Lines<W>(W);

impl<W: io::Write> io::Write for Lines<W> {
    /// One call is one line, as the layer above writes it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        writeln!(self.0, "{}", OneLine(text.strip_suffix('\n').unwrap_or(&text)))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Starts logging for this process, and traces where there is somebody to send them to. A second call in one process (tests) changes nothing but its own handle.
pub(crate) fn start(config: &LogConfig, exporter: Option<&traces::Exporter>) -> LevelHandle {
    let (levels, handle) = reload::Layer::new(filter(config.level.filter()));
    let lines = tracing_subscriber::fmt::layer().with_ansi(false);
    let lines = match config.format {
        crate::config::LogFormat::Text => lines.with_writer(|| Lines(io::stderr())).with_filter(levels).boxed(),
        // JSON escapes what its texts hold.
        crate::config::LogFormat::Json => lines.with_writer(io::stderr).json().flatten_event(true).with_filter(levels).boxed(),
    };
    let spans = exporter.map(|exporter| {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(exporter.tracer())
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        layer.with_filter(Targets::new().with_target(traces::TARGET, LevelFilter::INFO))
    });
    // An error means that a subscriber is set already.
    let _ = tracing_subscriber::registry().with(lines).with(spans).try_init();
    LevelHandle(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_whatever_a_peer_put_into_it() {
        let mut out = Vec::new();
        io::Write::write_all(&mut Lines(&mut out), "INFO session version=1\u{1b}[2J\nERROR forged\u{202e}\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "INFO session version=1\\u{1b}[2J\\nERROR forged\\u{202e}\n");
    }
}
