//! What the kernel says of RDMA devices under `/sys/class/infiniband`: rates, and of each GID its RoCE version and its interface.

use std::{
    fs::{self, File},
    io::Read,
    net::Ipv6Addr,
    path::{Path, PathBuf},
};

use serde::Serialize;
use units::Rate;

/// Where the kernel's tree is.
pub const SYS: &str = "/sys";
/// Longest text of one file: a GID has 40 characters, a rate 30.
const TEXT_BYTES_MAX: u64 = 128;
/// Most devices that are listed: a host has some hundred virtual functions at most.
const DEVICES_MAX: usize = 1 << 10;
/// Most GIDs of a port that are looked at; the table of a ConnectX NIC has 256.
const GIDS_MAX: u16 = 1 << 10;

/// How packets with a GID look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum GidVersion {
    /// InfiniBand, or a GID whose type the kernel does not say.
    #[serde(rename = "ib")]
    InfiniBand,
    /// RoCE over Ethernet frames, which no router passes on.
    #[serde(rename = "roce-v1")]
    RoceV1,
    /// RoCE over UDP.
    #[serde(rename = "roce-v2")]
    RoceV2,
}

/// A GID of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gid {
    /// Its place in the port's table.
    pub index: u8,
    /// The GID; of RoCE v2 it is an IP address, IPv4 as `::ffff:a.b.c.d`.
    pub gid: Ipv6Addr,
    /// How its packets look.
    pub version: GidVersion,
    /// The interface that its packets leave by; `None` for InfiniBand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netdev: Option<String>,
}

/// The kernel's folder of one port.
#[derive(Clone, Debug)]
pub struct PortFolder(PathBuf);

impl PortFolder {
    /// Of a port, by the name of its device and its number.
    #[must_use]
    pub fn new(sys: &Path, device: &str, port: u8) -> Self {
        Self(class(sys).join(device).join("ports").join(port.to_string()))
    }

    /// Its negotiated rate; `None` where the kernel says none that we understand.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        rate(&text(&self.0.join("rate"))?)
    }

    /// Its GIDs, without places that hold none.
    #[must_use]
    pub fn gids(&self, places: u16) -> Vec<Gid> {
        // A route names a GID by one byte, so no place beyond 255 can be used.
        (0..places.min(GIDS_MAX)).map_while(|index| u8::try_from(index).ok()).filter_map(|index| self.gid(index)).collect()
    }

    fn gid(&self, index: u8) -> Option<Gid> {
        let file = |folder: &str| text(&self.0.join(folder).join(index.to_string()));
        let gid: Ipv6Addr = file("gids")?.parse().ok()?;
        // A place without a GID reads as zeros.
        if gid.is_unspecified() {
            return None;
        }
        let version = match file("gid_attrs/types").as_deref() {
            Some("RoCE v2") => GidVersion::RoceV2,
            // The kernel's one name for both; Ethernet has an interface.
            Some("IB/RoCE v1") if file("gid_attrs/ndevs").is_some() => GidVersion::RoceV1,
            _ => GidVersion::InfiniBand,
        };
        Some(Gid { index, gid, version, netdev: file("gid_attrs/ndevs").filter(|name| !name.is_empty()) })
    }
}

/// The GID that traffic uses unless told otherwise: RoCE v2 with an IPv4 address, else RoCE v2, else the first.
#[must_use]
pub fn usual(gids: &[Gid]) -> Option<&Gid> {
    let v2 = |gid: &&Gid| gid.version == GidVersion::RoceV2;
    let v4 = gids.iter().filter(v2).find(|gid| gid.gid.to_ipv4_mapped().is_some());
    v4.or_else(|| gids.iter().find(v2)).or_else(|| gids.first())
}

/// Names of the devices that the kernel has, sorted.
#[must_use]
pub fn devices(sys: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(class(sys)) else { return Vec::new() };
    let mut names: Vec<String> = entries.take(DEVICES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn class(sys: &Path) -> PathBuf {
    sys.join("class/infiniband")
}

/// A small file without white space around it; `None` where it cannot be read, as the type of a GID that is not there.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(TEXT_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// `100 Gb/sec (4X EDR)` or `2.5 Gb/sec (1X SDR)`: tenths at most, as the kernel writes them.
fn rate(text: &str) -> Option<Rate> {
    let (number, _) = text.split_once(" Gb/sec")?;
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let tenth: u64 = tenths.parse().ok().filter(|_| tenths.len() == 1)?;
    Some(Rate(whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(tenth * 100)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_the_kernel_writes_them() {
        assert_eq!(rate("100 Gb/sec (4X EDR)"), Some(Rate(100_000)));
        assert_eq!(rate("2.5 Gb/sec (1X SDR)"), Some(Rate(2_500)));
        assert_eq!(rate("800 Gb/sec (4X XDR)"), Some(Rate(800_000)));
        for bad in ["", "Gb/sec", "fast Gb/sec", "2.55 Gb/sec", "18446744073709551615 Gb/sec"] {
            assert_eq!(rate(bad), None, "{bad}");
        }
    }

    /// A tree as Soft-RoCE has it, and an InfiniBand port beside it.
    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = class(folder.path()).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)\n");
        write("rxe0/ports/1/gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
        write("rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a09:0001\n");
        write("rxe0/ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
        for place in ["0", "1"] {
            write(&format!("rxe0/ports/1/gid_attrs/types/{place}"), "RoCE v2\n");
            write(&format!("rxe0/ports/1/gid_attrs/ndevs/{place}"), "h1\n");
        }
        write("mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:0002:c903:0000:0001\n");
        write("mlx5_0/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
        folder
    }

    #[test]
    fn gids_have_a_version_and_an_interface() {
        let folder = tree();
        assert_eq!(devices(folder.path()), ["mlx5_0", "rxe0"]);
        let gids = PortFolder::new(folder.path(), "rxe0", 1).gids(1024);
        assert_eq!(gids.iter().map(|gid| gid.index).collect::<Vec<_>>(), [0, 1]);
        assert!(gids.iter().all(|gid| gid.version == GidVersion::RoceV2 && gid.netdev.as_deref() == Some("h1")));
        assert_eq!(gids[1].gid.to_string(), "::ffff:10.9.0.1");
        assert_eq!(usual(&gids).map(|gid| gid.index), Some(1));
        let ib = PortFolder::new(folder.path(), "mlx5_0", 1).gids(8);
        assert_eq!((ib[0].version, ib[0].netdev.clone()), (GidVersion::InfiniBand, None));
        assert_eq!(PortFolder::new(folder.path(), "rxe0", 1).rate(), Some(Rate(2_500)));
        assert_eq!(PortFolder::new(folder.path(), "gone", 1).rate(), None);
    }

    #[test]
    fn version_1_is_used_only_where_nothing_else_is() {
        let gid = |index, version| Gid { index, gid: Ipv6Addr::LOCALHOST, version, netdev: None };
        let both = [gid(0, GidVersion::RoceV1), gid(1, GidVersion::RoceV2)];
        assert_eq!(usual(&both).map(|gid| gid.index), Some(1));
        assert_eq!(usual(&both[..1]).map(|gid| gid.index), Some(0));
        assert_eq!(usual(&[]), None);
    }
}
