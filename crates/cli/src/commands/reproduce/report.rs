//! How each `reproduce` command gives its answer: on standard output, and as a page.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::{
    input::CliError,
    output::{Output, print, say, write_files},
};

/// Where the answer goes.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Write the report, one HTML file that loads nothing
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Output,
}

impl ReportArgs {
    /// Writes the page, where one is wanted, then prints the answer.
    pub(super) fn give(
        &self,
        answer: &impl Serialize,
        page: impl FnOnce() -> String,
        table: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        if let Some(file) = &self.report {
            write_files(&[(file, &page())])?;
            say(&format!("wrote {}", file.display()));
        }
        print(&self.output.render(answer, table)?)
    }
}
