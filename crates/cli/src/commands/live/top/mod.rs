//! `antiphase top`: links, jobs and agents, the worst first, in a terminal; or as plain text, for files and `watch`.

mod draw;
mod plain;
mod sheets;
mod view;

use std::{
    io::IsTerminal as _,
    process::ExitCode,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use clap::Args;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};

use self::view::{Next, View};
use super::{WATCH_INTERVAL, connect::ServerArgs, overview::Overview};
use crate::input::CliError;

/// Links that are asked for: with a filter one may come to any of them, and an answer of so many is some hundred kilobytes.
const LINKS: u32 = 1_000;
/// Longest wait for a key before a new answer is looked for: what a person takes for at once.
const KEY_WITHIN: Duration = Duration::from_millis(100);
/// Longest wait for an answer; then the screen says so, and the last one stays.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Keys: Tab or 1 2 3: links, jobs, agents; arrows, j, k, page keys: move; Enter: details; s and S: next and last sort column; r: the
other way round; /: show only what contains a text; q: quit.
Where standard output is no terminal, with --plain and with --count it prints text, a page every two seconds.";

/// The worst links, the jobs and the agents, asked for again every two seconds.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print text and stop after so many times
    #[arg(long, value_name = "TIMES")]
    count: Option<u32>,
    /// Print text, also to a terminal
    #[arg(long)]
    plain: bool,
}

pub(crate) fn top(args: &TopArgs) -> Result<ExitCode, CliError> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.plain || args.count.is_some() || !is_terminal {
        plain::top(&args.server, args.count)?;
    } else {
        // A service that is not there is one line, as for every command, and not a screen.
        let first = args.server.with_channel(async |channel| Overview::ask(channel, LINKS).await)?;
        let (answers, asked) = mpsc::channel();
        let server = args.server.clone();
        thread::Builder::new().name("ask".into()).spawn(move || ask(&server, &answers)).map_err(|e| failed(&e))?;
        let mut terminal = ratatui::try_init().map_err(|e| failed(&e))?;
        let ended = run(&mut terminal, View::new(args.server.address(), first), &asked);
        // Whatever ended it, the terminal is given back as it was.
        ratatui::restore();
        ended.map_err(|e| failed(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(error: &std::io::Error) -> CliError {
    CliError::Failure(format!("the terminal: {error}"))
}

/// Asks for as long as somebody looks. A service that is gone is asked again on a connection of its own.
fn ask(server: &ServerArgs, answers: &Sender<Result<Overview, String>>) {
    loop {
        thread::sleep(WATCH_INTERVAL);
        let asked = server.with_channel(async |channel| {
            let within = tokio::time::timeout(ANSWER_WITHIN, Overview::ask(channel, LINKS)).await;
            within.unwrap_or_else(|_| Err(CliError::Failure(format!("no answer within {} s", ANSWER_WITHIN.as_secs()))))
        });
        if answers.send(asked.map_err(|error| error.line())).is_err() {
            return;
        }
    }
}

fn run(terminal: &mut DefaultTerminal, mut view: View, asked: &Receiver<Result<Overview, String>>) -> std::io::Result<()> {
    loop {
        // Drawing anew costs nothing where nothing changed: only cells that differ are written.
        terminal.draw(|frame| draw::screen(frame, &mut view))?;
        if event::poll(KEY_WITHIN)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && view.press(key) == Next::Quit
        {
            return Ok(());
        }
        // The newest answer is shown, whatever else waits.
        if let Some(answer) = asked.try_iter().last() {
            view.take(answer);
        }
    }
}
