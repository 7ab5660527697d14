//! Counters of the ports of RDMA devices: `/sys/class/infiniband/<device>/ports/<n>/`.

use std::path::{Path, PathBuf};

use units::Nanos;

use crate::{
    alias::{Driver, aliases},
    counter::{Counter, Width},
    file::{NumberFile, Root, names, number, text},
};

/// Most ports of RDMA devices that are looked at; virtual functions of one NIC can be a few hundred.
pub const PORTS_MAX: usize = 256;
/// How long the driver keeps values when it does not say (`lifespan`, in milliseconds: 10 is the kernel's default).
const LIFESPAN_DEFAULT: Nanos = Nanos::from_millis(10);

/// What a port says of its cable, as its files have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaLink {
    /// Number of the state; 4: packets pass.
    pub state: Option<u64>,
    /// Number of the physical state; 5: the link is up.
    pub physical_state: Option<u64>,
    /// What was negotiated.
    pub bytes_per_second: Option<u64>,
}

/// The open counters of one port of an RDMA device.
#[derive(Debug)]
pub struct RdmaPort {
    name: String,
    folder: PathBuf,
    netdev: Option<String>,
    driver: Driver,
    lifespan: Nanos,
    files: Vec<OpenAlias>,
}

#[derive(Debug)]
struct OpenAlias {
    counter: Counter,
    width: Width,
    unit: u64,
    /// One, or two whose values are added.
    files: Vec<NumberFile>,
}

impl OpenAlias {
    /// `None` where one of them cannot be read: a part is not the whole.
    fn read(&self) -> Option<u64> {
        self.files.iter().try_fold(0_u64, |sum, file| Some(sum.wrapping_add(file.read()?)))
    }
}

/// The ports of all RDMA devices that have a counter which we know, sorted by name.
#[must_use]
pub fn rdma_ports(root: &Root) -> Vec<RdmaPort> {
    let mut ports = Vec::new();
    for device in names(&root.infiniband()) {
        let folder = root.infiniband().join(&device);
        for port in names(&folder.join("ports")) {
            // PORTS_MAX bounds the open files: each port holds one descriptor per counter.
            if ports.len() < PORTS_MAX {
                ports.extend(RdmaPort::open(&folder, &device, &port));
            }
        }
    }
    ports
}

impl RdmaPort {
    fn open(folder: &Path, device: &str, port: &str) -> Option<Self> {
        let module = std::fs::read_link(folder.join("device/driver")).ok();
        let has_device = folder.join("device").exists();
        // Only Soft-RoCE has no device at all; a device without the link of a driver is an unknown one.
        let driver = match module.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) {
            None if has_device => Driver::Unknown,
            module => Driver::of(module),
        };
        let folder = folder.join("ports").join(port);
        let mut files: Vec<OpenAlias> = Vec::new();
        for alias in aliases(driver) {
            // The best name of a counter stands first in the table, so a later name would count the same again.
            if files.iter().any(|open| open.counter == alias.counter) {
                continue;
            }
            let names = std::iter::once(alias.file).chain(alias.more);
            let found: Vec<NumberFile> = names.filter_map(|name| NumberFile::open(&folder.join(name))).collect();
            if !found.is_empty() {
                files.push(OpenAlias { counter: alias.counter, width: alias.width, unit: alias.unit, files: found });
            }
        }
        let lifespan = text(&folder.join("hw_counters/lifespan")).and_then(|ms| number(ms.as_bytes()));
        // A port without any counter that can be read has nothing to report.
        (!files.is_empty()).then(|| Self {
            name: format!("{device}/{port}"),
            folder: folder.clone(),
            netdev: text(&folder.join("gid_attrs/ndevs/0")).filter(|name| !name.is_empty()),
            driver,
            lifespan: lifespan.map_or(LIFESPAN_DEFAULT, Nanos::from_millis),
            files,
        })
    }

    /// Device and port number, such as `mlx5_0/1`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The network interface of its first GID.
    #[must_use]
    pub fn netdev(&self) -> Option<&str> {
        self.netdev.as_deref()
    }

    /// The driver whose names the counters have.
    #[must_use]
    pub const fn driver(&self) -> Driver {
        self.driver
    }

    /// How long the driver keeps values: two readings within it may be equal although packets passed.
    #[must_use]
    pub const fn lifespan(&self) -> Nanos {
        self.lifespan
    }

    /// What it says of its cable now. A driver may ask its firmware, so this is no question for each reading.
    #[must_use]
    pub fn link(&self) -> RdmaLink {
        let file = |name: &str| text(&self.folder.join(name));
        // `4: ACTIVE`.
        let numbered = |name| file(name)?.split(':').next()?.trim().parse().ok();
        // `100 Gb/sec (4X EDR)`, and `2.5 Gb/sec (1X SDR)`.
        let gigabits = || file("rate")?.strip_suffix(')')?.split_once(" Gb/sec")?.0.parse::<f64>().ok().filter(|rate| *rate >= 0.0);
        RdmaLink {
            state: numbered("state"),
            physical_state: numbered("phys_state"),
            bytes_per_second: gigabits().map(|rate| (rate * 125e6).round() as u64),
        }
    }

    pub(crate) fn counters(&self) -> Vec<(Counter, Width)> {
        self.files.iter().map(|open| (open.counter, open.width)).collect()
    }

    /// Bytes or events per unit, parallel to [`RdmaPort::counters`].
    pub(crate) fn units(&self) -> Vec<u64> {
        self.files.iter().map(|open| open.unit).collect()
    }

    pub(crate) fn read(&self, into: &mut Vec<Option<u64>>) {
        into.extend(self.files.iter().map(|open| open.read()));
    }

    pub(crate) fn read_bytes(&self) -> Option<u64> {
        let bytes = |wanted| {
            let open = self.files.iter().find(|open| open.counter == wanted)?;
            // `Series` begins anew where the product or the sum wraps.
            Some(open.read()?.wrapping_mul(open.unit))
        };
        Some(bytes(Counter::RxBytes)?.wrapping_add(bytes(Counter::TxBytes)?))
    }
}
