//! What the ports of the host have carried, read when a job's turn wants it.
//!
//! A thread of its own reads, because a driver may hang and the agent's loop may not. It sleeps until it is asked, and a host without
//! jobs that keep their ends to themselves has no such thread.

use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use gate::now;
use telemetry::{Port, PortSource, Root};
use tokio::sync::watch;
use units::{Nanos, NodeTime};

use crate::{
    config::{CountersConfig, PORTS_MAX},
    counters::{SCAN, new_ports},
};

/// What all ports together had carried, both ways, since the thread began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) at: NodeTime,
    pub(crate) bytes: u64,
    /// How often the slowest of the counters is renewed by its driver.
    pub(crate) renewed: Nanos,
}

/// The thread. It ends with this value, and nobody waits for it.
#[derive(Debug)]
pub(crate) struct ByteCounters {
    ask: SyncSender<()>,
    carried: watch::Receiver<Option<Carried>>,
    is_asked: bool,
}

impl ByteCounters {
    pub(crate) fn start(root: Root, config: CountersConfig) -> io::Result<Self> {
        // One question at a time is enough.
        let ((ask, asked), (send, carried)) = (sync_channel(1), watch::channel(None));
        thread::Builder::new().name("turn-bytes".into()).spawn(move || Reader::new(root, config).run(&asked, &send))?;
        Ok(Self { ask, carried, is_asked: false })
    }

    /// Asks the thread to read now, unless it has been asked: a driver that takes long is not asked more often than it answers.
    pub(crate) fn ask(&mut self) {
        if !self.is_asked {
            // A thread that ended by a panic is not asked again either: ends then follow from lengths.
            self.is_asked = true;
            let _ = self.ask.try_send(());
        }
    }

    pub(crate) const fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// What was read since the last call.
    pub(crate) fn take(&mut self) -> Option<Carried> {
        if !self.carried.has_changed().unwrap_or(false) {
            return None;
        }
        self.is_asked = false;
        *self.carried.borrow_and_update()
    }

    /// Waits for what was asked.
    pub(crate) async fn answered(&self) {
        let mut carried = self.carried.clone();
        if !self.is_asked || carried.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

struct Reader {
    root: Root,
    config: CountersConfig,
    ports: Vec<(Port, Option<u64>)>,
    scanned: Option<NodeTime>,
    bytes: u64,
}

impl Reader {
    const fn new(root: Root, config: CountersConfig) -> Self {
        Self { root, config, ports: Vec::new(), scanned: None, bytes: 0 }
    }

    fn run(mut self, asked: &Receiver<()>, out: &watch::Sender<Option<Carried>>) {
        while asked.recv().is_ok() {
            if self.scanned.is_none_or(|at| now().since(at) >= SCAN) {
                self.scan();
            }
            out.send_replace(Some(self.read()));
        }
    }

    fn scan(&mut self) {
        self.ports.retain(|(port, last)| last.is_none() || port.read_bytes().is_some());
        let found = new_ports(&self.root, &self.config, |name| self.ports.iter().any(|(port, _)| port.name() == name));
        self.ports.extend(found.into_iter().map(|port| (port, None)));
        // Each scan finds as many that are not known yet.
        self.ports.truncate(PORTS_MAX);
        self.scanned = Some(now());
    }

    fn read(&mut self) -> Carried {
        let (at, mut renewed) = (now(), Nanos(0));
        for (port, last) in &mut self.ports {
            let Some(bytes) = port.read_bytes() else { continue };
            // What a port that begins anew has carried meanwhile is lost, and so is what it carried before it was found.
            let more = last.replace(bytes).and_then(|last| bytes.checked_sub(last)).unwrap_or(0);
            self.bytes = self.bytes.saturating_add(more);
            if let PortSource::Rdma(rdma) = port.source() {
                renewed = renewed.max(rdma.lifespan());
            }
        }
        Carried { at, bytes: self.bytes, renewed }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, time::Duration};

    use super::*;

    fn interface(root: &Path, name: &str, bytes: u64) {
        let folder = root.join("sys/class/net").join(name).join("statistics");
        fs::create_dir_all(&folder).unwrap();
        for file in ["rx_bytes", "tx_bytes"] {
            fs::write(folder.join(file), format!("{bytes}\n")).unwrap();
        }
    }

    async fn ask(counters: &mut ByteCounters) -> Carried {
        counters.ask();
        tokio::time::timeout(Duration::from_secs(30), counters.answered()).await.expect("an answer in time");
        counters.take().expect("what was read")
    }

    #[tokio::test]
    async fn bytes_are_those_of_all_ports_since_the_beginning() {
        let tree = tempfile::tempdir().unwrap();
        [("ens1", 5), ("ens2", 70), ("lo", 1_000)].iter().for_each(|(name, bytes)| interface(tree.path(), name, *bytes));
        let mut counters = ByteCounters::start(Root::under(tree.path()), CountersConfig::default()).unwrap();
        assert_eq!(ask(&mut counters).await.bytes, 0);
        assert_eq!(counters.take(), None);
        interface(tree.path(), "ens1", 7);
        interface(tree.path(), "ens2", 80);
        interface(tree.path(), "lo", 2_000);
        assert_eq!(ask(&mut counters).await.bytes, 2 * 2 + 2 * 10);
        // A port that begins anew takes nothing back.
        interface(tree.path(), "ens2", 3);
        assert_eq!(ask(&mut counters).await.bytes, 24);
        interface(tree.path(), "ens2", 4);
        assert_eq!(ask(&mut counters).await.bytes, 26);
    }
}
