//! What `antiphase-verbs devices` prints: one record for each port.

use std::path::Path;

use serde::Serialize;

use crate::{
    abi::{LINK_LAYER_ETHERNET, LINK_LAYER_INFINIBAND},
    device::{Context, Devices, VerbsError},
    sysfs::{Gid, PortFolder, usual},
};

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortRecord {
    /// Name of the device.
    pub device: String,
    /// Number of the port, from 1.
    pub port: u8,
    /// `active` is the state in which packets pass.
    pub state: &'static str,
    /// `link-up` where there is a cable with somebody at its other end.
    pub physical_state: &'static str,
    /// `ethernet` for RoCE.
    pub link_layer: &'static str,
    /// The negotiated rate, in Mbit/s; absent where the kernel does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<u64>,
    /// Largest payload of a packet, in bytes.
    pub mtu: Option<u32>,
    /// The interface of the GID that traffic uses unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netdev: Option<String>,
    /// The driver's text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// Its addresses.
    pub gids: Vec<Gid>,
}

/// The ports of all devices, or of the one with that name, in the order of the library.
///
/// # Errors
/// A device that cannot be opened or asked.
pub fn ports(devices: &Devices, only: Option<&str>, sys: &Path) -> Result<Vec<PortRecord>, VerbsError> {
    let names = only.map_or_else(|| devices.names(), |name| vec![name.to_owned()]);
    let mut records = Vec::new();
    for name in names {
        let context = devices.open(&name)?;
        // One byte counts the ports, so the list is short.
        for port in 1..=context.attributes()?.ports {
            records.push(record(&context, port, sys)?);
        }
    }
    Ok(records)
}

/// One port.
///
/// # Errors
/// The device cannot be asked, or has no such port.
pub fn record(context: &Context, port: u8, sys: &Path) -> Result<PortRecord, VerbsError> {
    let (device, attributes) = (context.attributes()?, context.port(port)?);
    let folder = PortFolder::new(sys, context.name(), port);
    let gids = folder.gids(u16::try_from(attributes.gids).unwrap_or(0));
    let firmware = device.firmware.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    Ok(PortRecord {
        device: context.name().to_owned(),
        port,
        state: state(attributes.state),
        physical_state: physical_state(attributes.physical_state),
        link_layer: match attributes.link_layer {
            LINK_LAYER_ETHERNET => "ethernet",
            LINK_LAYER_INFINIBAND => "infiniband",
            // Drivers older than RoCE say nothing.
            _ => "unspecified",
        },
        rate_mbps: folder.rate().map(|rate| rate.0),
        mtu: mtu_bytes(attributes.active_mtu),
        netdev: usual(&gids).and_then(|gid| gid.netdev.clone()),
        firmware: String::from_utf8(firmware).unwrap_or_default(),
        gids,
    })
}

/// Names of `ibv_port_state`.
const fn state(code: u32) -> &'static str {
    match code {
        1 => "down",
        2 => "init",
        3 => "armed",
        4 => "active",
        5 => "active-defer",
        _ => "unknown",
    }
}

/// Names of the physical states of a port (InfiniBand specification, PortInfo).
const fn physical_state(code: u8) -> &'static str {
    match code {
        1 => "sleep",
        2 => "polling",
        3 => "disabled",
        4 => "training",
        5 => "link-up",
        6 => "error-recovery",
        7 => "phy-test",
        _ => "unknown",
    }
}

/// Bytes of an `ibv_mtu`: 1 is 256, and each step doubles.
#[must_use]
pub const fn mtu_bytes(code: u32) -> Option<u32> {
    match code {
        1..=5 => Some(128 << code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names() {
        assert_eq!([mtu_bytes(0), mtu_bytes(1), mtu_bytes(3), mtu_bytes(5), mtu_bytes(6)], [None, Some(256), Some(1024), Some(4096), None]);
        assert_eq!([state(4), state(0), state(9)], ["active", "unknown", "unknown"]);
        assert_eq!([physical_state(5), physical_state(0)], ["link-up", "unknown"]);
    }
}
